"""Time slots for flows: the first slot in which received data can be forwarded.

Each byte is sent in a slot. A link carries as many bytes in a slot as the length of the slot
allows. Consider a send over a link of alpha a in a slot from b to e. One of two rules selects the
slots in which the data can be forwarded. Proofs: ``docs/mathematics/time.md``.

- *Below*: slots that end after b + a. Every schedule obeys this rule, so the best packing is a
  lower bound on time.
- *Above*: slots that begin at b + a or later and end at e + a or later. A packing by this rule is a
  schedule with arbitrarily small chunks: each byte has the same relative position in each slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import FloatArray, IntArray
from sccl.synth.limits import SLACK_DIVISOR
from sccl.synth.packing.flow_problem import FlowProblem, SlotTree

BorderRule = Literal["above", "below"]


@dataclass(frozen=True, slots=True, eq=False)
class TimeSlots:
    """Slots whose lengths are ``fixed + grows @ z`` for variables z of 0 or more, microseconds.

    The time is the sum of z. The variables satisfy ``rows @ z >= row_minima``. Slots may overlap in
    time. Overlapping slots share a room, which has the capacity of one slot.

    Attributes:
        fixed: Shape (rooms,).
        grows: Shape (rooms, variables).
        rows: Shape (rows, variables).
        row_minima: Shape (rows,).
        arrive: First slot in which bytes that were sent in a slot can be forwarded, shape (links,
            slots). The number of slots: they arrive by the end, too late to forward. -1: they
            arrive too late.
        offset: Offset between the begins of consecutive slots if all share one room. 0: slots
            follow one another, each in its own room.
    """

    fixed: NDArray[np.float64]
    grows: NDArray[np.float64]
    rows: NDArray[np.float64]
    row_minima: NDArray[np.float64]
    arrive: IntArray
    offset: float = 0.0

    @property
    def count(self) -> int:
        """Return the number of slots."""
        return int(self.arrive.shape[1])

    @property
    def room(self) -> IntArray:
        """Return the room of each slot."""
        return np.zeros(self.count, np.int64) if self.offset else np.arange(self.count)

    def lengths(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the lengths of all slots."""
        return np.maximum(self.fixed + self.grows @ z, 0.0)[self.room]

    def begins(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the begins of slots with given lengths."""
        if self.offset:
            return self.offset * np.arange(self.count, dtype=np.float64)
        return np.concatenate([[0.0], np.cumsum(lengths)[:-1]])


def variable_slots(
    problem: FlowProblem, potentials: tuple[Fraction, ...], unit: Fraction, count: int
) -> TimeSlots:
    """Return slots of variable lengths.

    Bytes sent over a link can be forwarded n slots later, with n = alpha / unit, rounded up. These
    n slots together are at least as long as alpha. A time without sends follows the last slot, so
    that the last bytes arrive.

    Args:
        problem: The flow problem.
        potentials: Delay of all slots of each sending rank, microseconds. If the delays of the two
            ends of a link differ by its alpha, bytes are forwarded in the same slot.
        unit: One of the remaining delays of links, microseconds.
        count: Number of slots.
    """
    alpha, waits = problem.alpha, link_waits(problem, potentials)
    ends = [a + potentials[u] for a, (u, _) in zip(alpha, problem.edges, strict=True)]
    arrive = np.full((len(alpha), count), -1, np.int64)
    windows: dict[tuple[int, int], Fraction] = {}
    for wait, end in sorted(set(zip(waits, ends, strict=True))):
        delay = int(-(-wait // unit)) if wait > 0 else 0
        # Bytes on a longer path than others would delay the end, so they leave a slot earlier.
        last = count - max(delay, 1) - (delay == 1 and wait > min(w for w in waits if w > 0))
        row = [min(k + delay, count) if k <= last else -1 for k in range(count)]
        arrive[
            [e for e, both in enumerate(zip(waits, ends, strict=True)) if both == (wait, end)]
        ] = row
        if last >= 0:
            _add_requirement(windows, last + 1, count - last, end)
        for k in range(last + 1) if delay else ():
            _add_requirement(windows, k, delay, wait)
            _add_requirement(windows, k + 1, delay, wait)
    rows = np.zeros((len(windows), count + 1))
    for i, (first, slots) in enumerate(windows):
        rows[i, first : first + slots] = 1.0
    grows = np.hstack([np.eye(count), np.zeros((count, 1))])
    lower_bounds = np.array([float(a) for a in windows.values()])
    return TimeSlots(np.zeros(count), grows, rows, lower_bounds, arrive)


def steady_slots(alpha: tuple[Fraction, ...], unit: Fraction, count: int) -> TimeSlots:
    """Return slots of one length, each a unit later than the one before.

    Bytes sent over a link can be forwarded n slots later, with n = alpha / unit, rounded up: each
    byte flows through its tree without a stop. Trees that share a link may use different slots, and
    never carry more at a time than all of them together.
    """
    arrive = _arrivals([max(0, int(-(-a // unit))) for a in alpha], count)
    # the length, and the time in which the last data are forwarded
    grows, rows = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    return TimeSlots(np.zeros(1), grows, rows, np.array([float(count * unit)]), arrive, float(unit))


def _arrivals(delays: Sequence[int], count: int) -> IntArray:
    """Return the slots in which bytes arrive after delays in slots, shape (links, slots)."""
    arrivals = np.arange(count) + np.array(delays, np.int64)[:, None]
    return np.where(arrivals <= count, arrivals, -1)


def link_waits(problem: FlowProblem, potentials: tuple[Fraction, ...]) -> list[Fraction]:
    """Return the least delay of each link's slots at its destination after those at its source."""
    each = zip(problem.alpha, problem.edges, strict=True)
    return [alpha + potentials[u] - potentials[v] for alpha, (u, v) in each]


def _add_requirement(
    windows: dict[tuple[int, int], Fraction], first: int, slots: int, lower_bound: Fraction
) -> None:
    """Require that ``slots`` slots from ``first`` on have at least a total length."""
    windows[first, slots] = max(lower_bound, windows.get((first, slots), lower_bound))


def bordered_slots(
    alpha: tuple[Fraction, ...],
    starts: frozenset[Fraction],
    ends: frozenset[Fraction],
    time: Fraction,
    rule: BorderRule,
) -> TimeSlots:
    """Return slots with borders at some times after the start and before the end.

    The only variable is the time. The order of the borders, and the order between slots, are those
    of ``time``.
    """
    at = {Fraction(0): (Fraction(0), 0), time: (Fraction(0), 1)}
    for s in starts:
        if 0 < s < time:
            at.setdefault(s, (s, 0))
    for c in ends:
        if 0 < time - c < time:
            at.setdefault(time - c, (-c, 1))
    borders = sorted(at)
    fixed = np.array([float(at[b][0] - at[a][0]) for a, b in pairwise(borders)])
    grows = np.array([[at[b][1] - at[a][1]] for a, b in pairwise(borders)])
    count = len(borders) - 1
    arrive = np.full((len(alpha), count), -1, np.int64)
    for a in set(alpha):
        row = [_first_usable_slot(borders, k, a, rule) for k in range(count)]
        arrive[[e for e, delay in enumerate(alpha) if delay == a]] = row
    no_windows = np.zeros((0, 1))
    return TimeSlots(fixed, grows.astype(np.float64), no_windows, np.zeros(0), arrive)


def _first_usable_slot(borders: list[Fraction], k: int, alpha: Fraction, rule: BorderRule) -> int:
    """Return the first slot in which bytes of slot k can be forwarded. -1: they arrive too late."""
    count = len(borders) - 1
    begins, ends = borders[k] + alpha, borders[k + 1] + alpha
    if rule == "below":
        if begins >= borders[-1]:
            return -1
        return next(j for j in range(count) if borders[j + 1] > begins)
    if ends > borders[-1]:
        return -1
    fits = (j for j in range(count) if borders[j] >= begins and borders[j + 1] >= ends)
    return next(fits, count)


def border_changes(
    alpha: tuple[Fraction, ...], starts: frozenset[Fraction], ends: frozenset[Fraction]
) -> list[Fraction]:
    """Return the times at which borders, or slots a link's alpha apart, change their order."""
    met = {s + c for s in starts | {Fraction(0)} for c in ends | {Fraction(0)}}
    return sorted(met | {m + a for m in met for a in set(alpha)})


def uniform_slots(alpha: tuple[Fraction, ...], length: Fraction, count: int) -> TimeSlots:
    """Return slots of one length (epochs). Bytes sent over a link arrive by the end of a slot.

    A delay that extends into a slot by less than a tenth of it does not count as another slot.
    """
    waits = {a: 1 + max(0, ceil((a - length / SLACK_DIVISOR) / length)) for a in set(alpha)}
    arrive = _arrivals([waits[a] for a in alpha], count)
    lengths = np.full(count, float(length))
    return TimeSlots(lengths, np.zeros((count, 0)), np.zeros((0, 0)), np.zeros(0), arrive)


def rounded_slots(alpha: tuple[Fraction, ...], length: Fraction, count: int) -> TimeSlots:
    """Return slots of one length, with alphas rounded to slots: for a plan, not for a proof.

    All slots grow equally if links would be overloaded. Sends then keep the planned order, each as
    soon as possible, so their time may be above or below that of the slots.
    """
    waits = {a: max(1, round(a / length)) if a else 0 for a in set(alpha)}
    arrive = _arrivals([waits[a] for a in alpha], count)
    grows = np.full((count, 1), 1.0 / count)
    return TimeSlots(np.zeros(count), grows, np.zeros((0, 1)), np.zeros(0), arrive)


def nearest_length(alpha: tuple[Fraction, ...], time: Fraction, count: int) -> Fraction:
    """Return a length for about ``count`` slots of a time, with the least rounding of alphas."""
    kinds = sorted(set(alpha))
    each = [time / Fraction(count * n, 24) for n in range(18, 33)]
    near = [max(abs(a - round(a / length) * length) for a in kinds) for length in each]
    return each[min(range(len(each)), key=lambda i: (near[i], abs(i - 6)))]


@dataclass(frozen=True, slots=True, eq=False)
class TreePart:
    """A share of a commodity, and the tree that carries it."""

    commodity: int
    tree: SlotTree
    part: float


@dataclass(frozen=True, slots=True, eq=False)
class TimedPacking:
    """A packing of some slots.

    Attributes:
        slots: The slots.
        us: Completion time, microseconds.
        lower_bound_us: Lower bound for packings of these slots, microseconds.
        shares: Trees with their shares. The shares of each commodity add up to 1.
        lengths: Lengths of the slots, microseconds.
        is_complete: Whether the trees meet all demands. If not, the slots are too few or too short.
        prices: Prices that prove ``lower_bound_us``, per unit of a resource, shape (resources,
            rooms).
    """

    slots: TimeSlots
    us: float
    lower_bound_us: float
    shares: tuple[TreePart, ...]
    lengths: FloatArray
    is_complete: bool
    prices: FloatArray
