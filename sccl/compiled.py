"""Loops over numbers as machine code: compiled when they are first called, and kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Return a function of arrays and numbers, compiled by Numba at its first call.

    What was compiled is kept beside the source, or in the user's cache directory where that cannot
    be written. Signals wait until it returns, so a long loop has to be called piece by piece; other
    threads go on meanwhile.
    """
    return cast("F", numba.njit(cache=True, nogil=True)(function))


def compiled_in_place(function: F) -> F:
    """Return a function as :func:`compiled` does, which may write into arrays and make none.

    References to the arrays that it is given are not counted, and it becomes a part of those that
    call it: where loops call functions with dozens of arrays, counting and handing them over takes
    ten times as long as all else.
    """
    fast = {"cache": True, "_nrt": False, "forceinline": True}
    return cast("F", cast("Any", numba.njit)(**fast)(function))


class _First(event.Listener):
    """Calls a function at the first event."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told: Callable[[], None] | None = told

    def on_start(self, _event: object) -> None:
        """Tell it, once."""
        if self._told is not None:
            self._told()
        self._told = None

    def on_end(self, _event: object) -> None:
        """Do nothing."""


@contextmanager
def compiling(told: Callable[[], None]) -> Iterator[None]:
    """Have a function called where something is compiled that is not on disk yet, once."""
    with event.install_listener("numba:compile", _First(told)):
        yield
