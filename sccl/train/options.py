"""Derive options of a workload's collectives on a fabric: recipes on channels, with carriers.

Source: SYNDICATE (NSDI 2023) section 4.2. Options that another option of the same motifs dominates
in time and in load of every link are dropped. From the rest, a number that a search can handle is
kept, some for each set of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sccl.core.fabric import Fabric
from sccl.core.training_plan import Option, OptionMotif, RefusedRecipe
from sccl.core.workload import Workload
from sccl.core.workload_ops import CommOp
from sccl.errors import ParameterError
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
        notify: Function that receives progress.

    Raises:
        InputError: A group is outside the fabric, or a collective has no option, with the reason.
    """
    return OptionBook(workload, fabric, settings, notify).options(workload.collectives())


class OptionBook:
    """The options of a workload's collectives, and of merged collectives.

    Attributes:
        fabric: Fabric of the options.
    """

    def __init__(
        self,
        workload: Workload,
        fabric: Fabric,
        settings: OptionSettings | None = None,
        notify: Notify = lambda _: None,
    ) -> None:
        """Derive the options of a workload's collectives.

        Raises:
            InputError: A group is outside the fabric, or a collective has no option, with the
                reason.
        """
        self.fabric, self._notify, self._asked = fabric, notify, settings or OptionSettings()
        self._finder = OptionFinder(fabric, self._asked)
        self._known: dict[tuple[object, ...], list[Offer]] = {}
        self._refused: dict[tuple[object, ...], tuple[RefusedRecipe, ...]] = {}
        found: dict[tuple[object, ...], list[Offer]] = {}
        first: dict[tuple[object, ...], CommOp] = {}
        for op in workload.collectives():
            if op.shape not in found:
                found[op.shape] = self._found(op)
                first[op.shape] = op
        asked = self._asked
        if asked.planner is not None and asked.beside and asked.measured is None:
            notify("options that leave one another their links")
            more = complements(self._finder, asked.planner, first, found)
            for shape, own in more.items():
                found[shape] += own
        for shape, op in first.items():
            self._keep(op, found[shape])

    def _found(self, op: CommOp) -> list[Offer]:
        self._notify(f"options of {op.collective} {op.id!r}")
        return self._finder.found(op)

    def _keep(self, op: CommOp, every: Sequence[Offer]) -> None:
        """Keep the best options of a collective, and the reasons why others are dropped."""
        alive = unbeaten(every)
        found = self._known[op.shape] = kept(alive, self._asked.most)
        why = self._finder.refused.get(op.id, {}) | left_out(every, alive, found)
        self._refused[op.shape] = tuple(RefusedRecipe(*one) for one in why.items())

    def options(self, ops: Iterable[CommOp]) -> JobOptions:
        """Return the options of collectives, of all together.

        Args:
            ops: of the workload, and such as stand for several of it.

        Raises:
            InputError: one has no option, and why.
        """
        every = {op.id: op for op in ops}
        for op in every.values():
            if op.shape not in self._known:
                self._keep(op, self._found(op))
        offers = {op.shape: self._known[op.shape] for op in every.values()}
        costs: dict[int, MotifCost] = {}
        rows: list[tuple[Whole, int]] = []
        for number, own in enumerate(offers.values()):
            used = {id(cost): cost for made in own for _, _, cost in made.parts}
            costs |= used
            rows += [(cost.loads, number) for cost in used.values()]
        reckoned = self._finder.costs
        classes = classes_of(reckoned.pipes, [row for row, _ in rows], [k for _, k in rows])
        loads = {key: _loads(cost, classes) for key, cost in costs.items()}
        written = {
            shape: tuple(_written(made, self.fabric, loads) for made in own)
            for shape, own in offers.items()
        }
        names = tuple(sorted(one.name for one in classes))
        of = {name: written[op.shape] for name, op in every.items()}
        refused = {name: self._refused[op.shape] for name, op in every.items()}
        return JobOptions(of, names, refused, reckoned.seconds)

    def costs_of(self, op: CommOp, option: Option) -> list[MotifCost]:
        """Return the costs of the motifs of an offered option.

        Raises:
            ParameterError: No offered option has these carriers.
        """
        carriers = [(motif.channel, motif.carrier) for motif in option.motifs]
        alike = []
        for made in self._known.get(op.shape, ()):
            names = [(self.fabric.channels[k].name, carrier) for k, carrier, _ in made.parts]
            if made.recipe == option.recipe and names == carriers:
                alike.append([cost for _, _, cost in made.parts])
        if not alike:
            raise ParameterError(
                f"none of its options is carried by {carriers[0][1]!r:.60} on {carriers[0][0]}"
            )
        claimed = [motif.ns for motif in option.motifs]
        return next((own for own in alike if [one.ns for one in own] == claimed), alike[0])


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
