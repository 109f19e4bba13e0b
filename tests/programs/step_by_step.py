"""sccl that waits when it has kept an answer: ``step_by_step.py SAYS HEARS ARGUMENTS...``.

It writes a line into the pipe SAYS, and goes on when there is one in HEARS.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sccl.__main__ import main
from sccl.synth.common.store import Store

SAYS, HEARS = map(Path, sys.argv[1:3])


def put(*arguments: Any, _put: Any = Store.put) -> None:
    _put(*arguments)
    with SAYS.open("w") as file:
        file.write("kept\n")
    with HEARS.open() as file:
        file.readline()


setattr(Store, "put", put)  # noqa: B010 - so that types stay unchanged
sys.argv = ["sccl", *sys.argv[3:]]
main()
