"""Loops over numbers as machine code: compiled when they are first called, and kept on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core import cgutils, event, types
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Return a function of arrays and numbers, compiled by Numba at its first call.

    What was compiled is kept beside the source, or in the user's cache directory where that cannot
    be written. Signals wait until it returns, so a long loop has to be called piece by piece; other
    threads go on meanwhile.
    """
    return cast("F", _kept(numba.njit(cache=True, nogil=True)(function)))


def compiled_in_place(function: F) -> F:
    """Return a function as :func:`compiled` does, which may write into arrays and make none.

    References to the arrays that it is given are not counted, and it becomes a part of those that
    call it: where loops call functions with dozens of arrays, counting and handing them over takes
    ten times as long as all else.
    """
    fast = {"cache": True, "_nrt": False, "forceinline": True}
    return cast("F", _kept(cast("Any", numba.njit)(**fast)(function)))


def _kept(dispatcher: Any) -> Any:
    """Return a compiled function for which what cannot be read back from disk is not there.

    What another version left names its types by modules that may be gone: Numba reads these names
    before it looks whether the source is the same, and would not go on.
    """
    file = dispatcher._cache._cache_file  # noqa: SLF001 - there is no other way to it
    read = file._load_index  # noqa: SLF001

    def index() -> dict[Any, str]:
        """Return what there is, by types of arguments."""
        try:
            return cast("dict[Any, str]", read())
        except Exception:  # noqa: BLE001 - pickles raise anything
            return {}

    file._load_index = index  # noqa: SLF001
    return dispatcher


lowest = cast("Callable[[Any], Any]", trailing_zeros)
"""Within compiled loops: the place of the lowest bit that is set in a word that is not zero."""

number = cast("Callable[[int], int]", numba.int64)
"""Within compiled loops: a number as any other. Functions are compiled once more for those that are
written there, as each 0 with which something begins."""

_PATIENCE = 4096
"""Looks at a counter before the core is given away: some microseconds."""

_give_way = types.ExternalFunction("sched_yield", types.int32())


@intrinsic
def _add(_context: Any, counter: Any, _amount: Any) -> Any:
    """Add to the first number of an array that several threads add to; return what it was."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _first_number(context, builder, signature, args)
        return builder.atomic_rmw("add", data, args[1], "seq_cst")

    return counter.dtype(counter, counter.dtype), code


@intrinsic
def _now(_context: Any, counter: Any) -> Any:
    """Return that number. All that others wrote before they added to it is seen from then on."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _first_number(context, builder, signature, args)
        return builder.load_atomic(data, "seq_cst", counter.dtype.bitwidth // 8)

    return counter.dtype(counter), code


def _first_number(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return where the first number of the first argument, an array, lies."""
    array = cast("Any", cgutils).create_struct_proxy(signature.args[0])
    return array(context, builder, args[0]).data


@compiled
def meet(counter: Any, target: Any) -> None:
    """Come to where threads wait for one another, and wait until so many came there.

    Within compiled loops: to go back to Python for that, and hand over its lock, takes a hundred
    times as long. Who waits soon gives the core away, so that it ends where threads share one.

    Args:
        counter: an array of one number of 64 bits without sign: how often threads came.
    """
    _add(counter, 1)  # type: ignore[call-arg]  # the compiler gives the first argument
    looks = 0
    while _now(counter) < target:
        looks += 1
        if looks > _PATIENCE:
            _give_way()


class Compilation(event.Listener):
    """Calls a function at the first compilation, and measures all of them.

    Attributes:
        seconds: that compilations took by now; what is compiled within another counts once.
    """

    def __init__(self, on_compile: Callable[[], None]) -> None:
        self._told: Callable[[], None] | None = on_compile
        self._depth, self._began = 0, 0.0
        self.seconds = 0.0

    def on_start(self, _event: object) -> None:
        """Tell it, once, and start the clock."""
        if self._told is not None:
            self._told()
        self._told = None
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1

    def on_end(self, _event: object) -> None:
        """Stop the clock."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began


@contextmanager
def compiling(on_compile: Callable[[], None]) -> Iterator[Compilation]:
    """Have a function called where something is compiled that is not on disk yet, once.

    Provides what measures how long that takes.
    """
    compilation = Compilation(on_compile)
    with event.install_listener("numba:compile", compilation):
        yield compilation
