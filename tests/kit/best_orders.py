"""Find the best of many schedules of given chunks by random orders, written from the definitions.

It shares no code with ``sccl.synth``. Every schedule passes verification, so a lower bound for such
chunks that exceeds the finish of one is false.

Chunks are sent one by one. A send takes the next slot on its link in which its budgets have
capacity. A switch with a buffer and copies stores chunks like a rank. Other switches are not
supported. A reduction is a broadcast on the reversed machine, reversed in time.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from sccl.core.clock import AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.schedule import Schedule, build_schedule
from sccl.core.topology import Topology

Send = tuple[int, int, int, int]
"""Start, when the link is free again, when the chunk has arrived (ticks), and the link."""


@dataclass(frozen=True, slots=True)
class _Cost:
    """Cost of a chunk on a link, in ticks.

    Attributes:
        busy: Until the link is free again.
        lag: From then until the chunk has arrived.
        shift: From the start until bytes pass the budgets.
        bytes_for: For how long they pass.
    """

    busy: int
    lag: int
    shift: int
    bytes_for: int


class Orders:
    """Sends of copied chunks, in random orders.

    Args:
        machine: The machine, reversed for a reduction.
        sizes: Bytes of each chunk.
        model: Model of alpha.
        tick_ps: Picoseconds of a tick.
        backwards: Whether the schedule is reversed in time. Bytes of a reduction then pass the
            budgets when, seen from the end, they arrive.
    """

    def __init__(
        self,
        machine: Topology,
        sizes: Sequence[int],
        model: AlphaModel,
        tick_ps: int,
        *,
        backwards: bool,
    ) -> None:
        self.machine, self.sizes = machine, sizes
        self.ticks_per_us = Fraction(10**6, tick_ps)
        place = {link.edge: e for e, link in enumerate(machine.links)}
        self.budgets = [
            (
                1000 * budget.chunks_per_round * Fraction(str(speed)),
                [place[edge] for edge in budget.edges],
            )
            for budget, speed in zip(machine.budgets, machine.budget_speeds(), strict=True)
        ]
        self.of = [
            [b for b, (_, own) in enumerate(self.budgets) if e in own]
            for e in range(len(machine.links))
        ]
        occupies = model is AlphaModel.OCCUPIES
        self.cost = {
            (e, size): self._cost(e, size, occupies=occupies, shifted=occupies != backwards)
            for e in range(len(machine.links))
            for size in set(sizes)
        }

    def _cost(self, e: int, size: int, *, occupies: bool, shifted: bool) -> _Cost:
        link = self.machine.links[e]
        rates = [1000 * link.lanes * Fraction(str(link.gb_per_s))]
        rates += [self.budgets[b][0] for b in self.of[e]]
        passes = max(ceil(size * self.ticks_per_us / rate) for rate in rates)
        alpha = ceil(Fraction(str(link.alpha_us)) * self.ticks_per_us)
        busy, lag = (alpha + passes, 0) if occupies else (passes, alpha)
        return _Cost(busy, lag, alpha if shifted else 0, passes)

    def draw(
        self, rng: random.Random, holders: Sequence[set[int]], goals: Sequence[set[int]]
    ) -> list[tuple[int, Send]] | None:
        """Return the sends of each chunk in a random order, or None if a goal is unreachable.

        Args:
            holders: Ranks that hold each chunk.
            goals: Ranks that demand each chunk.
        """
        have = {(c, r): 0 for c, own in enumerate(holders) for r in own}
        missing = {(c, r) for c, own in enumerate(goals) for r in own if (c, r) not in have}
        free, used = (
            defaultdict[int, int](int),
            defaultdict[int, list[tuple[int, int, Fraction]]](list),
        )
        sends: list[tuple[int, Send]] = []
        greed, bits = rng.choice((0.0, 0.5, 1.0, 1.0)), rng.choice((0.0, 0.3))
        while missing:
            options = [
                (c, e)
                for c in range(len(holders))
                for e, link in enumerate(self.machine.links)
                if (c, link.src) in have and (c, link.dst) not in have
                if any(chunk == c for chunk, _ in missing)
            ]
            if not options:
                return None
            if rng.random() < greed:
                placed = [(self._place(c, e, have, free, used), c) for c, e in options]
                useful = [one for one in placed if (one[1], self._dst(one)) in missing]
                among = useful if useful and rng.random() >= bits else placed
                send, chunk = min(among, key=lambda one: (one[0][2], rng.random()))
            else:
                chunk, e = rng.choice(options)
                send = self._place(chunk, e, have, free, used)
            start, end, there, e = send
            cost = self.cost[e, self.sizes[chunk]]
            free[e] = end
            for b in self.of[e]:
                begin = start + cost.shift
                rate = self.sizes[chunk] * self.ticks_per_us / cost.bytes_for
                used[b].append((begin, begin + cost.bytes_for, rate))
            have[chunk, self.machine.links[e].dst] = there
            missing.discard((chunk, self.machine.links[e].dst))
            sends.append((chunk, send))
        return sends

    def _dst(self, one: tuple[Send, int]) -> int:
        return self.machine.links[one[0][3]].dst

    def _place(
        self,
        chunk: int,
        e: int,
        have: dict[tuple[int, int], int],
        free: dict[int, int],
        used: dict[int, list[tuple[int, int, Fraction]]],
    ) -> Send:
        """Return the earliest send of a chunk over a link after all that the link has sent."""
        cost = self.cost[e, self.sizes[chunk]]
        rate = self.sizes[chunk] * self.ticks_per_us / cost.bytes_for
        first = max(have[chunk, self.machine.links[e].src], free[e])
        ends = {end - cost.shift for b in self.of[e] for _, end, _ in used[b]}
        for start in sorted({first, *(end for end in ends if end > first)}):
            begin, end = start + cost.shift, start + cost.shift + cost.bytes_for
            if all(
                self._has_room(used[b], begin, end, self.budgets[b][0] - rate) for b in self.of[e]
            ):
                break
        return start, start + cost.busy, start + cost.busy + cost.lag, e

    @staticmethod
    def _has_room(
        used: Sequence[tuple[int, int, Fraction]], begin: int, end: int, room: Fraction
    ) -> bool:
        """Return whether the load of a budget never exceeds its capacity from begin to end."""
        across = [one for one in used if one[0] < end and one[1] > begin]
        times = [begin, *(one[0] for one in across if one[0] > begin)]
        return all(
            sum((rate for since, until, rate in across if since <= at < until), Fraction(0)) <= room
            for at in times
        )


def best_schedule(
    machine: Topology,
    collective: Collective,
    sizes: Sequence[int],
    model: AlphaModel,
    rng: random.Random,
    *,
    tries: int = 60,
    tick_ps: int = 1,
) -> Schedule | None:
    """Return the best schedule of random orders, or None if there is none or it is not supported.

    Args:
        collective: Collective, in which a reduced chunk has one destination.
        sizes: Bytes of each chunk.
        tries: Number of random orders.
        tick_ps: Picoseconds of a tick.
    """
    if not all(s.copies and s.buffer_chunks is None for s in machine.switches):
        return None
    backwards = collective.combining
    if backwards and machine.switches:
        return None
    held = [set(map(int, collective.holders(c))) for c in range(collective.num_chunks)]
    wanted = [set(map(int, collective.destinations(c))) for c in range(collective.num_chunks)]
    if backwards:
        if any(len(own) != 1 for own in wanted):
            return None
        held, wanted = wanted, held
    on = machine.reversed() if backwards else machine
    orders = Orders(on, sizes, model, tick_ps, backwards=backwards)
    found = [orders.draw(rng, held, wanted) for _ in range(tries)]
    drawn = [sends for sends in found if sends]
    if not drawn:
        return None
    best = min(drawn, key=lambda sends: max(send[2] for _, send in sends))
    if backwards:
        best = _pruned(best, on, wanted)
    finish = max(send[2] for _, send in best)
    clock = Clock.from_topology(machine, tuple(sizes), model, tick_ps)
    place = {link.edge: e for e, link in enumerate(machine.links)}
    rows = []
    for chunk, (start, end, there, e) in best:
        if backwards:
            edge = on.links[e].edge[::-1]
            lag = there - end
            rows.append((finish - there, finish - start - lag, chunk, place[edge], True))
        else:
            rows.append((start, end, chunk, e, False))
    messages = None if machine.switches else range(len(rows))  # those of switches are inferred
    return build_schedule(machine, collective, rows, clock, messages)


def _pruned(
    sends: list[tuple[int, Send]], machine: Topology, wanted: Sequence[set[int]]
) -> list[tuple[int, Send]]:
    """Return the sends without those to ranks that neither want a chunk nor forward it."""
    needed = {(c, r) for c, own in enumerate(wanted) for r in own}
    kept = []
    for chunk, send in reversed(sends):
        link = machine.links[send[3]]
        if (chunk, link.dst) in needed:
            needed.add((chunk, link.src))
            kept.append((chunk, send))
    return kept
