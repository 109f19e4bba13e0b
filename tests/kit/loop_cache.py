"""Loops that Numba compiles: compiled once for all workers, where a fresh clone has none yet."""

from __future__ import annotations

from typing import Any, cast

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from tests.kit import once

_usual = Dispatcher.compile
_under_way: set[str] = set()


def share_compiled_loops() -> None:
    """Let workers wait for one that compiles the same loop, and load its cached code.

    Separately, each would take half a minute of a core for all loops.
    """
    cast("Any", Dispatcher).compile = _compile


def _compile(self: Any, signature: Any) -> Any:
    """Compile a loop, or load it, while no other worker does.

    Threads wait for Numba's own lock first, so that none holds a loop that another one needs.
    """
    name = f"loop {self.py_func.__module__}.{self.py_func.__qualname__}"
    with global_compiler_lock:
        if name in _under_way:  # it calls itself
            return _usual(self, signature)
        _under_way.add(name)
        try:
            with once.alone(name):
                return _usual(self, signature)
        finally:
            _under_way.remove(name)
