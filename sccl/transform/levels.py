"""From times to steps: a schedule as an algorithm, where its levels allow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sccl.core.algorithm import Algorithm, Send
from sccl.core.collective import Collective
from sccl.core.ids import ChunkId, Edge, Rank, Step
from sccl.core.instance import check_direct
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.judge import require_valid

Place = tuple[int, int]
"""(chunk, rank)."""


Row = tuple[int, int, int, int, int, bool]
"""(when it goes, when it comes, chunk, src, dst, reduce): the first two by any measure of order."""


@dataclass(slots=True)
class _Transfer:
    """A row of a schedule, and the step that it gets.

    Attributes:
        held: whether its sender has the chunk from the beginning.
    """

    start: int
    arrives: int
    chunk: int
    src: int
    dst: int
    reduce: bool
    held: bool
    step: int = 0


def algorithm_of(schedule: Schedule) -> Algorithm:
    """Return the algorithm whose sends are a schedule's transfers, in as few steps as they allow.

    A step comes after those that bring what it sends, and where chunks are reduced or overwritten
    not before those that send what was there. Its rounds are those of its fullest link or budget.

    Chunks that are sent together are sends of one step or of several, each by itself.

    Args:
        schedule: one that the judge accepts.

    Raises:
        TopologyError: the topology has switches.
        ParameterError: ranks pass messages on without keeping them, or no order of steps keeps to
            the order in which values come and go.
        JudgeError: the schedule is not valid.
    """
    check_direct(schedule.topology)
    _check_kept(schedule)
    transfers = list(_transfers(schedule))
    _give_steps(transfers, combining=schedule.collective.combining)
    sends = tuple(
        Send(Step(t.step), ChunkId(t.chunk), Rank(t.src), Rank(t.dst), t.reduce) for t in transfers
    )
    algorithm = Algorithm(
        topology=schedule.topology,
        collective=schedule.collective,
        rounds_per_step=_rounds(schedule.topology, transfers),
        sends=sends,
    )
    return require_valid(algorithm, "the way from times to steps")


def algorithm_of_rows(topology: Topology, collective: Collective, rows: Sequence[Row]) -> Algorithm:
    """Return the algorithm of transfers whose order is known, in as few steps as that allows.

    Whether it is right is for the judge to say.

    Raises:
        ParameterError: no order of steps keeps to the order in which values come and go.
    """
    transfers = [
        _Transfer(start, arrives, chunk, src, dst, reduce, src in collective.holders(chunk))
        for start, arrives, chunk, src, dst, reduce in rows
    ]
    _give_steps(transfers, combining=collective.combining)
    sends = tuple(
        Send(Step(t.step), ChunkId(t.chunk), Rank(t.src), Rank(t.dst), t.reduce) for t in transfers
    )
    return Algorithm(topology, collective, _rounds(topology, transfers), sends)


def _check_kept(schedule: Schedule) -> None:
    """Check that each message of a chunk is one transfer.

    Raises:
        ParameterError: one is not.
    """
    if schedule.message is None:
        return
    count = Counter(zip(schedule.message.tolist(), schedule.chunk.tolist(), strict=True))
    (number, _), rows = max(count.items(), key=lambda item: (item[1], (-item[0][0], -item[0][1])))
    if rows > 1:
        raise ParameterError(
            f"schedule: message {number} has {rows} hops, and an algorithm has none that keep "
            "nothing of what they pass on; give a schedule of single hops"
        )


def _transfers(schedule: Schedule) -> Iterator[_Transfer]:
    links = [k.edge for k in schedule.topology.links]
    clock = schedule.clock
    for rows in schedule.batches():
        columns = (rows.start, rows.end, rows.chunk, rows.link, rows.reduce)
        for start, end, chunk, link, reduce in zip(*(c.tolist() for c in columns), strict=True):
            src, dst = links[link]
            held = src in schedule.collective.holders(chunk)
            yield _Transfer(start, end + clock.lag(link), chunk, src, dst, reduce, held)


@dataclass(slots=True)
class _Values:
    """The steps of what has come to and gone from a place so far.

    Attributes:
        since: the first step that can send what is there.
        gone: the last step that sent from there.
        stored: the step after the last that overwrote what was there.
    """

    since: int | None = None
    gone: int = 0
    stored: int = 0


def _give_steps(transfers: list[_Transfer], *, combining: bool) -> None:
    """Give each transfer its step: the least that all conditions allow, found by raising them.

    Raises:
        ParameterError: the conditions lead round in a circle.
    """
    goes = ((t.start, True, i) for i, t in enumerate(transfers))
    comes = ((t.arrives, False, i) for i, t in enumerate(transfers))
    events = sorted((*goes, *comes))  # at a tick, first what comes
    raise_ = _raise_combining if combining else _raise_copying
    while raise_(transfers, events):
        if max(t.step for t in transfers) > len(transfers):
            raise ParameterError(
                "schedule: what is overwritten and what is sent depend on one another in a circle, "
                "which steps cannot tell; only its times can"
            )


def _raise_copying(transfers: list[_Transfer], events: list[tuple[int, bool, int]]) -> bool:
    """Let what goes come after the first step that brings it; say whether that raised any."""
    raised = False
    there: dict[Place, _Values] = defaultdict(_Values)
    for _, goes, i in events:
        transfer = transfers[i]
        if not goes:
            values, after = there[transfer.chunk, transfer.dst], transfer.step + 1
            values.since = after if values.since is None else min(values.since, after)
            continue
        here = 0 if transfer.held else there[transfer.chunk, transfer.src].since or 0
        if transfer.step < here:
            transfer.step, raised = here, True
    return raised


def _raise_combining(transfers: list[_Transfer], events: list[tuple[int, bool, int]]) -> bool:
    """Let values come and go in the order of the times; say whether that raised any.

    What goes comes after all that has come; what comes not before what has gone, since a step
    sends what was there when it began; and what overwrites is in a step by itself.
    """
    raised = False
    there: dict[Place, _Values] = defaultdict(_Values)
    for _, goes, i in events:
        transfer = transfers[i]
        values = there[transfer.chunk, transfer.src if goes else transfer.dst]
        since = values.since or 0
        least = since if goes else max(values.gone, values.stored if transfer.reduce else since)
        if transfer.step < least:
            transfer.step, raised = least, True
        if goes:
            values.gone = max(values.gone, transfer.step)
            continue
        values.since = max(since, transfer.step + 1)
        if not transfer.reduce:
            values.stored = values.since
    return raised


def _rounds(topology: Topology, transfers: list[_Transfer]) -> tuple[int, ...]:
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
