"""Start a lab by a method that this system supports, and forward the events of its ranks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sccl.errors import ParameterError, ToolError
from sccl.runtime.lab import network
from sccl.runtime.lab.channels import MOST_RANKS, PORT, LabChannel, environment_of
from sccl.runtime.processes import running

_KEEPER = (sys.executable, "-I", str(Path(__file__).with_name("keeper.py")))
_PIDS = ("--pid", "--fork", "--kill-child", "--mount-proc")
_OWNERS = ((), ("--user", "--map-root-user"))  # as root, and without
_TOOLS = ("unshare", "nsenter", "ip", "tc", "sh")
_GET_TOOLS = "apt-get install iproute2 util-linux"
_TRY = "link add name a0 type bridge\nlink add name a1 type veth peer name a2\n"
_TRY_LIMIT = "qdisc add dev a1 root tbf rate 1mbit burst 18000 limit 100000\n"
_SECONDS = 20.0
_LEAVE_S = 0.7
"""For the keeper to end after an interrupt. It gives ranks less than that."""


class Limiter(StrEnum):
    """The mechanism that limits the rates of channels."""

    NAMESPACES = "namespaces"
    BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab to run.

    Attributes:
        command: Words of the command, started once for each rank.
        ways: Methods, from :func:`ways_of`.
    """

    command: tuple[str, ...]
    channels: tuple[LabChannel, ...]
    ranks: int
    ways: LabWays


@dataclass(frozen=True, slots=True)
class LabWays:
    """The methods that a system supports.

    Attributes:
        limiter: Mechanism that limits the rates of channels.
        unshare: Words before the keeper's that create namespaces. Empty: there are none, and
            processes that killed ranks started survive.
        why: Reason for a token bucket, as a clause. Empty: it is none, or was requested.
    """

    limiter: Limiter
    unshare: tuple[str, ...]
    why: str = ""

    @property
    def told(self) -> str:
        """Return a sentence on the mechanism that limits the channels."""
        if self.limiter is Limiter.NAMESPACES:
            by = "a user namespace" if "--user" in self.unshare else "root"
            return f"network namespaces ({by}): each interface is limited both ways by tbf"
        why = f" ({self.why})" if self.why else ""
        return (
            f"a token bucket{why}: only senders that obey SCCL_CHANNEL_RATES are limited, such as "
            "channels of the backend 'sccl'"
        )


@dataclass(frozen=True, slots=True)
class Heard:
    """A line that a rank has printed. Its end, if it has a code.

    Attributes:
        stream: ``"out"`` or ``"err"``. Empty: it is its end.
        code: of its end: 128 and the signal, if one ended it.
    """

    rank: int
    stream: str = ""
    text: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class LabEnd:
    """How a lab ended.

    Attributes:
        codes: of each rank. None: it was ended since another had failed, and did not hear it.
        first: the rank that failed first. None: none did.
    """

    codes: tuple[int | None, ...]
    first: int | None

    @property
    def code(self) -> int:
        """Return the exit code of the rank that failed first. Otherwise 0."""
        return 0 if self.first is None else self.codes[self.first] or 0


def ways_of(wanted: Limiter | None = None) -> LabWays:
    """Return the methods for a lab on this system: namespaces, or else a token bucket.

    The methods are tried, because a system's settings do not show everything.

    Args:
        wanted: Only acceptable mechanism. None: any.

    Raises:
        ToolError: Namespaces are requested and not available.
    """
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    why = ""
    if wanted is not Limiter.BUCKET:
        if missing:
            why = f"{missing[0]} is not installed: {_GET_TOOLS}"
        for owner in _OWNERS if not missing else ():
            unshare = ("unshare", *owner, "--net", *_PIDS)
            why = _refused(unshare, network=True)
            if not why:
                return LabWays(Limiter.NAMESPACES, unshare)
        if wanted is Limiter.NAMESPACES:
            raise ToolError(f"no network namespaces with limited interfaces here: {why}")
    ways = [("unshare", *owner, *_PIDS) for owner in _OWNERS if shutil.which("unshare")]
    alone = next((way for way in ways if not _refused(way, network=False)), ())
    return LabWays(Limiter.BUCKET, alone, why)


