"""Start a lab with a mechanism that this system supports, and forward the events of its ranks."""

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

from benchmarks.lab import channels as batches
from benchmarks.lab.channels import MAX_RANKS, PORT, LabChannel, rank_environment
from sccl.errors import ParameterError, ToolError
from sccl.runtime.command_sessions import run_session

_SUPERVISOR = (sys.executable, "-I", str(Path(__file__).with_name("supervisor.py")))
_PIDS = ("--pid", "--fork", "--kill-child", "--mount-proc")
_OWNERS = ((), ("--user", "--map-root-user"))  # as root, then as another user
_TOOLS = ("unshare", "nsenter", "ip", "tc", "sh")
_GET_TOOLS = "apt-get install iproute2 util-linux"
_LINK_PROBE = "link add name a0 type bridge\nlink add name a1 type veth peer name a2\n"
_LIMIT_PROBE = "qdisc add dev a1 root tbf rate 1mbit burst 18000 limit 100000\n"
_SECONDS = 20.0
_LEAVE_S = 0.7
"""Seconds that the supervisor has to end after an interrupt. Ranks get fewer."""


class Limiter(StrEnum):
    """The mechanism that limits the rates of channels."""

    NAMESPACES = "namespaces"
    BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class LabRun:
    """A lab to run.

    Attributes:
        command: Words of the command, which is started once for each rank.
        channels: Channels of the lab.
        ranks: Number of ranks.
        method: Mechanisms, from :func:`choose_method`.
    """

    command: tuple[str, ...]
    channels: tuple[LabChannel, ...]
    ranks: int
    method: LabMethod


@dataclass(frozen=True, slots=True)
class LabMethod:
    """The mechanisms that a system supports.

    Attributes:
        limiter: Mechanism that limits the rates of channels.
        unshare: Words before the supervisor's command that create namespaces. Empty: there are no
            namespaces, and processes that killed ranks have started survive.
        why: Reason for a token bucket, as a clause. Empty: another limiter, or a token bucket was
            requested.
    """

    limiter: Limiter
    unshare: tuple[str, ...]
    why: str = ""

    @property
    def description(self) -> str:
        """Return a description of the mechanism that limits the channels."""
        if self.limiter is Limiter.NAMESPACES:
            by = "a user namespace" if "--user" in self.unshare else "root"
            return f"network namespaces ({by}): each interface is limited both ways by tbf"
        why = f" ({self.why})" if self.why else ""
        return (
            f"a token bucket{why}: only senders that obey SCCL_CHANNEL_RATES are limited, such as "
            "channels of the backend 'sccl'"
        )


@dataclass(frozen=True, slots=True)
class RankLine:
    """A line that a rank has printed, or the end of a rank.

    Attributes:
        rank: Number of the rank.
        stream: ``"out"`` or ``"err"``. Empty: the rank has ended.
        text: The line.
        code: Exit code of a rank that has ended: 128 plus the signal number if a signal ended it.
    """

    rank: int
    stream: str = ""
    text: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class LabEnd:
    """The end of a lab.

    Attributes:
        codes: Exit code of each rank. None: it was killed, since it did not end after another rank
            had failed.
        first: Rank that failed first. None: no rank failed.
    """

    codes: tuple[int | None, ...]
    first: int | None

    @property
    def code(self) -> int:
        """Return the exit code of the rank that failed first, or 0 if none failed."""
        return 0 if self.first is None else self.codes[self.first] or 0


