"""Convert steps to times: as a schedule with barriers, or with each send as soon as possible."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Algorithm
from sccl.core.clock import AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.schedule import Schedule, Whole
from sccl.core.stepping import Stepping
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.judge import require_valid
from sccl.sim import Messages, Timeline, simulate

MOST_ROUNDS = 100
"""Largest number of rounds that postpone early sends. Measured instances need 1 to 90."""

PATIENCE = 8
"""Rounds after which a send is put off by a link's time for a chunk more, and so on."""

Ticks = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Stepped:
    """Sends in steps, between ranks that may have no link.

    A send of step s carries the value of its sender after step s - 1, as in an
    :class:`~sccl.core.algorithm.Algorithm`.

    Attributes:
        step: Arrays of one length. Rows ascend by (step, chunk, src, dst).
        reduce: Whether the receiver reduces the value into its own. Otherwise it stores it.
    """

    collective: Collective
    step: Whole
    chunk: Whole
    src: Whole
    dst: Whole
    reduce: NDArray[np.bool_]

    @classmethod
    def of(cls, algorithm: Algorithm) -> Stepped:
        """Return those of an algorithm, which sorts them."""
        rows = ((s.step, s.chunk, s.src, s.dst, s.reduce) for s in algorithm.sends)
        table = np.fromiter(rows, np.dtype((np.int64, 5)), algorithm.num_sends)
        step, chunk, src, dst, reduce = table.T
        return cls(algorithm.collective, step, chunk, src, dst, reduce.astype(np.bool_))


def schedule_of(
    algorithm: Algorithm,
    chunk_bytes: int,
    model: AlphaModel = AlphaModel.TRAVELS,
    stepping: Stepping = Stepping.PIPELINED,
    tick_ps: int = 1,
) -> Schedule:
    """Return an algorithm's sends with their times, judged, as :func:`timed` makes them.

    Args:
        algorithm: one that the judge accepts.
        chunk_bytes: the size of every chunk.

    Raises:
        ParameterError: the size or the tick is out of range.
        JudgeError: the algorithm is not valid.
    """
    clock = Clock.of(algorithm.topology, chunk_bytes, model, tick_ps)
    made = timed(Stepped.of(algorithm), algorithm.topology, clock, stepping)
    return require_valid(made, "the way from steps to times")


def timed(
    sends: Stepped, topology: Topology, clock: Clock, stepping: Stepping = Stepping.PIPELINED
) -> Schedule:
    """Return sends with simulated times, not yet verified.

    Ranks without a link use the simulation's shortest paths. A send carries the value at its start.
    A transfer that overwrites or reduces is therefore postponed until all sends of the earlier
    value have started.

    Args:
        clock: Clock of this machine, for the chunks of the collective.
        stepping: Whether a step begins at the end of the previous one, or each send when it can.

    Raises:
        ParameterError: It may take more ticks than a schedule supports.
        TooLargeError: Some sends arrive too early after the maximum number of postponements.
        UnreachableError: No path leads to the destination of a send.
    """
    found = _put_off(sends, topology, clock, stepping)
    if found is None and stepping is not Stepping.BARRIER:
        found = _put_off(sends, topology, clock, Stepping.BARRIER)
    if found is None:
        raise TooLargeError(
            f"{sends.collective.name} on topology {topology.name!r}: some sends arrive before "
            "their receiver has sent the value that they are reduced into, even after "
            f"{MOST_ROUNDS} rounds of postponing: give fewer chunks or another algorithm"
        )
    return found.schedule(sends.collective)


def _put_off(
    sends: Stepped, topology: Topology, clock: Clock, stepping: Stepping
) -> Timeline | None:
    """Return sends with their times, none too early. None: some still are after many rounds.

    Sends that postpone one another would continue by one tick each. Sends that repeat are therefore
    postponed by more, so that others go first.
    """
    columns = (sends.step, sends.chunk, sends.src, sends.dst, sends.reduce)
    messages = Messages.of_steps(*columns, stepping=stepping)
    messages = replace(messages, num_chunks=sends.collective.num_chunks)
    timeline = simulate(messages, topology, clock)
    if not sends.collective.combining:
        return timeline
    times = np.zeros(len(messages), dtype=np.int64)
    for _ in range(MOST_ROUNDS):
        first, last = _ends(timeline)
        early = _too_early(sends, timeline.start[first], timeline.arrive[last])
        if not early.any():
            return timeline
        times += early > 0
        more = times // PATIENCE * int((timeline.free - timeline.start).max())
        later = np.where(early > 0, timeline.start[first] + early + more, messages.release)
        timeline = simulate(replace(messages, release=later), topology, clock)
        messages = timeline.messages
    return None


def _ends(timeline: Timeline) -> tuple[Ticks, Ticks]:
    """Return the first and the last row of each message."""
    rows = np.searchsorted(timeline.message, np.arange(len(timeline.messages) + 1))
    return rows[:-1], rows[1:] - 1


def _too_early(sends: Stepped, start: Ticks, arrive: Ticks) -> Ticks:
    """Return by how many ticks each send arrives too early at its place.

    That is before a send of its step, or of one before, has started there.

    Args:
        start: of each send.
        arrive: likewise.
    """
    many, ranks = len(sends.step), sends.collective.ranks
    chunk = sends.chunk.astype(np.int64)
    place = np.concatenate((chunk * ranks + sends.src, chunk * ranks + sends.dst))
    arrives = np.arange(2 * many) >= many
    order = np.lexsort((arrives, np.concatenate((sends.step, sends.step)), place))
    started = np.concatenate((start, np.full(many, -1)))[order]
    place, arrives = place[order], arrives[order]
    times, rank = np.unique(started, return_inverse=True)
    base = np.cumsum(np.diff(place, prepend=-1) != 0) * len(times)  # so that places stay apart
    latest = times[np.maximum.accumulate(rank + base) - base]
    early = np.zeros(many, dtype=np.int64)
    of = order[arrives] - many
    early[of] = np.maximum(latest[arrives] + 1 - arrive[of], 0)
    return early
