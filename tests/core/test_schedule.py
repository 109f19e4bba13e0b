"""Schedules: their form, their files, and their times."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core import schedule as module
from sccl.core.clock import AlphaModel
from sccl.core.files import schedules as files
from sccl.core.files.json_text import digest, parse, to_text
from sccl.core.files.kinds import json_schema
from sccl.core.files.schedule_shapes import ScheduleWire
from sccl.core.files.schedules import (
    load_schedule,
    schedule_from_wire,
    schedule_to_wire,
    text_pieces,
)
from sccl.core.packed_schedule import link_usage
from sccl.core.schedule import MAX_TIME, Schedule, build_schedule
from sccl.errors import CollectiveError, FormatError, InputError, ParameterError, TooLargeError
from sccl.topo import resolve_topology
from tests.kit.schedules import around_a_ring, schedules, together_around

SHAPE = jsonschema.Draft202012Validator(json_schema(ScheduleWire))


@given(schedules())
def test_schedule_comes_back_from_its_file(schedule: Schedule) -> None:
    text = "".join(text_pieces(schedule))
    wire = parse(text, ScheduleWire, "there")
    assert schedule_from_wire(wire, "there") == schedule
    assert text == to_text(schedule_to_wire(schedule))
    assert wire.digest == digest(wire)
    SHAPE.validate(json.loads(text))


@given(schedules(), st.integers(1, 80), st.integers(0, 9))
def test_rows_that_are_read_in_pieces_are_those_of_the_whole(
    schedule: Schedule, piece: int, cut: int
) -> None:
    text = "".join(text_pieces(schedule))
    changed = text[: -cut or None].replace("0", " 0 ", cut)
    whole, parts = loaded(text), loaded(text, piece)
    assert whole == parts == (schedule, True)
    assert loaded(changed) == loaded(changed, piece)


def loaded(text: str, piece: int = 2**40) -> tuple[Schedule, bool] | str:
    """Return the schedule of a file that is read in pieces of so many bytes, or its error."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_PIECE_BYTES", piece)
        path = Path(folder) / "schedule.json"
        path.write_text(text)
        try:
            return load_schedule(path)
        except InputError as error:
            return str(error).replace(folder, "")


def test_long_ones_are_checked_and_written_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = around_a_ring()
    text = "".join(text_pieces(whole))
    monkeypatch.setattr(module, "_CHECK_ROWS", 2)
    monkeypatch.setattr(Schedule.batches, "__defaults__", (2,))
    assert len(list(whole.batches())) == 3
    assert "".join(text_pieces(whole)) == text
    assert replace(whole, start=whole.start.copy()) == whole
    for row in range(whole.num_sends):  # a row that repeats the one before, on any border
        columns: dict[str, Any] = {
            name: np.insert(column, row, column[row])
            for name, column in next(whole.batches(whole.num_sends))._asdict().items()
            if column is not None
        }
        with pytest.raises(ParameterError, match=f"row {row + 1}: it is out of order"):
            replace(whole, **columns)


@pytest.mark.parametrize("model", AlphaModel)
def test_rows_with_the_same_times_are_one_transfer(model: AlphaModel, tmp_path: Path) -> None:
    whole = together_around(4, 25_000, model)
    first = whole.transfer_starts()
    rows = list(zip(whole.link.tolist(), whole.start.tolist(), whole.end.tolist(), strict=True))
    assert first.tolist() == [rows.index(row) for row in rows]
    assert whole.has_combined_transfers
    assert not around_a_ring(model).has_combined_transfers
    path = tmp_path / "s.json"
    path.write_text("".join(text_pieces(whole)))
    assert load_schedule(path) == (whole, True)
    for batch in (1, 3, 2**20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Schedule.batches, "__defaults__", (batch,))
            busy = sorted(link_usage(whole))
        assert [row[0] for row in busy] == [0] * 4 + [3] * 4
        assert {row[2] for row in busy} == {0, whole.clock.us(3 * int(whole.end[0]))}


def test_last_arrival_is_the_finish_in_both_models() -> None:
    travels, occupies = (around_a_ring(model) for model in AlphaModel)
    alpha_ps = round(resolve_topology("ring:3").alpha_us * 10**6)
    assert travels.finish == travels.end.max() + alpha_ps
    assert occupies.finish == occupies.end.max() == travels.finish
    nothing = build_schedule(travels.topology, travels.collective, [], travels.clock)
    assert nothing.finish == 0


def test_columns_are_not_changed_and_may_lie_on_disk(tmp_path: Path) -> None:
    whole = around_a_ring()
    with pytest.raises(ValueError, match="read-only"):
        whole.start[0] = 1
    np.save(tmp_path / "end.npy", whole.end.astype(np.uint32))
    on_disk = replace(whole, end=np.load(tmp_path / "end.npy", mmap_mode="r"))
    assert on_disk == whole
    assert hash(on_disk) == hash(whole)
    assert on_disk != replace(whole, end=whole.end + 1)
    assert "".join(text_pieces(on_disk)) == "".join(text_pieces(whole))


