"""The most bytes that any schedule moves in a time, for machines of few ranks, by brute force.

It is written from the definitions and shares no code with ``sccl.prove`` and ``sccl.synth``. A
lower bound on the completion time of so many bytes that is above the time is therefore false.

Bytes flow: a byte that leaves u over a link (u, v) at time t is at v at t + alpha. A link carries
at most its rate, and the links of a budget together at most the budget's rate, when bytes leave.
Time is cut into slots. In each slot a link carries a flow at a constant rate. Bytes that leave at
the part p of a slot arrive no later than at the part p of the *next* slot of that link, so they can
be forwarded there at the same part p. Such a flow is the limit of schedules of ever smaller chunks.

A chunk that several ranks want is moved along a timed tree. The states of a byte are (ranks that
are still to be served, node, slot). A byte waits, is copied, or is sent, and a hyperflow through
these states is a sum of timed trees. Reductions are hyperflows of partial sums: the state is
(ranks whose contributions are in the sum, node, slot). An allreduce collects each byte at a rank
in some slot and distributes it from there.

If the borders of slots are all multiples of the common divisor of the alphas, counted from both
ends, each slot shifted by an alpha is a slot. The mean of any flow over such slots is a flow of
this kind, so the program finds the optimum for collectives without reductions. It is smaller than
the optimum only for switches without buffers, and for allreduce.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import gcd

from ortools.linear_solver import pywraplp

from sccl.core.collective import Collective
from sccl.core.topology import Topology

MARGIN = 1e-6
"""Relative error of the linear program, subtracted from its optimum."""

State = tuple[Hashable, ...]
"""Name of the hyperflow, mask of ranks, node, and slot."""

SOURCE = -1
"""The node from which chunks enter that several ranks hold."""


def lattice(alphas: Sequence[Fraction], end: Fraction) -> list[Fraction]:
    """Return the multiples of the alphas' common divisor, counted from both ends of a time.

    Args:
        alphas: Latencies in us.
        end: The time in us.
    """
    up = [alpha for alpha in alphas if alpha]
    if not up:
        return [Fraction(0), end]
    parts = 1
    for alpha in up:
        parts = parts * alpha.denominator // gcd(parts, alpha.denominator)
    step = Fraction(gcd(*(int(alpha * parts) for alpha in up)), parts)
    steps = [step * n for n in range(int(end / step) + 1)]
    return sorted({*steps, *(end - at for at in steps), end})


@dataclass
class FluidProgram:
    """The linear program of flows through slots.

    Attributes:
        machine: Ranks, switches, links and budgets.
        borders: Borders of the slots in us, from 0 to the time.
    """

    machine: Topology
    borders: Sequence[Fraction]
    _rows: dict[State, pywraplp.Constraint] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bufferless = any(switch.buffer_chunks is not None for switch in self.machine.switches)
        if bufferless and self.machine.budgets:
            raise ValueError("matchings of the ports of a switch may exceed budgets for a while")
        self.slots = len(self.borders) - 1
        self.solver = pywraplp.Solver.CreateSolver("GLOP")
        links = self.machine.links
        self.alpha = [Fraction(str(k.alpha_us)) for k in links]
        self.rate = [1000 * k.lanes * Fraction(str(k.gb_per_s)) for k in links]
        self.unit = float(max(self.rate))
        self.out: dict[int, list[int]] = {}
        for e, link in enumerate(links):
            self.out.setdefault(link.src, []).append(e)
        self.next = [[self._next(k, e) for k in range(self.slots)] for e in range(len(links))]
        self.length = [float(b - a) for a, b in pairwise(self.borders)]
        self._capacities = [self._capacities_of(k) for k in range(self.slots)]
        self._ports = self._ports_of_bufferless()
        self.size = self.solver.NumVar(0.0, self.solver.infinity(), "size")

    def _next(self, slot: int, link: int) -> int | None:
        """Return the first slot that can forward bytes sent in a slot, or N at the end."""
        begin, end = (self.borders[slot + i] + self.alpha[link] for i in (0, 1))
        if end > self.borders[-1]:
            return None
        first = bisect_left(self.borders, begin)
        while first < self.slots and self.borders[first + 1] < end:
            first += 1
        exact = first < self.slots and (self.borders[first], self.borders[first + 1]) == (
            begin,
            end,
        )
        if not exact and not self.holds(self.machine.links[link].dst):
            return None
        return first

    def holds(self, node: int) -> bool:
        """Return whether bytes may wait at a node."""
        ranks = self.machine.ranks
        return node < ranks or self.machine.switches[node - ranks].buffer_chunks is None

    def copies(self, node: int) -> bool:
        """Return whether a byte may leave a node over several links."""
        ranks = self.machine.ranks
        return node < ranks or (self.machine.switches[node - ranks].copies and self.holds(node))

    def _capacities_of(self, slot: int) -> list[list[pywraplp.Constraint]]:
        """Add the capacity rows of links and budgets in a slot, and return those of links."""
        found: list[list[pywraplp.Constraint]] = []
        length = self.length[slot]
        for rate in self.rate:
            found.append([self.solver.Constraint(0.0, float(rate) / self.unit * length)])
        place = {link.edge: e for e, link in enumerate(self.machine.links)}
        speeds = self.machine.budget_speeds()
        for budget, speed in zip(self.machine.budgets, speeds, strict=True):
            rate = 1000 * budget.chunks_per_round * Fraction(str(speed))
            row = self.solver.Constraint(0.0, float(rate) / self.unit * length)
            for edge in budget.edges:
                found[place[edge]].append(row)
        return found

    def _ports_of_bufferless(self) -> dict[tuple[int, int], pywraplp.Constraint]:
        """Add rows for the ports of switches without buffers: each serves one pair at a time.

        A pair of an inward and an outward link passes bytes at the rate of the slower one, and
        keeps both links to itself. Pairs that share no link pass bytes at the same time. Any load
        in which no link serves pairs for longer than a slot is a sum of such matchings (open shop
        with preemption, Gonzalez and Sahni 1976).
        """
        return {
            (e, k): self.solver.Constraint(0.0, self.length[k])
            for e, link in enumerate(self.machine.links)
            if not (self.holds(link.src) and self.holds(link.dst))
            for k in range(self.slots)
        }

    def row(self, state: State) -> pywraplp.Constraint:
        """Return the balance of a state: inflow minus outflow.

        A byte that is still to be distributed has to leave. A partial sum has to have entered.
        """
        if state not in self._rows:
            infinity = self.solver.infinity()
            bounds = (-infinity, 0.0) if state[0] == "down" else (0.0, infinity)
            self._rows[state] = self.solver.Constraint(*bounds)
        return self._rows[state]

    def arc(
        self, parts: Sequence[State], wholes: Sequence[State], link: int = -1, slot: int = -1
    ) -> pywraplp.Variable:
        """Add a flow out of some states into others, perhaps over a link in a slot."""
        flow = self.solver.NumVar(0.0, self.solver.infinity(), "")
        for state in parts:
            self.row(state).SetCoefficient(flow, -1.0)
        for state in wholes:
            self.row(state).SetCoefficient(flow, 1.0)
        if link >= 0:
            for capacity in self._capacities[slot][link]:
                capacity.SetCoefficient(flow, 1.0)
        return flow

    def _sends(self, node: int, slot: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
        """Yield links over which a byte goes on to a node that holds it, and where and when.

        A byte passes a switch without a buffer at once: so both links are one way.
        """
        for e in self.out.get(node, ()):
            there, to = self.next[e][slot], self.machine.links[e].dst
            if there is None:
                continue
            if self.holds(to):
                yield (e,), to, there
                continue
            for f in self.out.get(to, ()):
                after, last = self.next[f][there], self.machine.links[f].dst
                if after is not None and self.holds(last) and last != node:
                    yield (e, f), last, after

    def send(self, state: State, node: int, slot: int, into: dict[int, State | None]) -> None:
        """Add the flows that leave a state over links.

        Args:
            into: Remaining state at each node that bytes reach, None if nothing remains.
        """
        for links, to, there in self._sends(node, slot):
            if to not in into:
                continue
            target = into[to]
            wholes = [] if target is None else [(*target, there)]
            if there == self.slots and (target is not None and target[0] == "down"):
                continue
            flow = self.arc([state], wholes, links[0], slot)
            if len(links) == 2:
                between = self.next[links[0]][slot]
                assert between is not None
                for capacity in self._capacities[between][links[1]]:
                    capacity.SetCoefficient(flow, 1.0)
                slower = float(min(self.rate[e] for e in links)) / self.unit
                for e, k in ((links[0], slot), (links[1], between)):
                    self._ports[e, k].SetCoefficient(flow, 1.0 / slower)

    # --- chunks that are copied ------------------------------------------------------------------

    def distribute(self, name: Hashable, goals: Sequence[int]) -> None:
        """Add the flows of bytes from any state to the ranks that are still to be served."""
        bit = {rank: 1 << i for i, rank in enumerate(goals)}
        nodes = [v for v in range(self.machine.ranks + len(self.machine.switches)) if self.holds(v)]
        for mask in range(1, 1 << len(goals)):
            into = {v: self._down(name, mask & ~bit.get(v, 0), v) for v in nodes}
            for v in nodes:
                if mask & bit.get(v, 0):
                    continue
                for k in range(self.slots):
                    state = ("down", name, mask, v, k)
                    if k + 1 < self.slots:
                        self.arc([state], [("down", name, mask, v, k + 1)])
                    if self.copies(v):
                        self._split(name, mask, v, k)
                    self.send(state, v, k, into)

    def _split(self, name: Hashable, mask: int, node: int, slot: int) -> None:
        """Add the copies of a byte: one serves some of the ranks, the other one the rest."""
        lowest = mask & -mask
        part = (mask - 1) & mask
        while part:
            if part & lowest:
                parts = [("down", name, some, node, slot) for some in (part, mask & ~part)]
                self.arc([("down", name, mask, node, slot)], parts)
            part = (part - 1) & mask

    def _down(self, name: Hashable, mask: int, node: int) -> State | None:
        return ("down", name, mask, node) if mask else None

    # --- partial sums ----------------------------------------------------------------------------

    def collect(self, name: Hashable, contributors: Sequence[int]) -> None:
        """Add the flows of partial sums, from each contribution to the sum of all."""
        bit = {rank: 1 << i for i, rank in enumerate(contributors)}
        nodes = [v for v in range(self.machine.ranks + len(self.machine.switches)) if self.holds(v)]
        for rank in contributors:
            flow = self.solver.NumVar(0.0, self.solver.infinity(), "")
            self.row(("up", name, bit[rank], rank, 0)).SetCoefficient(flow, 1.0)
        for mask in range(1, 1 << len(contributors)):
            into: dict[int, State | None] = {
                v: ("up", name, mask | bit.get(v, 0), v) for v in nodes if not mask & bit.get(v, 0)
            }
            for v in nodes:
                mine = bit.get(v, 0)
                if mask & mine != mine:
                    continue
                for k in range(self.slots + 1):
                    state = ("up", name, mask, v, k)
                    if k < self.slots:
                        self.arc([state], [("up", name, mask, v, k + 1)])
                        self.send(state, v, k, into)
                    if v < self.machine.ranks:
                        self._merge(name, mask, mine, v, k)

    def _merge(self, name: Hashable, mask: int, own: int, node: int, slot: int) -> None:
        """Add the sums of two partial sums at a rank that have no more than its own in common."""
        rest = mask & ~own
        part = (rest - 1) & rest
        while part:
            if part & (rest & -rest):
                parts = [("up", name, some | own, node, slot) for some in (part, rest & ~part)]
                self.arc(parts, [("up", name, mask, node, slot)])
            part = (part - 1) & rest

    # --- demands ---------------------------------------------------------------------------------

    def demand(self, collective: Collective) -> None:
        """Add the demand of a collective: its share of the size by each class of chunks."""
        for number, ((held, wanted), chunks) in enumerate(collective.chunk_classes().items()):
            share = collective.amount(chunks) / collective.chunks
            holders, goals = sorted(map(int, held)), sorted(map(int, wanted))
            if collective.combining:
                self._reduce(number, holders, goals, share)
            else:
                self._copy(number, holders, [rank for rank in goals if rank not in held], share)

    def _copy(self, name: int, holders: Sequence[int], goals: Sequence[int], share: float) -> None:
        if not goals:
            return
        self.distribute(name, goals)
        whole = (1 << len(goals)) - 1
        if len(holders) == 1:
            self._supply(name, whole, holders[0], share)
            return
        for mask in range(1, whole + 1):
            state = ("down", name, mask, SOURCE, 0)
            self._split(name, mask, SOURCE, 0)
            for rank in holders:
                self.arc([state], [("down", name, mask, rank, 0)])
        self._supply(name, whole, SOURCE, share)

    def _supply(self, name: int, mask: int, node: int, share: float) -> None:
        self.row(("down", name, mask, node, 0)).SetCoefficient(self.size, share)

    def _reduce(
        self, name: int, contributors: Sequence[int], goals: Sequence[int], share: float
    ) -> None:
        if not goals:
            return
        whole = (1 << len(contributors)) - 1
        self.collect(name, contributors)
        served = self.solver.Constraint(0.0, self.solver.infinity())
        served.SetCoefficient(self.size, -share)
        roots = goals if len(goals) == 1 else range(self.machine.ranks)
        if len(goals) > 1:
            self.distribute(name, goals)
        for root in roots:
            rest = sum(1 << i for i, rank in enumerate(goals) if rank != root)
            for k in range(self.slots + 1):
                if rest and k == self.slots:
                    continue
                wholes = [("down", name, rest, root, k)] if rest else []
                flow = self.arc([("up", name, whole, root, k)], wholes)
                served.SetCoefficient(flow, 1.0)

    def solve(self) -> float:
        """Return the most bytes of a rank's buffer."""
        self.solver.Maximize(self.size)
        if self.solver.Solve() != pywraplp.Solver.OPTIMAL:
            return 0.0
        found: float = self.size.solution_value()
        return found * self.unit * (1 - MARGIN)


