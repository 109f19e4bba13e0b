"""Offers: options of a collective as they are found, and which of them are worth a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sccl.core.training_plan import WHOLE_LOAD
from sccl.train.costs import MotifCost

Whole = NDArray[np.int64]

_SLOWEST = 8
"""Options slower than the fastest by this factor are dropped."""


@dataclass(frozen=True, eq=False)
class Offer:
    """An option that is not yet written down.

    Attributes:
        parts: of each motif its channel, its carrier and its cost.
        after: of each motif, whom it waits for.
        sure: whether it is kept unless another one is better, and leaves others as much.
    """

    recipe: str
    parts: tuple[tuple[int, str, MotifCost], ...]
    after: tuple[tuple[int, ...], ...]
    bitwise: bool
    sure: bool = False

    @cached_property
    def work(self) -> Whole:
        """Return the time for which it takes each pipe, nanoseconds times thousandths."""
        rows = np.stack([cost.loads * cost.ns for _, _, cost in self.parts])
        found: Whole = rows.sum(axis=0)
        return found

    @cached_property
    def most(self) -> Whole:
        """Return the most that it loads each pipe with."""
        found: Whole = np.stack([cost.loads for _, _, cost in self.parts]).max(axis=0)
        return found

    @cached_property
    def ns(self) -> int:
        """Return a lower bound on its time alone.

        Motifs that block each other take longer.
        """
        ends: list[int] = []
        for (_, _, cost), waits in zip(self.parts, self.after, strict=True):
            ends.append(cost.ns + max((ends[k] for k in waits), default=0))
        return max(*ends, -(-int(self.work.max()) // WHOLE_LOAD))

    @property
    def channels(self) -> tuple[int, ...]:
        """Return the channels that it uses."""
        return tuple(sorted({channel for channel, _, _ in self.parts}))


def unbeaten(every: Sequence[Offer]) -> list[Offer]:
    """Return the default, and others that are not far slower and that nothing beats."""
    least = min(made.ns for made in every)
    rows = [made for made in every if made.ns <= _SLOWEST * least or made is every[0]]
    return [
        made
        for k, made in enumerate(rows)
        if not k or not any(_beats(rows, j, k) for j in range(len(rows)) if j != k)
    ]


def left_out(
    every: Sequence[Offer], alive: Sequence[Offer], found: Sequence[Offer]
) -> dict[str, str]:
    """Return, for each recipe without a kept option, the reason.

    Args:
        every: All derived options.
        alive: Options that no other dominates.
        found: Options of these that are kept.
    """
    taken, good = {made.recipe for made in found}, {made.recipe for made in alive}
    least = min(made.ns for made in every)
    fastest: dict[str, int] = {}
    for made in every:
        fastest[made.recipe] = min(made.ns, fastest.get(made.recipe, made.ns))
    why = {}
    for recipe, ns in fastest.items():
        if recipe in good - taken:
            why[recipe] = f"{len(found)} other options are kept, and no more"
        elif recipe not in good and ns > _SLOWEST * least:
            why[recipe] = f"it takes {ns / least:.3g} times as long as the fastest option"
        elif recipe not in good:
            why[recipe] = "another option is as fast, and takes no more of any link"
    return why


def kept(alive: Sequence[Offer], most: int) -> list[Offer]:
    """Return the default, and others of those that nothing beats, by turns of sets of channels."""
    queues: dict[tuple[int, ...], list[tuple[int, Offer]]] = {}
    turns: Counter[object] = Counter()
    for made in sorted(alive[1:], key=lambda one: one.ns):
        if made.sure:
            continue
        turns[made.channels, made.recipe] += 1
        queues.setdefault(made.channels, []).append((turns[made.channels, made.recipe], made))
    for queue in queues.values():  # the best of each recipe before the second best of any
        queue.sort(key=lambda row: row[0])
    found = [alive[0], *(made for made in alive[1:] if made.sure)]
    most += len(found) - 1  # those are there beside as many as there are without them
    while len(found) < most and any(queues.values()):
        for queue in queues.values():
            if queue and len(found) < most:
                found.append(queue.pop(0)[1])
    return found


def _beats(rows: Sequence[Offer], one: int, other: int) -> bool:
    """Return whether an option is as good as another in all, and better or earlier in the row."""
    a, b = rows[one], rows[other]
    if a.after != b.after or a.ns > b.ns or not (a.work <= b.work).all():
        return False
    if b.sure and (a.most > b.most).any():  # it takes longer, so that others have more of a link
        return False
    return one < other or a.ns < b.ns or bool((a.work < b.work).any())
