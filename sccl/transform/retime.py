"""Convert steps to times: as a schedule with barriers, or with each send as soon as possible."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Algorithm
from sccl.core.arrays import AnyIntArray, IntArray
from sccl.core.clock import AlphaModel, Clock, StepAlignment
from sccl.core.collective import Collective
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.judge import require_valid
from sccl.sim import Messages, Timeline, simulate

MAX_DELAY_ROUNDS = 100
"""Largest number of rounds that postpone early sends. Measured instances need 1 to 90."""

DELAY_PATIENCE = 8
"""Rounds after which a send is put off by a link's time for a chunk more, and so on."""


@dataclass(frozen=True, slots=True, eq=False)
class SteppedSends:
    """Sends in steps, between ranks that may have no link.

    A send of step s carries the value of its sender after step s - 1, as in an
    :class:`~sccl.core.algorithm.Algorithm`.

    Attributes:
        step: Arrays of one length. Rows ascend by (step, chunk, src, dst).
        reduce: Whether the receiver reduces the value into its own. Otherwise it stores it.
    """

    collective: Collective
    step: AnyIntArray
    chunk: AnyIntArray
    src: AnyIntArray
    dst: AnyIntArray
    reduce: NDArray[np.bool_]

    @classmethod
    def from_algorithm(cls, algorithm: Algorithm) -> SteppedSends:
        """Return those of an algorithm, which sorts them."""
        rows = ((s.step, s.chunk, s.src, s.dst, s.reduce) for s in algorithm.sends)
        table = np.fromiter(rows, np.dtype((np.int64, 5)), algorithm.num_sends)
        step, chunk, src, dst, reduce = table.T
        return cls(algorithm.collective, step, chunk, src, dst, reduce.astype(np.bool_))


def schedule_algorithm(
    algorithm: Algorithm,
    chunk_bytes: int,
    model: AlphaModel = AlphaModel.TRAVELS,
    stepping: StepAlignment = StepAlignment.PIPELINED,
    tick_ps: int = 1,
) -> Schedule:
    """Return an algorithm's sends with their times, judged, as :func:`schedule_sends` makes them.

    Args:
        algorithm: one that the judge accepts.
        chunk_bytes: the size of every chunk.

    Raises:
        ParameterError: the size or the tick is out of range.
        JudgeError: the algorithm is not valid.
    """
    clock = Clock.from_topology(algorithm.topology, chunk_bytes, model, tick_ps)
    made = schedule_sends(
        SteppedSends.from_algorithm(algorithm), algorithm.topology, clock, stepping
    )
    return require_valid(made, "the way from steps to times")


def schedule_sends(
    sends: SteppedSends,
    topology: Topology,
    clock: Clock,
    stepping: StepAlignment = StepAlignment.PIPELINED,
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
    timing = _delay_sends(sends, topology, clock, stepping)
    if timing is None and stepping is not StepAlignment.BARRIER:
        timing = _delay_sends(sends, topology, clock, StepAlignment.BARRIER)
    if timing is None:
        raise TooLargeError(
            f"{sends.collective.name} on topology {topology.name!r}: some sends arrive before "
            "their receiver has sent the value that they are reduced into, even after "
            f"{MAX_DELAY_ROUNDS} rounds of postponing: give fewer chunks or another algorithm"
        )
    return timing.schedule(sends.collective)


def _delay_sends(
    sends: SteppedSends, topology: Topology, clock: Clock, stepping: StepAlignment
) -> Timeline | None:
    """Return sends with their times, none too early. None: some still are after many rounds.

    Sends that postpone one another would continue by one tick each. Sends that repeat are therefore
    postponed by more, so that others go first.
    """
    columns = (sends.step, sends.chunk, sends.src, sends.dst, sends.reduce)
    messages = Messages.from_steps(*columns, stepping=stepping)
    messages = replace(messages, num_chunks=sends.collective.num_chunks)
    timeline = simulate(messages, topology, clock)
    if not sends.collective.combining:
        return timeline
    times = np.zeros(len(messages), dtype=np.int64)
    for _ in range(MAX_DELAY_ROUNDS):
        first, last = _message_row_ends(timeline)
        early = _early_ticks(sends, timeline.start[first], timeline.arrive[last])
        if not early.any():
            return timeline
        times += early > 0
        more = times // DELAY_PATIENCE * int((timeline.free - timeline.start).max())
        later = np.where(early > 0, timeline.start[first] + early + more, messages.release)
        timeline = simulate(replace(messages, release=later), topology, clock)
        messages = timeline.messages
    return None


def _message_row_ends(timeline: Timeline) -> tuple[IntArray, IntArray]:
    """Return the first and the last row of each message."""
    rows = np.searchsorted(timeline.message, np.arange(len(timeline.messages) + 1))
    return rows[:-1], rows[1:] - 1


def _early_ticks(sends: SteppedSends, start: IntArray, arrive: IntArray) -> IntArray:
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
