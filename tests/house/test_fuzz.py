"""Fuzzing of readers: a planted fault is found, and found again."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NoReturn

import pytest

from benchmarks import fuzz
from benchmarks.fuzz import Campaign, campaign, keep, result, rounds
from benchmarks.fuzz_readers import Reader, readers
from sccl.errors import FormatError
from sccl.formats import names as format_names
from sccl.topo.importers import importer_names
from sccl.training.traces.readers import names as trace_names


def toy(content: bytes) -> object:
    """Read a number behind a name, and fail on large ones only."""
    name, equals, number = content.partition(b"=")
    if name != b"size" or not equals:
        raise FormatError("it is no size")
    if not number.isdigit():
        raise FormatError("a size is a number")
    if int(number) > 10_000:
        raise KeyError(number)
    return int(number)


def run(seed: int, inputs: int = 2000) -> Campaign:
    found = campaign(Reader("toy", toy, (b"size=12",)))
    list(rounds([found], seed, inputs, None))
    return found


def test_planted_fault_is_found_and_shrunk(tmp_path: Path) -> None:
    found = run(0)
    (failure,) = found.failures.values()
    assert failure.outcome.startswith("KeyError test_fuzz.py:")
    assert failure.content.startswith(b"size=")
    assert len(failure.content) <= len("size=10001") + 1
    with pytest.raises(KeyError):
        toy(keep(tmp_path, failure).read_bytes())
    assert 0 < found.accepted < found.inputs


def test_same_seed_gives_the_same_inputs() -> None:
    first, again, other = run(1), run(1), run(2)
    assert result(first).failures == result(again).failures
    assert (first.corpus, first.accepted) == (again.corpus, again.accepted)
    assert first.accepted != other.accepted


def test_timeout_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(content: bytes) -> NoReturn:
        while True:
            content = content[:]

    monkeypatch.setattr(fuzz, "HANG_S", 0.02)
    found = Campaign(Reader("endless", endless, (b"x",)), [b"x"])
    fuzz.turn(found, 0, 3)
    assert list(found.failures) == ["more than 0.02 s"]
    assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0


def test_lines_that_are_new_are_kept() -> None:
    (own,) = (one for one in readers(None) if one.name == "own topology")
    found = campaign(own)
    before = len(found.lines)
    list(rounds([found], 0, 200, None))
    assert len(found.lines) > before
    assert len(found.corpus) > 1
    assert not found.failures


def test_every_reader_is_there_with_a_file_that_it_takes() -> None:
    every = {one.name: one for one in readers(None)}
    assert {f"topo {name}" for name in importer_names()} <= set(every)
    read = {name.removeprefix("plan ") for name in every if name.startswith("plan ")}
    assert {"msccl-xml", "mscclpp", "msccl-json", "teccl", "forestcoll"} <= read
    assert read <= set(format_names())
    assert {f"trace {name}" for name in trace_names()} <= set(every)
    own = ("topology", "algorithm", "schedule", "workload")
    assert {f"own {kind}" for kind in own} <= set(every)
    for one in every.values():
        one.read(one.seeds[0])
