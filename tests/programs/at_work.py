"""sccl that reports through a pipe when a solver begins: ``at_work.py PIPE ARGUMENTS...``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from ortools.sat.python import cp_model

from sccl.__main__ import main


def say() -> None:
    """Write a line into the pipe, the first time only."""
    global PIPE
    if PIPE is not None:
        pipe, PIPE = PIPE, None
        with pipe.open("w") as file:
            file.write("at work\n")


def solve(*arguments: Any, _solve: Any = cp_model.CpSolver.solve) -> Any:
    say()
    return _solve(*arguments)


def heard(event: str, _: Any) -> None:
    if event == "subprocess.Popen":
        say()


PIPE: Path | None = Path(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
setattr(cp_model.CpSolver, "solve", solve)  # noqa: B010 - mypy has it that methods stay
sys.addaudithook(heard)
sys.argv = ["sccl", *sys.argv[2:]]
main()
