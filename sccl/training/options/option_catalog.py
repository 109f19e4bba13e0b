"""Derive options of a workload's collectives on a fabric: recipes on channels, with carriers.

Source: SYNDICATE (NSDI 2023) section 4.2. Options that another option of the same motifs dominates
in time and in load of every link are dropped. From the rest, a number that a search can handle is
kept, some for each set of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sccl.core.arrays import IntArray
from sccl.core.fabric import Fabric
from sccl.core.training_plan import Option, OptionMotif, RefusedRecipe
from sccl.core.workload import Workload
from sccl.core.workload_ops import CommOp
from sccl.errors import ParameterError
from sccl.training.options.candidate_options import (
    CandidateOption,
    explain_omissions,
    non_dominated,
    select_candidates,
)
from sccl.training.options.complementary_options import find_complements
from sccl.training.options.fabric_resources import PipeClass, group_pipes
from sccl.training.options.motif_costs import MotifCost
from sccl.training.options.option_enumeration import OptionEnumerator, OptionSettings

__all__ = ["JobOptions", "OptionSettings", "find_options"]

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Options of collectives.

    Attributes:
        by_collective: of each collective, by its id, in the order of the workload: its options, the
            default
            first. Those that are alike have the same.
        resources: that these load, by name.
        refused: likewise of each collective, the recipes of which it has no option.
        seconds: that finding them takes, about: the same anywhere.
    """

    by_collective: Mapping[str, tuple[Option, ...]]
    resources: tuple[str, ...]
    refused: Mapping[str, tuple[RefusedRecipe, ...]]
    seconds: float = 0.0


def find_options(
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
    return OptionCatalog(workload, fabric, settings, notify).job_options(workload.collectives())


class OptionCatalog:
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
        self.fabric, self._notify, self._settings = fabric, notify, settings or OptionSettings()
        self._finder = OptionEnumerator(fabric, self._settings)
        self._candidates_by_shape: dict[tuple[object, ...], list[CandidateOption]] = {}
        self._refused: dict[tuple[object, ...], tuple[RefusedRecipe, ...]] = {}
        offers: dict[tuple[object, ...], list[CandidateOption]] = {}
        first: dict[tuple[object, ...], CommOp] = {}
        for op in workload.collectives():
            if op.option_key not in offers:
                offers[op.option_key] = self._enumerate_candidates(op)
                first[op.option_key] = op
        asked = self._settings
        if asked.planner is not None and asked.complementary and asked.measured is None:
            notify("complementary options (disjoint links)")
            more = find_complements(self._finder, asked.planner, first, offers)
            for shape, extra_offers in more.items():
                offers[shape] += extra_offers
        for shape, op in first.items():
            self._select_candidates(op, offers[shape])

    def _enumerate_candidates(self, op: CommOp) -> list[CandidateOption]:
        self._notify(f"options of {op.collective} {op.id!r}")
        return self._finder.enumerate_options(op)

    def _select_candidates(self, op: CommOp, offers: Sequence[CandidateOption]) -> None:
        """Keep the best options of a collective, and the reasons why others are dropped."""
        alive = non_dominated(offers)
        kept_offers = self._candidates_by_shape[op.option_key] = select_candidates(
            alive, self._settings.max_options
        )
        why = self._finder.refused.get(op.id, {}) | explain_omissions(offers, alive, kept_offers)
        self._refused[op.option_key] = tuple(RefusedRecipe(*reason) for reason in why.items())

    def job_options(self, ops: Iterable[CommOp]) -> JobOptions:
        """Return the options of collectives, of all together.

        Args:
            ops: of the workload, and such as stand for several of it.

        Raises:
            InputError: one has no option, and why.
        """
        all_ops = {op.id: op for op in ops}
        for op in all_ops.values():
            if op.option_key not in self._candidates_by_shape:
                self._select_candidates(op, self._enumerate_candidates(op))
        offers = {
            op.option_key: self._candidates_by_shape[op.option_key] for op in all_ops.values()
        }
        costs: dict[int, MotifCost] = {}
        rows: list[tuple[IntArray, int]] = []
        for number, op_offers in enumerate(offers.values()):
            used = {id(cost): cost for made in op_offers for _, _, cost in made.parts}
            costs |= used
            rows += [(cost.loads, number) for cost in used.values()]
        reckoned = self._finder.costs
        classes = group_pipes(reckoned.pipes, [row for row, _ in rows], [k for _, k in rows])
        loads = {key: _class_loads(cost, classes) for key, cost in costs.items()}
        written = {
            shape: tuple(_build_option(made, self.fabric, loads) for made in op_offers)
            for shape, op_offers in offers.items()
        }
        names = tuple(sorted(pipe_class.name for pipe_class in classes))
        of = {name: written[op.option_key] for name, op in all_ops.items()}
        refused = {name: self._refused[op.option_key] for name, op in all_ops.items()}
        return JobOptions(of, names, refused, reckoned.seconds)

    def option_costs(self, op: CommOp, option: Option) -> list[MotifCost]:
        """Return the costs of the motifs of an offered option.

        Raises:
            ParameterError: No offered option has these carriers.
        """
        carriers = [(motif.channel, motif.carrier) for motif in option.motifs]
        alike = []
        for made in self._candidates_by_shape.get(op.option_key, ()):
            names = [(self.fabric.channels[k].name, carrier) for k, carrier, _ in made.parts]
            if made.recipe == option.recipe and names == carriers:
                alike.append([cost for _, _, cost in made.parts])
        if not alike:
            raise ParameterError(
                f"none of its options is carried by {carriers[0][1]!r:.60} on {carriers[0][0]}"
            )
        claimed = [motif.ns for motif in option.motifs]
        return next((row for row in alike if [item.ns for item in row] == claimed), alike[0])


def _class_loads(cost: MotifCost, classes: Iterable[PipeClass]) -> tuple[tuple[str, int], ...]:
    pairs = ((pipe_class.name, pipe_class.load(cost.loads)) for pipe_class in classes)
    return tuple(sorted((name, load) for name, load in pairs if load))


def _build_option(
    made: CandidateOption, fabric: Fabric, loads: Mapping[int, tuple[tuple[str, int], ...]]
) -> Option:
    rows = zip(made.parts, made.after, strict=True)
    motifs = tuple(
        OptionMotif(fabric.channels[channel].name, carrier, cost.ns, loads[id(cost)], after)
        for (channel, carrier, cost), after in rows
    )
    return Option(made.recipe, motifs, made.bitwise)