def _refused(unshare: tuple[str, ...], *, network: bool) -> str:
    """Return a system's error message for a method. Empty: it works."""
    tries = [("ip", _TRY), ("tc", _TRY_LIMIT)] if network else []
    script = "".join(f"printf %s {text!r} | {tool} -batch - && " for tool, text in tries) + "true"
    words = [*unshare, "sh", "-ec", script.replace("\\n", "\n")]
    try:
        with running(
            words,
            signal.SIGKILL,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            _, said = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"no answer within {_SECONDS:g} s"
    except OSError as error:
        return f"{words[0]} does not start ({error.strerror or error})"
    return " ".join(said.split())[-160:] or "it is refused" if process.returncode else ""


def check_lab(command: Sequence[str], ranks: int) -> None:
    """Check the command and the number of ranks.

    Raises:
        ParameterError: There is no command, or there are too many ranks.
    """
    if not command:
        raise ParameterError("there is no command: give it after --, such as -- python job.py")
    if not 1 <= ranks <= MOST_RANKS:
        raise ParameterError(f"ranks is {ranks}, expected 1 to {MOST_RANKS}")
    if shutil.which(command[0]) is None:
        raise ParameterError(f"{command[0]!r} is no command that can be run here: is it on PATH?")


def run_lab(lab: Lab, hear: Callable[[Heard], None]) -> LabEnd:
    """Run a command on all ranks, and return its end. No process of it survives.

    An interrupt ends it within a second.

    Args:
        hear: Function that receives each line of a rank's output, and its end.

    Raises:
        ParameterError: Nothing can be run.
        ToolError: It cannot be started, or its keeper was killed.
    """
    check_lab(lab.command, lab.ranks)
    text = (json.dumps(_job(lab)) + "\n").encode()
    with running(
        [*lab.ways.unshare, *_KEEPER],
        signal.SIGKILL,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(BrokenPipeError):  # what it has printed says why
                process.stdin.write(text)
                process.stdin.flush()
            return _heard(process.stdout, lab.ranks, hear)
        except BaseException:
            with suppress(BrokenPipeError):
                process.stdin.close()  # which it takes for the end
            with suppress(subprocess.TimeoutExpired):  # it is killed, then
                process.wait(_LEAVE_S)
            raise
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()


def _heard(lines: Iterable[bytes], ranks: int, hear: Callable[[Heard], None]) -> LabEnd:
    codes: list[int | None] = [None] * ranks
    first = None
    for line in lines:
        told = json.loads(line)
        if "failed" in told:
            raise ToolError(f"the lab does not begin: {told['failed']}")
        if "done" in told:
            return LabEnd(tuple(codes), first)
        if "code" in told:
            codes[told["rank"]] = told["code"]
            if told["code"] and first is None:
                first = told["rank"]
        hear(Heard(**told))
    raise ToolError("the lab's first process was killed, and all ranks with it")


def _job(lab: Lab) -> dict[str, object]:
    """Return the keeper's job."""
    bucket = lab.ways.limiter is Limiter.BUCKET
    port = _free_port() if bucket else PORT
    own = {"OMP_NUM_THREADS": "1"} if "OMP_NUM_THREADS" not in os.environ else {}
    channels = lab.channels
    told = [
        own | environment_of(rank, lab.ranks, channels, port, bucket=bucket)
        for rank in range(lab.ranks)
    ]
    contained = bool(lab.ways.unshare) or shutil.which("setpriv") is None
    job: dict[str, object] = {
        "words": list(lab.command),
        "environments": told,
        "before": [] if contained else ["setpriv", "--pdeathsig", "KILL", "--"],
        "net": None,
    }
    if not bucket:
        places = [f"{{{rank}}}" for rank in range(lab.ranks)]
        job["net"] = {
            "bridges": network.bridges(channels),
            "links": network.links(channels, places),
            "bridge_limits": network.bridge_limits(channels, lab.ranks),
            "addresses": [network.rank_addresses(channels, rank) for rank in range(lab.ranks)],
            "limits": network.rank_limits(channels),
        }
    return job


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
