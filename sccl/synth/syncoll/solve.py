"""Answer an instance by refutation, construction, the greedy, or a solver, and verify the answer.

A backend is a module of this package with a function ``answer(instance, effort) -> Answer``. It is
imported only when it is used.
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
from sccl.core.collective import Collective, single_flow_ends
from sccl.core.instance import Instance
from sccl.core.stop import NOT_STOPPED, StopKind, StopReason
from sccl.core.symmetric import Group, SymmetricAlgorithm
from sccl.core.topology import Topology
from sccl.errors import ParameterError, SolverError, unknown_name
from sccl.judge import require_valid
from sccl.prove.bounds.lower_bounds import bandwidth_bound, farthest_pair
from sccl.solvers.effort import MAX_TIMEOUT_S, UNIT_S, Effort, EffortMeter
from sccl.synth import constructions
from sccl.synth.limits import LIMIT_EFFORT, MAX_VARIABLES
from sccl.synth.syncoll.encoding_time_indexed import count_variables
from sccl.synth.syncoll.greedy import schedule_greedily
from sccl.topo.symmetry.expansion import MAX_EXPANDED_SENDS, expand_algorithm
from sccl.transform import prune

__all__ = [
    "DEFAULT_SOLVER",
    "MAX_TIMEOUT_S",
    "UNIT_S",
    "Backend",
    "Effort",
    "check_name",
    "load",
    "names",
    "solve",
]

DEFAULT_SOLVER = "cpsat"
_ASKED_ALONE = ("z3",)
_AFTER_GREEDY = ("cpsat",)

MIN_SYMMETRIC_RANKS = 12
"""Ranks from which constructions and symmetric searches save time. Below, a solver answers in a
second, and its refutation counts."""

_SYMMETRIC_SHARE = 1 / 12
"""Units per second of a query: a sixth of its time."""

_MODULES = {
    "cadical": "sccl.synth.syncoll.solve_cadical",
    "cpsat": "sccl.synth.syncoll.solve_cpsat",
    "z3": "sccl.synth.syncoll.solve_z3",
}


class Backend(Protocol):
    """The interface of a backend."""

    def answer(self, instance: Instance, effort: Effort) -> Answer:
        """Return the solver's verdict on ``instance``, not verified yet."""
        ...


def names() -> tuple[str, ...]:
    """Return the names of the solvers."""
    return tuple(sorted(_MODULES))


def check_name(name: str) -> str:
    """Return ``name`` if it is the name of a solver.

    Raises:
        UnknownNameError: It is not.
    """
    if name not in _MODULES:
        raise unknown_name("solver", name, _MODULES, f"the solvers are {', '.join(names())}")
    return name


def is_asked_alone(solver: str) -> bool:
    """Return whether a solver answers without bounds, constructions, and the greedy."""
    return solver in _ASKED_ALONE


def check_symmetry(solver: str, symmetry: str) -> None:
    """Check that a solver may be combined with a symmetry.

    Raises:
        ParameterError: The solver is asked alone, and the symmetry is for CP-SAT.
    """
    if is_asked_alone(solver) and symmetry not in {"auto", "none"}:
        raise ParameterError(
            f"symmetry is {symmetry!r}, but {solver} is asked alone, and CP-SAT searches symmetric "
            "algorithms: leave one of them out"
        )


def load(solver: str) -> Backend:
    """Return the module of a solver.

    Raises:
        UnknownNameError: The solver does not exist.
        SolverError: It is not installed.
    """
    try:
        return cast("Backend", importlib.import_module(_MODULES[check_name(solver)]))
    except ImportError as error:
        raise _load_error(solver, error) from error


def _load_error(solver: str, error: ImportError) -> SolverError:
    """Return the error for a solver whose library is missing."""
    return SolverError(
        f"solver {solver!r} cannot be loaded ({error}); reinstall sccl with its dependencies"
    )


