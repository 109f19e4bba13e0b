"""Standard output without a reader: a closed pipe, or a full disk."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def detach_stdout() -> None:
    """Discard the buffered output, so that Python does not report an error at exit."""
    with suppress(OSError, ValueError):  # that of a test is no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
