"""Plan a request with TE-CCL: build its phases, improve each, and compute a lower bound."""

from __future__ import annotations

from sccl.collectives import Spec
from sccl.core.formatting import format_count
from sccl.core.outcome import Inconclusive, Outcome
from sccl.core.stop import INTERRUPTED, NOT_STOPPED
from sccl.errors import ParameterError
from sccl.solvers.effort import Effort, EffortMeter, budget_reason
from sccl.synth.common.contract import Notify, Request
from sccl.synth.common.reduction import reduce_request
from sccl.synth.limits import STEP_EFFORT
from sccl.synth.scheduling.warm_start import NoScheduleError
from sccl.synth.teccl.combining import (
    CombiningChoice,
    CombiningMethod,
    assemble_phases,
    improve_combining,
)
from sccl.synth.teccl.lp import plan_flows
from sccl.synth.teccl.options import Options
from sccl.synth.teccl.phase_search import (
    PhaseSearch,
    ScheduleOrigin,
    build_phase,
)
from sccl.synth.teccl.time_varying_plans import VaryingBandwidthSearch


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the best schedule of the search, with a lower bound.

    Raises:
        InputError: The options do not fit the request, or the result would be too large.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    _check_options(options, request.spec)
    if options.model == "lp":
        return plan_flows(request, options, effort, notify)
    if options.bandwidth is not None and (request.spec.combining or options.model == "auto"):
        return VaryingBandwidthSearch(request, options, effort, notify, plan).find_best()
    collective = request.spec.at(request.spec.unit * options.chunks)
    _check_priorities(request.spec, options)
    reduction = reduce_request(request)
    dual = reduction.dual
    spending, ended = EffortMeter(effort), NOT_STOPPED
    phases: list[PhaseSearch] = []
    try:
        for reduced in reduction.solved_phases:
            phase = build_phase(reduced, options, effort, notify)
            phases.append(phase)
            ended = ended or phase.stop_reason
    except NoScheduleError as error:
        return Inconclusive(error.reason)
    units = STEP_EFFORT if effort.units is None else effort.units
    share = 1 if dual.phases == 1 else 2  # the other half is for both phases together
    is_direct = dual.on_reversed and options.combine == "direct"  # the phase would not be used
    try:
        for phase in () if ended or is_direct else phases:
            if left := spending.remaining(units / len(phases) / share):
                phase.improve(left)
    except KeyboardInterrupt:
        ended = INTERRUPTED
    if any(phase.sends is None for phase in phases):
        is_late = spending.deadline_passed()
        return Inconclusive(ended or (effort.timeout_reason if is_late else budget_reason(units)))
    if (
        not ended
        and spending.deadline_passed()
        and any(phase.objective > phase.lower_bound for phase in phases)
    ):
        ended = effort.timeout_reason
    if not request.spec.combining:
        notify(ScheduleOrigin(phases[-1].method))
    composition = assemble_phases(reduction, options, collective, phases)
    if request.spec.combining and (ended or options.buffers is not None):
        notify(CombiningChoice(CombiningMethod.REVERSAL))
    elif request.spec.combining:
        composition, how, ended = improve_combining(
            composition, phases[-1], spending, units / share
        )
        notify(CombiningChoice(how))
    result = composition.to_result()
    return Inconclusive(ended, result) if ended else result


SOLVERS_BY_MODEL = {
    "lp": ("auto", "glop", "highs", "pdlp", "gurobi"),
    "milp": ("auto", "cp-sat", "highs", "scip", "gurobi"),
    "astar": ("auto", "cp-sat", "highs", "scip", "gurobi"),
    "continuous": ("auto", "cp-sat"),
    "auto": ("auto", "cp-sat"),
}
"""Which solve which models; intervals are CP-SAT's alone."""


def _check_options(options: Options, spec: Spec) -> None:
    """Check that the options fit one another and the collective.

    Raises:
        ParameterError: They do not.
    """
    if options.solver not in SOLVERS_BY_MODEL[options.model]:
        raise ParameterError(
            f"solver is {options.solver} in model {options.model}, "
            f"expected {', '.join(SOLVERS_BY_MODEL[options.model])}"
        )
    if options.bandwidth is not None and options.model in {"continuous", "lp"}:
        raise ParameterError(
            f"bandwidth varies, which model {options.model} does not support, expected milp or "
            "astar (epochs with their own capacity) or auto"
        )
    if options.bandwidth is not None and options.combine == "direct":
        raise ParameterError(
            "combine is direct, and bandwidth varies: rescheduled messages cannot pass ranks "
            "that do not store them; expected auto or reversal"
        )
    if options.bandwidth is not None and options.priorities:
        raise ParameterError(
            "priorities are given, and bandwidth varies: completion times are weighted for "
            "constant bandwidth only; leave one of the two out"
        )
    if options.model in {"auto", "continuous"}:
        _check_no_epochs(options)
    if options.buffers is not None and options.model != "milp":
        raise ParameterError(
            f"buffers are limited to {options.buffers} in model {options.model}, expected milp, "
            "the only model with the contents of buffers"
        )
    if options.combine != "auto" and not spec.combining:
        raise ParameterError(
            f"combine is {options.combine}, and {spec.name} has no reductions: leave it out"
        )
    if options.combine == "direct" and options.model not in {"auto", "continuous"}:
        raise ParameterError(
            f"combine is direct in model {options.model}, expected continuous: direct sends are "
            "scheduled in exact time, by no model"
        )
    if options.combine == "direct" and len(set(spec.counts)) > 1:
        raise ParameterError(
            f"combine is direct, and {spec.name} has chunks of {min(spec.counts)} to "
            f"{max(spec.counts)} elements: for these it is reversal"
        )


def _check_no_epochs(options: Options) -> None:
    """Check that no option refers to epochs if the method has none.

    With varying bandwidth, models with epochs follow the methods without. Then options may set the
    epoch length but not the number of epochs.

    Raises:
        ParameterError: An option refers to epochs.
    """
    values = {"epoch": options.epoch, "multiplier": options.multiplier, "epochs": options.epochs}
    defaults = {"epoch": "auto", "multiplier": 1, "epochs": 0}
    for name in ("epochs",) if options.bandwidth is not None else values:
        if values[name] != defaults[name]:
            raise ParameterError(
                f"{name} is {values[name]} in model {options.model}, which has no epochs: "
                "expected model milp, astar or lp; or leave it out"
            )


def _check_priorities(spec: Spec, options: Options) -> None:
    """Check that there is one priority for each of several collectives, if there are any.

    Raises:
        ParameterError: Their number is wrong, or the request does not support them.
    """
    if not options.priorities:
        return
    parts = len(spec.parts)
    if len(options.priorities) != parts:
        detail = (
            f"expected one for each of {parts}" if parts > 1 else "put several together with '+'"
        )
        raise ParameterError(
            f"priorities are {','.join(map(str, options.priorities))} for {spec.name}, "
            f"{format_count(max(1, parts), 'collective')}: {detail}"
        )
    if spec.combining or options.model not in {"auto", "continuous"}:
        detail = "what combines" if spec.combining else f"model {options.model}"
        raise ParameterError(
            f"priorities are given for {spec.name}, and {detail} has none: only model continuous "
            "supports priorities, without reductions; leave them out"
        )
