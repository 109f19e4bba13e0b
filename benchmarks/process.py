"""Run and time the ``sccl`` command as a whole process."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sccl.cli.report import ExitCode
from sccl.errors import ScclError

# Runs in this interpreter, because another ``sccl`` may be first on the path.
# At its end it writes Linux's figures of its memory. wait4 would also count the memory of this
# process, from which the other one forked.
_PROGRAM = """\
import atexit, sys
from pathlib import Path
left, status = Path(sys.argv.pop(1)), Path("/proc/self/status")
atexit.register(lambda: status.exists() and left.write_text(status.read_text()))
from sccl.cli.main import app
app()
"""


@dataclass(frozen=True, slots=True)
class Startup:
    """Start time of a command, wall clock and processor, as medians of ``runs``.

    Attributes:
        target_seconds: Target on an idle machine.
        user_seconds: Processor time, which depends less on other load.
        runs: Wall-clock and processor seconds of each run.
    """

    command: str
    target_seconds: float
    seconds: float
    user_seconds: float
    runs: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of ``sccl``.

    Attributes:
        seconds: Time of the whole process.
        user_seconds: Processor time, which depends less on other load.
        memory_mb: Peak memory in 10^6 bytes, without child processes. NaN: there is no /proc.
        text: Printed text.
    """

    seconds: float
    user_seconds: float
    memory_mb: float
    text: str


def measure(*arguments: str, timeout_s: float | None = None) -> Run:
    """Run ``sccl`` and return its times and output.

    Raises:
        ScclError: The command failed. A solver that gives up (exit code 3) is not a failure.
        subprocess.TimeoutExpired: The command reached the time limit.
    """
    with tempfile.TemporaryDirectory() as folder:
        status_file = Path(folder, "status")
        command = [sys.executable, "-c", _PROGRAM, str(status_file), *arguments]
        before, begin = os.times().children_user, time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout_s
        )
        seconds, user = time.perf_counter() - begin, os.times().children_user - before
        status = status_file.read_text() if status_file.exists() else ""
    if done.returncode not in (ExitCode.OK, ExitCode.UNKNOWN):
        output = done.stderr.strip() or done.stdout.strip()
        raise ScclError(f"sccl {' '.join(arguments)} ended with {done.returncode}: {output}")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    return Run(seconds, user, int(peak[1]) * 1024 / 1e6 if peak else math.nan, done.stdout)


_HELP = "import sys; sys.argv = ['sccl', '--help']; from sccl.cli.main import app; app()"
_STARTS = (("sccl --help", _HELP, 0.5), ("import sccl", "import sccl", 0.3))
"""Timed commands: name, program, and target in seconds."""


def startup(repeat: int) -> list[Startup]:
    """Return the times of ``sccl --help`` and ``import sccl``, with the start of Python.

    A first run of each fills the file cache and is not counted. Then they take turns.
    """
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in _STARTS}
    for _ in range(repeat + 1):
        for name, program, _ in _STARTS:
            runs[name].append(_once(program))
    startups = []
    for name, _, target in _STARTS:
        counted = tuple(runs[name][1:])
        wall, user = (median(run[i] for run in counted) for i in (0, 1))
        startups.append(Startup(name, target, wall, user, counted))
    return startups


def _once(program: str) -> tuple[float, float]:
    """Run a program and return its wall-clock and processor seconds.

    Raises:
        ScclError: The program failed.
    """
    before, begin = os.times().children_user, time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    seconds, user = time.perf_counter() - begin, os.times().children_user - before
    if done.returncode:
        raise ScclError(f"{program!r} ended with {done.returncode}: {done.stderr.decode()}")
    return seconds, user
