"""Solvers of instances: the face that everything else uses, and the judge behind each answer.

A backend is a module of this package with a function ``answer(instance, limits) -> Answer``; it is
imported only when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from sccl.backends.limits import Limits
from sccl.core.answer import Answer, Sat, Unknown
from sccl.core.instance import Instance
from sccl.encode import MAX_TRANSFERS, size
from sccl.errors import SolverError, unknown_name
from sccl.verify import require_valid

__all__ = ["DEFAULT", "Backend", "Limits", "check_name", "names", "solve"]

DEFAULT = "cpsat"
_MODULES = {
    "cadical": "sccl.backends.cadical",
    "cpsat": "sccl.backends.cpsat",
    "z3": "sccl.backends.z3_reference",
}


class Backend(Protocol):
    """What a module of this package offers."""

    def answer(self, instance: Instance, limits: Limits) -> Answer:
        """Return what the solver says of ``instance``; not yet judged."""
        ...


def names() -> tuple[str, ...]:
    """Return the names of the solvers."""
    return tuple(sorted(_MODULES))


def check_name(name: str) -> str:
    """Return ``name`` if it is a solver's.

    Raises:
        UnknownNameError: it is not.
    """
    if name not in _MODULES:
        raise unknown_name("solver", name, _MODULES, f"the solvers are {', '.join(names())}")
    return name


def solve(instance: Instance, solver: str = DEFAULT, limits: Limits | None = None) -> Answer:
    """Return what ``solver`` says of ``instance``; an algorithm has passed the judge.

    Raises:
        UnknownNameError: there is no such solver.
        SolverError: it is not installed, or it broke.
        JudgeError: it gave an algorithm that is not valid.
        KeyboardInterrupt: the user interrupted; the solver has been stopped.
    """
    try:
        backend = cast("Backend", importlib.import_module(_MODULES[check_name(solver)]))
    except ImportError as error:
        raise SolverError(
            f"solver {solver!r} cannot be loaded ({error}); reinstall sccl with its dependencies"
        ) from error
    if (variables := size(instance)) > MAX_TRANSFERS:
        reason = f"too large: {variables} variables, this version tries up to {MAX_TRANSFERS}"
        return Unknown(reason, solver, 0.0)
    found = backend.answer(instance, limits or Limits())
    if isinstance(found, Sat):
        require_valid(found.algorithm, f"solver {solver!r}")
    return found
