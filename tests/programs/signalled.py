"""sccl that sends itself a signal: ``signalled.py NUMBER MOMENT ARGUMENTS...``.

MOMENT is the how-manyeth module that it imports, or ``exit``, or ``last`` for the end of that.
"""

from __future__ import annotations

import atexit
import itertools
import os
import signal
import sys
from typing import Any

from sccl.__main__ import main


def strike() -> None:
    os.kill(os.getpid(), NUMBER)


def heard(event: str, _: Any) -> None:
    if event == "import" and next(COUNT) == int(MOMENT):
        strike()


NUMBER, MOMENT = int(sys.argv[1]), sys.argv[2]
COUNT = itertools.count(1)
sys.argv = ["sccl", *sys.argv[3:]]
for number in (signal.SIGINT, signal.SIGTERM):  # shells may have them ignored
    signal.signal(number, signal.default_int_handler)
if MOMENT == "last":
    atexit.register(strike)  # before main's own: it comes after that
elif MOMENT == "exit":
    import sccl.cli.main

    sccl.cli.main.app.callback()(lambda: atexit.register(strike))
else:
    sys.addaudithook(heard)
main()
