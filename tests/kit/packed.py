"""Packed schedules of small machines, right and damaged, and the same as ordinary ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.outcome import Solution
from sccl.core.packed_schedule import PackedSchedule, PassKind
from sccl.core.schedule import Schedule, ScheduleFilter
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Request
from sccl.synth.tacos import matching_problem, planner
from sccl.synth.tacos.options import Options
from sccl.topo import resolve_topology

MACHINES = ("ring:4", "torus:3x3", "mesh:3x4", "full:4", "hypercube:3", "mesh:5x5")
COLLECTIVES = ("allgather", "broadcast", "reducescatter", "reduce", "allreduce")


def packed(topology: Topology, collective: str, seed: int = 0, chunks: int = 1) -> PackedSchedule:
    """Return a TACOS schedule in packed form, even for a small machine."""
    request = Request(topology, named_spec(collective, topology.ranks), 1 << 10)
    before, matching_problem.MIN_PACKED_SENDS = matching_problem.MIN_PACKED_SENDS, 0
    try:
        found = planner.plan(request, Options(chunks=chunks), Effort(seed=seed), lambda _: None)
    finally:
        matching_problem.MIN_PACKED_SENDS = before
    assert isinstance(found, Solution)
    assert isinstance(found.plan, PackedSchedule)
    return found.plan


def whole(schedule: PackedSchedule) -> Schedule:
    """Return the same as an ordinary schedule."""
    return schedule.partial_schedule(ScheduleFilter())


@st.composite
def right(draw: st.DrawFn) -> PackedSchedule:
    """Return a valid packed schedule."""
    machine = resolve_topology(draw(st.sampled_from(MACHINES)))
    collective = draw(st.sampled_from(COLLECTIVES))
    return packed(machine, collective, draw(st.integers(0, 5)), draw(st.integers(1, 2)))


@st.composite
def damaged(draw: st.DrawFn, schedule: PackedSchedule) -> PackedSchedule:
    """Return a packed schedule with something changed, of which it may still be right."""
    rows, log = rows_of(schedule), schedule.log.copy()
    how = draw(st.sampled_from(["chunk", "swap", "drop", "earlier", "slot", "add", "round"]))
    at = draw(st.integers(0, len(rows) - 1))
    links, rounds = len(schedule.topology.links), len(schedule.fired)
    number, slot, chunk = rows[at]
    other = draw(st.integers(0, len(rows) - 1))
    match how:
        case "chunk":
            rows[at] = number, slot, draw(st.integers(0, schedule.collective.num_chunks - 1))
        case "swap":
            rows[at] = number, slot, int(log[other])
            rows[other] = *rows[other][:2], chunk
        case "drop":
            del rows[at]
        case "earlier":
            rows[at] = draw(st.integers(0, rounds - 1)), slot, chunk
        case "slot":
            rows[at] = number, draw(st.integers(0, links - 1)), chunk
        case "add":
            place = draw(st.integers(0, rounds - 1)), draw(st.integers(0, links - 1))
            rows.append((*place, chunk))
        case "round":
            late = draw(st.integers(0, rounds - 1))
            change = {number: late, late: number}
            rows = [(change.get(n, n), s, c) for n, s, c in rows]
    try:
        return with_rows(schedule, rows)
    except (ParameterError, AssertionError):
        assume(condition=False)
        raise


Row = tuple[int, int, int]


def rows_of(schedule: PackedSchedule) -> list[Row]:
    """Return the log as (round, slot, chunk)."""
    bits = np.unpackbits(schedule.fired.view(np.uint8), axis=1, bitorder="little")
    number, slot = np.nonzero(bits)
    return list(zip(number.tolist(), slot.tolist(), schedule.log.tolist(), strict=True))


def with_rows(schedule: PackedSchedule, rows: list[Row]) -> PackedSchedule:
    """Return a schedule with other rows, of which no two share a round and a slot."""
    assert len({row[:2] for row in rows}) == len(rows)
    rounds = max((number for number, _, _ in rows), default=-1) + 1
    fired = np.zeros((rounds, schedule.fired.shape[1]), dtype=np.uint64)
    for number, slot, _ in rows:
        fired[number, slot // 64] |= np.uint64(1 << slot % 64)
    log = np.array([chunk for _, _, chunk in sorted(rows)], dtype=np.uint16)
    return replace(schedule, fired=fired, log=log)


def reduces(schedule: PackedSchedule) -> bool:
    """Return whether a pass reduces."""
    return PassKind.REDUCES in schedule.passes
