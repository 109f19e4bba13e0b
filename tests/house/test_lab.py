"""The lab: ranks in networks of their own, and nothing that is left of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.lab import (
    LabChannel,
    LabEnd,
    LabMethod,
    LabRun,
    Limiter,
    RankLine,
    TokenBucket,
    bucket_rates,
    choose_method,
    parse_channels,
    rank_environment,
    run_lab,
)
from benchmarks.lab.__main__ import app
from sccl.errors import ParameterError, ToolError
from sccl.training.fabric_names import resolve_fabric
from tests.kit import once
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S, Pipe, wait_for_end

CHANNELS = parse_channels("fast=100Mb,slow=50Mb")
USER = ("--user", "--map-root-user")


def ways(kind: str) -> LabMethod:
    """Return a factory of labs, and skip the test if the system does not allow them."""

    def tried() -> str:
        """Return the reason for missing namespaces, or an empty text."""
        try:
            choose_method(Limiter.NAMESPACES)
        except ToolError as error:
            return str(error)
        return ""

    if kind == "bucket":
        return choose_method(Limiter.BUCKET)
    if why := once.value("lab-namespaces", tried):
        pytest.skip(why)
    found = choose_method(Limiter.NAMESPACES)
    if kind == "user" and "--user" not in found.unshare:
        words = [found.unshare[0], *USER, *found.unshare[1:]]
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
            pytest.skip("user namespaces are refused here")
        return replace(found, unshare=tuple(words))
    return found


def heard(command: tuple[str, ...], kind: str, ranks: int = 3) -> tuple[list[RankLine], LabEnd]:
    lines: list[RankLine] = []
    end = run_lab(LabRun(command, CHANNELS, ranks, ways(kind)), lines.append)
    return lines, end


KINDS = ("root", "user", "bucket")


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_are_told_who_they_are(kind: str) -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "GLOO_SOCKET_IFNAME")
    script = " ".join(f"${name}" for name in (*names, "SCCL_CHANNELS", "SCCL_CHANNEL_RATES"))
    lines, end = heard(("sh", "-c", f"echo {script}"), kind)
    said = {line.rank: line.text.split() for line in lines if line.stream}
    assert end == LabEnd((0, 0, 0), None)
    for rank in range(3):
        assert said[rank][:2] == [str(rank), "3"]
        assert said[rank][2:] == (
            [str(rank), "127.0.0.1", "lo", "fast=lo,slow=lo", "fast=100000000,slow=50000000"]
            if kind == "bucket"
            else ["0", "10.77.0.1", "fast", "fast=fast,slow=slow"]
        )


@pytest.mark.parametrize("kind", ["root", "user"])
def test_interfaces_are_limited_both_ways(kind: str) -> None:
    lines, _ = heard(("tc", "qdisc", "show"), kind, ranks=2)
    shown = [line.text for line in lines if " tbf " in line.text]
    for rates in ("dev fast root", "rate 100Mbit"), ("dev slow root", "rate 50Mbit"):
        assert sum(all(part in text for part in rates) for text in shown) == 2
    own = {path.name for path in Path("/sys/class/net").iterdir()}
    assert not {"fast", "slow", "b0", "b0r0"} & own  # the machine's own are as they were


def test_channels_are_a_fabric(tmp_path: Path) -> None:
    """As which a rank sends, and receives, at a little less than the rate of each."""
    path = tmp_path / "lab.json"
    words = ["--channels", "fast=100Mb,slow=50Mb", "--ranks", "3", "--by", "bucket"]
    done = CliRunner().invoke(app, [*words, "--fabric", str(path), "--", "true"])
    assert done.exit_code == 0, done.output
    fabric = resolve_fabric(str(path))
    assert [channel.name for channel in fabric.channels] == ["fast", "slow"]
    for channel, rate in zip(fabric.channels, (0.0125, 0.00625), strict=True):
        assert channel.topology.ranks == 3
        assert {link.edge for link in channel.topology.links} == set(permutations(range(3), 2))
        for budget, speed in zip(
            channel.topology.budgets, channel.topology.budget_speeds(), strict=True
        ):
            assert len(budget.edges) == 2  # egress or ingress of a rank
            assert 0.95 * rate < budget.chunks_per_round * speed < rate
    nowhere = tmp_path / "none" / "lab.json"
    refused = CliRunner().invoke(app, [*words, "--fabric", str(nowhere), "--", "true"])
    assert refused.exit_code == 2


PASSED = """
import os, socket
ranks, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
for k, channel in enumerate(pair.split("=")[1] for pair in os.environ["SCCL_CHANNELS"].split(",")):
    own = socket.create_server((f"10.77.{k}.{rank + 1}", 5000))
    own.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, channel.encode())
    while True:
        try:
            ahead = socket.create_connection((f"10.77.{k}.{(rank + 1) % ranks + 1}", 5000))
            break
        except ConnectionRefusedError:
            pass
    behind, _ = own.accept()
    ahead.sendall(bytes([rank]))
    print(channel, behind.recv(1)[0])
