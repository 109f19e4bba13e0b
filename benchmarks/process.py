"""The ``sccl`` command as a user starts it: a process, timed from start to end."""

from __future__ import annotations

import math
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

# The interpreter that runs this, not whichever ``sccl`` is first on the path.
# At its end it leaves what Linux says of its memory: wait4 would count this process's own as well,
# in which the other one began.
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
    """How long ``sccl`` takes to say what it can do."""

    command: str
    seconds: float
    runs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of ``sccl``.

    Attributes:
        seconds: of the whole process.
        memory_mb: the most it held (10^6 bytes), its child processes apart; not a number where
            there is no /proc.
        text: what it printed.
    """

    seconds: float
    memory_mb: float
    text: str


def measure(*arguments: str) -> Run:
    """Run ``sccl`` and return what it took and printed.

    Raises:
        ScclError: it failed; a solver that gives up (exit code 3) is not a failure.
    """
    with tempfile.TemporaryDirectory() as folder:
        left = Path(folder, "status")
        command = [sys.executable, "-c", _PROGRAM, str(left), *arguments]
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begin
        status = left.read_text() if left.exists() else ""
    if done.returncode not in (ExitCode.OK, ExitCode.UNKNOWN):
        said = done.stderr.strip() or done.stdout.strip()
        raise ScclError(f"sccl {' '.join(arguments)} ended with {done.returncode}: {said}")
    most = re.search(r"VmHWM:\s+(\d+) kB", status)
    return Run(seconds, int(most[1]) * 1024 / 1e6 if most else math.nan, done.stdout)


def startup(repeat: int) -> Startup:
    """Return the time of ``sccl --help``; a first run, not counted, fills the file cache."""
    measure("--help")
    runs = tuple(measure("--help").seconds for _ in range(repeat))
    return Startup("sccl --help", median(runs), runs)
