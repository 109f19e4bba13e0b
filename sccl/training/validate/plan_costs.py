"""Recompute the costs of a plan's options, and of offered options.

Verification trusts no option. Recipes are applied and verified again, each motif must take the time
of its carrier, and links, shared resources, and streams of ranks must never be overloaded. Options
on remainders of other collectives are derived again. Times from a table of measured costs are
trusted if the table is not available.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.sizes import ITEM_BYTES
from sccl.errors import InputError
from sccl.training.motifs import apply_recipe, parse_recipe
from sccl.training.options.carriers import CARRIER_BY_NAME
from sccl.training.options.measured_costs import COMPLEMENT_SEPARATOR, CostTable
from sccl.training.options.motif_costs import MotifCost, MotifCosts, MotifPlanner
from sccl.training.options.option_catalog import OptionCatalog
from sccl.training.options.option_enumeration import (
    OptionEnumerator,
    OptionSettings,
    original_motifs,
)
from sccl.training.types.motif import Motif
from sccl.training.types.training_plan import (
    FULL_LOAD,
    OfferedOptions,
    Option,
    StepTimeline,
    TrainingPlan,
)
from sccl.training.types.workload_ops import CommOp


@dataclass
class RecomputedCosts:
    """The recomputed costs of a plan's motifs.

    Attributes:
        loads: Load of each pipe by collective id and motif number, if known.
        faults: Differences to the plan, as pairs of a kind and a sentence.
    """

    loads: dict[tuple[str, int], IntArray] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)


def recompute_costs(
    plan: TrainingPlan | OfferedOptions,
    planner: MotifPlanner | None = None,
    measured: CostTable | None = None,
) -> RecomputedCosts:
    """Return the costs of motifs of a plan, or of offered options.

    Args:
        planner: Planner for motifs whose carrier is a synthesizer. None: such motifs are a fault.
        measured: Table of measured costs that the plan names. None: none, or not available.
    """
    finder = OptionEnumerator(plan.fabric, OptionSettings(measured=measured))
    result, costs, with_stated_costs = (
        RecomputedCosts(),
        finder.costs,
        bool(plan.costs) and measured is None,
    )
    numbers = {channel.name: k for k, channel in enumerate(plan.fabric.channels)}
    calls = {op.id: op for op in plan.workload.collectives()}
    cache: dict[tuple[object, ...], Sequence[MotifCost | None]] = {}
    book: OptionCatalog | None = None
    for name, option in plan.options:
        op = calls[name]
        key = (op.option_key, option)
        try:
            if key not in cache:
                if _is_complementary(option) and planner is not None and not with_stated_costs:
                    book = book or plan_catalog(plan, planner, measured)
                    recipe_motifs(op, option)
                    cache[key] = book.option_costs(op, option)
                else:
                    cache[key] = _option_costs(
                        costs, op, option, numbers, planner, with_stated_costs=with_stated_costs
                    )
                if (
                    option.bitwise
                    and not with_stated_costs
                    and not finder.keeps_reduction_order(op, option)
                ):
                    text = f"operation {name!r:.60}: {option.recipe} does not reduce in the order "
                    result.faults.append(("recipe", f"{text}of the whole, as is claimed"))
        except InputError as error:
            result.faults.append(("recipe", f"operation {name!r:.60}, {option.recipe}: {error}"))
            cache[key] = [None] * len(option.motifs)
        for number, (motif, cost) in enumerate(zip(option.motifs, cache[key], strict=True)):
            if cost is None:
                continue
            result.loads[name, number] = cost.loads
            if cost.ns != motif.ns:
                text = f"operation {name!r:.60}: motif {number} of {option.recipe} takes {cost.ns}"
                text += f" ns on {motif.channel} by {motif.carrier}, and the plan states {motif.ns}"
                result.faults.append(("cost", text))
    return result


def _option_costs(  # noqa: PLR0913 - independent inputs
    costs: MotifCosts,
    op: CommOp,
    option: Option,
    numbers: dict[str, int],
    planner: MotifPlanner | None,
    *,
    with_stated_costs: bool,
) -> list[MotifCost]:
    """Return the costs of each motif of an option.

    Args:
        numbers: Number of each channel, by name.
        with_stated_costs: Whether the option's times of carriers are trusted.

    Raises:
        InputError: The recipe does not make these motifs, or a carrier cannot carry one.
    """
    made, size = recipe_motifs(op, option), ITEM_BYTES[op.dtype]
    if not made:
        return [costs.launch_cost(op.members, numbers[option.motifs[0].channel])]
    motif_costs = list[MotifCost]()
    for piece, motif in zip(made, option.motifs, strict=True):
        number = numbers[motif.channel]
        if (carrier := CARRIER_BY_NAME.get(motif.carrier)) is not None:
            duration_ns = motif.ns if with_stated_costs else None
            motif_costs.append(costs.carrier_cost(piece, number, carrier, size, duration_ns))
        elif planner is not None and motif.carrier == planner.name:
            motif_costs.append(costs.planned_cost(piece, number, planner.plan, size))
        else:
            raise InputError(f"there is no carrier {motif.carrier!r:.60} that it could be made by")
    return motif_costs


def _is_complementary(option: Option) -> bool:
    return any(COMPLEMENT_SEPARATOR in motif.carrier for motif in option.motifs)


def plan_catalog(
    plan: TrainingPlan | OfferedOptions, planner: MotifPlanner | None, measured: CostTable | None
) -> OptionCatalog:
    """Derive the options of a plan again, with its settings.

    Raises:
        InputError: No options can be derived.
    """
    asked = OptionSettings(
        max_motifs=plan.max_motifs, bitwise=plan.bitwise, planner=planner, measured=measured
    )
    workload = plan.input_workload if isinstance(plan, TrainingPlan) else plan.workload
    return OptionCatalog(workload, plan.fabric, asked)


def recipe_motifs(op: CommOp, option: Option) -> tuple[Motif, ...]:
    """Return the motifs of an option's recipe for a collective, in order.

    Returns:
        Motifs. Empty: nothing moves.

    Raises:
        InputError: The recipe does not make the motifs of the option.
    """
    wholes = original_motifs(op)
    if wholes is None:
        if option.recipe != "whole" or len(option.motifs) != 1:
            raise InputError("no data moves, so there is nothing to split")
        return ()
    made = tuple(apply_recipe(wholes, parse_recipe(option.recipe), ITEM_BYTES[op.dtype]))
    waits, claimed = [piece.after for piece in made], [motif.after for motif in option.motifs]
    if waits != claimed:
        raise InputError(
            f"it makes {len(made)} motifs with waits {waits!s:.60}, and the plan has "
            f"{len(claimed)} with {claimed!s:.60}"
        )
    for piece, motif in zip(made, option.motifs, strict=True):
        if piece.channel not in {"", motif.channel}:
            raise InputError(f"a motif uses channel {piece.channel!r}, expected {motif.channel!r}")
    return made


def find_overload(
    plan: TrainingPlan, timeline: StepTimeline, result: RecomputedCosts
) -> Iterator[str]:
    """Yield the first overload of a pipe of the fabric, if there is one."""
    if not result.loads:
        return
    names = MotifCosts(plan.fabric).pipes.names
    changes: list[tuple[int, int, tuple[str, int]]] = []
    for span in timeline.spans:
        key = span.op, span.motif
        if not span.computes and key in result.loads and span.end_ns > span.start_ns:
            changes += [(span.start_ns, 1, key), (span.end_ns, -1, key)]
    changes.sort(key=lambda change: change[:2])  # at one time, ends come before starts
    total = np.zeros(len(names), np.int64)
    for now, sign, key in changes:
        total += sign * result.loads[key]
        if sign > 0 and total.max() > FULL_LOAD:
            pipe = int(total.argmax())
            yield (
                f"{names[pipe]} is loaded with {int(total[pipe])} thousandths at {now} ns, from "
                f"motif {key[1]} of {key[0]!r:.60} on"
            )
            return


def find_option_faults(
    offered: OfferedOptions,
    planner: MotifPlanner | None = None,
    measured: CostTable | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield differences to newly derived options, as pairs of a kind and a sentence.

    Times are trusted if the table of measured costs is not available.

    Args:
        offered: Options to verify.
        planner: Planner of motifs, if one was used.
        measured: Table of measured costs, if the options name one.

    Raises:
        InputError: No options can be derived.
    """
    if measured is not None and measured.digest != offered.costs:
        text = f"a table of costs with the digest {offered.costs}" if offered.costs else "no table"
        yield "cost", f"times come from {text}, and {measured.source} has {measured.digest}"
        return
    if offered.costs and measured is None:
        channels = {channel.name for channel in offered.fabric.channels}
        for name, option in offered.options:
            if unknown_channels := {motif.channel for motif in option.motifs} - channels:
                text = f"operation {name!r:.60} takes channel {min(unknown_channels)!r:.60}"
                yield "option", f"{text}, which the fabric does not have"
                return
        yield from recompute_costs(offered, planner).faults
        return
    anew = plan_catalog(offered, planner, measured).job_options(offered.workload.collectives())
    told_options: dict[str, list[Option]] = defaultdict(list)
    for name, option in offered.options:
        told_options[name].append(option)
    for name, options in anew.by_collective.items():
        if wrong := _describe_difference(told_options[name], options):
            yield "option", f"operation {name!r:.60}: {wrong}"
        elif tuple(item for owner, item in offered.refused if owner == name) != anew.refused[name]:
            yield (
                "recipe",
                f"operation {name!r:.60}: other recipes are refused, or for other causes",
            )


def _describe_difference(told_options: Sequence[Option], offered: Sequence[Option]) -> str:
    """Return the first difference between given and derived options."""
    for number, (old, new) in enumerate(zip(told_options, offered, strict=False)):
        if old != new:
            return (
                f"option {number} is {new.recipe} of {len(new.motifs)} motifs and {new.ns} "
                f"ns, given is {old.recipe} of {len(old.motifs)} and {old.ns}, or with other loads"
            )
    if len(told_options) == len(offered):
        return ""
    return f"it has {len(offered)} options, and {len(told_options)} are given"
