"""Solvers of instances: the face that everything else uses, and the judge behind each answer.

A backend is a module of this package with a function ``answer(instance, effort) -> Answer``. It is
imported only when it is asked for.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Protocol, cast

from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.collective import Collective
from sccl.core.instance import Instance
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.core.topology import Topology
from sccl.errors import SolverError, unknown_name
from sccl.judge import require_valid
from sccl.prove.bounds import bandwidth_bound, farthest_pair
from sccl.solvers.effort import MAX_TIMEOUT_S, UNIT_S, Effort, Spending
from sccl.synth import direct
from sccl.synth.ksync.transfer_model import MAX_TRANSFERS, size
from sccl.topo.symmetry.expand import MAX_EXPANDED, expand
from sccl.topo.symmetry.group import Group
from sccl.transform import prune

__all__ = [
    "DEFAULT",
    "MAX_TIMEOUT_S",
    "UNIT_S",
    "Backend",
    "Effort",
    "check_name",
    "load",
    "names",
    "solve",
]

DEFAULT = "cpsat"
_DIRECT_RANKS = 12  # below, solvers need no help, and what they say is worth knowing
_SYMMETRIC_SHARE = 1 / 12  # units by second of a query: a sixth of its time
_SYMMETRIC_EFFORT = 20.0  # units, if there is no timeout

_MODULES = {
    "cadical": "sccl.synth.ksync.cadical",
    "cpsat": "sccl.synth.ksync.cpsat",
    "portfolio": "sccl.synth.ksync.portfolio",
    "z3": "sccl.synth.ksync.z3_reference",
}


class Backend(Protocol):
    """The interface of a module of this package."""

    def answer(self, instance: Instance, effort: Effort) -> Answer:
        """Return the solver's verdict on ``instance``, not verified yet."""
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


def load(solver: str) -> Backend:
    """Return the module of a solver.

    Raises:
        UnknownNameError: there is no such solver.
        SolverError: it is not installed.
    """
    try:
        return cast("Backend", importlib.import_module(_MODULES[check_name(solver)]))
    except ImportError as error:
        raise _unloadable(solver, error) from error


def _unloadable(solver: str, error: ImportError) -> SolverError:
    """Return the error for a solver whose library is missing."""
    return SolverError(
        f"solver {solver!r} cannot be loaded ({error}); reinstall sccl with its dependencies"
    )


def solve(
    instance: Instance,
    solver: str = DEFAULT,
    effort: Effort | None = None,
    groups: Sequence[Group] = (),
) -> Answer:
    """Return the verdict of ``solver`` on ``instance``. An algorithm has passed verification.

    Args:
        groups: groups of symmetries. An algorithm invariant under one of them is sought first,
            without a search if there is a construction. If none is found, the solver runs.

    Raises:
        UnknownNameError: there is no such solver.
        SolverError: it is not installed, or it failed.
        JudgeError: it gave an algorithm that is not valid.
        KeyboardInterrupt: the user interrupted. The solver has been stopped.
    """
    effort = effort or Effort()
    backend = load(solver)
    spending = Spending(effort)
    why = ""
    found = _without_search(instance, groups)
    if not isinstance(found, Sat | Unsat) and (found is not None or _too_large(instance)):
        found = refute_by_bounds(instance) or found
    if found is not None:
        return _judged(found, "an answer without search")
    if groups:
        from sccl.synth.ksync import orbits  # noqa: PLC0415 - loads CP-SAT

        symmetric = orbits.answer(instance, groups, _for_symmetry(instance, effort))
        if isinstance(symmetric, Sat):
            return _judged(symmetric, "symmetric synthesis")
        why = f"{symmetric.reason}; without symmetry "
        left = spending.left()
        if left is None:
            return replace(symmetric, reason=effort.why_late, best=_best_known(instance))
        effort = left
    if reason := _too_large(instance):
        return Unknown(why + reason, solver, spending.seconds(), best=_best_known(instance))
    try:
        found = backend.answer(instance, effort)
    except ImportError as error:  # some load what they need when it comes to that
        raise _unloadable(solver, error) from error
    return _judged(found, f"solver {solver!r}")


