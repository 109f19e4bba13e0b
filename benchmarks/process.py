"""The ``sccl`` command as a user starts it: a process, timed from start to end."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median

from sccl.cli.report import ExitCode
from sccl.errors import ScclError

# The interpreter that runs this, not whichever ``sccl`` is first on the path.
_SCCL = (sys.executable, "-c", "from sccl.cli.main import app; app()")


@dataclass(frozen=True, slots=True)
class Startup:
    """How long ``sccl`` takes to say what it can do."""

    command: str
    seconds: float
    runs: tuple[float, ...]


def run_sccl(*arguments: str) -> tuple[float, str]:
    """Return the seconds of the whole process and what it printed.

    Raises:
        ScclError: it failed; a solver that gives up (exit code 3) is not a failure.
    """
    begin = time.perf_counter()
    done = subprocess.run([*_SCCL, *arguments], capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode not in (ExitCode.OK, ExitCode.UNKNOWN):
        said = done.stderr.strip() or done.stdout.strip()
        raise ScclError(f"sccl {' '.join(arguments)} ended with {done.returncode}: {said}")
    return seconds, done.stdout


def startup(repeat: int) -> Startup:
    """Return the time of ``sccl --help``; a first run, not counted, fills the file cache."""
    run_sccl("--help")
    runs = tuple(run_sccl("--help")[0] for _ in range(repeat))
    return Startup("sccl --help", median(runs), runs)
