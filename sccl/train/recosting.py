"""Derive the costs of a plan's options again.

The verifier trusts no option: recipes are applied and verified again, each motif must take the time
of its carrier, and links, shared resources, and streams of ranks must never be overloaded. Options
on remainders of other collectives are derived again. Times from a table of costs are trusted if the
table is not given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sccl.core.dtypes import ITEM_BYTES
from sccl.core.motif import Motif
from sccl.core.step_timeline import StepTimeline
from sccl.core.training_plan import WHOLE_LOAD, OfferedOptions, Option, TrainingPlan
from sccl.core.workload_ops import CommOp
from sccl.errors import InputError
from sccl.motif import motifs_of, recipe_of
from sccl.train.carriers import CARRIERS
from sccl.train.costs import MotifCost, MotifCosts, MotifPlanner
from sccl.train.finding import OptionFinder, OptionSettings, wholes_of
from sccl.train.options import OptionBook
from sccl.train.tables import BESIDE, CostTable

Loads = NDArray[np.int64]
"""Load of each pipe of a fabric, in thousandths."""

_BY_NAME = {carrier.name: carrier for carrier in CARRIERS}


@dataclass
class Recosted:
    """The recomputed costs of a plan's motifs.

    Attributes:
        loads: Loads of each collective and motif, if known.
        wrong: Differences to the plan: kind and sentence.
    """

    loads: dict[tuple[str, int], Loads] = field(default_factory=dict)
    wrong: list[tuple[str, str]] = field(default_factory=list)


def recosted(
    plan: TrainingPlan | OfferedOptions,
    planner: MotifPlanner | None = None,
    measured: CostTable | None = None,
) -> Recosted:
    """Return the costs of motifs of a plan, or of offered options.

    Args:
        planner: Planner of motifs that name it. None: no motif may.
        measured: Table of costs that the plan names. None: it names none, or it is not given.
    """
    finder = OptionFinder(plan.fabric, OptionSettings(measured=measured))
    found, costs, as_told = Recosted(), finder.costs, bool(plan.costs) and measured is None
    numbers = {channel.name: k for k, channel in enumerate(plan.fabric.channels)}
    calls = {op.id: op for op in plan.workload.collectives()}
    known: dict[tuple[object, ...], Sequence[MotifCost | None]] = {}
    book: OptionBook | None = None
    for name, option in plan.options:
        op = calls[name]
        key = (op.shape, option)
        try:
            if key not in known:
                if _is_beside(option) and planner is not None and not as_told:
                    book = book or _offered(plan, planner, measured)
                    motifs_made(op, option)
                    known[key] = book.costs_of(op, option)
                else:
                    known[key] = _costs_of(costs, op, option, numbers, planner, as_told=as_told)
                if option.bitwise and not as_told and not finder.keeps_order(op, option):
                    told = f"operation {name!r:.60}: {option.recipe} does not reduce in the order "
                    found.wrong.append(("recipe", f"{told}of the whole, as is claimed"))
        except InputError as error:
            found.wrong.append(("recipe", f"operation {name!r:.60}, {option.recipe}: {error}"))
            known[key] = [None] * len(option.motifs)
        for number, (motif, cost) in enumerate(zip(option.motifs, known[key], strict=True)):
            if cost is None:
                continue
            found.loads[name, number] = cost.loads
            if cost.ns != motif.ns:
                told = f"operation {name!r:.60}: motif {number} of {option.recipe} takes {cost.ns}"
                told += f" ns on {motif.channel} by {motif.carrier}, claimed are {motif.ns}"
                found.wrong.append(("cost", told))
    return found


def _costs_of(  # noqa: PLR0913 - an option, and what it is carried by
    costs: MotifCosts,
    op: CommOp,
    option: Option,
    numbers: dict[str, int],
    planner: MotifPlanner | None,
    *,
    as_told: bool,
) -> list[MotifCost]:
    """Return the costs of each motif of an option.

    Args:
        as_told: Whether the option's times of carriers are trusted.

    Raises:
        InputError: Its recipe does not make these motifs, or they cannot be carried like this.
    """
    made, size = motifs_made(op, option), ITEM_BYTES[op.dtype]
    if not made:
        return [costs.nothing(op.members, numbers[option.motifs[0].channel])]
    found = list[MotifCost]()
    for one, motif in zip(made, option.motifs, strict=True):
        number = numbers[motif.channel]
        if (carrier := _BY_NAME.get(motif.carrier)) is not None:
            told = motif.ns if as_told else None
            found.append(costs.of(one, number, carrier, size, told))
        elif planner is not None and motif.carrier == planner.name:
            found.append(costs.planned(one, number, planner.plan, size))
        else:
            raise InputError(f"there is no carrier {motif.carrier!r:.60} that it could be made by")
    return found


def _is_beside(option: Option) -> bool:
    return any(BESIDE in motif.carrier for motif in option.motifs)


def _offered(
    plan: TrainingPlan | OfferedOptions, planner: MotifPlanner, measured: CostTable | None
) -> OptionBook:
    """Return the options of a plan's collectives, including those on remainders."""
    asked = OptionSettings(
        max_motifs=plan.max_motifs, bitwise=plan.bitwise, planner=planner, measured=measured
    )
    given = plan.given if isinstance(plan, TrainingPlan) else plan.workload
    return OptionBook(given, plan.fabric, asked)


