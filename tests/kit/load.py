"""Load beside a test: processes that keep every core busy until the context ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def load() -> Iterator[None]:
    """Keep a process per core busy; they are at work before this returns, and end with it."""
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
