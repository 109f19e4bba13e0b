"""An algorithm of a given number of steps at the limit of R/C, or near it."""

from __future__ import annotations

from sccl.collectives import dual_of, is_allreduce
from sccl.core.bound import Bound, Measure
from sccl.core.outcome import DistanceRefutation, Inconclusive, Infeasible, Outcome, Solution
from sccl.core.stop import StopKind, StopReason
from sccl.errors import ParameterError
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Notify, Request
from sccl.synth.limits import LIMIT_EFFORT, MAX_CUT_RANKS, MAX_MULTIPLIED_CHUNKS
from sccl.synth.packing.by_steps.allreduce_trees import tree_bounds
from sccl.synth.packing.by_steps.limits_by_steps import step_limit
from sccl.synth.packing.by_steps.options import Options
from sccl.synth.packing.by_steps.rounding import round_approximately, round_to_algorithm

_TOO_MANY_CHUNKS = StopReason(
    StopKind.TOO_LARGE, "the packing takes too many chunks to be written down"
)
_LIMIT_UNKNOWN = StopReason(StopKind.BUDGET, "effort ended before the limit was known")


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return an algorithm of S steps with the smallest R/C for this S, or nearly.

    It is made from a packing alone, without a search for few chunks.

    Raises:
        InputError: The options do not fit the request.
        KeyboardInterrupt: The user interrupted.
    """
    topology, spec = request.topology, request.spec
    if options.trees:
        return _plan_by_trees(request, options, effort, notify)
    bounds = lower_bounds(topology, spec)
    notify(bounds)
    steps = options.steps or bounds.steps
    if steps < bounds.steps:
        assert bounds.distance is not None
        return Infeasible(DistanceRefutation(steps, bounds.distance))
    units = LIMIT_EFFORT if effort.units is None else effort.units
    packed = step_limit(topology, spec, steps, bounds, effort.seconds, effort=units)
    limit = packed.limit
    notify(limit)
    if packed.is_timed_out:
        return Inconclusive(StopReason(StopKind.TIMEOUT))
    made = round_to_algorithm(packed, dual_of(spec), None)
    if made is None:
        return Inconclusive(_TOO_MANY_CHUNKS)
    algorithm, _ = made
    cost = algorithm.bandwidth_cost
    result = Solution(algorithm, cost, Bound(Measure.COST, limit.lower, limit.proofs, bounds.scope))
    return result if limit.is_exact else Inconclusive(_LIMIT_UNKNOWN, result)


def _plan_by_trees(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return an allreduce by trees of S steps at the infimum of its class, or near it.

    Raises:
        ParameterError: The collective is not an allreduce, or has too many ranks.
        KeyboardInterrupt: The user interrupted.
    """
    from sccl.synth.packing.by_steps.round_steps import multiply_out  # noqa: PLC0415
    from sccl.synth.packing.by_steps.solve import solve_packing  # noqa: PLC0415
    from sccl.synth.packing.problem import build_allreduce_problem  # noqa: PLC0415 - loads the LP solver

    topology, spec = request.topology, request.spec
    if not is_allreduce(spec) or topology.ranks > MAX_CUT_RANKS:
        raise ParameterError(
            f"trees are given, but {spec.name} on {topology.ranks} ranks is no allreduce on up to "
            f"{MAX_CUT_RANKS}: leave them out"
        )
    bounds = tree_bounds(topology, spec)
    notify(bounds)
    steps = options.steps or bounds.steps
    if steps < bounds.steps:
        text = f"trees up and down take {bounds.steps} steps"
        return Inconclusive(StopReason(StopKind.OTHER, text))
    units = LIMIT_EFFORT if effort.units is None else effort.units
    problem = build_allreduce_problem(topology, spec.at(spec.unit), steps)
    packing = solve_packing(problem, bounds.bandwidth, effort.seconds, effort=units)
    algorithm = (
        None
        if packing.is_timed_out
        else multiply_out(packing, MAX_MULTIPLIED_CHUNKS) or round_approximately(packing)
    )
    if algorithm is None:
        is_late = packing.is_timed_out
        return Inconclusive(StopReason(StopKind.TIMEOUT) if is_late else _TOO_MANY_CHUNKS)
    result = Solution(
        algorithm, algorithm.bandwidth_cost, Bound(Measure.COST, packing.lower, (), bounds.scope)
    )
    return result if packing.is_exact else Inconclusive(_LIMIT_UNKNOWN, result)