def motifs_made(op: CommOp, option: Option) -> tuple[Motif, ...]:
    """Return the motifs of an option's recipe for a collective, in order.

    Returns:
        Empty if nothing moves.

    Raises:
        InputError: It does not make these motifs.
    """
    wholes = wholes_of(op)
    if wholes is None:
        if option.recipe != "whole" or len(option.motifs) != 1:
            raise InputError("no data moves, so there is nothing to split")
        return ()
    made = tuple(motifs_of(wholes, recipe_of(option.recipe), ITEM_BYTES[op.dtype]))
    waits, claimed = [one.after for one in made], [motif.after for motif in option.motifs]
    if waits != claimed:
        raise InputError(
            f"it makes {len(made)} motifs with waits {waits!s:.60}, and the plan has "
            f"{len(claimed)} with {claimed!s:.60}"
        )
    for one, motif in zip(made, option.motifs, strict=True):
        if one.channel not in {"", motif.channel}:
            raise InputError(f"a motif is of channel {one.channel!r}, not of {motif.channel!r}")
    return made


def believed(*, as_told: bool) -> Iterator[str]:
    """Yield sentences on values of a plan that are trusted without verification.

    Args:
        as_told: Whether times of carriers are among them.
    """
    if as_told:
        yield (
            "times are not verified: they come from a table of costs, so nothing is proved about "
            "the period; pass the table with --costs"
        )


def overloaded(plan: TrainingPlan, timeline: StepTimeline, found: Recosted) -> Iterator[str]:
    """Yield where something of the fabric is loaded with more than it carries. The first alone."""
    if not found.loads:
        return
    names = MotifCosts(plan.fabric).pipes.names
    changes: list[tuple[int, int, tuple[str, int]]] = []
    for span in timeline.spans:
        key = span.op, span.motif
        if not span.computes and key in found.loads and span.end_ns > span.start_ns:
            changes += [(span.start_ns, 1, key), (span.end_ns, -1, key)]
    changes.sort(key=lambda change: change[:2])  # what ends at a time makes room at that time
    total = np.zeros(len(names), np.int64)
    for now, sign, key in changes:
        total += sign * found.loads[key]
        if sign > 0 and total.max() > WHOLE_LOAD:
            pipe = int(total.argmax())
            yield (
                f"{names[pipe]} is loaded with {int(total[pipe])} thousandths at {now} ns, from "
                f"motif {key[1]} of {key[0]!r:.60} on"
            )
            return
