"""The judge of schedules: accepted ones, named violations, and agreement with a slow one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.schedule import Schedule, build_schedule
from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.errors import ParameterError
from sccl.judge import execution_arrays, timed, timed_arrays, violations
from tests.kit.nightly import times
from tests.kit.timed import is_right, mutated, no_byte_leaves_before_it_comes, right


@given(right())
def test_right_schedule_passes(schedule: Schedule) -> None:
    assert violations(schedule) == []
    assert is_right(schedule)


@settings(max_examples=times(1000, by_day=100))
@given(st.data())
def test_mutation_is_verified_as_the_slow_judge_does(data: st.DataObject) -> None:
    schedule = data.draw(right().filter(lambda s: s.num_sends > 0))
    changed = data.draw(mutated(schedule))
    found = violations(changed)
    event(found[0].kind if found else "still right")
    assert is_right(changed) == (found == [])


def draw_block_sizes(data: st.DataObject, patch: pytest.MonkeyPatch) -> None:
    """Draw how many rows a call takes, and how large the state of a group of chunks is."""
    for name, usual in (("_SET_ROWS_PER_CALL", 2**14), ("_GROUP_WORDS", 2**19)):
        patch.setattr(execution_arrays, name, data.draw(st.sampled_from([1, usual])))


@settings(max_examples=times(1000, by_day=100))
@given(st.data())
def test_long_schedules_are_verified_alike(data: st.DataObject) -> None:
    schedule = data.draw(right())
    if schedule.num_sends and data.draw(st.booleans()):
        schedule = data.draw(mutated(schedule))
    alone = replace(schedule, message=None)
    if timed_arrays.is_supported(alone):
        with pytest.MonkeyPatch.context() as patch:
            draw_block_sizes(data, patch)
            assert timed_arrays.is_valid(alone) == (violations(alone) == [])


@settings(max_examples=times(1000, by_day=100))
@given(st.data())
def test_long_schedules_through_switches_are_verified_alike(data: st.DataObject) -> None:
    """The compiled judge accepts only valid schedules, and every one with straight messages."""
    schedule = data.draw(right().filter(lambda s: s.num_sends > 0 and bool(s.topology.switches)))
    changes = data.draw(st.booleans())
    if changes:
        schedule = data.draw(mutated(schedule))
    if not timed_arrays.is_supported(schedule):
        return
    with pytest.MonkeyPatch.context() as patch:
        draw_block_sizes(data, patch)
        patch.setattr(timed_arrays, "_ROWS_PER_CALL", data.draw(st.sampled_from([1, 3, 2**20])))
        is_right_by_loops = timed_arrays.is_valid(schedule)
    wrong = timed.violations(schedule)
    event(f"loops: {is_right_by_loops}, right: {not wrong}")
    assert not (is_right_by_loops and wrong)
    assert schedule.message is not None
    src = np.array([k.src for k in schedule.topology.links])[schedule.link]
    from_ranks = schedule.message[src < schedule.topology.ranks]
    (hub,) = schedule.topology.switches
    roomy = hub.cut_through or hub.buffer_chunks is None
    if not changes and roomy and len(from_ranks) == len(set(from_ranks.tolist())):
        assert is_right_by_loops


def test_message_that_comes_back_only_passes_there() -> None:
    """Nothing of the message had arrived when it began, which both judges reject."""
    rows = [(0, 4, 0, (0, 3), False), (1, 5, 0, (3, 0), False)]
    rows += [(9, 13, 0, (0, 3), False), (10, 14, 0, (3, 1), False)]
    rows += [(20, 24, 0, (0, 3), False), (21, 25, 0, (3, 2), False)]
    made = schedule(star(), TO_ALL, rows, 0, 0, 1, 1, 2, 2)
    assert timed_arrays.is_supported(made)
    assert not timed_arrays.is_valid(made)
    assert [v.kind for v in timed.violations(made)] == ["availability", "availability"]
    straight = schedule(star(), TO_ALL, rows[2:], 1, 1, 2, 2)
    assert timed_arrays.is_valid(straight)
    assert not timed.violations(straight)


@given(st.data())
def test_transfers_of_several_chunks_take_as_long_as_all_of_them(data: st.DataObject) -> None:
    """One tick less on the clock gives one violation, of the first chunk without time."""
    schedule = data.draw(right().filter(lambda s: s.num_sends > 0))
    columns = (schedule.start, schedule.end, schedule.chunk, schedule.link, schedule.reduce)
    rows: list[Any] = list(zip(*(c.tolist() for c in columns), strict=True))
    first = data.draw(st.sampled_from(schedule.transfer_starts().tolist()))
    mine = [
        i for i, row in enumerate(rows) if row[:2] + row[3:4] == rows[first][:2] + rows[first][3:4]
    ]
    event(f"{len(mine)} together")
    busy = schedule.clock.busy_combined(rows[first][3], [rows[i][2] for i in mine])
    assert busy <= rows[first][1] - rows[first][0]
    for less in (0, 1):
        for i in mine:
            rows[i] = (rows[i][0], rows[i][0] + busy - less, *rows[i][2:])
        if rows[first][1] == rows[first][0]:
            return
        assert schedule.message is not None
        messages = schedule.message.tolist()
        made = build_schedule(
            schedule.topology, schedule.collective, rows, schedule.clock, messages
        )
        short = [v for v in violations(made) if v.kind == "duration"]
        assert len(short) == less


@given(st.data())
def test_switches_send_no_byte_before_it_comes(data: st.DataObject) -> None:
    schedule = data.draw(right())
    if schedule.num_sends and data.draw(st.booleans()):
        schedule = data.draw(mutated(schedule))
    if violations(schedule) == []:
        assert no_byte_leaves_before_it_comes(schedule)


LINE = Topology(
    "line",
    3,
    tuple(Link(u, v, 1, 0.001, 1.0) for u, v in ((0, 1), (1, 0), (1, 2), (2, 1))),
    0.0,
    1.0,
)
"""A chunk of 4 bytes takes 4 ticks, and a tick more to arrive."""
TO_ALL = named_spec("broadcast", 3).at(1)
TO_ONE = named_spec("reduce", 3).at(1)


def star(**kind: Any) -> Topology:
    links = tuple(Link(*edge, 1, 0.001, 1.0) for r in range(3) for edge in ((r, 3), (3, r)))
    return Topology("star", 3, links, 0.0, 1.0, switches=(Switch("hub", **kind),))


Rows = list[tuple[int, int, int, tuple[int, int], bool]]


def schedule(topology: Topology, collective: Collective, rows: Rows, *messages: int) -> Schedule:
    place = {k.edge: i for i, k in enumerate(topology.links)}
    clock = Clock.from_topology(topology, 4, AlphaModel.TRAVELS, 1000)
    numbered = [(s, e, c, place[edge], how) for s, e, c, edge, how in rows]
    return build_schedule(topology, collective, numbered, clock, messages or None)


ON_A_LINE: Rows = [(0, 4, 0, (0, 1), False), (5, 9, 0, (1, 2), False)]
BUS = replace(LINE, budgets=(Budget("bus", ((0, 1), (1, 2)), 1, 0.5),))
REDUCED: Rows = [(0, 4, 0, (2, 1), True), (5, 9, 0, (1, 0), True)]
THROUGH: Rows = [(0, 4, 0, (0, 3), False), (1, 5, 0, (3, 1), False), (1, 5, 0, (3, 2), False)]
TWO_TO_ALL = named_spec("broadcast", 3).at(2)
TOGETHER: Rows = [
    *((0, 8, chunk, (0, 1), False) for chunk in (0, 1)),
    *((9, 17, chunk, (1, 2), False) for chunk in (0, 1)),
]
THROUGH_TOGETHER: Rows = [
    *((0, 8, chunk, (0, 3), False) for chunk in (0, 1)),
    *((1, 9, chunk, (3, dst), False) for chunk in (0, 1) for dst in (1, 2)),
]
PARTED: Rows = [
    *((0, 8, chunk, (0, 3), False) for chunk in (0, 1)),
    *(
        (9 + 4 * chunk, 13 + 4 * chunk, chunk, (3, dst), False)
        for chunk in (0, 1)
        for dst in (1, 2)
    ),
]
STORED: Rows = [(0, 4, 0, (0, 3), False), (5, 9, 0, (3, 1), False), (9, 13, 0, (3, 2), False)]


@pytest.mark.parametrize(
    ("given_schedule", "expected"),
    [
        (schedule(LINE, TO_ALL, ON_A_LINE), []),
        (
            schedule(LINE, TO_ALL, [(0, 4, 0, (0, 1), False), (4, 8, 0, (1, 2), False)]),
            [("availability", 0, 1, (1, 2), 4), ("postcondition", 0, 2, None, None)],
        ),
        (
            schedule(LINE, TO_ALL, [(0, 3, 0, (0, 1), False), (5, 9, 0, (1, 2), False)]),
            [("duration", 0, 0, (0, 1), 0)],
        ),
        (
            schedule(LINE, TO_ALL, [*ON_A_LINE, (3, 7, 0, (0, 1), False)]),
            [("overlap", 0, 0, (0, 1), 3)],
        ),
        (
            schedule(BUS, TO_ALL, ON_A_LINE),
            [("bandwidth", 0, None, (0, 1), 0), ("bandwidth", 0, None, (1, 2), 5)],
        ),
        (
            schedule(LINE, TO_ALL, [*ON_A_LINE, (20, 24, 0, (2, 1), True)]),
            [("conflict", 0, 1, (2, 1), 20)],
        ),
        (schedule(LINE, TO_ONE, REDUCED), []),
        (
            schedule(LINE, TO_ONE, [*REDUCED, (20, 24, 0, (1, 0), True)]),
            [("double-count", 0, 0, (1, 0), 25)],
        ),
        (schedule(LINE, TO_ONE, REDUCED[1:]), [("incomplete", 0, 0, None, None)]),
        (schedule(star(copies=True), TO_ALL, THROUGH), []),
        (schedule(star(), TO_ALL, THROUGH), [("switch", 0, 3, (3, 2), 1)]),
        (
            schedule(star(copies=True), TO_ALL, [(0, 6, 0, (0, 3), False), *THROUGH[1:]]),
            [("switch", 0, 3, (3, 1), 1), ("switch", 0, 3, (3, 2), 1)],
        ),
        (
            schedule(star(copies=True, buffer_chunks=2, cut_through=False), TO_ALL, STORED),
            [],
        ),
        (
            schedule(star(copies=True), TO_ALL, STORED),
            [("buffer", 0, 3, (0, 3), 5)],
        ),
        (schedule(LINE, TWO_TO_ALL, TOGETHER), []),
        (
            schedule(
                LINE, TWO_TO_ALL, [(s, e - 1, c, edge, how) for s, e, c, edge, how in TOGETHER]
            ),
            [("duration", 1, 0, (0, 1), 0), ("duration", 1, 1, (1, 2), 9)],
        ),
        (
            schedule(LINE, TWO_TO_ALL, [TOGETHER[0], (0, 9, *TOGETHER[1][2:]), *TOGETHER[2:]]),
            [
                ("overlap", 1, 0, (0, 1), 0),
                ("availability", 1, 1, (1, 2), 9),
                ("postcondition", 1, 2, None, None),
            ],
        ),
        (
            schedule(
                LINE, TWO_TO_ALL, [*TOGETHER[:2], *((8, 16, *row[2:]) for row in TOGETHER[2:])]
            ),
            [
                ("availability", 0, 1, (1, 2), 8),
                ("availability", 1, 1, (1, 2), 8),
                ("postcondition", 0, 2, None, None),
                ("postcondition", 1, 2, None, None),
            ],
        ),
        (
            schedule(BUS, TWO_TO_ALL, TOGETHER),
            [("bandwidth", 1, None, (0, 1), 0), ("bandwidth", 1, None, (1, 2), 9)],
        ),
        (schedule(star(copies=True), TWO_TO_ALL, THROUGH_TOGETHER), []),
        (schedule(star(copies=True, buffer_chunks=1), TWO_TO_ALL, PARTED), []),
        (schedule(star(copies=True), TWO_TO_ALL, PARTED), [("buffer", 1, 3, (0, 3), 9)]),
        (
            schedule(
                star(copies=True, buffer_chunks=1),
                TWO_TO_ALL,
                [
                    *THROUGH_TOGETHER[:2],
                    *((s - 8, e, c, edge, how) for s, e, c, edge, how in PARTED[2:4]),
                    *PARTED[4:],
                ],
            ),
            [
                ("availability", 0, 3, (3, 1), 1),
                ("availability", 0, 3, (3, 2), 1),
                ("postcondition", 0, 1, None, None),
                ("postcondition", 0, 2, None, None),
            ],
        ),
        (
            schedule(LINE, named_spec("gather", 3, 2).at(1), ON_A_LINE, 7, 7),
            [("postcondition", 1, 2, None, None)],
        ),
        (
            schedule(LINE, TO_ALL, ON_A_LINE, 7, 7),
            [("postcondition", 0, 1, None, None)],
        ),
    ],
)
def test_every_violation_has_its_place_and_time(
    given_schedule: Schedule, expected: list[tuple[object, ...]]
) -> None:
    found = violations(given_schedule)
    assert [(v.kind, v.chunk, v.rank, v.link, v.tick) for v in found] == expected
    assert all(v.message and "\n" not in v.message for v in found)


def test_partial_results_of_one_chunk_pass_a_switch_side_by_side() -> None:
    """Which only the messages tell apart: by chunks alone each would get its own back."""
    links = tuple(Link(*edge, 1, 0.001, 1.0) for edge in ((0, 2), (1, 2), (2, 0), (2, 1)))
    pair = Topology("pair", 2, links, 0.0, 1.0, switches=(Switch("hub"),))
    rows: Rows = [
        (0, 4, 0, (0, 2), False), (0, 4, 0, (1, 2), False),
        (1, 5, 0, (2, 0), True), (1, 5, 0, (2, 1), True),
    ]  # fmt: skip
    collective = named_spec("allreduce", 2).at(2)
    whole = [*rows, *((s + 10, e + 10, 1, edge, how) for s, e, _, edge, how in rows)]
    assert violations(schedule(pair, collective, whole, 0, 1, 1, 0, 2, 3, 3, 2)) == []
    assert "double-count" in {v.kind for v in violations(schedule(pair, collective, whole))}


def test_chunk_is_in_a_transfer_once() -> None:
    with pytest.raises(ParameterError, match="list each transfer once"):
        schedule(LINE, TWO_TO_ALL, [TOGETHER[0], *TOGETHER], 0, 1, 2, 3, 4)


@given(st.data())
def test_transfers_may_be_in_several_batches(data: st.DataObject) -> None:
    whole = data.draw(right())
    if whole.num_sends and data.draw(st.booleans()):
        whole = data.draw(mutated(whole))
    expected = {str(v) for v in violations(whole)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Schedule.batches, "__defaults__", (data.draw(st.integers(1, 3)),))
        assert {str(v) for v in violations(whole)} == expected


def test_batches_are_verified_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Schedule.batches, "__defaults__", (1,))
    test_every_violation_has_its_place_and_time(
        schedule(LINE, TO_ALL, [*ON_A_LINE, (3, 7, 0, (0, 1), False)]),
        [("overlap", 0, 0, (0, 1), 3)],
    )
