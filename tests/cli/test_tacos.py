"""``sccl synth tacos``: output, files, errors, and resumed runs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from sccl.core.files.disk import is_packed
from sccl.core.outcome import Inconclusive, Outcome, Solution
from sccl.core.stop import StopReason
from sccl.synth.common import registry
from sccl.synth.tacos import matching_problem
from tests.kit.commands import sccl

ASKED = ("synth", "tacos", "--collective", "allgather", "--topo", "torus:3x3", "--size", "1MB")


def test_schedule_is_found_and_its_file_is_what_the_judge_accepts(tmp_path: Path) -> None:
    code, out, err = sccl(*ASKED, "-o", tmp_path / "s.json")
    assert (code, err) == (0, "")
    assert "allgather on torus:3x3, 1 MB per rank in C=1:" in out
    assert "(72 transfers," in out
    assert "alpha occupies" in out
    assert "lower bound" in out
    code, out, _ = sccl("check", tmp_path / "s.json")
    assert (code, "valid" in out) == (0, True)


def test_schedule_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    assert (
        sccl(
            "synth",
            "tacos",
            "--collective",
            "allgather",
            "--topo",
            "rail:2x2",
            "--size",
            "1MB",
            "-o",
            file,
        )[0]
        == 0
    )
    code, out, err = sccl("show", file)
    assert (code, err) == (0, "")
    assert "allgather on rail:2x2: C=1 of 1 MB, " in out
    assert out.count("switch ") == 24 + 10  # transfers, and the busiest links
    shown = json.loads(sccl("show", file, "--json")[1])["schedules"][0]
    transfers = shown["transfers"]
    assert transfers == sorted(transfers, key=lambda row: row[0])
    assert shown["violations"] == 0
    assert sum(link["transfers"] for link in shown["links"]) == len(transfers)
    assert max(row[2] for row in transfers) == shown["finish_us"]


def test_long_schedules_are_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sccl.view.text.shown_plans.MAX_TRANSFERS", 71)
    monkeypatch.setattr("sccl.view.text.plan_text.MAX_ROWS", 5)
    sccl(*ASKED, "-o", tmp_path / "s.json")
    code, out, _ = sccl("show", tmp_path / "s.json", "--json")
    assert code == 2
    assert "it has 72 transfers, and --json shows up to 71: 'sccl export" in out
    assert "these are the first 5;" in sccl("show", tmp_path / "s.json")[1]
    monkeypatch.setattr("sccl.view.text.shown_plans.MAX_LISTED", 71)
    code, out, err = sccl("show", tmp_path / "s.json")
    assert (code, out) == (2, "")
    assert "s.json has 72 transfers, more than can be shown (at most 71); 'sccl check' and" in err


def test_damaged_schedule_is_shown_as_damaged(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    sccl(*ASKED, "-o", file)
    found = json.loads(file.read_text())
    found["sends"].pop()
    file.write_text(json.dumps(found))
    assert "it fails verification: 1 violation, see 'sccl check'" in sccl("show", file)[1]


@pytest.mark.parametrize("collective", ["allreduce", "alltoall", "broadcast", "reduce", "scatter"])
def test_time_it_tells_is_that_of_the_file(collective: str, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    words = ("--collective", collective, "--topo", "dgx1", "--size", "64KiB", "--alpha", "travels")
    found = json.loads(sccl("synth", "tacos", *words, "-o", file, "--json")[1])
    checked = json.loads(sccl("check", file, "--json")[1])["files"][0]
    assert found["alpha"] == checked["alpha"] == "travels"
    assert found["finish_us"] == pytest.approx(checked["finish_us"])
    assert (found["bound_us"] == found["finish_us"]) == found["proved"]
    assert (checked["valid"], found["file"], found["seed"]) == (True, str(file), 0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--size", "1GB", "--chunks", "3"),
            "C=3 chunks of whole bytes: give 999999999 or 1000000002",
        ),
        (("--size", "1GB", "--restarts", "0"), "restarts is 0, expected >= 1"),
    ],
)
def test_invalid_arguments_give_one_sentence(words: tuple[str, ...], says: str) -> None:
    code, out, err = sccl("synth", "tacos", "--collective", "allgather", "--topo", "ring:4", *words)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize(("reason", "exit_code"), [("interrupted", 130), ("timeout after 1 s", 3)])
def test_interrupted_run_keeps_its_results(
    reason: str, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = registry.plan

    def cut_off(*arguments: object) -> Outcome:
        found = plan(*arguments)  # type: ignore[arg-type]
        assert isinstance(found, Solution)
        return Inconclusive(StopReason.parse(reason), found)

    monkeypatch.setattr(registry, "plan", cut_off)
    code, out, _ = sccl(*ASKED, "-o", tmp_path / "s.json")
    assert (code, f"{reason}: this is the best plan so far" in out) == (exit_code, True)
    assert sccl("check", tmp_path / "s.json")[0] == 0
    monkeypatch.setattr(registry, "plan", lambda *_: Inconclusive(StopReason.parse(reason)))
    code, out, err = sccl(*ASKED, "-o", tmp_path / "none.json")
    assert (code, out, (tmp_path / "none.json").exists()) == (3, "", False)
    assert f"unknown: {reason}, before any schedule was found" in err


def test_packed_schedules_are_written_judged_and_taken_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching_problem, "MIN_PACKED_SENDS", 0)
    whole, part = tmp_path / "whole", tmp_path / "part.json"
    assert sccl(*ASKED, "-o", whole)[0] == 0
    assert is_packed(whole)
    code, out, _ = sccl("check", whole)
    assert (code, "72 transfers" in out, "valid" in out) == (0, True, True)
    asked = ("show", whole, "--chunk", "4", "-o", part, "--json")
    assert json.loads(sccl(*asked)[1])["sends"] == 8
    code, out, _ = sccl("check", part)
    assert (code, "postcondition" in out) == (1, True)
    assert json.loads(sccl("show", part, "--rank", "4", "--json")[1])["of"] == 8
    assert sccl("simulate", whole)[0] == 0
    content = bytearray(whole.read_bytes())
    content[-2:] = (7).to_bytes(2, "little")
    whole.write_bytes(content)
    code, out, _ = sccl("check", whole)
    assert (code, "edited since sccl wrote it" in out) == (1, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--chunk", "9"), "chunk is 9, expected 0 to 8"),
        (("--from-us", "nan"), "nan"),
        (("--until-us", "-1"), "-1"),
    ],
)
def test_parts_that_make_no_sense_are_rejected(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    assert sccl(*ASKED, "-o", tmp_path / "s.json")[0] == 0
    code, out, err = sccl("show", tmp_path / "s.json", *words, "-o", tmp_path / "part")
    assert (code, out, says in err) == (2, "", True)
    assert not (tmp_path / "part").exists()


def test_unrecorded_schedule_is_computed_again(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    words = ("--seed", "3", "--restarts", "2")
    code, out, _ = sccl(*ASKED, *words, "--no-record", "-o", file)
    assert (code, "the inputs that reproduce the schedule, not the schedule itself" in out) == (
        0,
        True,
    )
    kept = json.loads(file.read_text())
    assert (kept["recorded"], kept["seed"], kept["file"]) == (False, 3, str(file))
    name, *again = shlex.split(kept["again"])
    made = json.loads(sccl(*again, "--json", "-o", tmp_path / "s.json")[1])
    assert (name, made["recorded"]) == ("sccl", True)
    assert [made[k] for k in ("finish_us", "bound_us", "sends", "again")] == [
        kept[k] for k in ("finish_us", "bound_us", "sends", "again")
    ]


def test_size_may_be_that_of_the_sketch(tmp_path: Path) -> None:
    words = ("synth", "tacos", "--collective", "allgather", "--topo", "ring:4")
    code, out, err = sccl(*words)
    assert (code, out) == (2, "")
    assert "no size is given: give --size" in err
    sketch = {"nnodes": 1, "intranode_sketch": {"strategy": "none"}}
    (tmp_path / "sketch.json").write_text(json.dumps(sketch))
    code, _, err = sccl(*words, "--sketch", tmp_path / "sketch.json")
    assert (code, "and the sketch has no input_size" in err) == (2, True)
    sketch["hyperparameters"] = {"input_size": "1M"}
    (tmp_path / "sketch.json").write_text(json.dumps(sketch))
    code, out, _ = sccl(*words, "--sketch", tmp_path / "sketch.json", "--json")
    assert (code, json.loads(out)["size_bytes"]) == (0, 10**6)
