"""Random schedules that are right, mutations of them, and a slow judge that goes tick by tick.

The slow judge is written from the definitions alone and shares nothing with ``sccl.judge``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from sccl.collectives import Spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.schedule import Schedule, build_schedule
from sccl.core.topology import Budget, Link, Switch, Topology
from tests.kit.strategies import specs

TICK_PS = 1000
"""At 1 GB/s a byte a tick: a chunk of a few bytes takes a few ticks."""


@st.composite
def switches(draw: st.DrawFn) -> Switch:
    """Return a switch of any kind that there is."""
    cut_through = draw(st.booleans())
    buffer = draw(st.sampled_from([None, 1, 2] + [0] * cut_through))
    return Switch("hub", draw(st.booleans()), buffer, cut_through)


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Return a strongly connected machine of unequal links, perhaps with a bus and a switch."""
    ranks = draw(st.integers(2, 4))
    hub = (draw(switches()),) if draw(st.booleans()) else ()
    cycle = {(r, (r + 1) % ranks) for r in range(ranks)}
    if hub:
        cycle = {edge for r in range(ranks) for edge in ((r, ranks), (ranks, r))}
    others = [(u, v) for u in range(ranks) for v in range(ranks) if u != v and (u, v) not in cycle]
    edges = sorted({*cycle, *draw(st.sets(st.sampled_from(others)) if others else st.just(set()))})
    link = st.tuples(
        st.integers(1, 2), st.sampled_from([0.0, 0.001, 0.003]), st.sampled_from([0.5, 1.0, 3.0])
    )
    links = tuple(Link(u, v, *draw(link)) for u, v in edges)
    bus = draw(st.sets(st.sampled_from(edges)))
    speed = draw(st.sampled_from([0.7, 1.0, 2.0]))
    budgets = (Budget("bus", tuple(sorted(bus)), draw(st.integers(1, 3)), speed),) if bus else ()
    return Topology("random", ranks, links, 0.0, 1.0, budgets=budgets, switches=hub)


Sent = dict[int, int]
"""The message of each chunk that is sent together with the others."""


@dataclass
class Maker:
    """Transfers that are put one after the other where there is room."""

    topology: Topology
    clock: Clock
    draw: st.DrawFn

    def __post_init__(self) -> None:
        self.place = {k.edge: i for i, k in enumerate(self.topology.links)}
        self.free: dict[object, int] = defaultdict(int)
        self.rows: list[tuple[int, int, int, int, bool]] = []
        self.messages: list[int] = []
        self.message = 0

    def way(self, src: int, dst: int) -> list[int]:
        """Return the nodes of a shortest way between ranks, both ends among them."""
        before = {src: src}
        reached = [src]
        for node in reached:
            for nearest in self.topology.successors()[node]:
                if nearest not in before:
                    before[nearest] = node
                    reached.append(nearest)
        found = [dst]
        while found[-1] != src:
            found.append(before[found[-1]])
        return found[::-1]

    def pipes(self, link: int) -> list[object]:
        """Return the exclusive resources of a transfer over a link: the link and its budgets."""
        edge = self.topology.links[link].edge
        return [link, *(b.name for b in self.topology.budgets if edge in b.edges)]

    def hop(
        self, sent: Sent, link: int, times: tuple[int, int], *, reduce: bool, slack: bool
    ) -> tuple[int, int]:
        """Add a transfer that starts and ends at some ticks or later, and return these."""
        pipes = self.pipes(link)
        start = max([times[0], *(self.free[p] for p in pipes)]) + self.draw(
            st.integers(0, int(slack))
        )
        alpha = self.clock.alpha[link] if self.clock.model is AlphaModel.OCCUPIES else 0
        shares = [
            alpha + sum(self.clock.budget_ticks(i, chunk) for chunk in sent)
            for i in range(len(pipes) - 1)
        ]
        passes = alpha + sum(self.clock.busy(link, chunk) - alpha for chunk in sent)
        end = max(start + max([passes, *shares]) + self.draw(st.integers(0, 1)), times[1])
        self.free |= dict.fromkeys(pipes, end)
        self.rows += [(start, end, chunk, link, reduce) for chunk in sent]
        self.messages += sent.values()
        return start, end

    def send(self, chunks: list[int], nodes: list[int], ready: int, *, reduce: bool) -> int:
        """Send chunks along a way, together where there is room, and return when all are there."""
        rooms = [self.topology.switches[n - self.topology.ranks] for n in nodes[1:-1]
                 if n >= self.topology.ranks]  # fmt: skip
        most = min((s.buffer_chunks for s in rooms if s.buffer_chunks), default=len(chunks))
        many = self.draw(st.sampled_from([max(most, 1), 1]))
        parts = [chunks[i : i + many] for i in range(0, len(chunks), many)]
        return max(self.send_together(part, nodes, ready, reduce=reduce) for part in parts)

    def send_together(
        self, chunks: list[int], nodes: list[int], ready: int, *, reduce: bool
    ) -> int:
        """Send chunks along a way, each hop one transfer of all, and return when they are there."""
        ranks, first, last = self.topology.ranks, ready, 0
        sent = {chunk: self.message + i for i, chunk in enumerate(chunks)}
        if len(nodes) > 2:  # all that it needs is free, so that it waits in no switch
            links = [self.place[edge] for edge in pairwise(nodes)]
            pipes = [pipe for link in links for pipe in self.pipes(link)]
            first = max([first, *(self.free[p] for p in pipes)])
            first = max([first, *(self.free["switch", node] for node in nodes[1:-1])])
        for i, (u, v) in enumerate(pairwise(nodes)):
            link = self.place[u, v]
            final = i == len(nodes) - 2
            start, end = self.hop(sent, link, (first, last), reduce=reduce and final, slack=i == 0)
            last = end + self.clock.lag(link)
            stored = v < ranks or not self.topology.switches[v - ranks].cut_through
            first = last if stored else start + self.clock.alpha[link]
            self.free["switch", v] = self.free["switch", u] = last
        self.message += len(chunks)
        return last