"""


@pytest.mark.parametrize("kind", ["root", "user"])
def test_ranks_reach_one_another_over_each_channel(kind: str) -> None:
    lines, end = heard((sys.executable, "-c", PASSED), kind)
    assert end.code == 0, lines
    said = {rank: [x.text for x in lines if x.rank == rank and x.stream] for rank in range(3)}
    assert said == {rank: [f"fast {(rank - 1) % 3}", f"slow {(rank - 1) % 3}"] for rank in range(3)}


@pytest.mark.parametrize("kind", KINDS)
def test_first_rank_to_fail_gives_the_code_and_ends_the_others(kind: str) -> None:
    script = "echo $RANK; [ $RANK = 1 ] && exit 7; exec sleep infinity"
    _, end = heard(("sh", "-c", script), kind)
    assert (end.first, end.code, end.codes[1]) == (1, 7, 7)
    assert set(end.codes) <= {7, 143}
    killed = heard(("sh", "-c", "[ $RANK = 0 ] && kill -KILL $$; exec sleep infinity"), kind)[1]
    assert (killed.first, killed.code) == (0, 137)


def test_all_that_ranks_print_is_heard() -> None:
    script = "printf 'a\\nno end'; printf 'err\\303\\050' >&2; echo ' of it'; printf last"
    lines, _ = heard(("sh", "-c", script), "bucket", ranks=1)
    assert [x.text for x in lines if x.stream == "out"] == ["a", "no end of it", "last"]
    assert [x.text for x in lines if x.stream == "err"] == ["err\ufffd("]
    long, _ = heard(("sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"), "bucket", ranks=1)
    assert "".join(x.text for x in long if x.stream) == "x" * 300_000


def test_background_processes_end_with_the_ranks(tmp_path: Path) -> None:
    """It holds the pipe for output open, and has a session of its own."""
    told = Pipe(tmp_path / "told")
    script = f"setsid sleep infinity & echo up > {told.path}; exit 0"
    if not ways("bucket").unshare:
        pytest.skip("there are no PID namespaces here")
    _, end = heard(("sh", "-c", script), "bucket", ranks=1)
    assert (end.code, told.line()) == (0, "up")
    assert not sleepers(os.getpid())


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children(pid: int) -> Iterator[int]:
    """Yield all that a process has started, and that these have."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                found[int(folder.name)] = parent_of(int(folder.name))
    wanted = [pid]
    for parent in wanted:
        more = [child for child, of in found.items() if of == parent]
        wanted += more
        yield from more


def sleepers(pid: int) -> list[int]:
    return [x for x in children(pid) if "sleep" in Path(f"/proc/{x}/cmdline").read_text()]


