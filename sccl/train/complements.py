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
from sccl.train.carriers import CARRIERS, MotifCarrier
from sccl.train.costs import MotifCost, MotifPlanner
from sccl.train.finding import OptionFinder
from sccl.train.offers import Offer
from sccl.train.spare import SpareChannel, spare_of
from sccl.train.tables import BESIDE

Key = TypeVar("Key", bound=Hashable)

_MOST_RANKS = 16
"""Largest number of ranks of a machine. The synthesizer runs once per pair."""

_MOST_KINDS = 32
"""Collectives that are planned so, of those that are alike one."""

_MOST_SPARES = 4
"""Largest number of remainders per channel, from the fastest options of some collectives."""

_MOST_OFFERS = 2
"""Largest number of such options per collective and channel."""

_MOST_PARTS = 4
"""Motifs of a recipe."""

_SLOWER = 2
"""Options slower than the fastest by this factor leave no remainder for others."""


def complements(
    finder: OptionFinder,
    planner: MotifPlanner,
    ops: Mapping[Key, CommOp],
    offers: Mapping[Key, Sequence[Offer]],
) -> dict[Key, list[Offer]]:
    """Return further options of collectives, on the remainders of others.

    Args:
        ops: One collective of each kind.
        offers: Known options of each kind.
    """
    found: dict[Key, list[Offer]] = {}
    for number, channel in enumerate(finder.fabric.channels):
        if channel.streams < 2 or channel.topology.ranks > _MOST_RANKS:
            continue
        every = list(_spares(finder, number, ops, offers))
        for key, op in islice(ops.items(), _MOST_KINDS):
            recipes = _recipes(offers[key], number)
            own = [
                offer
                for other, said, spare in every
                if other != key
                for recipe in recipes
                if (offer := _beside(finder, planner, op, recipe, said, spare)) is not None
            ]
            own.sort(key=lambda offer: offer.ns)
            found[key] = found.get(key, []) + own[:_MOST_OFFERS]
    return found


def _on(offers: Sequence[Offer], channel: int) -> list[Offer]:
    """Return the options that use one channel alone, the fastest first."""
    own = [one for one in offers if one.channels == (channel,)]
    return sorted(own, key=lambda one: one.ns)


def _recipes(offers: Sequence[Offer], channel: int) -> tuple[str, ...]:
    """Return recipes that are tried beside others: none at all, and that of the fastest option."""
    own = [one.recipe for one in _on(offers, channel) if len(one.parts) <= _MOST_PARTS]
    return tuple(dict.fromkeys(("whole", *own[:1])))


def _spares(
    finder: OptionFinder,
    channel: int,
    ops: Mapping[Key, CommOp],
    offers: Mapping[Key, Sequence[Offer]],
) -> Iterator[tuple[Key, str, SpareChannel]]:
    """Yield remainders of a channel, with the collective and the name of the option.

    The first remainder of each collective comes first, then the second ones.
    """
    rows = []
    for key, op in ops.items():
        own = _on(offers[key], channel)
        row = []
        for offer in own:
            loads = [cost.loads for _, _, cost in offer.parts]
            spare = spare_of(finder.fabric, finder.costs.pipes, channel, loads)
            if spare is not None and offer.ns <= _SLOWER * own[0].ns:
                row.append((key, f"{_said(offer)} of {op.collective}", spare))
        rows.append(row)
    seen: set[object] = set()
    for one in (one for several in zip_longest(*rows) for one in several if one is not None):
        if len(seen) < _MOST_SPARES and one[2].key not in seen:
            seen.add(one[2].key)
            yield one


def _said(offer: Offer) -> str:
    """Return the name of an option: its recipe and its carriers."""
    carriers = " and ".join(dict.fromkeys(carrier for _, carrier, _ in offer.parts))
    return carriers if offer.recipe == "whole" else f"{offer.recipe} by {carriers}"


def _beside(  # noqa: PLR0913, PLR0917 - a collective, and what it is to go beside
    finder: OptionFinder,
    planner: MotifPlanner,
    op: CommOp,
    recipe: str,
    said: str,
    spare: SpareChannel,
) -> Offer | None:
    """Return an option on the remainder of a channel. None: the remainder is too small."""

    def carry(motif: Motif) -> tuple[int, str, MotifCost]:
        ways: list[MotifCarrier | MotifPlanner] = [
            *(one for one in CARRIERS if motif.collective in one.of),
            planner,
        ]
        found, refused = list[tuple[int, str, MotifCost]](), list[InputError]()
        for way in ways:
            try:
                cost = finder.costs.beside(motif, way, ITEM_BYTES[op.dtype], spare)
            except InputError as error:
                refused.append(error)
            else:
                found.append((spare.channel, f"{way.name}{BESIDE}{said}", cost))
        if not found:
            raise refused[0]
        return min(found, key=lambda row: row[2].ns)

    try:
        return finder.carried_by(op, recipe, carry)
    except InputError:
        return None
