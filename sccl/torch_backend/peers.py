"""Record the processes of a job's ranks, so that errors can name the ranks that have ended.

Ranks exchange their process ids once, over the job's store, before they connect. After an error the
processes are looked up on their machine, because the store may have ended as well.
"""

from __future__ import annotations

import os
import platform
import queue
import re
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from sccl.core.formatting import join_first
from sccl.errors import ToolError

_MAX_SHOWN = 8
_REPORT_S, _POLL_S = 1.0, 0.02
"""Seconds for all ranks to report a failed call, and between two polls. If one rank gives up, the
call fails on the others immediately."""


class CallError(RuntimeError):
    """A call failed. The message names the call, its ranks, and the ranks that have ended."""


class _ProcessLocation(msgspec.Struct, frozen=True):
    """A process.

    Attributes:
        machine: where its number means something.
        began: tells it from a later one of that number.
        ranks: how many there are, as it was told.
    """

    machine: str
    pid: int
    began: str
    ranks: int


class Peers:
    """The processes of the ranks with which this rank has groups."""

    def __init__(self) -> None:
        self._places: dict[int, _ProcessLocation] = {}
        self._process = _current_process(0)
        self._stores: dict[tuple[int, ...], tuple[Any, int]] = {}
        self._missing: dict[tuple[int, ...], str] = {}
        self._lock = threading.Lock()

    def meet(self, store: Any, ranks: Sequence[int], place: int, timeout: timedelta) -> None:
        """Exchange processes with the ranks of a new group.

        Args:
            store: Store of the group.
            ranks: Global ranks of the group.
            place: Place of this rank in the group.
            timeout: Time for all ranks to join.

        Raises:
            ToolError: Some ranks do not join, or expect another number of ranks.
        """
        self._process = _current_process(len(ranks))
        self._stores[tuple(ranks)] = store, place
        self._missing.pop(tuple(ranks), None)
        keys = [f"place/{rank}" for rank in ranks]
        store.set(keys[place], msgspec.json.encode(self._process))
        try:
            store.wait(keys, timeout)
        except RuntimeError as error:
            pairs = zip(ranks, keys, strict=True)
            missing = [rank for rank, key in pairs if not store.check([key])]
            raise ToolError(
                f"{format_ranks(missing)} of {len(ranks)} did not join the process group within "
                f"{timeout.total_seconds():g} s: start all of them, and set WORLD_SIZE to their "
                "number on all"
            ) from error
        decode = msgspec.json.Decoder(_ProcessLocation).decode
        for peer, text in zip(ranks, store.multi_get(keys), strict=True):
            its = self._places[peer] = decode(text)
            if its.ranks != len(ranks):
                raise ToolError(
                    f"rank {ranks[place]} expects {len(ranks)} ranks, and rank {peer} expects "
                    f"{its.ranks}: set WORLD_SIZE to the number of ranks on all"
                )

    def gone(self, ranks: Iterable[int]) -> str:
        """Return a text of the ranks that do not run, or are unknown. Empty: all seem to run."""
        by_state: dict[str, list[int]] = {}
        for rank in ranks:
            if rank in self._places:
                by_state.setdefault(self._state(self._places[rank]), []).append(rank)
        groups = [(words, by_state[state]) for state, words in _STATES.items() if state in by_state]
        return ", ".join(
            f"{format_ranks(members)} {'is' if len(members) == 1 else 'are'} {words}"
            for words, members in groups
        )

    def describe_missing(self, ranks: Sequence[int]) -> str:
        """Report a failure to the other ranks of a group, and name those that report none.

        A group is unusable after a failed call, so only the first failure of a group is reported.

        Returns:
            Text of the ranks that have not failed within :data:`_REPORT_S`. Empty: none.
        """
        with self._lock:
            group = tuple(ranks)
            if group not in self._stores:
                return ""
            if group not in self._missing:
                self._missing[group] = self._asked(group)
            return self._missing[group]

    def _asked(self, group: tuple[int, ...]) -> str:
        answers: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        store, place = self._stores[group]

        def ask() -> None:
            keys = {rank: f"failed/{rank}" for rank in group}
            until = time.monotonic() + _REPORT_S
            try:
                store.set(keys[group[place]], "")
                while silent := [rank for rank, key in keys.items() if not store.check([key])]:
                    if time.monotonic() > until:
                        break
                    time.sleep(_POLL_S)
            except RuntimeError:  # the store is gone
                silent = []
            answers.put(silent)

        threading.Thread(target=ask, name="sccl-failure", daemon=True).start()
        try:
            silent = answers.get(timeout=2 * _REPORT_S)
        except queue.Empty:  # the process that holds the store is stopped
            return ""
        is_late = "is late, or has" if len(silent) == 1 else "are late, or have"
        return f"{format_ranks(silent)} {is_late} ended the call" if silent else ""

    def _state(self, place: _ProcessLocation) -> str:
        if place.machine != self._process.machine:
            return "elsewhere"
        letter, exiting, began = _process_stat(place.pid)
        if exiting or letter in "ZX" or began != place.began:
            return "gone"
        return "stopped" if letter in "Tt" else "there"


@cache
def process_peers() -> Peers:
    """Return the peers of this process."""
    return Peers()


_STATES = {
    "gone": "gone",
    "stopped": "stopped, by a signal",
    "elsewhere": "on other machines, not looked for",
}
"""Texts for the states of processes that do not continue, or are unknown."""


def format_ranks(ranks: Iterable[int]) -> str:
    """Return a text such as ``rank 2`` or ``ranks 2, 3``, with at most :data:`_MAX_SHOWN` ranks."""
    members = list(ranks)
    return f"rank{'' if len(members) == 1 else 's'} {join_first(members, _MAX_SHOWN)}"


def call_error(call: str, ranks: Sequence[int], error: BaseException) -> CallError:
    """Return an error that names the failed call, its ranks, and the reason in one sentence."""
    why = _GLOO_PREFIX.sub("", str(error).splitlines()[0] if str(error) else repr(error))
    gone = process_peers().gone(ranks)
    if not gone and _PEER_FAILURE.search(why):
        gone = process_peers().describe_missing(ranks)
    return CallError(f"{call} by {format_ranks(ranks)} failed{gone and f', {gone}'}: {why}")


_GLOO_PREFIX = re.compile(
    r"^Got the following error when running the callback: |^\[[^]]*\.cc:\d+\] "
    r"|\.? This is typically caused by .*$"
)
"""Source locations and advice in errors of torch and gloo."""

_PEER_FAILURE = re.compile("[Tt]imed out|no end after|by peer|has left|have left")
"""Texts in errors of gloo and of bundles that another rank causes by not answering or ending."""


def _current_process(ranks: int) -> _ProcessLocation:
    pid = os.getpid()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        machine = " ".join([boot, str(Path("/proc/self/ns/pid").readlink())])
    except OSError:  # not Linux: other processes cannot be examined
        machine = f"{platform.node()} {pid}"
    return _ProcessLocation(machine, pid, _process_stat(pid)[2], ranks)


def _process_stat(pid: int) -> tuple[str, bool, str]:
    """Return the state of a process as one letter, whether it is exiting, and its start time.

    Without such a process, the texts are empty. Source: proc_pid_stat(5). The state is the field
    after the name. The exiting flag is PF_EXITING of Linux, which is set before the files of a
    process are closed.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", False, ""
    fields = text.rpartition(")")[2].split()  # the name may contain spaces
    return fields[0], bool(int(fields[6]) & _EXITING), fields[19]


_EXITING = 0x4
