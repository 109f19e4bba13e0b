"""Plan the motifs of training steps with a synthesizer of schedules."""

from __future__ import annotations

from functools import lru_cache, partial
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


_MAX_CACHED = 256
"""Schedules that are cached. A transformer with ZeRO 3 on 8 GPUs has 36."""


def build_motif_planner(synthesizer: str = "tacos", seed: int = 0) -> MotifPlanner:
    """Return a planner of motifs on small machines, for options of training steps.

    Raises:
        UnknownNameError: There is no such synthesizer.
    """
    from sccl.training.options.motif_costs import MotifPlanner  # noqa: PLC0415 - loads NumPy and Numba

    registry.load(synthesizer)
    return MotifPlanner(synthesizer, partial(_plan_motif, synthesizer, seed))


@lru_cache(maxsize=_MAX_CACHED)  # planning and verification derive the options several times
def _plan_motif(synthesizer: str, seed: int, topology: Topology, spec: Spec, size: int) -> Schedule:
    """Return the schedule of a motif.

    Raises:
        ParameterError: The synthesizer finds none.
        KeyboardInterrupt: The user interrupted.
    """
    by = registry.load(synthesizer)
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
