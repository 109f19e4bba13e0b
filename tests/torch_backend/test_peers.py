"""Ranks that meet, and their knowledge of one another's processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from sccl.errors import ToolError
from sccl.torch_backend.peers import Peers, format_ranks

SOON = timedelta(seconds=5)


class Noted:
    """A store of this process, which does not wait."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def wait(self, keys: list[str], _: timedelta) -> None:
        if not self.check(keys):
            raise RuntimeError("wait timeout")

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self.values[key] for key in keys]


def place(store: Noted, ranks: int, pid: int) -> bytes:
    """Return the identity of a process, by the format of this one."""
    Peers().meet(store, (9,), 0, SOON)
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = json.loads(store.values["place/9"])
    return json.dumps({**own, "pid": pid, "began": fields[19], "ranks": ranks}).encode()


def test_missing_peer_is_named() -> None:
    store = Noted()
    store.set("place/4", place(store, 4, os.getpid()))
    with pytest.raises(ToolError, match=r"^ranks 6, 7 of 4 did not join .* within 5 s: .*WORLD"):
        Peers().meet(store, (4, 5, 6, 7), 1, SOON)


def test_all_are_told_of_as_many_ranks() -> None:
    store = Noted()
    store.set("place/1", place(store, 3, os.getpid()))
    with pytest.raises(
        ToolError, match=r"^rank 0 expects 2 ranks, and rank 1 expects 3: set WORLD_SIZE"
    ):
        Peers().meet(store, (0, 1), 0, SOON)


def test_processes_that_are_gone_or_stopped_are_named() -> None:
    store, peers = Noted(), Peers()
    words = [sys.executable, "-c", "input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
        store.set("place/1", place(store, 3, child.pid))
        elsewhere = json.loads(store.values["place/1"]) | {"machine": "another"}
        store.set("place/2", json.dumps(elsewhere).encode())
        peers.meet(store, (0, 1, 2), 0, SOON)
        assert peers.gone((0, 1)) == ""
        child.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
        assert peers.gone((0, 1)) == "rank 1 is stopped, by a signal"
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it stays, as nobody took it
        assert peers.gone((0, 1)) == "rank 1 is gone"
    told = "rank 1 is gone, rank 2 is on other machines, not looked for"
    assert peers.gone((0, 1, 2, 77)) == told


def test_many_ranks_are_not_all_named() -> None:
    assert format_ranks([3]) == "rank 3"
    assert format_ranks(range(20)) == "ranks 0, 1, 2, 3, 4, 5, 6, 7, ..."
