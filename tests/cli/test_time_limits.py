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


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--size", "1MB", "--gap", "2"), "gap is 2"),
        (("--size", "1MB", "--timeout", "0"), "timeout is 0"),
        (("--size", "1MB", "--certify", str(ROOT / "README.md")), "README.md"),
        (("--size", "1MB", "--certify", str(PUBLISHED / "z52-allgather")), "would be lost"),
    ],
)
def test_bad_input_is_rejected_in_one_sentence(more: tuple[str, ...], says: str) -> None:
    code, _, err = sccl(*ASKED, *more)
    assert code == 2
    assert says in " ".join(err.split())


def test_machine_that_is_too_large_is_named() -> None:
    asked = ("synth", "fastest", "--collective", "allgather", "--size", "1MB", "--topo")
    code, _, err = sccl(*asked, "torus:12x12")
    assert code == 2
    assert "allgather has 144 ranks, and the lower bound" in err
    assert "for up to 128: give fewer ranks" in err


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
