"""A simulator that goes tick by tick, from the rules alone: for machines on which all takes little.

It shares with ``sccl.sim`` the messages and over which links they go, and nothing of how it works.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from sccl.core.clock import AlphaModel, Clock
from sccl.core.topology import Switch, Topology
from sccl.sim import Messages
from sccl.sim.message_routes import find_routes

MOST_TICKS = 5000


@dataclass
class Leg:
    """Links that a message passes at one pace, from one node where it can stay to another."""

    message: int
    links: list[int]
    rows: list[tuple[int, int, int]] = field(default_factory=list)  # (start, free, arrive)
    began: int | None = None


class SlowSimulator:
    def __init__(self, messages: Messages, topology: Topology, clock: Clock) -> None:
        self.m, self.topology, self.clock = messages, topology, clock
        ways = find_routes(topology, messages.src, messages.dst)
        self.legs = [
            self.legs_of(i, ways.link[ways.first[r] : ways.first[r + 1]].tolist())
            for i, r in enumerate(ways.route.tolist())
        ]
        self.at = [0] * len(messages)  # the leg that each is on
        self.ready: list[int | None] = [None] * len(messages)
        self.queues: dict[int, list[Leg]] = defaultdict(list)
        self.came: list[Leg] = []
        self.alpha_in = [a * (clock.model is AlphaModel.OCCUPIES) for a in clock.alpha]
        self.starts: list[Leg] = []
        self.order: list[tuple[int, int]] | None = None  # (message, leg), as with barriers
        if (messages.step >= 0).any():
            barriers = SlowSimulator(messages.with_barriers(), topology, clock)
            barriers.run()
            self.order = [barriers.name(leg) for leg in barriers.starts]

    def switch(self, node: int) -> Switch | None:
        ranks = self.topology.ranks
        return self.topology.switches[node - ranks] if node >= ranks else None

    def legs_of(self, message: int, links: list[int]) -> list[Leg]:
        legs = [Leg(message, [])]
        for link in links:
            legs[-1].links.append(link)
            switch = self.switch(self.topology.links[link].dst)
            if switch is None or switch.buffer_chunks != 0:
                legs.append(Leg(message, []))
        return legs[:-1] if not legs[-1].links else legs

    def name(self, leg: Leg) -> tuple[int, int]:
        return leg.message, self.legs[leg.message].index(leg)

    def resources(self, leg: Leg) -> set[tuple[str, int]]:
        found = {("link", link) for link in leg.links}
        found |= {("budget", budget) for budget in self.shares(leg)}
        node = self.topology.links[leg.links[-1]].dst
        switch = self.switch(node)
        if switch and switch.buffer_chunks and leg is not self.legs[leg.message][-1]:
            found.add(("switch", node))
        return found

    def has_turn(self, leg: Leg) -> bool:
        """Return whether all have started that use something of a leg before it with barriers."""
        if self.order is None:
            return True
        if self.name(leg) not in self.order:
            return False
        before = self.order[: self.order.index(self.name(leg))]
        legs = [self.legs[message][i] for message, i in before]
        mine = self.resources(leg)
        return all(o.began is not None for o in legs if mine & self.resources(o))

    def shares(self, leg: Leg) -> list[int]:
        edges = {self.topology.links[k].edge for k in leg.links}
        return [i for i, b in enumerate(self.topology.budgets) if edges & set(b.edges)]

    def capacity(self, budget: int) -> Fraction:
        speed = self.topology.budget_speeds()[budget]
        return self.topology.budgets[budget].chunks_per_round * Fraction(str(speed))

    def rate(self, leg: Leg) -> Fraction:
        links = [self.topology.links[k] for k in leg.links]
        own = [k.lanes * Fraction(str(k.gb_per_s)) for k in links]
        return min(own + [self.capacity(b) for b in self.shares(leg)])

    def passing(self, leg: Leg) -> int:
        chunk = int(self.m.chunk[leg.message])
        ticks = [self.clock.busy(k, chunk) - self.alpha_in[k] for k in leg.links]
        ticks += [self.clock.budget_ticks(b, chunk) for b in self.shares(leg)]
        kept = int(self.m.at_least[leg.message]) - self.alpha_in[leg.links[0]]
        return max(*ticks, kept, 0)

    def idle(self, budget: int) -> int:
        edges = self.topology.budgets[budget].edges
        pairs = zip(self.topology.links, self.alpha_in, strict=True)
        return min(a for k, a in pairs if k.edge in edges)

    def held_until(self, leg: Leg) -> int:
        return leg.rows[-1][1] - min((self.idle(b) for b in self.shares(leg)), default=0)

    def all_legs(self) -> list[Leg]:
        return [leg for legs in self.legs for leg in legs]

    def in_switch(self, node: int, tick: int) -> int:
        count = 0
        for legs in self.legs:
            for leg, after in pairwise(legs):
                if leg.began is None or self.topology.links[leg.links[-1]].dst != node:
                    continue
                left = after.began is not None
                switch = self.switch(node)
                if left and switch and not switch.cut_through:
                    left = self.held_until(after) <= tick
                count += not left
        return count

    def fits(self, leg: Leg, tick: int) -> bool:
        offset = 0
        for link in leg.links:
            for other in self.all_legs():
                for k, row in zip(other.links, other.rows, strict=False):
                    if k == link and row[1] > tick + offset:
                        return False
            offset += self.clock.alpha[link]
        for budget in self.shares(leg):
            using = [o for o in self.all_legs() if o.rows and budget in self.shares(o)]
            used = sum(self.rate(o) for o in using if self.held_until(o) > tick)
            kept = self.m.at_least[leg.message] > 0
            if not kept and used + self.rate(leg) > self.capacity(budget):
                return False
        node = self.topology.links[leg.links[-1]].dst
        if (switch := self.switch(node)) is None or leg is self.legs[leg.message][-1]:
            return True
        return not switch.buffer_chunks or self.in_switch(node, tick) < switch.buffer_chunks

    def start(self, leg: Leg, tick: int) -> None:
        passing, offset = self.passing(leg), tick
        for link in leg.links:
            free = offset + passing + self.alpha_in[link]
            leg.rows.append((offset, free, offset + passing + self.clock.alpha[link]))
            offset += self.clock.alpha[link]
        leg.began = tick
        self.starts.append(leg)
        self.queues[leg.links[0]].remove(leg)
        legs = self.legs[leg.message]
        if leg is not legs[-1]:
            after = legs[legs.index(leg) + 1]
            switch = self.switch(self.topology.links[leg.links[-1]].dst)
            whole = offset + passing
            early = max(offset, whole - self.passing(after))
            self.ready[leg.message] = early if switch and switch.cut_through else whole
            self.at[leg.message] += 1

    def open(self, gate: int, tick: int) -> bool:
        """Return whether all that a gate counts has happened."""
        if gate < 0:
            return True
        for i, legs in enumerate(self.legs):
            if self.m.arrival_opens[i] == gate and not (
                legs[-1].rows and legs[-1].rows[-1][2] <= tick
            ):
                return False
            if self.m.start_opens[i] == gate and legs[0].began is None:
                return False
        onward = zip(self.m.opened.tolist(), self.m.counted_at.tolist(), strict=True)
        return all(self.open(before, tick) for before, after in onward if after == gate)

    def comes(self, message: int, tick: int) -> bool:
        """Return whether a message comes to a queue now."""
        if self.at[message] == 0:
            late = tick < self.m.release[message]
            if late or not self.open(int(self.m.waits_for[message]), tick):
                return False
        elif self.ready[message] is None or self.ready[message] > tick:  # type: ignore[operator]
            return False
        leg = self.legs[message][self.at[message]]
        return leg not in self.came and self.has_turn(leg)

    def tick(self, tick: int) -> None:
        while True:
            heads = [q[0] for q in self.queues.values() if q]
            able = [leg for leg in sorted(heads, key=self.came.index) if self.fits(leg, tick)]
            if able:
                self.start(able[0], tick)
                continue
            coming = [i for i in range(len(self.m)) if self.comes(i, tick)]
            if not coming:
                return
            leg = self.legs[coming[0]][self.at[coming[0]]]
            self.came.append(leg)
            self.queues[leg.links[0]].append(leg)

    def run(self) -> list[tuple[int, int, int]] | None:
        """Return (start, free, arrive) of every hop, or None if messages wait for one another."""
        for tick in range(MOST_TICKS):
            self.tick(tick)
            if all(leg.rows for leg in self.all_legs()):
                return [row for leg in self.all_legs() for row in leg.rows]
        return None