def most_bytes(machine: Topology, collective: Collective, end: Fraction) -> float:
    """Return bytes of a rank's buffer that some schedule moves in a time, as many as are known.

    The larger of two: flows through the slots of :func:`lattice`, and trees whose links all carry a
    constant flow, each from when the first byte comes, so that the last byte comes a path's alphas
    after it was sent.

    Args:
        end: The time in us.
    """
    alphas = [Fraction(str(link.alpha_us)) for link in machine.links]
    program = FluidProgram(machine, lattice(alphas, end))
    program.demand(collective)
    through = program.solve()
    depth = (1 + collective.combining) * _longest(machine)
    if end <= depth:
        return through
    links = tuple(replace(link, alpha_us=0.0) for link in machine.links)
    steady = FluidProgram(replace(machine, links=links), [Fraction(0), Fraction(1)])
    steady.demand(collective)
    return max(through, steady.solve() * float(end - depth))


def _longest(machine: Topology) -> Fraction:
    """Return the most alphas on any path that passes each rank once."""

    def onward(node: int, ranks: frozenset[int], switches: frozenset[int]) -> Fraction:
        """Return the most alphas from a node on."""
        found = Fraction(0)
        for link in machine.links:
            to, is_rank = link.dst, link.dst < machine.ranks
            if link.src != node or to in (ranks if is_rank else switches):
                continue
            after = (ranks | {to}, frozenset[int]()) if is_rank else (ranks, switches | {to})
            found = max(found, Fraction(str(link.alpha_us)) + onward(to, *after))
        return found

    return max(onward(rank, frozenset([rank]), frozenset()) for rank in range(machine.ranks))
