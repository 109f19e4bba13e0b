"""Frontiers, bounds, and plans of every synthesizer on small machines, by deterministic budgets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from tests.golden.records import Net, digests, regressions, stable
from tests.kit.documents import run

CLASSICAL = "--without limits-time,pareto,limits,taccl,tacos,teccl,gathered"

CASES: dict[str, tuple[str, ...]] = {
    "bound": (
        "allgather dgx1",
        "allgather mesh:3x3 --steps 4",
        "allreduce dgx1 --steps 4",
        "allreduce torus:4x4",
        "alltoall torus:4x4",
        "alltoall z52-pcie --steps 4",
        "broadcast ndv2x2",
        "gather teccl-amd",
        "reduce z52 --root 3",
        "reducescatter hypercube:4",
        "scatter dgx2",
    ),
    "pareto": (
        "allgather dgx1",
        "allgather dgx1 --solver z3",
        "allgather mi250x8 --max-steps 3",
        "allgather ring:4 --solver cadical",
        "allgather torus:4x4",
        "allgather torus:4x4 --routed xy",
        "allreduce dgx-a100",
        "allreduce dgx1",
        "allreduce mesh:2x2",
        "allreduce ring:6",
        "alltoall dgx1",
        "alltoall dgx2",
        "alltoall hypercube:3",
        "alltoall ring:8 --groups 0-3,4-7",
        "broadcast dgx1 --max-steps 4",
        "broadcast mesh:2x3 --certify proof",
        "broadcast mi300x8 --max-steps 3",
        "gather mi300x8",
        "reduce star:4 --certify proof",
        "reduce z52",
        "reducescatter dgx1",
        "reducescatter mesh:3x3 --max-steps 5",
        "reducescatter mi250x8 --max-steps 3",
        "scatter dgx1 --root 3",
        "scatter z52-pcie",
    ),
    "solve": (
        "allgather dgx1 --chunks 6 --steps 3 --rounds 7",
        "allgather dgx1 --chunks 6 --steps 3 --rounds 7 --solver cadical",
        "allgather ring:5 --chunks 2 --steps 2 --rounds 3 --solver z3",
        "allreduce ring:4 --chunks 8 --steps 4 --rounds 6",
        "reduce dgx1 --chunks 6 --steps 3 --rounds 5",
    ),
    "limits": (
        "allgather dgx1",
        "allgather torus:4x4 --max-steps 5",
        "allgather z52-pcie --certify proof",
        "allreduce dgx1",
        "allreduce z52",
        "alltoall torus:2x4",
        "alltoall z52",
        "broadcast dgx1 --max-steps 4 --certify proof",
        "broadcast z52",
        "gather ring:7",
        "reduce mi300x8",
        "reducescatter torus:2x4",
    ),
    "synth fastest": (
        "allgather dgx1 --size 1KB,1MB",
        "allgather ndv2x2 --size 1MB --gap 0.05",
        "allgather z52-pcie --size 64KB --certify proof",
        "allreduce dgx1 --size 1MB --gap 0.05",
        "allreduce ring:4 --size 1KB,16MB",
        "alltoall dgx1 --size 1MB",
        "alltoall mi250x8 --size 1MB --certify proof",
        "broadcast mi300x8 --size 1MB --gap 0.05",
        "gather z52-pcie --size 1MB",
        "reduce ring:5 --size 1MB",
        "reducescatter z52 --size 1MB",
    ),
    "synth tacos": (
        "allgather dgx1 --size 1MB",
        "allgather ndv4x2 --size 1MB",
        "allgather teccl-dgx1 --size 1MB --chunks 4 --restarts 4 --improve 0",
        "allreduce dgx1 --size 1MB --alpha travels",
        "allreduce torus:4x4 --size 16MB --chunks 2",
        "alltoall ndv2x2 --size 1MB",
        "alltoall torus:4x4 --size 1MB",
        "broadcast z52 --size 64KB --restarts 3",
        "gather z52-pcie --size 1MB",
        "reduce mi250x8 --size 1MB",
        "reducescatter dgx2 --size 1GB",
        "scatter rail:4x2 --size 1MB",
    ),
    "synth teccl": (
        "allgather dgx1 --size 1MB --budget 0.5 --chunks 2",
        "allgather ring:4 --size 1MB --budget 0.5 --model astar",
        "allgather teccl-dgx1 --size 1MB --budget 0.5",
        "allgather teccl-dgx1 --size 1MB --budget 0.5 --model milp",
        "allgather teccl-ndv2x2 --size 16MB --budget 0.5",
        "allreduce teccl-dgx1 --size 1MB --budget 0.5",
        "allreduce z52 --size 1MB --budget 0.5",
        "alltoall ndv2x2 --size 1MB --budget 0.5",
        "alltoall teccl-dgx1 --size 1MB --budget 0.5 --model lp",
        "broadcast teccl-amd --size 16MB --budget 0.5",
        "broadcast teccl-dgx1 --size 1MB --budget 0.5 --model astar",
        "gather z52-pcie --size 1MB --budget 0.5",
        "reduce mi250x8 --size 1MB --budget 0.5",
        "reducescatter dgx1 --size 1MB --budget 0.5",
    ),
    "synth taccl": (
        "allgather dgx1 --size 1MB --budget 0.5 --chunks 1 --steps three",
        "allgather ndv2x2 --size 1MB --budget 0.5",
        "allgather torus:4x4 --size 16MB --budget 0.5 --chunks 1",
        "allreduce dgx2 --size 1MB --budget 0.5 --chunks 1",
        "allreduce ndv2x2 --size 1MB --budget 0.5 --chunks 1",
        "alltoall ndv2x2 --size 1MB --budget 0.5 --chunks 1",
        "broadcast z52 --size 1MB --budget 0.5 --chunks 1",
        "gather z52-pcie --size 1MB --budget 0.5 --chunks 1",
        "reduce mi250x8 --size 1MB --budget 0.5 --chunks 1",
        "reducescatter dgx1 --size 1MB --budget 0.5 --chunks 1",
    ),
    "compare": (
        "allgather ring:4 --size 1KB,16MB",
        "allreduce mesh:2x2 --size 1KB,16MB",
        f"allgather dgx1 --size 1KB,16MB {CLASSICAL}",
        f"allreduce dgx1 --size 1KB,16MB {CLASSICAL}",
        f"allreduce torus:4x4 --size 1KB,16MB {CLASSICAL}",
        f"alltoall ndv2x2 --size 1KB,16MB {CLASSICAL}",
        f"broadcast z52 --size 1KB,16MB {CLASSICAL}",
        f"gather dgx2 --size 1KB,16MB {CLASSICAL}",
        f"reduce mi300x8 --size 1KB,16MB {CLASSICAL}",
        f"reducescatter hypercube:4 --size 1KB,16MB {CLASSICAL}",
    ),
}
PLANS = {
    "bound": (),
    "pareto": ("--no-store", "--output", "plans"),
    "solve": ("--no-store", "--output", "plan.json"),
    "limits": ("--output", "plans"),
    "synth fastest": ("--output", "plans"),
    "compare": ("--output", "plans"),
}
"""Options for the folder or file of plans. The other verbs write one plan."""


def command_of(area: str, case: str) -> list[str]:
    """Return the command line of a case."""
    collective, topology, *more = case.split()
    plans = PLANS.get(area, ("--output", "plan.json"))
    on = ("--collective", collective, "--topo", topology)
    return [*area.split(), *on, *more, *plans, "--json"]


@pytest.mark.parametrize(
    ("area", "case"), [(area, case) for area, cases in CASES.items() for case in cases]
)
def test_result_equals_record(
    area: str, case: str, net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, command_of(area, case))
    assert result.exit_code in {0, 1, 3}, result.output
    files = digests(tmp_path)
    if net.verifies:
        verify(files)
    record = {
        "exit_code": result.exit_code,
        "document": stable(json.loads(result.stdout), tmp_path),
        "files": files,
    }
    net.check(file_of(area), case, record, by_value=regressions)


def file_of(area: str) -> str:
    """Return the name of an area's record."""
    return area.replace(" ", "-")


