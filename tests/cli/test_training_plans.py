"""Training plans on the command line: judged, shown and drawn, or refused in a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kit.commands import sccl
from tests.kit.training_plans import layered_plan, plan_file, prefetching_plan


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return plan_file(prefetching_plan(), tmp_path / "plan.json")


def test_a_right_plan_passes(file: Path) -> None:
    code, out, _ = sccl("check", file)
    assert code == 0
    assert "prefetching on hgx2, 14.5 us an iteration (at least 9.5 us)" in " ".join(out.split())
    code, out, _ = sccl("check", file, "--json")
    told = json.loads(out)
    (found,) = told["files"]
    assert (code, found["valid"], found["digest_matches"]) == (0, True, True)
    assert (found["topology"], found["violations"]) == ("hgx2", [])
    assert told["inputs"] == {str(file): json.loads(file.read_text())["digest"]}


def test_a_wrong_plan_is_refused_by_all(tmp_path: Path) -> None:
    wrong = replace(prefetching_plan(), period_ns=14000)
    file = plan_file(wrong, tmp_path / "wrong.json")
    code, out, err = sccl("check", file)
    assert code == 1
    assert "in 14500 ns, claimed are 14000" in " ".join((out + err).split())
    code, out, _ = sccl("check", file, "--json")
    (found,) = json.loads(out)["files"]
    assert (code, found["valid"]) == (1, False)
    assert [fault["kind"] for fault in found["violations"]] == ["period"]
    picture = tmp_path / "wrong.svg"
    for words in (("show", file), ("plot", file, "-o", picture)):
        code, _, err = sccl(*words)
        assert code == 2
        assert "the judge refuses this plan: an iteration follows upon" in " ".join(err.split())
        assert "sccl check" in err
    assert not picture.exists()


def test_an_edited_plan_is_told(file: Path) -> None:
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "seed": 4}))
    code, out, _ = sccl("check", file)
    assert (code, "digest" in out) == (0, True)
    code, out, _ = sccl("show", file)
    assert "edited since sccl wrote it" in out


@pytest.mark.parametrize("verb", ["check", "show", "plot"])
def test_a_file_that_is_no_plan_is_a_sentence(verb: str, file: Path, tmp_path: Path) -> None:
    told = json.loads(file.read_text())
    told["ops"][0]["option"] = 9
    file.write_text(json.dumps(told))
    more = ("-o", tmp_path / "p.svg") if verb == "plot" else ()
    code, _, err = sccl(verb, file, *more)
    assert code == 2
    assert "'batch' takes option 9, and the plan has 2, 0 to 1" in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_plan_is_shown_in_numbers(file: Path) -> None:
    code, out, _ = sccl("show", file)
    assert code == 0
    said = " ".join(out.split())
    assert "prefetching on hgx2, by none (seed 3)" in said
    assert "14.5 us an iteration, the first two in 29 us; 52.63% above 9.5 us" in said
    code, out, _ = sccl("show", file, "--json")
    (shown,) = json.loads(out)["training"]
    assert (shown["period_us"], shown["bound_us"], shown["proved"]) == (14.5, 9.5, False)
    assert (shown["steady"], shown["ahead"]) == (True, [])
    first, second = shown["options"]
    assert (first["collective"], first["recipe"], first["us"]) == ("alltoall", "whole", 6)
    assert (second["motifs"], second["channels"], second["us"]) == (2, ["gpu"], 5)
    lanes = {lane["name"]: (lane["computes"], lane["busy_us"]) for lane in shown["lanes"]}
    assert lanes == {"all: 7": (True, 9.5), "cpu": (False, 6), "gpu": (False, 5)}


def test_a_plan_without_a_bound_says_so(tmp_path: Path) -> None:
    file = plan_file(prefetching_plan(bound_ns=0, binding=""), tmp_path / "plan.json")
    code, out, _ = sccl("show", file)
    assert (code, "no bound is known" in out) == (0, True)
    assert "0.00%" not in out
    assert "at least 0 us" not in sccl("check", file)[1]


def test_a_plan_is_drawn(file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "p.svg"
    code, out, _ = sccl("plot", file, "-o", picture, "--json")
    told = json.loads(out)
    assert (code, told["what"], told["file"]) == (0, "timeline", str(picture))
    drawn = picture.read_text()
    for word in ("prefetching on hgx2", "all: 7", "alltoall", "forward", "iterations begin"):
        assert word in drawn
    code, _, err = sccl("plot", file, "--what", "utilisation", "-o", picture)
    assert (code, "does not draw training plans" in " ".join(err.split())) == (2, True)


def test_long_steps_are_drawn_in_milliseconds_and_markup_stays_text(tmp_path: Path) -> None:
    plan = layered_plan(30)
    plan = replace(plan, workload=replace(plan.workload, name="<b>30</b>"))
    file, picture = plan_file(plan, tmp_path / "plan.json"), tmp_path / "p.svg"
    assert sccl("plot", file, "-o", picture)[0] == 0
    drawn = picture.read_text()
    assert "Time (ms)" in drawn
    assert "<b>" not in drawn
