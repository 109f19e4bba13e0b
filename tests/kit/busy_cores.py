"""Load beside a test: processes that keep every core busy until the context ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def keep_cores_busy() -> Iterator[None]:
    """Run a busy process on every core, from before the return to the end of the block."""
    program = "print(flush=True)\nwhile True: pass"
    busy = [
        subprocess.Popen([sys.executable, "-S", "-c", program], stdout=subprocess.PIPE)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        for process in busy:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.communicate()
