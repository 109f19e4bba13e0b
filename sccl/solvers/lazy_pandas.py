"""Import CP-SAT's module without pandas, which it imports only for tables of variables.

SCCL makes no such tables, and the import of pandas takes as long as everything else that a command
loads. If a program that uses CP-SAT as well makes such a table, pandas is loaded then.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


class _LazyClass(type):
    """A class of pandas that is looked for when somebody asks for it."""

    def __call__(cls, *arguments: object, **named: object) -> object:
        return getattr(importlib.import_module("pandas"), cls.__name__)(*arguments, **named)

    def __instancecheck__(cls, value: object) -> bool:
        """Return whether a value is of that class, as none is before pandas is loaded."""
        module = sys.modules.get("pandas")
        return module is not None and isinstance(value, getattr(module, cls.__name__))


def import_without_pandas(name: str) -> None:
    """Import a module that names no more of pandas than two of its classes while it is loaded.

    One that names others gets pandas itself, when it is imported next.
    """
    if name in sys.modules or "pandas" in sys.modules:
        return
    stands_in = ModuleType("pandas")
    for class_name in ("Index", "Series"):
        setattr(stands_in, class_name, _LazyClass(class_name, (), {}))
    sys.modules["pandas"] = stands_in
    try:
        importlib.import_module(name)
    except AttributeError:
        sys.modules.pop(name, None)
    finally:
        del sys.modules["pandas"]
