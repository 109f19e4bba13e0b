"""An algorithm of a number of steps at the limit of R/C, or near it."""

from __future__ import annotations

from sccl.collectives import dual_of
from sccl.core.outcome import Bound, Found, GaveUp, Impossible, Measure, Outcome, TooFar
from sccl.prove.bounds import lower_bounds
from sccl.solvers.effort import Effort
from sccl.synth.contract import Notify, Request
from sccl.synth.limit.attain import attain
from sccl.synth.limit.options import LIMIT_UNITS, Options
from sccl.synth.limit.steps import step_limit


def at_limit(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return an algorithm of S steps that no other of as many has a smaller R/C than, or nearly.

    It is made of a packing alone, without a search for few chunks.

    Raises:
        InputError: the options do not fit the request.
        KeyboardInterrupt: the user interrupted.
    """
    topology, spec = request.topology, request.spec
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