@st.composite
def right(draw: st.DrawFn, of: Callable[[int], st.SearchStrategy[Spec]] = specs) -> Schedule:
    """Draw a valid schedule, some of whose transfers may carry several chunks.

    Args:
        of: Function from the number of ranks to collectives.
    """
    topology = draw(machines())
    spec = draw(of(topology.ranks))
    collective = spec.at(spec.unit * draw(st.integers(1, 2)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    each = tuple(draw(st.sampled_from(sizes)) for _ in range(collective.num_chunks))
    model = draw(st.sampled_from(AlphaModel))
    maker = Maker(topology, Clock.from_topology(topology, each, model, TICK_PS), draw)
    alike = draw(st.permutations([list(chunks) for chunks in collective.chunk_classes().values()]))
    many = draw(st.sampled_from([2, 3, 1]))
    for chunks in (own[i : i + many] for own in alike for i in range(0, len(own), many)):
        has = dict.fromkeys(sorted(collective.holders(chunks[0])), 0)
        wanted = sorted(collective.destinations(chunks[0]))
        if collective.combining and wanted:
            root, at = wanted[0], 0
            for rank in has:
                if rank != root:  # straight to the root, through nodes that keep nothing
                    at = max(at, maker.send(chunks, maker.way(rank, root), 0, reduce=True))
            has = {root: at}
        for rank in wanted:
            if rank not in has:
                source = draw(st.sampled_from(sorted(has)))
                nodes = maker.way(source, rank)
                has[rank] = maker.send(chunks, nodes, has[source], reduce=False)
    return build_schedule(topology, collective, maker.rows, maker.clock, maker.messages)


@st.composite
def mutated(draw: st.DrawFn, schedule: Schedule) -> Schedule:
    """Return a schedule of which a row starts or ends otherwise, is elsewhere, gone or doubled."""
    columns = (schedule.start, schedule.end, schedule.chunk, schedule.link, schedule.reduce)
    rows: list[Any] = list(zip(*(c.tolist() for c in columns), strict=True))
    messages = [] if schedule.message is None else schedule.message.tolist()
    i = draw(st.integers(0, len(rows) - 1))
    start, end, chunk, link, reduce = rows[i]
    last = schedule.finish
    match draw(st.sampled_from(["earlier", "later", "shorter", "link", "gone", "doubled", "how"])):
        case "earlier":
            shift = draw(st.integers(0, start))
            rows[i] = (start - shift, end - shift, chunk, link, reduce)
        case "later":
            shift = draw(st.integers(1, 3))
            rows[i] = (start + shift, end + shift, chunk, link, reduce)
        case "shorter":
            rows[i] = (start, draw(st.integers(start + 1, end)), chunk, link, reduce)
        case "link":
            other = draw(st.integers(0, len(schedule.topology.links) - 1))
            rows[i] = (start, end, chunk, other, reduce)
        case "gone":
            del rows[i], messages[i]
        case "doubled":
            at = draw(st.integers(0, last + 1))
            rows.append((at, at + end - start, chunk, link, reduce))
            messages.append(messages[i])
        case "how":
            rows[i] = (start, end, chunk, link, not reduce)
    if len({row[:1] + row[2:4] for row in rows}) < len(rows):
        return schedule  # the same transfer twice is no form of a schedule
    return build_schedule(schedule.topology, schedule.collective, rows, schedule.clock, messages)


@dataclass
class Row:
    """A transfer and its state as ticks go by."""

    start: int
    begin: int
    end: int
    first: int
    last: int
    size: int
    chunk: int
    link: int
    src: int
    dst: int
    reduce: bool
    message: int
    value: frozenset[int] | None = None
    fed_by: Row | None = None


def is_right(schedule: Schedule) -> bool:
    """Return whether a schedule is right, by going through it tick by tick."""
    rows = _rows(schedule)
    into = {(r.message, r.dst) for r in rows}
    out = {(r.message, r.src) for r in rows}
    through = {(m, n) for m, n in into if n >= schedule.topology.ranks or (m, n) in out}
    collective = schedule.collective
    value = {
        (c, int(r)): frozenset([int(r)]) if collective.combining else frozenset([-1])
        for c in range(collective.num_chunks)
        for r in collective.holders(c)
    }
    for tick in range(schedule.finish + 1):
        arriving = [r for r in rows if r.last == tick and r.value is not None]
        arriving = [r for r in arriving if (r.message, r.dst) not in through]
        if not _arrive(arriving, value):
            return False
        for row in rows:
            if row.start == tick and not _begin(schedule, row, rows, through, value):
                return False
        if not _pipes_hold(schedule, rows, tick):
            return False
    if not _buffers_hold(schedule, rows):
        return False
    for chunk in range(collective.num_chunks):
        holders = frozenset(int(r) for r in collective.holders(chunk))
        everyone = holders if collective.combining else frozenset([-1])
        if any(value.get((chunk, r)) != everyone for r in collective.destinations(chunk)):
            return False
    return True


def _rows(schedule: Schedule) -> list[Row]:
    rows: list[Row] = []
    columns = (schedule.start, schedule.end, schedule.chunk, schedule.link, schedule.reduce)
    messages: Iterable[int] = range(schedule.num_sends)
    if schedule.message is not None:
        messages = schedule.message.tolist()
    occupies = schedule.model is AlphaModel.OCCUPIES
    for s, e, c, k, how, m in zip(*(column.tolist() for column in columns), messages, strict=True):
        link = schedule.topology.links[k]
        sizes = schedule.chunk_bytes
        size = sizes if isinstance(sizes, int) else sizes[c]
        alpha = round(link.alpha_us * 1e6 / schedule.tick_ps)
        row = Row(s, s, e, s + alpha, e, size, c, k, link.src, link.dst, how, m)
        if occupies:
            row.begin = s + alpha
        else:
            row.last = e + alpha
        rows.append(row)
    return rows


def _arrive(arriving: list[Row], value: dict[tuple[int, int], frozenset[int]]) -> bool:
    places = {(r.chunk, r.dst) for r in arriving}
    for place in sorted(places):
        here = [r for r in arriving if (r.chunk, r.dst) == place]
        stored = [r for r in here if not r.reduce]
        if stored and (len(stored) < len(here) or len({r.value for r in stored}) > 1):
            return False
        for r in here:
            assert r.value is not None
            if r.reduce and value.get(place, frozenset()) & r.value:
                return False
            value[place] = value.get(place, frozenset()) | r.value if r.reduce else r.value
    return True


def _begin(
    schedule: Schedule,
    row: Row,
    rows: list[Row],
    through: set[tuple[int, int]],
    value: dict[tuple[int, int], frozenset[int]],
) -> bool:
    ranks = schedule.topology.ranks
    if row.reduce and (not schedule.collective.combining or (row.message, row.dst) in through):
        return False
    if row.src < ranks and (row.message, row.src) not in through:
        row.value = value.get((row.chunk, row.src))
        return row.value is not None
    switch = schedule.topology.switches[row.src - ranks] if row.src >= ranks else None
    came = [
        r
        for r in rows
        if (r.message, r.chunk, r.dst) == (row.message, row.chunk, row.src)
        and r.value is not None
        and (r.first if switch and switch.cut_through and _same(r, row, rows) else r.last)
        <= row.start
    ]
    used = [r.fed_by for r in rows if r.fed_by is not None and r.src == row.src]
    if not (switch and switch.copies):
        came = [r for r in came if not any(r is u for u in used)][:1]
    if not came or row.end < came[-1].last:
        return False
    row.fed_by = came[-1]
    row.value = came[-1].value
    return True


def _same(one: Row, other: Row, rows: list[Row]) -> bool:
    """Return whether two transfers carry the same chunks of the same messages."""
    company = [
        sorted(
            (r.message, r.chunk)
            for r in rows
            if (r.link, r.start, r.end) == (row.link, row.start, row.end)
        )
        for row in (one, other)
    ]
    return company[0] == company[1]


def no_byte_leaves_before_it_comes(schedule: Schedule) -> bool:
    """Return whether switches have each byte by when they send it, all at a steady pace.

    A transfer of several chunks carries one after the other, by message.
    """
    rows = _rows(schedule)
    for row in rows:
        if row.src < schedule.topology.ranks:
            continue
        came = [r for r in rows if (r.message, r.chunk, r.dst) == (row.message, row.chunk, row.src)]
        inward = [_passes(r, rows, r.first, r.last) for r in came]
        outward = _passes(row, rows, row.begin, row.end)
        if not any(inn[0] <= outward[0] and inn[1] <= outward[1] for inn in inward):
            return False
    return True


def _passes(row: Row, rows: list[Row], begin: int, end: int) -> tuple[Fraction, Fraction]:
    """Return when the first and the last byte of a row pass, if all of its transfer do then."""
    with_it = [r for r in rows if (r.link, r.start, r.end) == (row.link, row.start, row.end)]
    whole = sum(r.size for r in with_it)
    before = sum(r.size for r in with_it if (r.message, r.chunk) < (row.message, row.chunk))
    pace = Fraction(end - begin, whole)
    return begin + before * pace, begin + (before + row.size) * pace


def _pipes_hold(schedule: Schedule, rows: list[Row], tick: int) -> bool:
    topology = schedule.topology
    for number, link in enumerate(topology.links):
        busy = [r for r in rows if r.link == number and r.start <= tick < r.end]
        if len({(r.start, r.end) for r in busy}) > 1:
            return False
        pace = link.lanes * Fraction(str(link.gb_per_s)) * schedule.tick_ps / 1000
        if busy and busy[0].end - busy[0].begin < sum(math.ceil(r.size / pace) for r in busy):
            return False
    for budget in topology.budgets:
        links = [i for i, k in enumerate(topology.links) if k.edge in budget.edges]
        speed = Fraction(str(budget.gb_per_s)) * schedule.tick_ps / 1000
        passing = [r for r in rows if r.link in links and r.begin <= tick < r.end]
        used = sum(Fraction(r.size, r.end - r.begin) for r in passing)
        if used > budget.chunks_per_round * speed:
            return False
    return True


def _buffers_hold(schedule: Schedule, rows: list[Row]) -> bool:
    ranks = schedule.topology.ranks
    for number, switch in enumerate(schedule.topology.switches):
        if switch.buffer_chunks is None:
            continue
        stays = []
        for row in rows:
            leaving = [r for r in rows if r.fed_by is row and r.src == ranks + number]
            if leaving:
                ends = [r.start if switch.cut_through else r.end for r in leaving]
                stays.append((row.last, max(ends)))
        for tick in {since for since, _ in stays}:
            if sum(since <= tick < until for since, until in stays) > switch.buffer_chunks:
                return False
    return True
