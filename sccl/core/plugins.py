"""Find modules by name in a package of alternatives.

The module ``some_name`` has the name ``some-name``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Iterable
from typing import Any

from sccl.errors import unknown_name


def plugin_names(path: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the modules of a package without loading them.

    Args:
        path: The package's ``__path__``. Subpackages, which hold shared code, are left out.
    """
    files = [module.name for module in pkgutil.iter_modules(path) if not module.ispkg]
    return tuple(sorted(name.replace("_", "-") for name in files))


def load_plugin(package: str, name: str, kind: str, names: Collection[str], hint: str) -> Any:
    """Return the module of a package with a name.

    Args:
        kind: Kind of module, in the user's terms.
        names: Existing names.
        hint: Description of the names, as a clause.

    Raises:
        UnknownNameError: No module has this name.
    """
    if name not in names:
        raise unknown_name(kind, name, names, hint)
    return importlib.import_module(f"{package}.{name.replace('-', '_')}")
