"""Convert a timed schedule to an algorithm in steps, if steps can express its order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sccl.core.algorithm import Algorithm, Send
from sccl.core.collective import Collective
from sccl.core.ids import ChunkId, Edge, Rank, Step
from sccl.core.schedule import Schedule
from sccl.core.topology import Budget, Link, Topology, link_name
from sccl.errors import ParameterError
from sccl.judge import require_valid
from sccl.transform.route_segments import RouteSegment, route_segments

ChunkPlace = tuple[int, int]
"""(chunk, rank)."""


TimedRow = tuple[int, int, int, int, int, bool]
"""(start, arrival, chunk, src, dst, reduce). Times may have any unit: only their order counts."""


@dataclass(slots=True)
class _Transfer:
    """A transfer of a schedule, and the step that it is assigned to.

    Attributes:
        is_initial: whether the sender holds the chunk initially.
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
    """A schedule, converted to steps.

    Attributes:
        algorithm: the algorithm.
        combined_transfers: transfer number of each send that shares a transfer with other sends of
            its step and link.
    """

    algorithm: Algorithm
    combined_transfers: Mapping[Send, int]


def algorithm_from_schedule(schedule: Schedule) -> Algorithm:
    """Return a schedule as an algorithm, with the steps of :func:`assign_steps`."""
    return assign_steps(schedule).algorithm


def assign_steps(schedule: Schedule) -> SteppedSchedule:
    """Return a schedule as an algorithm with the fewest steps that preserve its dependencies.

    A send follows, in a later step, the sends that deliver its data. If it reduces into or
    overwrites a value, it is in no earlier step than the sends of the old value. The number of
    rounds of a step is the load of its fullest link or budget, divided by its width.

    Chunks that one transfer carries are sent in the same step, unless no order of steps permits it.
    Transfers through switches become sends over direct links (:func:`_direct_topology`).

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
    """Return transfers as an algorithm with the fewest steps that preserve their order.

    The result is not verified.

    Raises:
        ParameterError: no order of steps preserves the order in which values arrive and leave.
    """
    transfers = [
        _Transfer(start, arrives, chunk, src, dst, reduce, src in collective.holders(chunk))
        for start, arrives, chunk, src, dst, reduce in rows
    ]
    _raise_steps(transfers, combining=collective.combining)
    sends = tuple(map(_make_send, transfers))
    return Algorithm(topology, collective, _rounds_per_step(topology, transfers), sends)


def _check_stored(legs: Iterable[RouteSegment]) -> None:
    """Check that every message has a single hop, so that ranks store all that they receive.

    Raises:
        ParameterError: a message has several hops.
    """
    count = Counter(leg.message_chunk for leg in legs)
    for (number, _), hops in sorted(count.items(), key=lambda item: (-item[1], item[0]))[:1]:
        if hops == 1:
            return
        raise ParameterError(
            f"schedule: message {number} has {hops} hops, and hops of an algorithm store the data "
            "that they forward; give a schedule of single hops, as of 'sccl synth fastest'"
        )


def _direct_topology(topology: Topology, legs: Iterable[RouteSegment]) -> Topology:
    """Return the machine with direct links in place of the paths through switches.

    Each pair of ranks that the schedule connects through switches gets a link. Its lanes and speed
    are the minimum over the links of the pair's first path, and its alpha is their sum. A link that
    several pairs use becomes a budget over the links of these pairs. In existing budgets, each link
    of a switch is replaced by the links of the pairs that use it.
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
        elif left:  # its links have changed, so keep its speed explicitly
            budgets.append(replace(budget, edges=tuple(sorted(left)), gb_per_s=speed))
    budgets += [
        Budget(f"through {link_name(k.edge)}", tuple(edges), k.lanes, k.gb_per_s)
        for number, edges in sorted(shared.items())
        for k in (topology.links[number],)
        if len(edges) > 1
    ]
    return replace(topology, links=tuple(links.values()), budgets=tuple(budgets), switches=())


def _combined_groups(legs: Sequence[RouteSegment]) -> list[list[int]]:
    """Return the groups of two or more legs that one transfer carries, by their indices."""
    parties: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, leg in enumerate(legs):
        parties[leg.transfers].append(i)
    return [numbers for numbers in parties.values() if len(numbers) > 1]


def _make_send(t: _Transfer) -> Send:
    return Send(Step(t.step), ChunkId(t.chunk), Rank(t.src), Rank(t.dst), t.reduce)


@dataclass(slots=True)
class _PlaceSteps:
    """The steps so far of arrivals of a chunk at a rank, and of sends from there.

    Attributes:
        since: First step that can send the current value.
        last_sent: Last step that sends the chunk from the rank.
        stored: Step after the last one that overwrote the value.
    """

    since: int | None = None
    last_sent: int = 0
    stored: int = 0


def _raise_steps(
    transfers: list[_Transfer], *, combining: bool, parties: Sequence[Sequence[int]] = ()
) -> None:
    """Assign the earliest step that satisfies all conditions to each transfer.

    Steps are raised until no condition is violated, which reaches the least fixed point.

    Args:
        transfers: transfers, whose ``step`` is updated.
        combining: whether the collective reduces.
        parties: groups of indices of transfers that must be in the same step.

    Raises:
        ParameterError: the conditions form a cycle.
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
    """Move all transfers of a group to the step of its last one. Return whether any moved."""
    raised = False
    for party in parties:
        last = max(transfers[i].step for i in party)
        for i in party:
            raised |= transfers[i].step < last
            transfers[i].step = last
    return raised


def _raise_copying(transfers: list[_Transfer], events: list[tuple[int, bool, int]]) -> bool:
    """Move sends after the first step that delivers their data. Return whether any moved."""
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
    """Move transfers so that values arrive and leave in the order of time.

    A send is in a later step than all earlier arrivals. An arrival may share the step of an earlier
    send, since a step sends the value from its start. No other transfer may arrive at a place in
    the step of one that overwrites its value.

    Returns:
        Whether any transfer moved.
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
    """Return the rounds that the fullest link or budget of each step needs, at least one."""
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
