"""``sccl synth teccl``: output, files, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sccl.core.stop import StopReason
from sccl.synth.common.synthesis import no_result_reason
from tests.kit.commands import sccl

ASKED = ("synth", "teccl", "--collective", "allgather", "--topo", "teccl-ndv2x2", "--size", "62500")


def test_schedule_is_found_and_its_file_is_what_the_judge_accepts(tmp_path: Path) -> None:
    code, out, err = sccl(*ASKED, "-o", tmp_path / "s.json")
    assert (code, err) == (0, "")
    assert "allgather on teccl-ndv2x2, 61 KiB per rank in C=1: 46.45 us (240 transfers," in out
    assert "lower bound 46.45 us (16 chunks of 62500 bytes): lower bound attained" in out
    checked = json.loads(sccl("check", tmp_path / "s.json", "--json")[1])["files"][0]
    assert (checked["valid"], checked["finish_us"]) == (True, pytest.approx(46.45))


def test_how_what_combines_was_found_is_reported(tmp_path: Path) -> None:
    words = ("synth", "teccl", "--topo", "ring:4", "--size", "1KB", "--budget", "0.2")
    code, out, _ = sccl(*words, "--collective", "allreduce", "--json", "-o", tmp_path / "s.json")
    shown = json.loads(out)
    assert (code, shown["combined"]) == (0, "gathered")
    checked = json.loads(sccl("check", tmp_path / "s.json", "--json")[1])["files"][0]
    assert (checked["valid"], checked["finish_us"]) == (True, pytest.approx(shown["finish_us"]))
    simulated = json.loads(sccl("simulate", tmp_path / "s.json", "--json")[1])
    assert shown["finish_us"] == pytest.approx(simulated["runs"][0]["finish_us"])
    code, out, _ = sccl(*words, "--collective", "reducescatter", "--combine", "direct")
    assert code == 0
    assert "combined by direct demands: each contribution is sent separately" in out
    code, out, _ = sccl(*words, "--collective", "allgather", "--json")
    assert json.loads(out)["combined"] is None


def test_epochs_and_what_switches_do_are_reported(tmp_path: Path) -> None:
    words = ("--collective", "allgather", "--topo", "rail:2x2", "--size", "1MB", "--switch", "copy")
    code, out, _ = sccl(
        "synth", "teccl", *words, "--model", "astar", "--json", "-o", tmp_path / "s.json"
    )
    shown = json.loads(out)
    assert (code, shown["model"], shown["by"], shown["switch"]) == (0, "astar", "astar", "copy")
    assert shown["epochs"] * shown["epoch_us"] > 0
    checked = json.loads(sccl("check", tmp_path / "s.json", "--json")[1])["files"][0]
    assert (checked["valid"], checked["finish_us"]) == (True, pytest.approx(shown["finish_us"]))
    code, out, _ = sccl("synth", "teccl", *words, "--model", "astar", "--epoch", "slowest")
    assert code == 0
    assert "scheduled in " in out
    code, out, _ = sccl("synth", "teccl", *words, "--model", "astar", "--budget", "1e-9")
    assert code == 0
    assert "scheduled by list scheduling, not by model astar: its rounds did not end" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--size", "1MB", "--switch", "copy"), "topology 'ring:4' has no switches"),
        (("--size", "4KB", "--buffers", "0"), "in model auto, expected milp"),
        (("--size", "4KB", "--epochs", "4"), "epochs is 4 in model auto, which has no epochs"),
        (("--size", "4KB", "--combine", "direct"), "and allgather has no reductions: leave it out"),
    ],
)
def test_invalid_arguments_give_one_sentence(words: tuple[str, ...], says: str) -> None:
    code, out, err = sccl("synth", "teccl", "--collective", "allgather", "--topo", "ring:4", *words)
    assert (code, out) == (2, "")
    assert says in err


def test_links_that_have_less_are_scheduled_around(tmp_path: Path) -> None:
    file = tmp_path / "less.json"
    file.write_text('{"intervals": [{"from_us": 1, "to_us": 2, "fraction": 0}]}')
    words = ("--collective", "scatter", "--topo", "ring:4@1GB+0us", "--size", "4000")
    code, out, _ = sccl("synth", "teccl", *words, "--bandwidth", file, "-o", tmp_path / "s.json")
    assert code == 0
    assert "3 us (4 transfers" in out
    assert "lower bound attained" in out
    assert f"bandwidth varies by {file}: 'sccl check' and 'sccl simulate' use these times" in out
    simulated = json.loads(sccl("simulate", tmp_path / "s.json", "--json")[1])
    assert simulated["runs"][0]["finish_us"] == 3
    shown = json.loads(sccl("synth", "teccl", *words, "--bandwidth", file, "--json")[1])
    assert (shown["bandwidth"], shown["finish_us"], shown["bound_us"]) == (str(file), 3, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "expected a bandwidth file (its shape: 'sccl doctor schema bandwidth')"),
        (
            '{"intervals": [{"from_us": 1, "fraction": 2}]}',
            "verification uses the machine's bandwidth",
        ),
        ('{"intervals": [{"from_us": 0, "fraction": 0}]}', "no data reach rank 1 from rank 0"),
    ],
)
def test_bandwidth_that_cannot_be_is_rejected(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "less.json"
    file.write_text(text)
    words = ("--collective", "scatter", "--topo", "ring:4", "--size", "4000", "--budget", "0.1")
    code, out, err = sccl("synth", "teccl", *words, "--bandwidth", file, "-o", tmp_path / "s.json")
    assert (code, out) == (2, "")
    assert says in err
    assert not (tmp_path / "s.json").exists()


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (
            "timeout after 3 s",
            "timeout after 3 s, before any schedule was found: give it more time",
        ),
        ("no effort is allowed", "before any schedule was found: give it more effort"),
        ("interrupted", "interrupted, before any schedule was found"),
    ],
)
def test_message_names_the_exhausted_budget(ended: str, says: str) -> None:
    assert no_result_reason(StopReason.parse(ended)).endswith(says)


def test_effort_that_is_spent_is_what_to_give_more_of() -> None:
    words = ("--model", "milp", "--epochs", "60", "--budget", "1e-9")
    code, out, err = sccl(*ASKED, *words)
    assert (code, out) == (3, "")
    assert err.startswith(
        "unknown: no schedule within a budget of 1e-09, before any schedule was found"
    )
    assert err.endswith("give it more effort\n")
