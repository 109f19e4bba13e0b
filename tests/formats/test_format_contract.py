"""Foreign formats: their contract, and their use by ``sccl export``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sccl import formats
from sccl.formats.files.plans import write_plan
from tests.kit.commands import sccl
from tests.kit.easy_algorithms import frontier
from tests.kit.formats import check_format


@pytest.mark.parametrize("name", formats.names())
def test_conforms(name: str) -> None:
    check_format(name)


def files(folder: Path, collective: str = "allgather") -> list[Path]:
    found = []
    for algorithm in frontier("ring:4", collective):
        found.append(folder / f"{collective}-{algorithm.steps}.json")
        write_plan(found[-1], algorithm)
    return found


def test_trace_has_what_every_link_carries_when(tmp_path: Path) -> None:
    """Allgather on a ring of four with C=1 S=2 R=2: 12 sends, 0.7 us and 25,000 bytes a us."""
    plan = files(tmp_path)[0]
    words = ("export", plan, "--format", "chrome-trace", "-o", tmp_path / "t.json")
    code, out, err = sccl(*words, "--size", "25KB")
    assert (code, err) == (0, "")
    assert "to run it: open https://ui.perfetto.dev" in out
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    sends = [event for event in events if event["ph"] == "X"]
    assert len(sends) == 12
    assert {event["dur"] for event in sends} == {1.0}
    assert sorted({event["ts"] for event in sends}) == [0.0, 1.7]
    assert {event["args"]["arrives_us"] for event in sends} == {1.7, 3.4}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--format", "nope"), "unknown format 'nope': the formats are "),
        (("--format", "chrome-trace"), "chrome-trace holds bytes: give --size, such as 1MB"),
        (("--format", "chrome-trace", "--set", "a"), "--set 'a': expected NAME=VALUE"),
        (("--format", "chrome-trace", "--set", "a=1"), "unknown option 'a'"),
        (("--format", "chrome-trace", "--size", "0"), "size"),
    ],
)
def test_unexportable_plan_is_reported(tmp_path: Path, words: list[str], says: str) -> None:
    output = tmp_path / "out"
    code, out, err = sccl("export", files(tmp_path)[0], *words, "-o", output)
    assert (code, out, output.exists()) == (2, "", False)
    assert says in err
    assert err.count("\n") == 1


def test_programs_of_two_collectives_lie_in_one_folder(tmp_path: Path) -> None:
    both = [*files(tmp_path), *files(tmp_path, collective="alltoall")]
    code, _, err = sccl("export", *both, "--format", "msccl-xml", "-o", tmp_path / "programs")
    assert (code, err) == (0, "")
    for words in ([tmp_path / "programs"], [tmp_path / "programs" / "*.xml"]):
        found = json.loads(sccl("check", *words, "--json")[1])["files"]
        assert {one["collective"] for one in found} == {"allgather", "alltoall"}
        assert all(one["valid"] for one in found)


def test_plans_of_two_collectives_are_not_one_file(tmp_path: Path) -> None:
    both = [*files(tmp_path), *files(tmp_path, collective="alltoall")]
    words = ("--format", "chrome-trace", "--size", "6MB", "-o", tmp_path / "t.json")
    code, _, err = sccl("export", *both, *words)
    assert code == 2
    assert "give plans for one collective, which chrome-trace requires" in err
