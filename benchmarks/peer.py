"""Run the public ``msccl`` command on the same rows, as a separate process."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from functools import partial

from benchmarks.paper import PaperRow
from benchmarks.peer_rows import arguments
from benchmarks.timing import Contender, Run, Verdict
from sccl.errors import ParameterError

NAME = "msccl"

_BEGUN = "Solving instance"
_ENDED = re.compile(r"(synthesized!|unsatisfiable\.) \((\d+\.\d+)s\)")
# It also prints "unsatisfiable" if Z3 gives up, which no row makes it do.
_VERDICTS: dict[str, Verdict] = {"synthesized!": "sat", "unsatisfiable.": "unsat"}


def find(command: str | None) -> str | None:
    """Return the path of the command. None: no command was named, and none is on the path.

    Raises:
        ParameterError: The named command cannot be run.
    """
    path = shutil.which(command or NAME)
    if command and not path:
        raise ParameterError(f"--msccl is {command!r}, expected a command that can be run")
    return path


def contender(command: str, timeout_s: float) -> Contender[PaperRow]:
    """Return ``msccl`` as a contender."""
    return Contender(NAME, partial(run, command=command, timeout_s=timeout_s))


def run(row: PaperRow, command: str, timeout_s: float) -> Run:
    """Return one run, killing the process at the time limit."""
    begin = time.perf_counter()
    # Unbuffered, so that its output arrives at once.
    process = subprocess.Popen(
        [command, *arguments(row)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    timer = threading.Timer(timeout_s, _kill, [process])
    timer.start()
    try:
        report = _listen(process)
        process.wait()
    finally:
        timer.cancel()
        _kill(process)
        process.wait()
    elapsed = time.perf_counter() - begin
    if report is not None:
        verdict, seconds, printed, used = report
        return Run(verdict, seconds, elapsed, printed, used)
    return Run("unknown" if elapsed >= timeout_s else "failed", elapsed, elapsed)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children, because a wrapper's child would keep the pipe open."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _listen(process: subprocess.Popen[bytes]) -> tuple[Verdict, float, float, float | None] | None:
    """Return the verdict, its seconds from outside, the printed seconds, and processor seconds.

    The command prints tenths of seconds, which are too coarse for most rows. The time between its
    "solving" line and its verdict is therefore also taken from outside. It spans encoding, solving,
    and decoding, like the seconds of sccl.
    """
    assert process.stdout is not None
    text, begin, used_before, report = "", 0.0, None, None
    while piece := os.read(process.stdout.fileno(), 1 << 16):
        now, used = time.perf_counter(), _processor_seconds(process.pid)
        if report is not None:
            continue  # the algorithm, unused, read so that the pipe does not fill up
        text += piece.decode(errors="replace")
        if not begin and _BEGUN in text:
            begin, used_before = now, used
        if ending := _ENDED.search(text):
            spent = None if used is None or used_before is None else used - used_before
            report = _VERDICTS[ending[1]], now - begin, float(ending[2]), spent
    process.stdout.close()
    return report


def _processor_seconds(pid: int) -> float | None:
    """Return the processor time of all threads of a process. None: there is no such clock.

    The process has no children, because Z3 is a library in it. The clock is that of
    clock_getcpuclockid(3) on Linux.
    """
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return None


def versions(command: str) -> dict[str, str]:
    """Return the versions behind the command, from the interpreter that its script names."""
    with open(command, "rb") as script:  # noqa: PTH123 - one line of it
        first = script.readline().decode(errors="replace").strip()
    ask = "import importlib.metadata as m; print(m.version('msccl'), m.version('z3-solver'))"
    if not first.startswith("#!"):
        return {}
    try:
        output = subprocess.run(
            [*first[2:].split(), "-c", ask], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip((NAME, "z3-solver"), output.stdout.split(), strict=False))