def solve(
    instance: Instance,
    solver: str = DEFAULT_SOLVER,
    effort: Effort | None = None,
    groups: Sequence[Group] = (),
) -> Answer:
    """Return the verdict on ``instance``. An algorithm has passed verification.

    The methods are tried in this order: refutation by distance, constructions (on large machines),
    symmetric algorithms, the greedy, the solver. The bandwidth bound, which loads an LP solver, is
    only computed before a search for symmetric algorithms, and if no solver runs, because sweeps
    begin with it. The first answer counts, and its ``solver`` names the method. Z3 runs alone,
    because it is the reference for all others.

    Args:
        instance: The instance.
        solver: Name of the solver.
        effort: The budget. None: no limit.
        groups: Groups of symmetries. Algorithms that are invariant under one of them are tried
            first, by a construction or a search. If there is none, the solver runs.

    Raises:
        UnknownNameError: The solver does not exist.
        SolverError: It is not installed, or it failed.
        JudgeError: Its algorithm is not valid.
        KeyboardInterrupt: The user interrupted. The solver has been stopped.
    """
    spending = EffortMeter(effort or Effort())
    check_name(solver)
    if is_asked_alone(solver):
        return _ask(instance, solver, spending.effort)
    quick = _refute_by_distance(instance) or _construct(instance, groups)
    if isinstance(quick, Unknown) or (quick is None and groups):
        quick = refute_by_bounds(instance) or quick
    if quick is not None:
        return _verify_answer(quick, "a construction")
    symmetric: Unknown | None = None
    if groups:
        from sccl.synth.syncoll import symmetric_search  # noqa: PLC0415 - loads CP-SAT

        limited = _symmetric_effort(instance, spending.effort)
        answer = symmetric_search.answer(instance, groups, limited)
        if isinstance(answer, Sat):
            return _verify_answer(answer, "symmetric synthesis")
        symmetric = answer
    # Only a search has spent a relevant time: a solver gets all of a very short timeout.
    left = spending.remaining() if groups else spending.effort
    reason = _size_refusal(instance)
    if reason and symmetric:
        reason = StopReason(reason.kind, f"{symmetric.reason}; without symmetry {reason}")
    if reason or left is None:
        return _answer_by_bounds(
            instance, solver, reason or spending.effort.timeout_reason, spending
        )
    quick = _solve_without_model(instance, left) if solver in _AFTER_GREEDY else None
    if quick is not None:
        return _verify_answer(quick, "the greedy")
    return _ask(instance, solver, left)


def _answer_by_bounds(
    instance: Instance, solver: str, reason: StopReason, spending: EffortMeter
) -> Answer:
    """Return the answer of bounds for an instance without a solver run."""
    if (refuted := refute_by_bounds(instance)) is not None:
        return refuted
    best = _construction_cost(instance)
    return Unknown(reason, solver, spending.elapsed_seconds(), best=best)


def _ask(instance: Instance, solver: str, effort: Effort) -> Answer:
    backend = load(solver)
    try:
        answer = backend.answer(instance, effort)
    except ImportError as error:  # some backends import their library only when they run
        raise _load_error(solver, error) from error
    return _verify_answer(answer, f"solver {solver!r}")


def _construct(instance: Instance, groups: Sequence[Group]) -> Answer | None:
    """Return an answer without search. None: no construction decides the instance."""
    many = instance.topology.ranks >= MIN_SYMMETRIC_RANKS
    if (groups or many) and (answer := constructions.answer(instance, groups)) is not None:
        return answer
    if not many:
        return None
    from sccl.synth.constructions import pipelined_trees, rip_up_trees, scatter_flow  # noqa: PLC0415 - loads CP-SAT

    by_flow = scatter_flow.answer(instance)
    return by_flow or pipelined_trees.answer(instance) or rip_up_trees.answer(instance)


def _solve_without_model(instance: Instance, effort: Effort) -> Sat | None:
    """Return the algorithm of the greedy, or of a single flow. None: neither finds one.

    They take one or two milliseconds, a hundredth of CP-SAT's time for most rows of SCCL's tables.
    """
    spending = EffortMeter(effort)
    if spending.deadline_passed():
        return None
    if (algorithm := schedule_greedily(instance, spending.effort.seed)) is not None:
        return Sat(algorithm, "greedy", spending.elapsed_seconds())
    if single_flow_ends(instance.collective) is None:
        return None
    from sccl.synth.constructions import scatter_flow  # noqa: PLC0415 - loads solvers

    by_flow = scatter_flow.answer(instance)
    return by_flow if isinstance(by_flow, Sat) else None


