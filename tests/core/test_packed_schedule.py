"""Packed schedules: the same rows as ordinary ones, parts of them, and their files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from mmap import mmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.core.clock import AlphaModel
from sccl.core.files import packed_schedules as files
from sccl.core.files.disk import PACKED_MAGIC
from sccl.core.files.packed_schedules import load_packed, packed_digest, write_packed
from sccl.core.packed_schedule import (
    PackedSchedule,
    PassKind,
    link_usage,
    release_pages,
    transfer_rows,
)
from sccl.core.schedule import ScheduleFilter
from sccl.core.topology import Budget
from sccl.errors import FormatError, InputError, TooLargeError
from sccl.judge import violations
from sccl.topo import resolve_topology
from sccl.transform.validated import validated_schedule
from tests.kit.nightly import times
from tests.kit.packed import packed, right, whole


@given(right(), st.integers(1, 50))
def test_links_and_rows_are_those_of_an_ordinary_schedule(
    schedule: PackedSchedule, rows: int
) -> None:
    assert link_usage(schedule) == link_usage(whole(schedule))
    assert list(transfer_rows(schedule, rows)) == list(transfer_rows(whole(schedule)))


def test_links_of_many_rounds_are_counted_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = both().link_counts()
    monkeypatch.setattr("sccl.core.packed_schedule._BLOCK_ROWS", 1)
    assert np.array_equal(both().link_counts(), counts)
    assert counts.sum() == both().num_sends


@cache
def plain() -> PackedSchedule:
    return packed(resolve_topology("mesh:3x4"), "allgather")


@cache
def both() -> PackedSchedule:
    return packed(resolve_topology("torus:3x3"), "allreduce", chunks=2)


def quiet(_done: int, _of: int) -> None:
    """Tell nobody."""


@settings(max_examples=times(40))
@given(st.data())
def test_part_of_it_is_that_part_of_its_rows(data: st.DataObject) -> None:
    schedule = data.draw(right())
    every, ticks = whole(schedule), schedule.finish
    excerpt = ScheduleFilter(
        chunk=data.draw(st.none() | st.integers(0, schedule.collective.num_chunks - 1)),
        rank=data.draw(st.none() | st.integers(0, schedule.topology.ranks - 1)),
        begin=data.draw(st.integers(0, ticks)),
        until=data.draw(st.none() | st.integers(0, ticks)),
    )
    assert schedule.partial_schedule(excerpt) == excerpt.apply(every)
    rows = data.draw(st.integers(1, 50))
    sizes = [len(batch.start) for batch in schedule.batches(rows)]
    assert sum(sizes) == schedule.num_sends
    for i, name in enumerate(("start", "end", "chunk", "link", "reduce")):
        column = np.concatenate([batch[i] for batch in schedule.batches(rows)])
        assert np.array_equal(column, getattr(every, name))


@pytest.mark.parametrize("make", [plain, both], ids=["copies", "both"])
def test_file_gives_back_what_was_written(
    make: Callable[[], PackedSchedule], tmp_path: Path
) -> None:
    schedule = make()
    write_packed(tmp_path / "s", schedule, quiet)
    again, intact = load_packed(tmp_path / "s", quiet)
    assert (again, intact) == (schedule, True)
    assert hash(again) == hash(schedule)
    assert packed_digest(again) == packed_digest(schedule)
    write_packed(tmp_path / "again", again, quiet)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "s").read_bytes()
    wide = replace(schedule, log=schedule.log.astype(np.uint32))
    write_packed(tmp_path / "s", wide, quiet)
    assert load_packed(tmp_path / "s", quiet) == (wide, True)


@settings(max_examples=times(20))
@given(st.data())
def test_memory_mapped_schedule_equals_the_written_one(data: st.DataObject) -> None:
    schedule = data.draw(right())
    excerpt = ScheduleFilter(chunk=data.draw(st.integers(0, schedule.collective.num_chunks - 1)))
    with TemporaryDirectory() as folder:
        write_packed(Path(folder) / "s", schedule, quiet)
        there, _ = load_packed(Path(folder) / "s", quiet)
        assert all(isinstance(lies_in(column), mmap) for column in (there.fired, there.log))
        (Path(folder) / "s").unlink()  # like a replaced file, whose mapped content stays
        release_pages(there.log)
        assert there.partial_schedule(excerpt) == schedule.partial_schedule(excerpt)
        assert violations(there) == []
        assert there == schedule


def lies_in(column: object) -> object:
    """Return the owner of an array's memory."""
    while isinstance(column, np.ndarray):
        column = column.base
    return column


