"""The default solver: lists and flows, then a model on OR-Tools CP-SAT.

Lists or one flow take a millisecond or two, for most rows of SCCL's tables a hundredth of CP-SAT's
time. Only if they find nothing, CP-SAT is loaded, which takes longer than most answers:
:mod:`sccl.synth.syncoll.cpsat_strategies`.
"""

from __future__ import annotations

from sccl.core.answer import Answer, Sat
from sccl.core.instance import Instance
from sccl.prove.bounds.single_flow import single_flow_ends
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.syncoll.greedy import schedule_greedily


def answer(instance: Instance, effort: Effort) -> Answer:
    """Return an algorithm found without a model, else CP-SAT's answer."""
    spending = EffortMeter(effort)
    if (quick := _solve_without_model(instance, spending)) is not None:
        return quick
    from sccl.synth.syncoll.cpsat_strategies import solve_model  # noqa: PLC0415 - loads CP-SAT

    return solve_model(instance, spending)


def _solve_without_model(instance: Instance, spending: EffortMeter) -> Sat | None:
    """Return an algorithm that takes no model. None: none is found."""
    if spending.deadline_passed():
        return None
    if (algorithm := schedule_greedily(instance, spending.effort.seed)) is not None:
        return Sat(algorithm, "lists", spending.elapsed_seconds())
    if single_flow_ends(instance.collective) is None:
        return None
    from sccl.synth.constructions import scatter_flow as flows  # noqa: PLC0415 - loads solvers

    by_flow = flows.answer(instance)
    return by_flow if isinstance(by_flow, Sat) else None