def verify(files: dict[str, str]) -> None:
    """Let the judge verify the plans, and the checker the certificate, in the current folder."""
    for place in ("plans", "plan.json"):
        if any(name.split("/")[0] == place for name in files):
            code, document = run("check", place)
            assert code == 0, document
            assert all(row["valid"] and row["digest_matches"] for row in document["files"])
    if any(name.startswith("proof/") for name in files):
        code, document = run("certificate", "verify", "proof")
        assert code == 0, document


TRAINING = (
    "transformer --layers 2 --hidden 1024 --heads 16 --dp 4 --pp 2 --microbatches 2",
    "transformer --layers 4 --hidden 2048 --heads 16 --dp 8 --zero 3",
    "moe --layers 4 --hidden 1024 --heads 16 --experts 8 --ep 8 --dp 8",
)


@pytest.mark.parametrize("model", TRAINING)
def test_training_plan_equals_record(
    model: str, net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("train", "make", *model.split(), "-o", "workload.json")[0] == 0
    on = ("workload.json", "--fabric", "hgx2", "--budget", "1")
    code, plan = run("train", "plan", *on, "-o", "plan.json")
    assert code == 0, plan
    code, comparison = run("train", "compare", *on)
    assert code == 0, comparison
    if net.verifies:
        assert run("check", "plan.json")[0] == 0
    record = {"plan": plan, "comparison": comparison, "files": digests(tmp_path)}
    net.check("training", model, stable(record, tmp_path), by_value=regressions)


@pytest.mark.parametrize("area", [*CASES, "training"])
def test_records_have_no_other_cases(area: str, net: Net) -> None:
    cases = TRAINING if area == "training" else CASES[area]
    net.check_cases(file_of(area), cases)