def test_too_long_schedule_error_names_an_alternative(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sccl.core.packed_schedule.MAX_PART_TRANSFERS", 10)
    with pytest.raises(TooLargeError, match=r"up to 10: .* 'sccl check', .* 'sccl show'") as said:
        validated_schedule(plain(), "s.packed")
    assert "\n" not in str(said.value)


def forged(content: bytes, old: str, new: str) -> bytes:
    """Return a file with something else in its head."""
    length = int.from_bytes(content[16:24], "little")
    head, rest = content[24 : 24 + length].decode(), content[24 + length + -(24 + length) % 64 :]
    assert re.search(old, head), head[-300:]
    changed = re.sub(old, new, head, count=1).encode()
    start = content[:16] + len(changed).to_bytes(8, "little") + changed
    return start + bytes(-len(start) % 64) + rest


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"rounds": [0-9]+', '"rounds": 1099511627775', "this version reads up to"),
        ('"sends": [0-9]+', '"sends": 7', "the file was cut off or changed"),
        ('"chunk_bits": 16', '"chunk_bits": 32', "the file was cut off or changed"),
        ('"chunk_bits": 16', '"chunk_bits": 8', "chunk_bits"),
        ('"passes": ..stores..', '"passes": []', "passes"),
        ('"passes": ..stores..', '"passes": ["sends"]', "passes"),
        ('"finish": [0-9]+', '"finish": 1', "its header states a finish at tick 1"),
        ('"ranks": 12', '"ranks": 13', "is made for 12 ranks|is made for 13 ranks"),
        ('"kind": "packed-schedule"', '"kind": "schedule"', "it holds a schedule"),
        ('"alpha": "occupies"', '"alpha": "travels"', "chunks that arrive as links become free"),
        ('"chunk_bytes": [0-9]+', '"chunk_bytes": 0', "chunk_bytes"),
        ('"tick_ps": [0-9]+', '"tick_ps": 9999999999999999', "tick"),
        ("^{", "", "not JSON"),
    ],
)  # fmt: skip
def test_forged_heads_are_rejected_in_a_sentence(
    old: str, new: str, says: str, tmp_path: Path
) -> None:
    write_packed(tmp_path / "s", plain(), quiet)
    (tmp_path / "s").write_bytes(forged((tmp_path / "s").read_bytes(), old, new))
    with pytest.raises(InputError, match=says) as error:
        load_packed(tmp_path / "s", quiet)
    assert "\n" not in str(error.value)


@settings(max_examples=times(60))
@given(st.data())
def test_damaged_files_are_rejected_or_told_as_changed(data: st.DataObject) -> None:
    content = bytearray(b"".join(bytes(piece) for piece in files.content_pieces(plain(), quiet)))
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "s"
        file.write_bytes(content)
        said = ""
        schedule: PackedSchedule | None
        try:
            schedule, intact = load_packed(file, quiet)
        except InputError as error:
            schedule, intact, said = None, False, str(error)
        assert "\n" not in said
        assert not intact or schedule == plain()


def test_long_head_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(PACKED_MAGIC + (2**63).to_bytes(8, "little"))
    with pytest.raises(FormatError, match="its head has 9223372036854775808 bytes"):
        load_packed(tmp_path / "s", quiet)
    (tmp_path / "s").write_bytes(b"no such thing")
    with pytest.raises(FormatError, match="does not begin as a packed schedule does"):
        load_packed(tmp_path / "s", quiet)
    with pytest.raises(InputError, match="No such file"):
        load_packed(tmp_path / "none", quiet)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: {"log": s.log.astype(np.int64)}, "expected one of whole numbers of 16 or 32"),
        (lambda s: {"fired": s.fired[:, :0]}, "expected rows of 1 words"),
        (lambda s: {"log": s.log[1:]}, "are listed"),
        (lambda s: {"log": s.log + np.uint16(12)}, "does not exist, expected 0 to 11"),
        (lambda s: {"fired": np.vstack([s.fired, s.fired[:1] * 0])}, "first or last round"),
        (lambda s: {"fired": s.fired | np.uint64(1 << 63)}, "a slot after the last of 34"),
        (lambda _: {"passes": ()}, "it has no pass"),
        (lambda _: {"tick_ps": 0}, "tick is 0"),
        (lambda _: {"model": AlphaModel.TRAVELS}, "links between ranks"),
        (lambda _: {"topology": resolve_topology("mesh:3x5")}, "made for 12 ranks"),
        (
            lambda s: {"topology": replace(s.topology, budgets=(Budget("bus", ((0, 1),), 1),))},
            "share nothing",
        ),
    ],
)
def test_invalid_packed_schedule_is_rejected(
    change: Callable[[PackedSchedule], dict[str, Any]], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        replace(plain(), **change(plain()))


@pytest.mark.parametrize(
    ("excerpt", "says"),
    [
        (ScheduleFilter(chunk=12), "chunk is 12, expected 0 to 11"),
        (ScheduleFilter(rank=-1), "rank is -1, expected 0 to 11"),
        (ScheduleFilter(begin=-1), "begin is -1"),
        (ScheduleFilter(until=2**63), "until is"),
    ],
)
def test_parts_that_are_not_there_are_rejected(excerpt: ScheduleFilter, says: str) -> None:
    for part in (plain().partial_schedule, lambda e: e.apply(whole(plain()))):
        with pytest.raises(InputError, match=says):
            part(excerpt)


def test_parts_too_long_to_write_down_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sccl.core.packed_schedule.MAX_PART_TRANSFERS", 10)
    with pytest.raises(TooLargeError, match="give a chunk, a rank, or a shorter time"):
        plain().partial_schedule(ScheduleFilter())
    assert plain().partial_schedule(ScheduleFilter(chunk=0, until=1)).num_sends <= 10


def test_slots_of_a_pass_that_reduces_are_the_opposite_links() -> None:
    links = both().topology.links
    there, back = (both().slot_links(passing) for passing in (PassKind.STORES, PassKind.REDUCES))
    assert [links[i].edge[::-1] for i in there] == [links[i].edge for i in back]