class Running:
    """A lab of two ranks that wait, each with a child if it is contained."""

    def __init__(self, folder: Path, kind: str) -> None:
        told = Pipe(folder / "told")
        found = replace(ways("bucket"), unshare=()) if kind == "plain" else ways(kind)
        child = "sleep infinity & " if found.unshare else ""
        script = f"{child}echo up > {told.path}; exec sleep infinity"
        job = [*found.unshare], found.limiter.value, ["sh", "-c", script]
        program = [sys.executable, "-m", "tests.programs.in_lab", json.dumps(job)]
        self.process = subprocess.Popen(
            program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert [told.line(), told.line()] == ["up", "up"]
        self.all = list(children(self.process.pid))


VICTIMS = [(kind, k) for kind in KINDS for k in range(-1, 6)] + [("plain", k) for k in range(-1, 3)]
"""The command, unshare, the keeper, two ranks, and a child of each. The last has no namespaces."""


@pytest.mark.parametrize(
    ("kind", "victim"),
    [pytest.param(*v, marks=[pytest.mark.nightly] * (v[0] == "user")) for v in VICTIMS],
)
def test_nothing_is_left_whichever_process_is_killed(
    kind: str, victim: int, tmp_path: Path
) -> None:
    """The lab does not know a rank's child, which continues until it is ended itself."""
    if kind != "plain" and not ways(kind).unshare:
        pytest.skip("there are no PID namespaces here")
    lab = Running(tmp_path, kind)
    try:
        assert len(lab.all) == (3 if kind == "plain" else 6)
        pid = lab.all[victim] if victim >= 0 else lab.process.pid
        of_rank = victim >= 0 and parent_of(pid) in lab.all[2:]
        assert of_rank == (victim >= 4)
        os.kill(pid, signal.SIGKILL)
        if of_rank:
            wait_for_end(pid)
            assert lab.process.poll() is None
            lab.process.terminate()
        for one in lab.all:
            wait_for_end(one)
        assert lab.process.wait(PATIENCE_S) != 0
    finally:
        lab.process.kill()
        lab.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_all_of_it(number: signal.Signals, tmp_path: Path) -> None:
    lab = Running(tmp_path, "bucket")
    lab.process.send_signal(number)
    said, _ = lab.process.communicate(timeout=PATIENCE_S)
    assert lab.process.returncode == 128 + number
    assert said.splitlines()[-1] == "interrupted"
    for pid in lab.all:
        wait_for_end(pid)


def test_without_tools_it_says_so_and_takes_a_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    (tmp_path / "sh").symlink_to(shell)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = choose_method()
    assert found.limiter is Limiter.BUCKET
    assert "unshare is not installed: apt-get install iproute2 util-linux" in found.description
    with pytest.raises(ToolError, match=r"no network namespaces .* unshare is not installed"):
        choose_method(Limiter.NAMESPACES)


def test_system_that_refuses_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = tmp_path / "unshare"
    refusing.write_text("#!/bin/sh\necho unshare failed: Operation not permitted >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = choose_method()
    assert (found.limiter, found.unshare) == (Limiter.BUCKET, ())
    if all(map(shutil.which, ("ip", "tc", "nsenter"))):
        assert "Operation not permitted" in found.description
    _, end = heard(("sh", "-c", "exit 0"), "bucket", ranks=2)  # without PID namespaces, too
    assert end.code == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a name of small letters"),
        ("fast", "expected a name of small letters"),
        ("fast=100MB", "expected a name of small letters"),
        ("fast=100Mb,fast=1Mb", "comes twice"),
        ("lo=100Mb", "is the name of something else on systems"),
        ("fast=0.1kb", "expected 8kb to 100Gb"),
        ("fast=1000Gb", "expected 8kb to 100Gb"),
        ("a;b=1Mb", "expected a name of small letters"),
        ("averylongname=1Mb", "expected a name of small letters"),
        (",".join(f"c{k}=1Mb" for k in range(17)), "17 channels"),
    ],
)
def test_channels_that_cannot_be(text: str, why: str) -> None:
    with pytest.raises(ParameterError, match=why):
        parse_channels(text)


@given(
    st.lists(
        st.tuples(st.from_regex(r"c[a-z0-9-]{0,9}", fullmatch=True), st.integers(1, 99_999)),
        min_size=1, max_size=16, unique_by=lambda pair: pair[0],
    )
)  # fmt: skip
def test_channels_are_read_as_they_are_written(pairs: list[tuple[str, int]]) -> None:
    text = ",".join(f"{name}={rate}Mb" for name, rate in pairs)
    assert parse_channels(text) == tuple(LabChannel(name, rate * 10**6) for name, rate in pairs)
    told = rank_environment(0, 2, parse_channels(text), 1, bucket=True)
    assert bucket_rates(told) == {name: rate * 10**6 for name, rate in pairs}
    assert bucket_rates(rank_environment(0, 2, parse_channels(text), 1, bucket=False)) == {}


@pytest.mark.parametrize("text", ["fast", "fast=", "fast=0", "=5", "fast=-1", "fast=1e9", "a=²"])
def test_rates_that_cannot_be(text: str) -> None:
    with pytest.raises(ParameterError, match="SCCL_CHANNEL_RATES has"):
        bucket_rates({"SCCL_CHANNEL_RATES": text})


@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=50))
def test_late_wakeup_keeps_the_rate(late: list[float]) -> None:
    clock = [0.0]
    lates = iter(late)

    def sleep(seconds: float) -> None:
        clock[0] += seconds + next(lates, 0.0)

    bucket, size = TokenBucket(80_000_000, lambda: clock[0], sleep), 65_536
    for k in range(1, 200):
        bucket.take(size)
        assert size * k <= 1e7 * (clock[0] + 0.002) + 1
    if sum(late) < 1 and len(late) < 100:  # then there is time to make up for it
        assert size * 199 >= 1e7 * clock[0] - size


@given(st.lists(st.tuples(st.integers(0, 1 << 22), st.floats(0, 0.2)), min_size=1, max_size=30))
def test_bucket_never_lets_more_through_than_its_rate(calls: list[tuple[int, float]]) -> None:
    """The rate is also not lower: a busy sender sends at the rate."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    bucket = TokenBucket(80_000_000, lambda: clock[0], sleep)  # 10 bytes per microsecond
    sent, idle = 0, 0.0
    for size, pause in calls:
        clock[0] += pause
        idle += pause
        bucket.take(size)
        sent += size
        assert sent <= 1e7 * (clock[0] + 0.002) + 1
        assert sent >= 1e7 * (clock[0] - idle) - 1
