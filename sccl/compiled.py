"""Loops over numbers as machine code: compiled when they are first called, and kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Return a function of arrays and numbers, compiled by Numba at its first call.

    What was compiled is kept beside the source, or in the user's cache directory where that cannot
    be written. Signals wait until it returns, so a long loop has to be called piece by piece.
    """
    return cast("F", numba.njit(cache=True)(function))
