"""Import CP-SAT's module without pandas, which it needs only for tables of variables.

SCCL builds no such tables, and the import of pandas takes as long as everything else that a command
loads. If another part of the program builds such a table, pandas is loaded then.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


class _LazyClass(type):
    """Metaclass of placeholders for pandas classes, which import pandas when they are called."""

    def __call__(cls, *arguments: object, **named: object) -> object:
        return getattr(importlib.import_module("pandas"), cls.__name__)(*arguments, **named)

    def __instancecheck__(cls, value: object) -> bool:
        """Return whether a value is of the pandas class. False before pandas is loaded."""
        module = sys.modules.get("pandas")
        return module is not None and isinstance(value, getattr(module, cls.__name__))


def import_without_pandas(name: str) -> None:
    """Import a module with a placeholder for pandas that has only the classes Index and Series.

    If the module needs more of pandas while it is loaded, it is not imported. Its next import uses
    pandas itself.
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