def refute_by_bounds(instance: Instance) -> Unsat | None:
    """Refute an instance by bounds on steps or bandwidth. None: the bounds do not refute it."""
    if (refuted := _refute_by_distance(instance)) is not None:
        return refuted
    begin = time.perf_counter()
    if instance.rounds < (min_rounds := _min_rounds(instance.topology, instance.collective)):
        why = f"R is at least {min_rounds} for this number of chunks (bandwidth bound)"
        return Unsat(why, "cut", time.perf_counter() - begin)
    return None


def _refute_by_distance(instance: Instance) -> Unsat | None:
    """Refute an instance by the distance of a chunk. None: the distances do not refute it."""
    begin = time.perf_counter()
    far = farthest_pair(instance.topology, instance.collective)
    if instance.steps >= far.steps:
        return None
    why = f"chunk {far.chunk} starts {far.steps} links away from rank {far.rank}"
    return Unsat(why, "distance", time.perf_counter() - begin)


@lru_cache(maxsize=16)
def _min_rounds(topology: Topology, collective: Collective) -> Fraction:
    """Return the bandwidth bound on R, cached for sweeps."""
    return bandwidth_bound(topology, collective).value


def _construction_cost(instance: Instance) -> Fraction | None:
    """Return R/C of a construction. None: no construction, or a solver may do better."""
    if not _size_refusal(instance):
        return None
    attained = constructions.cost_without_search(instance.topology, instance.collective)
    return attained.bandwidth if attained and attained.steps <= instance.steps else None


def solve_symmetric(instance: Instance, groups: Sequence[Group], effort: Effort) -> Answer:
    """Return an algorithm that is invariant under one of the groups, or Unknown.

    Args:
        instance: The instance.
        groups: See :func:`solve`.
        effort: The budget.

    Raises:
        JudgeError: The algorithm is not valid.
        KeyboardInterrupt: The user interrupted. The solver has been stopped.
    """
    if (answer := constructions.answer(instance, groups)) is not None:
        return _verify_answer(answer, "an answer without search")
    from sccl.synth.syncoll import symmetric_search  # noqa: PLC0415 - loads CP-SAT

    return _verify_answer(symmetric_search.answer(instance, groups, effort), "symmetric synthesis")


def _symmetric_effort(instance: Instance, effort: Effort) -> Effort:
    """Return the effort for symmetric algorithms before a solver runs without symmetry.

    That solver finds other algorithms, so a limit in seconds would make the result depend on the
    load of the machine.
    """
    if effort.units is not None or _size_refusal(instance):
        return effort
    seconds = effort.timeout_s
    units = LIMIT_EFFORT if seconds is None else _SYMMETRIC_SHARE * seconds
    return replace(effort, units=min(units, LIMIT_EFFORT))


def _size_refusal(instance: Instance) -> StopReason:
    """Return why the model of an instance is too large. Empty: it is not."""
    variables = instance.collective.num_chunks * len(instance.topology.links)
    if variables <= MAX_VARIABLES:  # a link is useful for a chunk in one step or more
        variables = count_variables(instance)
    if variables <= MAX_VARIABLES:
        return NOT_STOPPED
    return StopReason(
        StopKind.TOO_LARGE,
        f"too large: {variables} variables, this version tries up to {MAX_VARIABLES}",
    )


def _verify_answer(answer: Answer, made_by: str) -> Answer:
    """Verify the algorithm of an answer. A small symmetric algorithm is expanded."""
    if not isinstance(answer, Sat):
        return answer
    algorithm = require_valid(answer.algorithm, made_by)
    if isinstance(algorithm, SymmetricAlgorithm) and algorithm.num_sends <= MAX_EXPANDED_SENDS:
        return replace(answer, algorithm=require_valid(prune(expand_algorithm(algorithm)), made_by))
    return answer
