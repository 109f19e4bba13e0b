"""Plan options that leave each other their links, so that two collectives run at the same time.

Each collective is planned on the remainder of a channel: on unused links, and on free fractions of
used ones. Around a switch, on the remainder of each rank's port. So the two collectives share no
capacity.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import TypeVar

from sccl.core.dtypes import ITEM_BYTES
from sccl.core.motif import Motif
from sccl.core.workload_ops import CommOp
from sccl.errors import InputError
from sccl.training.options.candidate_options import CandidateOption
from sccl.training.options.carriers import CARRIERS, MotifCarrier
from sccl.training.options.measured_costs import COMPLEMENT_SEPARATOR
from sccl.training.options.motif_costs import MotifCost, MotifPlanner
from sccl.training.options.option_enumeration import OptionEnumerator
from sccl.training.options.residual_capacity import ResidualChannel, residual_channel

Key = TypeVar("Key", bound=Hashable)

_MAX_RANKS = 16
"""Largest number of ranks of a machine. The synthesizer runs once per pair."""

_MAX_KINDS = 32
"""Collectives that are planned so, of those that are alike one."""

_MAX_RESIDUALS = 4
"""Largest number of remainders per channel, from the fastest options of some collectives."""

_MAX_CANDIDATES = 2
"""Largest number of such options per collective and channel."""

_MAX_PARTS = 4
"""Motifs of a recipe."""

_MAX_SLOWDOWN = 2
"""Options slower than the fastest by this factor leave no remainder for others."""


def find_complements(
    finder: OptionEnumerator,
    planner: MotifPlanner,
    ops: Mapping[Key, CommOp],
    offers: Mapping[Key, Sequence[CandidateOption]],
) -> dict[Key, list[CandidateOption]]:
    """Return further options of collectives, on the remainders of others.

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
    """Return recipes that are tried beside others: none at all, and that of the fastest option."""
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


def _complementary_candidate(  # noqa: PLR0913, PLR0917 - a collective and its concurrent load
    finder: OptionEnumerator,
    planner: MotifPlanner,
    op: CommOp,
    recipe: str,
    said: str,
    spare: ResidualChannel,
) -> CandidateOption | None:
    """Return an option on the remainder of a channel. None: the remainder is too small."""

    def carry(motif: Motif) -> tuple[int, str, MotifCost]:
        candidates: list[MotifCarrier | MotifPlanner] = [
            *(carrier for carrier in CARRIERS if motif.collective in carrier.collectives),
            planner,
        ]
        results, refused = list[tuple[int, str, MotifCost]](), list[InputError]()
        for candidate in candidates:
            try:
                cost = finder.costs.complementary_cost(
                    motif, candidate, ITEM_BYTES[op.dtype], spare
                )
            except InputError as error:
                refused.append(error)
            else:
                results.append(
                    (spare.channel, f"{candidate.name}{COMPLEMENT_SEPARATOR}{said}", cost)
                )
        if not results:
            raise refused[0]
        return min(results, key=lambda row: row[2].ns)

    try:
        return finder.carry_recipe(op, recipe, carry)
    except InputError:
        return None
