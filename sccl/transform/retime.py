"""From steps to times: an algorithm as a schedule, by barriers or as soon as possible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Algorithm
from sccl.core.clock import AlphaModel, Clock
from sccl.core.schedule import Schedule
from sccl.judge import require_valid
from sccl.sim import Messages, Stepping, Timeline, simulate

MOST_ROUNDS = 1000
"""Of putting off what comes too early; each puts off at least one transfer for good."""

Ticks = NDArray[np.int64]


def schedule_of(
    algorithm: Algorithm,
    chunk_bytes: int,
    model: AlphaModel = AlphaModel.TRAVELS,
    stepping: Stepping = Stepping.PIPELINED,
    tick_ps: int = 1,
) -> Schedule:
    """Return an algorithm's sends with their times, as a simulation has them, judged.

    What is sent is what lies there when the send starts, so a transfer that overwrites or reduces
    is put off until it arrives after all have started that send what was there before.

    Args:
        algorithm: one that the judge accepts.
        chunk_bytes: the size of every chunk.
        stepping: whether a step begins when the one before has ended, or each send when it can.

    Raises:
        ParameterError: the size or the tick is out of range.
        JudgeError: the algorithm is not valid.
    """
    clock = Clock.of(algorithm.topology, chunk_bytes, model, tick_ps)
    messages = Messages.of_algorithm(algorithm, stepping)
    timeline = simulate(messages, algorithm.topology, clock)
    for _ in range(MOST_ROUNDS if algorithm.collective.combining else 0):
        early = _too_early(algorithm, timeline)
        if not early.any():
            break
        messages = replace(
            messages, release=np.where(early > 0, timeline.start + early, messages.release)
        )
        timeline = simulate(messages, algorithm.topology, clock)
    return require_valid(timeline.schedule(algorithm.collective), "the way from steps to times")


def _too_early(algorithm: Algorithm, timeline: Timeline) -> Ticks:
    """Return by how many ticks each message arrives too early at its place.

    That is before a send of its step, or of one before, has started there.
    """
    sends = algorithm.sends
    rows = ((s.step, s.chunk, s.src, s.dst) for s in sends)
    step, chunk, src, dst = np.fromiter(rows, np.dtype((np.int64, 4)), len(sends)).T
    ranks = algorithm.topology.ranks
    place = np.concatenate((chunk * ranks + src, chunk * ranks + dst))
    arrives = np.arange(2 * len(sends)) >= len(sends)
    order = np.lexsort((arrives, np.concatenate((step, step)), place))
    started = np.concatenate((timeline.start, np.full(len(sends), -1)))[order]
    place, arrives = place[order], arrives[order]
    times, rank = np.unique(started, return_inverse=True)
    base = np.cumsum(np.diff(place, prepend=-1) != 0) * len(times)  # so that places stay apart
    latest = times[np.maximum.accumulate(rank + base) - base]
    early = np.zeros(len(sends), dtype=np.int64)
    of = order[arrives] - len(sends)
    early[of] = np.maximum(latest[arrives] + 1 - timeline.arrive[of], 0)
    return early
