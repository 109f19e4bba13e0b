"""Candidate options of a collective, and the selection of those for the search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sccl.core.arrays import IntArray
from sccl.training.options.motif_costs import MotifCost
from sccl.training.types.training_plan import FULL_LOAD

_MAX_SLOWDOWN = 8
"""Options slower than the fastest by this factor are dropped."""


@dataclass(frozen=True, eq=False)
class CandidateOption:
    """An option before its selection.

    Attributes:
        recipe: Recipe of the option.
        parts: Channel number, carrier, and cost of each motif.
        after: Predecessors of each motif.
        bitwise: Whether it keeps the order of reduction of the default.
        is_protected: Whether to keep the option unless another one is as good and has no higher
            peak loads.
    """

    recipe: str
    parts: tuple[tuple[int, str, MotifCost], ...]
    after: tuple[tuple[int, ...], ...]
    bitwise: bool
    is_protected: bool = False

    @cached_property
    def work(self) -> IntArray:
        """Return the work on each pipe: nanoseconds times load in thousandths, over all motifs."""
        rows = np.stack([cost.loads * cost.ns for _, _, cost in self.parts])
        totals: IntArray = rows.sum(axis=0)
        return totals

    @cached_property
    def peak_loads(self) -> IntArray:
        """Return the largest load of each pipe by a motif, in thousandths."""
        max_loads: IntArray = np.stack([cost.loads for _, _, cost in self.parts]).max(axis=0)
        return max_loads

    @cached_property
    def ns(self) -> int:
        """Return a lower bound on the isolated duration, in nanoseconds.

        The duration is longer if motifs block each other.
        """
        ends: list[int] = []
        for (_, _, cost), waits in zip(self.parts, self.after, strict=True):
            ends.append(cost.ns + max((ends[k] for k in waits), default=0))
        return max(*ends, -(-int(self.work.max()) // FULL_LOAD))

    @property
    def channels(self) -> tuple[int, ...]:
        """Return the numbers of used channels, ascending."""
        return tuple(sorted({channel for channel, _, _ in self.parts}))


def non_dominated(offers: Sequence[CandidateOption]) -> list[CandidateOption]:
    """Return the default, and options that are not far slower and that no other dominates."""
    best_ns = min(made.ns for made in offers)
    rows = [made for made in offers if made.ns <= _MAX_SLOWDOWN * best_ns or made is offers[0]]
    return [
        made
        for k, made in enumerate(rows)
        if not k or not any(_dominates(rows, j, k) for j in range(len(rows)) if j != k)
    ]


def explain_omissions(
    offers: Sequence[CandidateOption],
    alive: Sequence[CandidateOption],
    kept_offers: Sequence[CandidateOption],
) -> dict[str, str]:
    """Return, for each recipe without a kept option, the reason.

    Args:
        offers: All derived options.
        alive: Options that no other dominates.
        kept_offers: Selected options.
    """
    taken, good = {made.recipe for made in kept_offers}, {made.recipe for made in alive}
    best_ns = min(made.ns for made in offers)
    fastest: dict[str, int] = {}
    for made in offers:
        fastest[made.recipe] = min(made.ns, fastest.get(made.recipe, made.ns))
    why = {}
    for recipe, ns in fastest.items():
        if recipe in good - taken:
            why[recipe] = f"only {len(kept_offers)} options are kept"
        elif recipe not in good and ns > _MAX_SLOWDOWN * best_ns:
            why[recipe] = f"it takes {ns / best_ns:.3g} times as long as the fastest option"
        elif recipe not in good:
            why[recipe] = "another option is as fast and uses no link more"
    return why


def select_candidates(alive: Sequence[CandidateOption], limit: int) -> list[CandidateOption]:
    """Return the default, protected options, and up to ``limit`` options in all of the others.

    Sets of channels take turns, each with its fastest options first. The limit grows with the
    number of protected options.
    """
    queues: dict[tuple[int, ...], list[tuple[int, CandidateOption]]] = {}
    turns: Counter[object] = Counter()
    for made in sorted(alive[1:], key=lambda offer: offer.ns):
        if made.is_protected:
            continue
        turns[made.channels, made.recipe] += 1
        queues.setdefault(made.channels, []).append((turns[made.channels, made.recipe], made))
    for queue in queues.values():  # the fastest of each recipe first, then the second ones
        queue.sort(key=lambda row: row[0])
    kept_offers = [alive[0], *(made for made in alive[1:] if made.is_protected)]
    limit += len(kept_offers) - 1  # protected options do not displace others
    while len(kept_offers) < limit and any(queues.values()):
        for queue in queues.values():
            if queue and len(kept_offers) < limit:
                kept_offers.append(queue.pop(0)[1])
    return kept_offers


def _dominates(rows: Sequence[CandidateOption], first: int, second: int) -> bool:
    """Return whether an option is as good as another in all costs, and better or earlier."""
    a, b = rows[first], rows[second]
    if a.after != b.after or a.ns > b.ns or not (a.work <= b.work).all():
        return False
    if (
        b.is_protected and (a.peak_loads > b.peak_loads).any()
    ):  # it is slower, but leaves more of a link to others
        return False
    return first < second or a.ns < b.ns or bool((a.work < b.work).any())
