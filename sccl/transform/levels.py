"""From times to steps: a schedule as an algorithm, where its levels allow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sccl.core.algorithm import Algorithm, Send
from sccl.core.collective import Collective
from sccl.core.ids import ChunkId, Edge, Rank, Step
from sccl.core.route_segments import RouteSegment, route_segments
from sccl.core.schedule import Schedule
from sccl.core.topology import Budget, Link, Topology, link_name
from sccl.errors import ParameterError
from sccl.judge import require_valid

ChunkPlace = tuple[int, int]
"""(chunk, rank)."""


TimedRow = tuple[int, int, int, int, int, bool]
"""(when it goes, when it comes, chunk, src, dst, reduce): the first two by any measure of order."""


@dataclass(slots=True)
class _Transfer:
    """A row of a schedule, and the step that it gets.

    Attributes:
        is_initial: whether its sender has the chunk from the beginning.
    """

    start: int
    arrives: int
    chunk: int
    src: int
    dst: int
    reduce: bool
    is_initial: bool
    step: int = 0


@dataclass(frozen=True, slots=True)
class SteppedSchedule:
    """A schedule by steps.

    Attributes:
        combined_transfers: of sends that are one transfer, with others of their step and link,
            which.
    """

    algorithm: Algorithm
    combined_transfers: Mapping[Send, int]


def algorithm_from_schedule(schedule: Schedule) -> Algorithm:
    """Return the algorithm of :func:`assign_steps`."""
    return assign_steps(schedule).algorithm


def assign_steps(schedule: Schedule) -> SteppedSchedule:
    """Return an algorithm with a schedule's transfers as sends, in as few steps as they allow.

    A send comes in a later step than the sends that bring its data. If chunks are reduced or
    overwritten, it does not come before sends of the earlier value. The rounds of a step are those
    of its fullest link or budget.

    Chunks that are sent together are sends of one step, unless no order of steps permits it.
    Transfers through switches become sends over links (:func:`_direct_topology`).

    Args:
        schedule: Valid schedule.

    Raises:
        ParameterError: Ranks forward messages without storing them, switches copy them, or no order
            of steps preserves the order of values.
        JudgeError: The schedule is not valid.
    """
    legs = sorted(route_segments(schedule))
    _check_stored(legs)
    topology = _direct_topology(schedule.topology, legs)
    collective = schedule.collective
    transfers = [
        _Transfer(
            *(leg.start, leg.arrival, leg.chunk, leg.src, leg.dst, leg.reduce),
            leg.src in collective.holders(leg.chunk),
        )
        for leg in legs
    ]
    parties = _combined_groups(legs)
    try:
        _raise_steps(transfers, combining=collective.combining, parties=parties)
    except ParameterError:
        if not parties:
            raise
        for transfer in transfers:
            transfer.step = 0
        _raise_steps(transfers, combining=collective.combining)
        parties = []
    sends = [_make_send(transfer) for transfer in transfers]
    rounds = _rounds_per_step(topology, transfers)
    algorithm = Algorithm(topology, collective, rounds, tuple(sends))
    require_valid(algorithm, "the way from times to steps")
    return SteppedSchedule(
        algorithm, {sends[i]: n for n, party in enumerate(parties) for i in party}
    )


def algorithm_from_rows(
    topology: Topology, collective: Collective, rows: Sequence[TimedRow]
) -> Algorithm:
    """Return the algorithm of transfers whose order is known, in as few steps as that allows.

    Whether it is right is for the judge to say.

    Raises:
        ParameterError: no order of steps keeps to the order in which values come and go.
    """
    transfers = [
        _Transfer(start, arrives, chunk, src, dst, reduce, src in collective.holders(chunk))
        for start, arrives, chunk, src, dst, reduce in rows
    ]
    _raise_steps(transfers, combining=collective.combining)
    sends = tuple(map(_make_send, transfers))
    return Algorithm(topology, collective, _rounds_per_step(topology, transfers), sends)


def _check_stored(legs: Iterable[RouteSegment]) -> None:
    """Check that ranks keep all that comes to them.

    Raises:
        ParameterError: one does not.
    """
    count = Counter(leg.message_chunk for leg in legs)
    for (number, _), hops in sorted(count.items(), key=lambda item: (-item[1], item[0]))[:1]:
        if hops == 1:
            return
        raise ParameterError(
            f"schedule: message {number} has {hops} hops, and hops of an algorithm store the data "
            "that they forward; give a schedule of single hops"
        )


def _direct_topology(topology: Topology, legs: Iterable[RouteSegment]) -> Topology:
    """Return the machine with a link for every two ranks that a schedule joins through switches.

    Its lanes are those of the narrowest link of its first way. A link that several pairs of ranks
    go over is a budget, and budgets of links at switches are those of the pairs that go over them.
    """
    if not topology.switches:
        return topology
    paths: dict[Edge, set[tuple[int, ...]]] = defaultdict(set)
    for leg in legs:
        if len(leg.links) > 1:
            paths[Rank(leg.src), Rank(leg.dst)].add(leg.links)
    links = {k.edge: k for k in topology.links if max(k.edge) < topology.ranks}
    shared: dict[int, list[Edge]] = defaultdict(list)
    for edge, several in sorted(paths.items()):
        hops = [topology.links[n] for n in min(several)]
        lanes, speed = min(k.lanes for k in hops), min(k.gb_per_s for k in hops)
        links.setdefault(edge, Link(*edge, lanes, sum(k.alpha_us for k in hops), speed))
        for number in {n for path in several for n in path}:
            shared[number].append(edge)
    over = {topology.links[number].edge: edges for number, edges in shared.items()}
    budgets = []
    for budget, speed in zip(topology.budgets, topology.budget_speeds(), strict=True):
        left = {edge for edge in budget.edges if edge in links}
        left.update(pair for edge in budget.edges for pair in over.get(edge, ()))
        if left == set(budget.edges):
            budgets.append(budget)
        elif left:  # it has other links now, with another speed than it counts
            budgets.append(replace(budget, edges=tuple(sorted(left)), gb_per_s=speed))
    budgets += [
        Budget(f"through {link_name(k.edge)}", tuple(edges), k.lanes, k.gb_per_s)
        for number, edges in sorted(shared.items())
        for k in (topology.links[number],)
        if len(edges) > 1
    ]
    return replace(topology, links=tuple(links.values()), budgets=tuple(budgets), switches=())


def _combined_groups(legs: Sequence[RouteSegment]) -> list[list[int]]:
    """Return the numbers of legs that go together, of those that do with others."""
    parties: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, leg in enumerate(legs):
        parties[leg.transfers].append(i)
    return [numbers for numbers in parties.values() if len(numbers) > 1]


def _make_send(t: _Transfer) -> Send:
    return Send(Step(t.step), ChunkId(t.chunk), Rank(t.src), Rank(t.dst), t.reduce)


@dataclass(slots=True)
class _PlaceSteps:
    """The steps of arrivals at a place and of sends from it so far.

    Attributes:
        since: First step that can send the current value.
        last_sent: Last step that sent from there.
        stored: Step after the last one that overwrote the value.
    """

    since: int | None = None
    last_sent: int = 0
    stored: int = 0


def _raise_steps(
    transfers: list[_Transfer], *, combining: bool, parties: Sequence[Sequence[int]] = ()
) -> None:
    """Give each transfer its step: the least that all conditions allow, found by raising them.

    Args:
        parties: numbers of transfers that are in one step.

    Raises:
        ParameterError: the conditions lead round in a circle.
    """
    goes = ((t.start, True, i) for i, t in enumerate(transfers))
    comes = ((t.arrives, False, i) for i, t in enumerate(transfers))
    events = sorted((*goes, *comes))  # at a tick, arrivals first
    raise_ = _raise_combining if combining else _raise_copying
    while raise_(transfers, events) | _raise_groups(transfers, parties):
        if max(t.step for t in transfers) > len(transfers):
            raise ParameterError(
                "schedule: overwrites and sends depend on one another in a cycle, which steps "
                "cannot order; only times can"
            )


def _raise_groups(transfers: list[_Transfer], parties: Sequence[Sequence[int]]) -> bool:
    """Move chunks that are sent together to the step of the last. Return whether any moved."""
    raised = False
    for party in parties:
        last = max(transfers[i].step for i in party)
        for i in party:
            raised |= transfers[i].step < last
            transfers[i].step = last
    return raised


def _raise_copying(transfers: list[_Transfer], events: list[tuple[int, bool, int]]) -> bool:
    """Move sends after the first step that brings their data. Return whether any moved."""
    raised = False
    values_at: dict[ChunkPlace, _PlaceSteps] = defaultdict(_PlaceSteps)
    for _, goes, i in events:
        transfer = transfers[i]
        if not goes:
            values, after = values_at[transfer.chunk, transfer.dst], transfer.step + 1
            values.since = after if values.since is None else min(values.since, after)
            continue
        lower_bound = (
            0 if transfer.is_initial else values_at[transfer.chunk, transfer.src].since or 0
        )
        if transfer.step < lower_bound:
            transfer.step, raised = lower_bound, True
    return raised


def _raise_combining(transfers: list[_Transfer], events: list[tuple[int, bool, int]]) -> bool:
    """Let values arrive and leave in the order of the times. Return whether any moved.

    A send comes after all earlier arrivals. An arrival does not come before an earlier send, since
    a step sends the value at its beginning. A send that overwrites has a step of its own.
    """
    raised = False
    values_at: dict[ChunkPlace, _PlaceSteps] = defaultdict(_PlaceSteps)
    for _, goes, i in events:
        transfer = transfers[i]
        values = values_at[transfer.chunk, transfer.src if goes else transfer.dst]
        since = values.since or 0
        lower_bound = (
            since if goes else max(values.last_sent, values.stored if transfer.reduce else since)
        )
        if transfer.step < lower_bound:
            transfer.step, raised = lower_bound, True
        if goes:
            values.last_sent = max(values.last_sent, transfer.step)
            continue
        values.since = max(since, transfer.step + 1)
        if not transfer.reduce:
            values.stored = values.since
    return raised


def _rounds_per_step(topology: Topology, transfers: list[_Transfer]) -> tuple[int, ...]:
    """Return the rounds of each step: those of its fullest link or budget, and at least one."""
    load: Counter[tuple[int, Edge]] = Counter(
        (t.step, (Rank(t.src), Rank(t.dst))) for t in transfers
    )
    steps = 1 + max((t.step for t in transfers), default=0)
    rounds = [1] * steps
    for constraint in topology.constraints():
        for step in range(steps):
            used = sum(load[step, edge] for edge in constraint.edges)
            rounds[step] = max(rounds[step], -(-used // constraint.chunks_per_round))
    return tuple(rounds)
