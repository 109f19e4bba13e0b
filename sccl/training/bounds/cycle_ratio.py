"""Find dependency cycles over iterations, whose mean length bounds the period.

Along a cycle each op begins no earlier than the end of the previous one. The last dependency leads
back to the first op, as many iterations later as the lags add up to. So these iterations take at
least the time of its ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple


class Arc(NamedTuple):
    """That something begins so much later than something else.

    Attributes:
        before: number.
        after: number.
        ticks: from the begin of the one to that of the other, so many iterations later.
        lag: of these.
    """

    before: int
    after: int
    ticks: int
    lag: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """Arcs one after the other, of which the last leads to where the first begins."""

    arcs: tuple[Arc, ...]

    @property
    def ratio(self) -> Fraction:
        """Return its ticks for each iteration, or 0 if it has no arcs."""
        lag = sum(arc.lag for arc in self.arcs)
        return Fraction(sum(arc.ticks for arc in self.arcs), lag) if lag else Fraction(0)


def find_critical_cycle(count: int, arcs: Sequence[Arc]) -> Cycle:
    """Return the cycle with the largest time per iteration. Without arcs: a cycle of no time.

    Every cycle has a lag. Bellman-Ford: while some cycle is slower than the slowest known, it is
    found as a cycle of positive length.

    Args:
        count: Number of nodes, from 0 on.
    """
    arcs = sorted(arcs, key=lambda arc: (arc.lag, arc.before))
    best = Cycle(())
    while circle := _find_slower_cycle(count, arcs, best.ratio):
        best = circle
    return best


def _find_slower_cycle(count: int, arcs: Sequence[Arc], than: Fraction) -> Cycle | None:
    far = [0] * count
    came: list[Arc | None] = [None] * count
    changed = True
    while changed:
        changed = False
        for arc in arcs:
            then = far[arc.before] + arc.ticks * than.denominator - arc.lag * than.numerator
            if then > far[arc.after]:
                far[arc.after], came[arc.after], changed = then, arc, True
        if changed and (circle := _extract_cycle(came)):
            return circle
    return None


def _extract_cycle(came: Sequence[Arc | None]) -> Cycle | None:
    """Return a circle among the last arcs by which each was reached: such a one gains."""
    seen = [-1] * len(came)
    for begun in range(len(came)):
        at, arc = begun, came[begun]
        while arc is not None and seen[at] < 0:
            seen[at], at = begun, arc.before
            arc = came[at]
        if arc is not None and seen[at] == begun:
            around = [arc]
            while around[-1].before != at:
                then = came[around[-1].before]
                assert then is not None
                around.append(then)
            return Cycle(tuple(reversed(around)))
    return None
