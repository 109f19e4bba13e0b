"""``sccl synth fastest``: bounds that no chunking beats, and schedules near them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sccl.synth.common import registry
from tests.kit.commands import sccl
from tests.kit.paths import PUBLISHED, ROOT

ASKED = ("synth", "fastest", "--collective", "allgather", "--topo", "dgx1")


def test_range_of_sizes_is_printed_and_written(tmp_path: Path) -> None:
    code, out, _ = sccl(*ASKED, "--size", "16KB..256KB", "--json", "-o", tmp_path / "found")
    assert code == 0
    shown = json.loads(out)
    assert shown["kind"] == "time-limit"
    assert [point["size_bytes"] for point in shown["points"]] == [16_000, 64_000, 256_000]
    for point in shown["points"]:
        assert 0 <= point["gap"] <= shown["within"] == 0.01
        code, out, _ = sccl("check", point["file"], "--json")
        assert code == 0
        assert json.loads(out)["files"][0]["valid"]


def test_one_size_goes_into_a_file(tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    code, out, _ = sccl(*ASKED, "--size", "1MB", "-o", file)
    assert code == 0
    assert "Lower bound" in out
    assert str(file.name) in out
    assert sccl("simulate", file)[0] == 0


def test_exit_code_reports_a_gap_above_the_limit() -> None:
    few = ("--topo", "ring:5", "--size", "1KB")
    code, out, _ = sccl(*ASKED, *few, "--gap", "0", "--json")
    assert code == 3
    assert json.loads(out)["points"][0]["gap"] > 0


def test_switches_are_passed() -> None:
    code, out, err = sccl(
        "synth",
        "fastest",
        "--collective",
        "alltoall",
        "--topo",
        "switch:4",
        "--size",
        "1MB",
        "--json",
    )
    assert code == 0, err
    assert json.loads(out)["points"][0]["gap"] <= 0.01


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--size", "many"), "size is 'many'"),
        (("--size", "1MB", "--gap", "2"), "gap is 2"),
        (("--size", "1MB", "--max-steps", "3"), "no such option: --max-steps"),
        (("--size", "1MB", "--timeout", "0"), "timeout is 0"),
        (("--size", "1MB", "--certify", str(ROOT / "README.md")), "README.md"),
        (("--size", "1MB", "--certify", str(PUBLISHED / "z52-allgather")), "would be lost"),
    ],
)
def test_bad_input_is_rejected_in_one_sentence(more: tuple[str, ...], says: str) -> None:
    code, _, err = sccl(*ASKED, *more)
    assert code == 2
    assert says in " ".join(err.split())


def test_limits_of_steps_take_no_size() -> None:
    code, _, err = sccl("limits", "--collective", "allgather", "--topo", "dgx1", "--size", "1MB")
    assert code == 2
    assert "no such option: --size" in " ".join(err.split())


def test_machines_that_are_too_large_are_named() -> None:
    asked = ("synth", "fastest", "--collective", "allgather", "--size", "1MB", "--topo")
    for machine in ("torus:12x12", "torus:16x16"):
        code, _, err = sccl(*asked, machine)
        assert code == 2
        assert "give fewer ranks" in " ".join(err.split()) or "ranks" in err


def test_interrupt_prints_what_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan, calls = registry.plan, []

    def interrupted(*args: object, **told: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plan(*args, **told)  # type: ignore[arg-type]

    monkeypatch.setattr(registry, "plan", interrupted)
    proofs = tmp_path / "proofs"
    code, out, err = sccl(*ASKED, "--size", "64KB..1MB", "--json", "--certify", proofs)
    assert code == 130
    assert "no certificate is written" in err
    assert not proofs.exists()
    points = json.loads(out)["points"]
    assert [point["ended"] for point in points] == ["", "interrupted"]
    assert points[1]["bound_us"] is None
