"""Wait for events of processes, never for time to pass."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.kit.paths import ROOT

PATIENCE_S = 300.0
"""Time limit of a wait, which no correct test reaches, even on a machine that is slow and busy."""


def run_with_other_hashes(module: str, value: object) -> Any:
    """Run a module of the tests on JSON, where sets of strings have another order."""
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(value),
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "4711"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_for_end(pid: int) -> None:
    """Wait until a process, which need not be a child of this one, has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:  # the process has already ended
        return
    try:
        ended, _, _ = select.select([handle], [], [], PATIENCE_S)
    finally:
        os.close(handle)
    assert ended, f"process {pid} goes on"


class Pipe:
    """A named pipe through which processes say that they are so far.

    The other side opens it as any file and writes lines into it.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Open for writing, too: so it is never at its end.
        self._lines = os.fdopen(os.open(path, os.O_RDWR), "r")

    def line(self) -> str:
        """Wait for the next line and return it."""
        watchdog = threading.Timer(PATIENCE_S, self._give_up)
        watchdog.daemon = True
        watchdog.start()
        try:
            found = self._lines.readline().removesuffix("\n")
        finally:
            watchdog.cancel()
        assert found != "gave up", f"nobody wrote to {self.path}"
        return found

    def _give_up(self) -> None:
        self.path.open("w").write("gave up\n")
