"""Capacity over time: how many bytes links that share budgets can carry before a deadline.

A counted byte starts at a source and has to reach a goal. It can pass link e only in a window
[begin, T - lost]: not before it can have reached the link, and not so late that it misses the
completion time T. Let *before* be the smallest sum of alphas from a source to the link, and *after*
the smallest sum from the link to a goal.

- Alphas travel: bytes pass from the start of a transfer on, and arrive alpha later. So begin =
  before and lost = alpha + after.
- Alphas occupy: the link carries nothing during alpha. So begin = before + alpha and lost = after,
  where *after* excludes the alphas of links out of cut-through switches: these may run while the
  bytes still arrive.

**Lemma.** Let the links E of a budget have rates r_e, and let the budget allow R bytes per
microsecond. The counted bytes that pass links of E by time T are at most

    C(T) = integral over t of min(R, sum of r_e over the links whose window contains t).

*Proof.* At time t only links whose window contains t carry such bytes, link e at most r_e, and all
of them together at most R. Integrate. []

C is piecewise linear in T. Its slope changes only where the end of one window meets the begin of
another. With one window for all links C(T) = min(R, sum r_e) (T - begin - lost). In general C(T) is
at most R (T - min begin - min lost), where different links may attain the two minima. A link in
several budgets counts in the first one that binds. All other links count separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

from sccl.core.ids import Edge

MAX_WINDOWS = 6
"""Maximum number of windows of one budget for an exact C(T), which takes cubic work."""


class LinkWindow(NamedTuple):
    """The time window [begin, T - lost] in which a link can carry counted bytes, microseconds."""

    begin: Fraction
    lost: Fraction


SlopeChange = tuple[Fraction, Fraction]
"""(completion time T in microseconds, change of the slope of C there in bytes per microsecond)."""


def capacity_changes(
    windows: Mapping[Edge, LinkWindow],
    rates: Mapping[Edge, Fraction],
    budgets: Iterable[tuple[Sequence[Edge], Fraction]],
) -> list[SlopeChange]:
    """Return the slope changes of C(T) for some links, ascending in T.

    Args:
        windows: Window of each counted link.
        rates: Rate of each link, bytes per microsecond.
        budgets: Pairs (links, rate). A link counts in the first budget that binds.
    """
    left = dict(windows)
    changes: list[SlopeChange] = []
    for edges, rate in budgets:
        members = [edge for edge in edges if edge in left]
        if members and rate < sum(rates[edge] for edge in members):
            together: dict[LinkWindow, Fraction] = {}
            for edge in members:
                window = left.pop(edge)
                together[window] = together.get(window, Fraction(0)) + rates[edge]
            changes += _budget_capacity(together, rate)
    changes += [(window.begin + window.lost, rates[edge]) for edge, window in left.items()]
    return sorted(changes)


def _budget_capacity(together: Mapping[LinkWindow, Fraction], rate: Fraction) -> list[SlopeChange]:
    """Return the slope changes of C(T) for the links of one budget, by window."""
    begins = {window.begin for window in together}
    lost = {window.lost for window in together}
    first = min(begins) + min(lost)
    if len(together) == 1:
        return [(first, min(rate, *together.values()))]
    if len(together) > MAX_WINDOWS:
        return [(first, rate)]
    corners = sorted({begin + end for begin in begins for end in lost})
    corners.append(corners[-1] + 1)
    carried = [_budget_capacity_at(together, rate, corner) for corner in corners]
    slopes = [
        (bytes_end - bytes_begin) / (end - begin)
        for (begin, end), (bytes_begin, bytes_end) in zip(
            pairwise(corners), pairwise(carried), strict=True
        )
    ]
    steps = zip(corners, pairwise([Fraction(0), *slopes]), strict=False)
    return [(corner, after - before) for corner, (before, after) in steps if after != before]


def _budget_capacity_at(
    together: Mapping[LinkWindow, Fraction], rate: Fraction, time: Fraction
) -> Fraction:
    """Return C(T) for the links of one budget."""
    events: list[SlopeChange] = []
    for (begin, lost), link_rate in together.items():
        if begin < time - lost:
            events += [(begin, link_rate), (time - lost, -link_rate)]
    carried, in_use, at = Fraction(0), Fraction(0), Fraction(0)
    for when, change in sorted(events):
        carried += min(rate, in_use) * (when - at)
        in_use, at = in_use + change, when
    return carried


def completion_time(changes: Sequence[SlopeChange], amount: Fraction) -> tuple[Fraction, Fraction]:
    """Return the first T with C(T) >= amount, and the steepest slope of C from there on.

    Each byte above ``amount`` takes at least 1 / slope microseconds. The slope of C may decrease,
    since two windows share the budget as soon as they overlap.

    Args:
        changes: Changes in ascending order of T. The slope is never negative.
        amount: Bytes, more than 0.
    """
    slope, at, needed = Fraction(0), Fraction(0), amount
    for i, (when, change) in enumerate(changes):
        if slope and needed <= slope * (when - at):
            rest = (later_change for _, later_change in changes[i:])
            return at + needed / slope, max(accumulate(rest, initial=slope))
        needed -= slope * (when - at)
        slope, at = slope + change, when
    return at + needed / slope, slope
