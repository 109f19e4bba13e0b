"""Compile numeric loops to machine code at their first call, and cache them on disk."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.cpython.unsafe.numbers import trailing_zeros

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a function of arrays and numbers with Numba at its first call.

    The machine code is cached next to the source, or in the user's cache directory if that is not
    writable. Signals wait until the function returns, so a long loop has to run piece by piece.
    Other threads continue meanwhile.
    """
    return cast("F", _kept(numba.njit(cache=True, nogil=True)(function)))


def compiled_in_place(function: F) -> F:
    """Compile a function that may write into arrays but allocates none, without reference counts.

    The function is inlined into its callers. In loops that call functions with dozens of arrays,
    reference counts and arguments take ten times as long as everything else.
    """
    fast = {"cache": True, "_nrt": False, "forceinline": True}
    return cast("F", _kept(cast("Any", numba.njit)(**fast)(function)))


def _kept(dispatcher: Any) -> Any:
    # A cache file of another version may name modules that no longer exist. Numba reads these names
    # before it compares the sources, and would raise. It compares the source of the function alone,
    # although machine code holds that of the functions that it calls.
    function, file = dispatcher.py_func, dispatcher._cache._cache_file  # noqa: SLF001
    read = file._load_index  # noqa: SLF001
    _STAMPS[function] = {(function.__code__.co_filename, *file._source_stamp)}  # noqa: SLF001
    _STAMPS[function] |= set(map(_file_stamp, _type_files(function)))

    def index() -> dict[Any, str]:
        file._source_stamp = tuple(sorted(_source_stamps(function, set())))  # noqa: SLF001
        try:
            return cast("dict[Any, str]", read())
        except Exception:  # noqa: BLE001 - pickles raise anything
            return {}

    file._load_index = index  # noqa: SLF001
    return dispatcher


_Stamp = tuple[str, float, int]
"""Path, time, and size of a source file."""

_STAMPS: dict[Any, set[_Stamp]] = {}
"""The stamps of the sources of each compiled function, without those of functions that it calls.
They are read at import, since a file may change before the first call."""


def _source_stamps(function: Any, seen: set[Any]) -> set[_Stamp]:
    """Return the stamps of the sources of a function and of all functions that it calls."""
    seen.add(function)
    stamps = set(_STAMPS[function])
    for name in function.__code__.co_names:
        callee = getattr(function.__globals__.get(name), "py_func", None)
        if callee in _STAMPS and callee not in seen:
            stamps |= _source_stamps(callee, seen)
    return stamps


def _type_files(function: Any) -> Iterator[str]:
    """Yield the files that define the types of a function's arguments and result."""
    for name in function.__annotations__.values():
        kind = function.__globals__.get(name)
        path = getattr(sys.modules.get(getattr(kind, "__module__", "")), "__file__", None)
        if isinstance(kind, type) and path is not None:
            yield path


def _file_stamp(path: str) -> _Stamp:
    status = os.stat(path)  # noqa: PTH116 - as Numba's own stamp
    return path, status.st_mtime, status.st_size


lowest = cast("Callable[[Any], Any]", trailing_zeros)
"""Return the index of the lowest set bit of a nonzero word, in compiled loops."""

number = cast("Callable[[int], int]", numba.int64)
"""Convert a literal to an ordinary number, in compiled loops. Otherwise Numba compiles a function
again for every literal argument."""


class Compilation(event.Listener):
    """Call a function at the first compilation, and measure all compilations.

    Attributes:
        seconds: Seconds of all compilations so far. A nested compilation counts once.
    """

    def __init__(self, on_compile: Callable[[], None]) -> None:
        self._on_compile: Callable[[], None] | None = on_compile
        self._depth, self._began = 0, 0.0
        self.seconds = 0.0

    def on_start(self, _event: object) -> None:
        """Call the function once, and start the clock."""
        if self._on_compile is not None:
            self._on_compile()
        self._on_compile = None
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
    """Call a function once if the block compiles code that is not cached on disk.

    Yields the listener, which measures the compilations.
    """
    compilation = Compilation(on_compile)
    with event.install_listener("numba:compile", compilation):
        yield compilation