def at(name: str, row: int, value: int) -> dict[str, Any]:
    column = getattr(around_a_ring(), name).copy()
    column[row] = value
    return {name: column}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"start": np.zeros(6)}, "'start': 1 dimensions of float64, expected .* whole numbers"),
        ({"start": np.zeros((2, 3), dtype=np.int64)}, "'start': 2 dimensions"),
        ({"end": [1] * 6}, "'end': .*list"),
        ({"reduce": np.zeros(6, dtype=np.int64)}, "'reduce': .* expected .* booleans"),
        ({"link": np.zeros(5, dtype=np.int64)}, "'link': 5 rows, expected 6"),
        (at("start", 5, -1), "row 5: start is -1"),
        (at("end", 3, MAX_TIME), "row 3: end is"),
        (at("end", 2, 0), "row 2: it ends at 0 and starts at 0"),
        (at("chunk", 1, 3), "row 1: chunk is 3, expected 0 to 2"),
        (at("link", 4, 6), "row 4: link is 6, expected 0 to 5"),
        (at("start", 0, 5), "row 1: it is out of order or repeats row 0"),
        (at("chunk", 0, 2), "row 1: it is out of order or repeats row 0"),
        (at("link", 0, 1), "row 1: it is out of order or repeats row 0"),
        ({"tick_ps": 0}, "tick is 0 ps"),
        ({"chunk_bytes": 0}, "a chunk has 0 bytes"),
    ],
)
def test_invalid_schedule_gives_one_sentence(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        replace(around_a_ring(), **changes)


def test_schedule_fits_its_machine_and_its_chunks() -> None:
    whole = around_a_ring()
    with pytest.raises(CollectiveError, match="made for 4 ranks"):
        replace(whole, collective=named_spec("allgather", 4).at(1))
    with pytest.raises(CollectiveError, match="3 chunks, and 2 sizes"):
        replace(whole, chunk_bytes=(1, 2))
    with pytest.raises(ParameterError, match="from tick 0 to"):
        build_schedule(whole.topology, whole.collective, [(0, 2**70, 0, 0, False)], whole.clock)


def plain() -> dict[str, Any]:
    made: dict[str, Any] = json.loads("".join(text_pieces(around_a_ring())))
    return made


def with_row(row: list[int]) -> dict[str, Any]:
    return plain() | {"sends": [row]}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (with_row([0, 5, 0, 0, 0, 0]), r"sends\[0\]: .* has no link 0->0"),
        (with_row([0, 5, 0, 0, 77, 0]), r"no link 0->77"),
        (with_row([0, 5, 9, 0, 1, 0]), "row 0: chunk is 9"),
        (with_row([0, 5, 2**40, 0, 1, 0]), r"sends\[0\]\[2\]"),
        (with_row([0, 0, 0, 0, 1, 0]), "expected an end after the start"),
        (with_row([0, 2**63, 0, 0, 1, 0]), r"sends"),
        (with_row([0, 5, 0, 0, 1]), r"sends"),
        (with_row([0, 5, 0, 0, 1, 2]), r"sends"),
        (
            plain() | {"sends": [[5, 6, 0, 0, 1, 0], [0, 1, 0, 0, 1, 0]]},
            "row 1: it is out of order",
        ),
        (plain() | {"alpha": "flies"}, "alpha"),
        (plain() | {"chunk_bytes": [1, 2]}, "3 chunks, and 2 sizes"),
        (plain() | {"chunk_bytes": 0}, "chunk_bytes"),
        (plain() | {"kind": "algorithm"}, "it holds an algorithm; expected a schedule file"),
    ],
)
@pytest.mark.parametrize("piece", [1, 2**21])
def test_bad_files_say_what_is_wrong(
    content: dict[str, Any],
    says: str,
    piece: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "_PIECE_BYTES", piece)
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=says) as error:
        load_schedule(path)
    assert str(path) in str(error.value)
    assert isinstance(error.value, InputError)


def test_short_file_does_not_speak_of_millions_of_pairs() -> None:
    wire = schedule_to_wire(around_a_ring())
    chunks = 3 * 10**5
    many = msgspec.structs.replace(wire.collective, chunks=chunks, num_chunks=3 * chunks)
    with pytest.raises(TooLargeError, match="6 sends for 900000 chunks"):
        schedule_from_wire(msgspec.structs.replace(wire, collective=many), "there")


def test_file_that_was_changed_has_lost_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text("".join(text_pieces(around_a_ring())))
    schedule, intact = load_schedule(path)
    assert (schedule, intact) == (around_a_ring(), True)
    path.write_text(json.dumps(plain() | {"tick_ps": 2}))
    assert load_schedule(path)[1] is False
