"""Options of a workload's collectives on a fabric: recipes on channels, and what carries them.

Source: SYNDICATE (NSDI 2023) section 4.2. What takes as long as another option of the same motifs,
or longer, and as much of every link, is left out; of the rest so many are kept that a search can
try them, of each set of channels some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sccl.core.fabric import Fabric
from sccl.core.training_plan import Option, OptionMotif, RefusedRecipe
from sccl.core.workload import Workload
from sccl.core.workload_ops import CommOp
from sccl.train.complements import complements
from sccl.train.costs import MotifCost
from sccl.train.finding import OptionFinder, OptionSettings
from sccl.train.offers import Offer, kept, left_out, unbeaten
from sccl.train.resources import PipeClass, classes_of

__all__ = ["JobOptions", "OptionSettings", "options_of"]

Whole = NDArray[np.int64]

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Options of collectives.

    Attributes:
        of: of each collective, by its id, in the order of the workload: its options, the default
            first. Those that are alike have the same.
        resources: that these load, by name.
        refused: likewise of each collective, the recipes of which it has no option.
        seconds: that finding them takes, about: the same anywhere.
    """

    of: Mapping[str, tuple[Option, ...]]
    resources: tuple[str, ...]
    refused: Mapping[str, tuple[RefusedRecipe, ...]]
    seconds: float = 0.0


def options_of(
    workload: Workload,
    fabric: Fabric,
    settings: OptionSettings | None = None,
    notify: Notify = lambda _: None,
) -> JobOptions:
    """Return the options of a workload's collectives.

    Args:
        notify: is told what is looked at.

    Raises:
        InputError: a group is outside of the fabric, or a collective has no option, and why.
    """
    asked = settings or OptionSettings()
    finder = OptionFinder(fabric, asked)
    known: dict[tuple[object, ...], list[Offer]] = {}
    keys: dict[str, tuple[object, ...]] = {}
    first: dict[tuple[object, ...], CommOp] = {}
    for op in workload.collectives():
        key: tuple[object, ...] = (
            op.collective,
            op.groups,
            op.count,
            op.dtype,
            op.root,
            op.reduce,
            op.splits,
        )
        keys[op.id] = key
        if key not in known:
            notify(f"options of {op.collective} {op.id!r}")
            known[key] = finder.found(op)
            first[key] = op
    if asked.planner is not None:
        notify("options that leave one another their links")
        for alike, more in complements(finder, asked.planner, first, known).items():
            known[alike] += more
    refused: dict[tuple[object, ...], tuple[RefusedRecipe, ...]] = {}
    for key, every in known.items():
        alive = unbeaten(every)
        known[key] = kept(alive, asked.most)
        told = finder.refused.get(first[key].id, {}) | left_out(every, alive, known[key])
        refused[key] = tuple(RefusedRecipe(*one) for one in told.items())
    costs: dict[int, MotifCost] = {}
    rows: list[tuple[Whole, int]] = []
    for number, own in enumerate(known.values()):
        used = {id(cost): cost for made in own for _, _, cost in made.parts}
        costs |= used
        rows += [(cost.loads, number) for cost in used.values()]
    classes = classes_of(finder.costs.pipes, [row for row, _ in rows], [k for _, k in rows])
    loads = {key: _loads(cost, classes) for key, cost in costs.items()}
    written = {
        key: tuple(_written(made, fabric, loads) for made in own) for key, own in known.items()
    }
    names = tuple(sorted(one.name for one in classes))
    of = {name: written[key] for name, key in keys.items()}
    refusals = {name: refused[key] for name, key in keys.items()}
    return JobOptions(of, names, refusals, finder.costs.seconds)


def _loads(cost: MotifCost, classes: Iterable[PipeClass]) -> tuple[tuple[str, int], ...]:
    pairs = ((one.name, one.load(cost.loads)) for one in classes)
    return tuple(sorted((name, load) for name, load in pairs if load))


def _written(
    made: Offer, fabric: Fabric, loads: Mapping[int, tuple[tuple[str, int], ...]]
) -> Option:
    rows = zip(made.parts, made.after, strict=True)
    motifs = tuple(
        OptionMotif(fabric.channels[channel].name, carrier, cost.ns, loads[id(cost)], after)
        for (channel, carrier, cost), after in rows
    )
    return Option(made.recipe, motifs, made.bitwise)
