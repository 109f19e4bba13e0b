"""Import CP-SAT's module without pandas, which it imports only for tables of variables.

SCCL makes no such tables, and the import of pandas takes as long as everything else that a command
loads. If a program that uses CP-SAT as well makes such a table, pandas is loaded then.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


class _Late(type):
    """A class of pandas that is looked for when somebody asks for it."""

    def __call__(cls, *told: object, **named: object) -> object:
        """Return an object of that class."""
        return getattr(importlib.import_module("pandas"), cls.__name__)(*told, **named)

    def __instancecheck__(cls, value: object) -> bool:
        """Return whether a value is of that class, as none is before pandas is loaded."""
        there = sys.modules.get("pandas")
        return there is not None and isinstance(value, getattr(there, cls.__name__))


def import_without_pandas(name: str) -> None:
    """Import a module that names no more of pandas than two of its classes while it is loaded.

    One that names others gets pandas itself, when it is imported next.
    """
    if name in sys.modules or "pandas" in sys.modules:
        return
    stands_in = ModuleType("pandas")
    for own in ("Index", "Series"):
        setattr(stands_in, own, _Late(own, (), {}))
    sys.modules["pandas"] = stands_in
    try:
        importlib.import_module(name)
    except AttributeError:
        sys.modules.pop(name, None)
    finally:
        del sys.modules["pandas"]
