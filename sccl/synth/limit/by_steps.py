"""An algorithm of a number of steps at the limit of R/C, or near it."""

from __future__ import annotations

from sccl.collectives import dual_of, is_allreduce
from sccl.core.outcome import Bound, Found, GaveUp, Impossible, Measure, Outcome, TooFar
from sccl.errors import ParameterError
from sccl.prove.bounds import lower_bounds
from sccl.solvers.effort import Effort
from sccl.synth.contract import Notify, Request
from sccl.synth.limit.attain import attain, near
from sccl.synth.limit.options import LIMIT_UNITS, Options
from sccl.synth.limit.steps import step_limit
from sccl.synth.limit.trees import MAX_RANKS, tree_bounds

_MOST_CHUNKS = 512  # of trees, multiplied out; else near them


def at_limit(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return an algorithm of S steps that no other of as many has a smaller R/C than, or nearly.

    It is made of a packing alone, without a search for few chunks.

    Raises:
        InputError: the options do not fit the request.
        KeyboardInterrupt: the user interrupted.
    """
    topology, spec = request.topology, request.spec
    if options.trees:
        return _by_trees(request, options, effort, notify)
    bounds = lower_bounds(topology, spec)
    notify(bounds)
    steps = options.steps or bounds.steps
    if steps < bounds.steps:
        assert bounds.distance is not None
        return Impossible(TooFar(steps, bounds.distance))
    units = LIMIT_UNITS if effort.units is None else effort.units
    packed = step_limit(topology, spec, steps, bounds, effort.seconds, effort=units)
    limit = packed.limit
    notify(limit)
    if packed.timed_out:
        return GaveUp("timeout")
    algorithm = attain(packed, dual_of(spec), None)
    if algorithm is None:
        return GaveUp("the packing takes too many chunks to be written down")
    cost = algorithm.bandwidth_cost
    found = Found(algorithm, Bound(Measure.COST, cost, limit.lower, bounds.scope, limit.proofs))
    return found if limit.known else GaveUp("effort ended before the limit was known", found)


def _by_trees(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return an allreduce by trees of S steps at the infimum of its class, or near it.

    Raises:
        ParameterError: it is no allreduce, or of too many ranks.
        KeyboardInterrupt: the user interrupted.
    """
    from sccl.synth.limit.multiply import multiply_out  # noqa: PLC0415
    from sccl.synth.limit.problem import pose_allreduce  # noqa: PLC0415 - loads the LP solver
    from sccl.synth.limit.solve import solve_packing  # noqa: PLC0415

    topology, spec = request.topology, request.spec
    if not is_allreduce(spec) or topology.ranks > MAX_RANKS:
        raise ParameterError(
            f"trees are given, but {spec.name} on {topology.ranks} ranks is no allreduce on up to "
            f"{MAX_RANKS}: leave them out"
        )
    bounds = tree_bounds(topology, spec)
    notify(bounds)
    steps = options.steps or bounds.steps
    if steps < bounds.steps:
        return GaveUp(f"trees up and down take {bounds.steps} steps")
    units = LIMIT_UNITS if effort.units is None else effort.units
    problem = pose_allreduce(topology, spec.at(spec.unit), steps)
    packing = solve_packing(problem, bounds.bandwidth, effort.seconds, effort=units)
    algorithm = None if packing.timed_out else multiply_out(packing, _MOST_CHUNKS) or near(packing)
    if algorithm is None:
        late = "the packing takes too many chunks to be written down"
        return GaveUp("timeout" if packing.timed_out else late)
    cost = Bound(Measure.COST, algorithm.bandwidth_cost, packing.lower, bounds.scope)
    found = Found(algorithm, cost)
    return found if packing.exact else GaveUp("effort ended before the limit was known", found)
