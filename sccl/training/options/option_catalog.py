"""Derive options of a workload's collectives on a fabric: recipes on channels, with carriers.

Source: SYNDICATE (NSDI 2023) section 4.2. An option is dropped if another option with the same
motif dependencies dominates it in time and in work on every link. From the rest, as many are kept
as a search can handle, some for each set of channels.

Complementary options let two collectives run at the same time on one channel. One of them is
planned on the capacity that an option of the other leaves free: on unused links, on free fractions
of used links, and, around a switch, on the free fraction of each rank's port.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TypeVar

from sccl.core.arrays import IntArray
from sccl.core.sizes import ITEM_BYTES
from sccl.errors import InputError, ParameterError
from sccl.training.options.candidate_options import (
    CandidateOption,
    explain_omissions,
    non_dominated,
    select_candidates,
)
from sccl.training.options.carriers import CARRIERS, MotifCarrier
from sccl.training.options.fabric_resources import (
    PipeClass,
    ResidualChannel,
    group_pipes,
    residual_channel,
)
from sccl.training.options.measured_costs import COMPLEMENT_SEPARATOR
from sccl.training.options.motif_costs import MotifCost, MotifPlanner
from sccl.training.options.option_enumeration import OptionEnumerator, OptionSettings, fastest
from sccl.training.types.fabric import Fabric
from sccl.training.types.motif import Motif
from sccl.training.types.training_plan import Option, OptionMotif, RefusedRecipe
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import CommOp

__all__ = ["JobOptions", "OptionSettings", "find_options"]

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Options of collectives.

    Attributes:
        by_collective: Options of each collective by id, in the order of the workload, the default
            first. Equal collectives share one tuple.
        resources: Names of the loaded resources.
        refused: Recipes without an option for each collective by id, with reasons.
        seconds: Approximate time to derive the options, equal on all machines.
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
        """Return the options of collectives, with resources that all of them share.

        Args:
            ops: Collectives of the workload, and merged collectives.

        Raises:
            InputError: A collective has no option. The message gives the reason.
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


Key = TypeVar("Key", bound=Hashable)

_MAX_RANKS = 16
"""Largest number of ranks of a machine. The synthesizer runs once per pair."""

_MAX_KINDS = 32
"""Largest number of kinds of collectives with complementary options."""

_MAX_RESIDUALS = 4
"""Largest number of remainders per channel, from the fastest options of some collectives."""

_MAX_CANDIDATES = 2
"""Largest number of such options per collective and channel."""

_MAX_PARTS = 4
"""Largest number of motifs of a recipe in complementary options."""

_MAX_SLOWDOWN = 2
"""Options slower than the fastest by this factor leave no remainder for others."""


def find_complements(
    finder: OptionEnumerator,
    planner: MotifPlanner,
    ops: Mapping[Key, CommOp],
    offers: Mapping[Key, Sequence[CandidateOption]],
) -> dict[Key, list[CandidateOption]]:
    """Return complementary options of collectives, on the remainders that others leave.

    Args:
        ops: One collective of each kind.
        offers: Known options of each kind.
    """
    more_offers: dict[Key, list[CandidateOption]] = {}
    for number, channel in enumerate(finder.fabric.channels):
        if channel.streams < 2 or channel.topology.ranks > _MAX_RANKS:
            continue
        all_spares = list(_residual_channels(finder, number, ops, offers))
        for key, op in islice(ops.items(), _MAX_KINDS):
            recipes = _recipes_to_try(offers[key], number)
            new_offers = [
                offer
                for other_key, said, spare in all_spares
                if other_key != key
                for recipe in recipes
                if (offer := _complementary_candidate(finder, planner, op, recipe, said, spare))
                is not None
            ]
            new_offers.sort(key=lambda offer: offer.ns)
            more_offers[key] = more_offers.get(key, []) + new_offers[:_MAX_CANDIDATES]
    return more_offers


def _single_channel_candidates(
    offers: Sequence[CandidateOption], channel: int
) -> list[CandidateOption]:
    """Return the options that use one channel alone, the fastest first."""
    channel_offers = [offer for offer in offers if offer.channels == (channel,)]
    return sorted(channel_offers, key=lambda offer: offer.ns)


def _recipes_to_try(offers: Sequence[CandidateOption], channel: int) -> tuple[str, ...]:
    """Return the recipes for complementary options: no split, and that of the fastest option."""
    recipes = [
        offer.recipe
        for offer in _single_channel_candidates(offers, channel)
        if len(offer.parts) <= _MAX_PARTS
    ]
    return tuple(dict.fromkeys(("whole", *recipes[:1])))


def _residual_channels(
    finder: OptionEnumerator,
    channel: int,
    ops: Mapping[Key, CommOp],
    offers: Mapping[Key, Sequence[CandidateOption]],
) -> Iterator[tuple[Key, str, ResidualChannel]]:
    """Yield remainders of a channel, with the collective and the name of the option.

    The first remainder of each collective comes first, then the second ones.
    """
    rows = []
    for key, op in ops.items():
        channel_offers = _single_channel_candidates(offers[key], channel)
        row = []
        for offer in channel_offers:
            loads = [cost.loads for _, _, cost in offer.parts]
            spare = residual_channel(finder.fabric, finder.costs.pipes, channel, loads)
            if spare is not None and offer.ns <= _MAX_SLOWDOWN * channel_offers[0].ns:
                row.append((key, f"{_candidate_label(offer)} of {op.collective}", spare))
        rows.append(row)
    seen: set[object] = set()
    for item in (item for several in zip_longest(*rows) for item in several if item is not None):
        if len(seen) < _MAX_RESIDUALS and item[2].key not in seen:
            seen.add(item[2].key)
            yield item


def _candidate_label(offer: CandidateOption) -> str:
    """Return the name of an option: its recipe and its carriers."""
    carriers = " and ".join(dict.fromkeys(carrier for _, carrier, _ in offer.parts))
    return carriers if offer.recipe == "whole" else f"{offer.recipe} by {carriers}"


def _complementary_candidate(  # noqa: PLR0913, PLR0917 - independent inputs
    finder: OptionEnumerator,
    planner: MotifPlanner,
    op: CommOp,
    recipe: str,
    said: str,
    spare: ResidualChannel,
) -> CandidateOption | None:
    """Return an option on the remainder of a channel. None: there is none."""

    def carry(motif: Motif) -> tuple[int, str, MotifCost]:
        candidates: list[MotifCarrier | MotifPlanner] = [
            *(carrier for carrier in CARRIERS if motif.collective in carrier.collectives),
            planner,
        ]
        size = ITEM_BYTES[op.dtype]
        candidate, cost = fastest(
            candidates, lambda by: finder.costs.complementary_cost(motif, by, size, spare)
        )
        return spare.channel, f"{candidate.name}{COMPLEMENT_SEPARATOR}{said}", cost

    try:
        return finder.carry_recipe(op, recipe, carry)
    except InputError:
        return None
