"""Print a synthesizer's outcomes of small requests as JSON, or whether it notices Ctrl-C.

Usage: python -m tests.programs.planned NAME [--interrupt], which interrupts the first native work.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from sccl.synth.common import registry
from sccl.synth.common.contract import Synthesizer
from tests.kit.synthesizers import CASES, ENOUGH, outcome_texts
from tests.programs.interrupted import asked_by


def interrupted(synthesizer: Synthesizer) -> str:
    """Return the outcome of a request that is interrupted in native code."""
    start, begun = threading.Thread.start, False

    def start_and_interrupt(thread: threading.Thread) -> None:
        nonlocal begun
        start(thread)
        if asked_by() and not begun:
            begun = True
            os.kill(os.getpid(), signal.SIGINT)

    setattr(threading.Thread, "start", start_and_interrupt)  # noqa: B010 - mypy: methods stay
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
    try:
        outcome = registry.plan(synthesizer, CASES[0].request, effort=ENOUGH)
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    return type(outcome).__name__ if begun else "nothing native"


def main(name: str, *how: str) -> None:
    """Print it."""
    synthesizer = registry.load(name)
    said = interrupted(synthesizer) if how else outcome_texts(synthesizer)
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