def _without_search(instance: Instance, groups: Sequence[Group]) -> Answer | None:
    """Return an answer that needs no search. None: none is known."""
    many = instance.topology.ranks >= _DIRECT_RANKS
    if (groups or many) and (found := direct.answer(instance, groups)) is not None:
        return found
    if not many:
        return None
    from sccl.synth.direct import one_flow, pipelined, trees  # noqa: PLC0415 - loads CP-SAT

    by_flow = one_flow.answer(instance)
    return by_flow or pipelined.answer(instance) or trees.answer(instance)


def refute_by_bounds(instance: Instance) -> Unsat | None:
    """Return that bounds of steps or of the bandwidth leave no algorithm. None: they leave some."""
    begin = time.perf_counter()
    topology, collective = instance.topology, instance.collective
    why = ""
    far = farthest_pair(topology, collective)
    if instance.steps < far.steps:
        why = f"chunk {far.chunk} starts {far.steps} links away from rank {far.rank}"
    elif instance.rounds < (least := _least_rounds(topology, collective)):
        why = f"R is at least {least} with so many chunks (bandwidth bound)"
    return Unsat(why, "bounds", time.perf_counter() - begin) if why else None


@lru_cache(maxsize=16)
def _least_rounds(topology: Topology, collective: Collective) -> Fraction:
    """Return the bandwidth bound on R; sweeps ask for it again and again."""
    return bandwidth_bound(topology, collective).value


def _best_known(instance: Instance) -> Fraction | None:
    """Return R/C of a construction. None: there is none, or a solver may do better."""
    if not _too_large(instance):
        return None
    found = direct.attained(instance.topology, instance.collective)
    return found.bandwidth if found and found.steps <= instance.steps else None


def solve_symmetric(instance: Instance, groups: Sequence[Group], effort: Effort) -> Answer:
    """Return an algorithm that is invariant under one of some groups, or Unknown. Nothing else.

    Args:
        groups: as for :func:`solve`.

    Raises:
        JudgeError: it is not valid.
        KeyboardInterrupt: the user interrupted. The solver has been stopped.
    """
    if (found := direct.answer(instance, groups)) is not None:
        return _judged(found, "an answer without search")
    from sccl.synth.ksync import orbits  # noqa: PLC0415 - loads CP-SAT

    return _judged(orbits.answer(instance, groups, effort), "symmetric synthesis")


def _for_symmetry(instance: Instance, effort: Effort) -> Effort:
    """Return the effort for symmetric algorithms before a solver runs without symmetry.

    That solver finds other algorithms, so a limit in seconds would make the result depend on the
    load of the machine.
    """
    if effort.units is not None or _too_large(instance):
        return effort
    seconds = effort.timeout_s
    units = _SYMMETRIC_EFFORT if seconds is None else _SYMMETRIC_SHARE * seconds
    return replace(effort, units=min(units, _SYMMETRIC_EFFORT))


def _too_large(instance: Instance) -> str:
    """Return why the model of an instance is not built; empty if it is."""
    variables = instance.collective.num_chunks * len(instance.topology.links)
    if variables <= MAX_TRANSFERS:  # a link is useful for a chunk in about one step, or in more
        variables = size(instance)
    if variables <= MAX_TRANSFERS:
        return ""
    return f"too large: {variables} variables, this version tries up to {MAX_TRANSFERS}"


def _judged(found: Answer, made_by: str) -> Answer:
    """Return an answer if the judge accepts its algorithm. A small symmetric one written out."""
    if not isinstance(found, Sat):
        return found
    algorithm = require_valid(found.algorithm, made_by)
    if isinstance(algorithm, SymmetricAlgorithm) and algorithm.num_sends <= MAX_EXPANDED:
        return replace(found, algorithm=require_valid(prune(expand(algorithm)), made_by))
    return found
