"""A command that gets Ctrl-C while native code works for a module.

Usage: python -m tests.programs.interrupted MODULE COUNT WORDS...: as soon as the COUNT-th piece of
native work that MODULE asked for has begun.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

from sccl.cli.main import app


def asked_by() -> str:
    """Return the module for which native work is starting, or an empty text for other work."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "run_interruptible":
        frame = frame.f_back
    while frame is not None and frame.f_globals["__name__"].startswith("sccl.solvers."):
        frame = frame.f_back
    return str(frame.f_globals["__name__"]) if frame is not None else ""


def main(module: str, count: int, words: list[str]) -> None:
    """Run the command."""
    left = count
    start = threading.Thread.start

    def start_and_interrupt(thread: threading.Thread) -> None:
        nonlocal left
        start(thread)
        if asked_by() == module:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGINT)

    setattr(threading.Thread, "start", start_and_interrupt)  # noqa: B010 - mypy: methods stay
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
    app(words)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
