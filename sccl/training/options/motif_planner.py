"""Plan the motifs of training steps with a synthesizer of schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sccl.collectives import Spec
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.core.stop import StopKind
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request

if TYPE_CHECKING:
    from sccl.training.options.motif_costs import MotifPlanner


def build_motif_planner(synthesizer: str = "tacos", seed: int = 0) -> MotifPlanner:
    """Return a planner of motifs on small machines, for options of training steps.

    Raises:
        UnknownNameError: There is no such synthesizer.
    """
    from sccl.training.options.motif_costs import MotifPlanner  # noqa: PLC0415 - loads NumPy and Numba

    by = registry.load(synthesizer)

    def plan(topology: Topology, spec: Spec, size: int) -> Schedule:
        request = Request(topology, spec, size)
        outcome = by.plan(request, by.Options(), Effort(seed=seed), lambda _: None)
        if isinstance(outcome, Solution) and isinstance(outcome.plan, Schedule):
            return outcome.plan
        if isinstance(outcome, Inconclusive) and outcome.reason.kind is StopKind.INTERRUPTED:
            raise KeyboardInterrupt  # the partial result would depend on the time of the interrupt
        raise ParameterError(
            f"{synthesizer} finds no schedule for {spec.name} on {topology.name}: give another "
            "synthesizer"
        )

    return MotifPlanner(synthesizer, plan)
