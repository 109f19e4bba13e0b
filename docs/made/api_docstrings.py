"""Docstrings for mkdocstrings, which reads sources: completed, and without roles of Sphinx."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe

_COMPLETED_AT_IMPORT = "sccl.api.synthesis"
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


class ApiDocstrings(griffe.Extension):
    """Replace docstrings by those of imported functions, and roles by code."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Set the docstring of a module, class, function, or attribute."""
        if obj.docstring is None:
            return
        if obj.is_function and obj.path == f"{_COMPLETED_AT_IMPORT}.{obj.name}":
            imported = getattr(importlib.import_module(_COMPLETED_AT_IMPORT), obj.name)
            obj.docstring.value = inspect.getdoc(imported) or ""
        obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)
