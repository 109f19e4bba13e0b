"""Sweeps whose refutations need formulas: on these machines no bound, limit or price will do."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import certificates
from sccl.cli.main import app
from sccl.collectives import named_spec
from sccl.core.files.claims import CLAIMS
from sccl.core.instance import SweepRange
from sccl.errors import InputError, ParameterError
from sccl.prove.check.certificate import check_folder
from sccl.synth.packing.by_steps.limits_by_steps import PackingLimits
from sccl.synth.syncoll import solve
from sccl.synth.syncoll.certify import write_certificate
from sccl.synth.syncoll.sweep import sweep
from sccl.topo import resolve_topology
from tests.kit.hard_algorithms import MACHINES

QUESTIONS = {
    "switch-5": ("broadcast", 0),
    "half-duplex-5": ("broadcast", 0),
    "inlet-4": ("reduce", 1),
}
"""By machine: the collective, and k. The reduce is solved on the reversed machine."""

FORMULAS = {"switch-5": 3, "half-duplex-5": 1, "inlet-4": 1}


def failures(folder: Path) -> list[str]:
    return [v.detail for v in check_folder(folder) if v.state == "failed"]


def kinds(folder: Path) -> Counter[tuple[str, ...]]:
    """Return how many claims there are of each kind and shape."""
    claims = json.loads((folder / CLAIMS).read_text())["claims"]
    shape = ("claim", "chunks", "steps", "rounds", "at_least")
    return Counter(tuple(str(claim.get(key)) for key in shape) for claim in claims)


@pytest.fixture(scope="module", params=QUESTIONS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the certificate of a sweep as a user asks for it: nothing is switched off."""
    machine = str(request.param)
    collective, k = QUESTIONS[machine]
    topology = resolve_topology(str(MACHINES / f"{machine}.json"))
    spec = named_spec(collective, topology.ranks)
    found = sweep(
        topology, spec, solve.solve, solver="cpsat", covered=SweepRange(k=k), limits=PackingLimits
    )
    folder = tmp_path_factory.mktemp("proofs") / f"{machine}-{collective}"
    folder.mkdir()
    write_certificate(topology, spec, found, folder, limits=PackingLimits)
    return folder


def published(written: Path) -> Path:
    return certificates.KEPT / written.name


def test_sweep_writes_formulas_and_proofs_that_hold(written: Path) -> None:
    verdicts = list(check_folder(written))
    assert {v.state for v in verdicts} == {"ok"}
    proofs = sorted(path.stem for path in written.glob("*.drat"))
    assert proofs == sorted(path.stem for path in written.glob("*.cnf"))
    assert len(proofs) == FORMULAS[written.name.rsplit("-", 1)[0]]
    refuted = [v for v in verdicts if "by a formula" in v.detail]
    assert len(refuted) == len(proofs)
    assert any("Pareto-optimal" in v.claim for v in verdicts)


def test_published_ones_claim_the_same_and_hold(written: Path) -> None:
    assert failures(published(written)) == []
    assert kinds(published(written)) == kinds(written)


def test_reduce_is_refuted_on_the_reversed_machine() -> None:
    names = [path.name for path in (certificates.KEPT / "inlet-4-reduce").glob("*.cnf")]
    assert len(names) == FORMULAS["inlet-4"]
    assert all("-reversed-" in name for name in names)


def but_for_one_lemma(proof: Path) -> None:
    lemmas = [line for line in proof.read_text().splitlines() if not line.startswith("d ")]
    proof.write_text(f"{lemmas[0]}\n")


def only_the_empty_clause(proof: Path) -> None:
    proof.write_text("0\n")


def for_fewer_clauses(proof: Path) -> None:
    formula = proof.with_suffix(".cnf")
    lines = formula.read_text().splitlines()
    formula.write_text("\n".join(lines[:-1]) + "\n")


def without_a_proof(proof: Path) -> None:
    proof.unlink()


DAMAGES: dict[Callable[[Path], None], str] = {
    but_for_one_lemma: "without a conflict",
    only_the_empty_clause: "does not follow",
    for_fewer_clauses: "is not the formula",
    without_a_proof: "cannot read",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_each_damaged_proof_is_rejected(
    damage: Callable[[Path], None], written: Path, tmp_path: Path
) -> None:
    for proof in sorted(written.glob("*.drat")):
        copy = tmp_path / proof.stem
        shutil.copytree(published(written), copy)
        damage(copy / proof.name)
        failed = [v for v in check_folder(copy) if v.state == "failed"]
        assert any(DAMAGES[damage] in v.detail for v in failed)
        assert any("Pareto-optimal" in v.claim for v in failed)  # a dependent claim


def test_command_checks_them_and_says_when_one_fails(tmp_path: Path) -> None:
    kept = certificates.KEPT / "inlet-4-reduce"
    runner = CliRunner()
    assert runner.invoke(app, ["certificate", "verify", str(kept)]).exit_code == 0
    shutil.copytree(kept, tmp_path / "copy")
    only_the_empty_clause(next((tmp_path / "copy").glob("*.drat")))
    assert runner.invoke(app, ["certificate", "verify", str(tmp_path / "copy")]).exit_code == 1


def fake(folder: Path, says: str) -> Path:
    program = folder / "drat-trim"
    program.write_text(f'#!/bin/sh\necho "s {says}"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("says", "verdict"), [("VERIFIED", "sat"), ("NOT VERIFIED", "failed")])
def test_benchmark_says_whether_drat_trim_agrees(
    says: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # the changes of with_program are undone
    certificates.with_program(fake(tmp_path, says))
    (result,) = certificates.check(certificates.KEPT, [certificates.KEPT / "inlet-4-reduce"])
    (proof,) = result.proofs
    assert proof.lemmas == 80
    assert proof.agree is (says == "VERIFIED")
    assert certificates.verdict(result) == verdict


def test_benchmark_refuses_what_it_cannot_use(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="is not the program drat-trim"):
        certificates.with_program(tmp_path / "drat-trim")
    with pytest.raises(InputError, match="holds no certificate"):
        certificates.folders(tmp_path)
