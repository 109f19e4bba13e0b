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
    file = dispatcher._cache._cache_file  # noqa: SLF001 - there is no other way to it
    read, own_stamp = file._load_index, file._source_stamp  # noqa: SLF001

    def index() -> dict[Any, str]:
        stamps = sorted(map(_file_stamp, _source_files(dispatcher.py_func, set())))
        file._source_stamp = (own_stamp, *stamps)  # noqa: SLF001
        try:
            return cast("dict[Any, str]", read())
        except Exception:  # noqa: BLE001 - pickles raise anything
            return {}

    file._load_index = index  # noqa: SLF001
    return dispatcher


def _source_files(function: Any, seen: set[Any]) -> set[str]:
    """Return the files of the compiled functions that one calls, and of its types of arguments."""
    seen.add(function)
    names = (*function.__code__.co_names, *map(str, function.__annotations__.values()))
    values = [function.__globals__.get(name) for name in names]
    files = {
        path
        for value in values
        if isinstance(value, type) and (path := _module_file(value.__module__)) is not None
    }
    for callee in (getattr(value, "py_func", None) for value in values):
        if callee is not None and callee not in seen:
            files |= {callee.__code__.co_filename} | _source_files(callee, seen)
    return files


def _module_file(name: str) -> str | None:
    return getattr(sys.modules.get(name), "__file__", None)


def _file_stamp(path: str) -> tuple[str, int, int]:
    """Return the path, time, and size of a file, as in Numba's stamp of a function."""
    status = os.stat(path)  # noqa: PTH116 - Numba's own stamp is made alike
    return path, status.st_mtime_ns, status.st_size


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
