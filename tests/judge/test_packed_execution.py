"""The judge of packed schedules: it agrees with the one that goes transfer by transfer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from unittest.mock import patch

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.packed_schedule import PackedSchedule, PassKind
from sccl.judge import packed_execution as judge
from sccl.judge import violations
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.packed import damaged, packed, reduces, right, rows_of, whole, with_rows
from tests.kit.schedule_executor import executes_correctly


@settings(max_examples=times(40))
@given(right())
def test_right_ones_pass(schedule: PackedSchedule) -> None:
    assert violations(schedule) == []
    assert violations(whole(schedule)) == []
    assert executes_correctly(whole(schedule))
    assert schedule.finish == whole(schedule).finish
    assert schedule.num_sends == whole(schedule).num_sends


@settings(max_examples=times(1000, by_day=75))
@given(st.data())
def test_damaged_ones_are_verified_as_transfer_by_transfer(data: st.DataObject) -> None:
    schedule = data.draw(damaged(data.draw(right())))
    with (
        patch.object(judge, "_WINDOW_CHUNKS", data.draw(st.sampled_from([1, 7, 2**24]))),
        patch.object(judge, "_CHUNKS_PER_CALL", data.draw(st.sampled_from([1, 5, 2**22]))),
    ):
        found = violations(schedule)
    event(found[0].kind if found else "still right")
    wrong = violations(whole(schedule)) != []
    if reduces(schedule):  # in reductions it also rejects harmless wasted transfers
        assert found or not wrong
    else:
        assert bool(found) == wrong


LINE, SUMS, BOTH = "allgather", "reducescatter", "allreduce"  # made by tests: loops are compiled


@cache
def made(collective: str) -> PackedSchedule:
    return packed(resolve_topology("mesh:1x4"), collective)


@pytest.mark.parametrize("collective", [LINE, SUMS, BOTH])
def test_every_single_damage_is_named(collective: str) -> None:
    schedule = made(collective)
    rows = rows_of(schedule)
    for i, (number, slot, chunk) in enumerate(rows):
        dropped = rows[:i] + rows[i + 1 :]
        other = [*rows[:i], (number, slot, (chunk + 1) % 4), *rows[i + 1 :]]
        for changed in (dropped, other):
            try:
                damage = with_rows(schedule, changed)
            except ValueError:  # nothing is left of a round at an end: refused as a form
                continue
            (found,) = violations(damage)
            assert found.chunk is not None
            assert found.rank is not None
            assert str(found.chunk) in found.message


def test_transfer_before_its_chunk_is_there_is_named() -> None:
    line = made(LINE)
    rows = rows_of(line)
    last = max(rows)
    swapped = [(0 if n == last[0] else last[0] if n == 0 else n, s, c) for n, s, c in rows]
    (found,) = violations(with_rows(line, swapped))
    assert found.kind == "availability"
    assert "does not hold chunk" in found.message
    assert found.tick is not None
    assert found.link in {link.edge for link in line.topology.links}


@pytest.mark.parametrize(
    ("collective", "passes", "kind"),
    [
        (LINE, (PassKind.REDUCES,), "conflict"),
        (SUMS, (PassKind.STORES,), "incomplete"),
        (BOTH, (PassKind.STORES, PassKind.REDUCES), "incomplete"),
        (BOTH, (PassKind.REDUCES,), "postcondition"),
        (BOTH, (PassKind.REDUCES, PassKind.REDUCES), "incomplete"),
        (LINE, (PassKind.STORES, PassKind.STORES), None),
    ],
)
def test_passes_have_to_be_those_of_the_collective(
    collective: str, passes: tuple[PassKind, ...], kind: str | None
) -> None:
    found = violations(replace(made(collective), passes=passes))
    assert [one.kind for one in found] == ([kind] if kind else [])


def test_root_of_a_reduction_must_not_send_its_sum() -> None:
    summed = packed(resolve_topology("mesh:1x4"), "reduce")
    copied = packed(resolve_topology("mesh:1x4"), "broadcast")
    rows = rows_of(summed)
    sent = next(s for s, link in enumerate(summed.slot_links(PassKind.REDUCES))
                if summed.topology.links[link].dst == 0)  # fmt: skip
    extra = (max(rows)[0] + 1, sent, 0)
    (found,) = violations(with_rows(summed, [*rows, extra]))
    assert found.kind == "double-count"
    assert violations(with_rows(copied, [*rows_of(copied), extra])) == []
    assert named_spec("reduce", 4).combining
