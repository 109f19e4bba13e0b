"""The default solver: lists and flows, then a model on OR-Tools CP-SAT.

Lists or one flow take a millisecond or two, for most rows of SCCL's tables a hundredth of CP-SAT's
time. Only if they find nothing, CP-SAT is loaded, which takes longer than most answers:
:mod:`sccl.synth.ksync.time_indexed`.
"""

from __future__ import annotations

from sccl.core.answer import Answer, Sat
from sccl.core.instance import Instance
from sccl.prove.bounds.ends import one_flow
from sccl.solvers.effort import Effort, Spending
from sccl.synth.ksync.listed import listed


def answer(instance: Instance, effort: Effort) -> Answer:
    """Return an algorithm found without a model, else CP-SAT's answer."""
    spending = Spending(effort)
    if (quick := _without_model(instance, spending)) is not None:
        return quick
    from sccl.synth.ksync.time_indexed import modelled  # noqa: PLC0415 - loads CP-SAT

    return modelled(instance, spending)


def _without_model(instance: Instance, spending: Spending) -> Sat | None:
    """Return an algorithm that takes no model. None: none is found."""
    if spending.late():
        return None
    if (found := listed(instance, spending.effort.seed)) is not None:
        return Sat(found, "lists", spending.seconds())
    if one_flow(instance.collective) is None:
        return None
    from sccl.synth.direct import one_flow as flows  # noqa: PLC0415 - loads solvers

    by_flow = flows.answer(instance)
    return by_flow if isinstance(by_flow, Sat) else None