def choose_method(wanted: Limiter | None = None) -> LabMethod:
    """Return the mechanisms for a lab on this system: namespaces, or else a token bucket.

    Each mechanism is tried, because a system's settings do not show whether it works.

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
            why = _refusal(unshare, network=True)
            if not why:
                return LabMethod(Limiter.NAMESPACES, unshare)
        if wanted is Limiter.NAMESPACES:
            raise ToolError(f"no network namespaces with limited interfaces here: {why}")
    candidates = [("unshare", *owner, *_PIDS) for owner in _OWNERS if shutil.which("unshare")]
    prefix = next(
        (candidate for candidate in candidates if not _refusal(candidate, network=False)), ()
    )
    return LabMethod(Limiter.BUCKET, prefix, why)


def _refusal(unshare: tuple[str, ...], *, network: bool) -> str:
    """Return the system's error message for a mechanism, or an empty text if it works."""
    tries = [("ip", _LINK_PROBE), ("tc", _LIMIT_PROBE)] if network else []
    script = "".join(f"printf %s {text!r} | {tool} -batch - && " for tool, text in tries) + "true"
    words = [*unshare, "sh", "-ec", script.replace("\\n", "\n")]
    try:
        with run_session(
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
        ParameterError: The command is missing or not on PATH, or the number of ranks is out of
            range.
    """
    if not command:
        raise ParameterError("there is no command: give it after --, such as -- python job.py")
    if not 1 <= ranks <= MAX_RANKS:
        raise ParameterError(f"ranks is {ranks}, expected 1 to {MAX_RANKS}")
    if shutil.which(command[0]) is None:
        raise ParameterError(f"{command[0]!r} is no command that can be run here: is it on PATH?")


def run_lab(lab: LabRun, hear: Callable[[RankLine], None]) -> LabEnd:
    """Run a command on all ranks, and return the exit codes. An interrupt ends it within a second.

    Args:
        lab: Lab to run.
        hear: Callback that receives each line of a rank's output, and its end.

    Raises:
        ParameterError: The command or the number of ranks is invalid.
        ToolError: The lab cannot be started, or its supervisor was killed.
    """
    check_lab(lab.command, lab.ranks)
    text = (json.dumps(_supervisor_job(lab)) + "\n").encode()
    with run_session(
        [*lab.method.unshare, *_SUPERVISOR],
        signal.SIGKILL,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(BrokenPipeError):  # the supervisor's output contains the reason
                process.stdin.write(text)
                process.stdin.flush()
            return _relay_lines(process.stdout, lab.ranks, hear)
        except BaseException:
            with suppress(BrokenPipeError):
                process.stdin.close()  # the supervisor ends when stdin closes
            with suppress(subprocess.TimeoutExpired):  # the session is then killed
                process.wait(_LEAVE_S)
            raise
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()


def _relay_lines(lines: Iterable[bytes], ranks: int, hear: Callable[[RankLine], None]) -> LabEnd:
    codes: list[int | None] = [None] * ranks
    first = None
    for line in lines:
        message = json.loads(line)
        if "failed" in message:
            raise ToolError(f"the lab does not begin: {message['failed']}")
        if "done" in message:
            return LabEnd(tuple(codes), first)
        if "code" in message:
            codes[message["rank"]] = message["code"]
            if message["code"] and first is None:
                first = message["rank"]
        hear(RankLine(**message))
    raise ToolError("the lab's first process was killed, and all ranks with it")


def _supervisor_job(lab: LabRun) -> dict[str, object]:
    bucket = lab.method.limiter is Limiter.BUCKET
    port = _free_port() if bucket else PORT
    defaults = {"OMP_NUM_THREADS": "1"} if "OMP_NUM_THREADS" not in os.environ else {}
    channels = lab.channels
    environments = [
        defaults | rank_environment(rank, lab.ranks, channels, port, bucket=bucket)
        for rank in range(lab.ranks)
    ]
    contained = bool(lab.method.unshare) or shutil.which("setpriv") is None
    job: dict[str, object] = {
        "words": list(lab.command),
        "environments": environments,
        "before": [] if contained else ["setpriv", "--pdeathsig", "KILL", "--"],
        "net": None,
    }
    if not bucket:
        places = [f"{{{rank}}}" for rank in range(lab.ranks)]
        job["net"] = {
            "bridges": batches.bridges(channels),
            "links": batches.links(channels, places),
            "bridge_limits": batches.bridge_limits(channels, lab.ranks),
            "addresses": [batches.rank_addresses(channels, rank) for rank in range(lab.ranks)],
            "limits": batches.rank_limits(channels),
        }
    return job


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
