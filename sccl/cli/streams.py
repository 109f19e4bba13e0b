"""Standard output where nobody takes what is printed: its reader has left, or the disk is full."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def let_go_of_stdout() -> None:
    """Send nowhere what still lies in its buffer: Python would complain of it at its end."""
    with suppress(OSError, ValueError):  # that of a test is no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
