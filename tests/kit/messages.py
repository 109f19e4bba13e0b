"""Random messages, and columns of well-known algorithms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from sccl.core.arrays import AnyIntArray
from sccl.core.topology import Topology
from sccl.sim import Messages, StepAlignment

Steps = tuple[AnyIntArray, AnyIntArray, AnyIntArray, AnyIntArray]


def build_steps(rows: list[tuple[int, int, int, int]]) -> Steps:
    """Return rows (step, chunk, src, dst) as columns."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def ring_allgather(ranks: int, rounds: int | None = None) -> Steps:
    """Return every chunk's way around a ring, of an allgather or for so many steps."""
    steps = ranks - 1 if rounds is None else rounds
    step = np.repeat(np.arange(steps), ranks)
    rank = np.tile(np.arange(ranks), steps)
    return step, (rank - step) % ranks, rank, (rank + 1) % ranks


def doubling(dimensions: int) -> Steps:
    """Return a recursive doubling allgather."""
    n = 1 << dimensions
    rows = [
        (d, rank ^ part, rank, rank ^ (1 << d))
        for d in range(dimensions)
        for rank in range(n)
        for part in range(1 << d)
    ]
    return build_steps(rows)


def exchange(dimensions: int) -> Steps:
    """Return an allreduce by exchanging one chunk's partial results in every dimension."""
    n = 1 << dimensions
    return build_steps([(d, 0, r, r ^ (1 << d)) for d in range(dimensions) for r in range(n)])


@st.composite
def messages(draw: st.DrawFn, topology: Topology) -> Messages:
    """Return messages between any ranks, in steps that mean nothing."""
    rank = st.integers(0, topology.ranks - 1)
    row = st.tuples(st.integers(0, 3), st.integers(0, 2), rank, rank).filter(lambda r: r[2] != r[3])
    rows = draw(st.lists(row, max_size=8))
    made = Messages.from_steps(*build_steps(rows), stepping=draw(st.sampled_from(StepAlignment)))
    made = draw(with_more_gates(made)) if draw(st.booleans()) else made
    return made.delayed(draw(st.integers(0, 3)))


@st.composite
def with_more_gates(draw: st.DrawFn, made: Messages) -> Messages:
    """Return messages of which some wait for gates that count the opening of others."""
    before, more = len(made.barriers), draw(st.integers(1, 4))
    gate = st.integers(0, before + more - 1)
    pairs = draw(st.lists(st.tuples(gate, st.integers(before, before + more - 1)), max_size=6))
    onward = np.array([p for p in pairs if p[0] < p[1]], np.int32).reshape(-1, 2)
    waits = made.waits_for.copy()
    for i in draw(st.sets(st.integers(0, max(len(made) - 1, 0)))) if len(made) else ():
        waits[i] = draw(st.integers(before, before + more - 1))
    return replace(
        made,
        waits_for=waits,
        barriers=np.concatenate((made.barriers, np.zeros(more, np.bool_))),
        opened=onward[:, 0].copy(),
        counted_at=onward[:, 1].copy(),
    )
