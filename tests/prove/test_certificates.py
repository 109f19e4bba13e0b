"""Certificates: the formula, the proof checker, the files, and detected damage."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pysat.solvers import Solver

from sccl.collectives import collective_names, dual_of, named_spec
from sccl.core.answer import Sat
from sccl.core.files.claims import CLAIMS
from sccl.core.files.disk import write_atomically
from sccl.core.instance import Instance
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError
from sccl.prove.check.certificate import Verdict, check_folder
from sccl.prove.check.cnf import Formula, dimacs
from sccl.prove.check.coverage import enumerate_round_vectors
from sccl.prove.check.drat import ProofError, check_refutation, parse_dimacs, parse_drat
from sccl.solvers.sat import find_refutation
from sccl.synth.common import claims
from sccl.synth.packing.by_steps.allreduce_trees import tree_frontier
from sccl.synth.packing.by_steps.limit_certificate import write_limit_certificate
from sccl.synth.packing.by_steps.limit_sweep import limit_frontier
from sccl.synth.packing.by_steps.limits_by_steps import PackingLimits
from sccl.synth.syncoll import certify, solve
from sccl.topo import resolve_topology
from tests.kit import once
from tests.kit.certificates import composed_allreduce, swept_frontier
from tests.kit.nightly import is_night, times
from tests.kit.paths import PUBLISHED
from tests.kit.small_budgets import small_limit_budget
from tests.kit.strategies import specs, topologies


def certify_swept(
    folder: Path,
    machine: str,
    collective: str,
    composed: Sequence[AnyAlgorithm] = (),
    **covered: int,
) -> Path:
    """Write the certificate of a sweep, and return the list of its claims."""
    frontier, topology = swept_frontier(machine, collective, **covered), resolve_topology(machine)
    spec = named_spec(collective, topology.ranks)
    return certify.write_certificate(
        topology, spec, frontier, folder, composed=composed, limits=PackingLimits
    )


def formulas_alone(patch: pytest.MonkeyPatch) -> None:
    """Have candidates refuted by formulas, as no prices are tried."""
    patch.setattr(certify._CertificateWriter, "price_vector", lambda *_: (None, 0.0))
    patch.setattr(certify._CertificateWriter, "add_limit_claims", lambda _: None)


Clauses = Sequence[tuple[int, ...]]


def pigeons(count: int) -> Clauses:
    """Return that so many pigeons have a hole each of one hole fewer."""
    holes = range(count - 1)
    place = {(p, h): p * (count - 1) + h + 1 for p in range(count) for h in holes}
    apart = [(-place[a, h], -place[b, h]) for h in holes for a, b in combinations(range(count), 2)]
    return [*(tuple(place[p, h] for h in holes) for p in range(count)), *apart]


def proof_of(clauses: Clauses, solver: str = "cadical195") -> list[str] | None:
    with Solver(name=solver, bootstrap_with=[list(c) for c in clauses], with_proof=True) as s:
        return None if s.solve() else list(s.get_proof())


def refutes(clauses: Clauses, proof: list[str]) -> bool:
    try:
        check_refutation(clauses, parse_drat("\n".join(proof)))
    except ProofError:
        return False
    return True


def is_satisfiable(clauses: Clauses, variables: int) -> bool:
    return any(
        all(any(values[abs(x) - 1] == (x > 0) for x in clause) for clause in clauses)
        for values in product([False, True], repeat=variables)
    )


@pytest.mark.parametrize("solver", ["cadical195", "cadical153", "glucose4"])
def test_proofs_of_solvers_are_accepted(solver: str) -> None:
    clauses = pigeons(5)
    proof = proof_of(clauses, solver)
    assert proof is not None
    assert refutes(clauses, proof)
    assert not refutes(clauses[1:], proof)  # one pigeon less fits


def test_invalid_proof_is_rejected() -> None:
    clauses = pigeons(5)
    proof = proof_of(clauses)
    assert proof is not None
    assert not refutes(clauses, [])
    assert not refutes(clauses, ["0"])
    with pytest.raises(ProofError, match="does not follow"):
        check_refutation(clauses, parse_drat("0"))
    with pytest.raises(ProofError, match="without a conflict"):
        check_refutation(clauses, parse_drat("1 -1 0"))
    for bad in ("1 2", "x 0", "1 0 2 0"):
        with pytest.raises(ProofError, match="line 1"):
            list(parse_drat(bad))


def test_resolution_asymmetric_tautology() -> None:
    """Clauses that define a new variable keep satisfiability, and nothing else of that variable."""
    clauses = [(1, 2), (-1, 2), (1, -2), (-1, -2)]
    defines = ["3 -1 -2 0", "-3 1 0", "-3 2 0"]  # 3 = 1 and 2
    assert refutes(clauses, [*defines, "2 0", "0"])
    satisfiable = [(1, 2), (-1, -2)]
    assert not refutes(satisfiable, [*defines, "3 0", "0"])
    assert not refutes(satisfiable, [*defines, "-3 0", "1 0", "2 0", "0"])


@settings(max_examples=times(150))
@given(st.data())
def test_against_brute_force(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 5))
    literal = st.integers(1, n).flatmap(lambda v: st.sampled_from([v, -v]))
    clauses = data.draw(
        st.lists(st.lists(literal, min_size=1, max_size=3).map(tuple), min_size=1, max_size=25)
    )
    proof = proof_of(clauses)
    assert (proof is None) == is_satisfiable(clauses, n)
    if proof is not None:
        assert refutes(clauses, proof)


@settings(max_examples=times(200, by_day=100))
@given(st.data())
def test_nothing_refutes_what_is_satisfiable(data: st.DataObject) -> None:
    """Random lemmas and deletions, RAT steps on old and new variables among them."""
    n = data.draw(st.integers(1, 4))
    literal = st.integers(1, n + 2).flatmap(lambda v: st.sampled_from([v, -v]))
    clauses = data.draw(st.lists(st.lists(literal, min_size=1, max_size=3).map(tuple), max_size=10))
    if not is_satisfiable(clauses, n + 2):
        return
    line = st.tuples(st.booleans(), st.lists(literal, max_size=3, unique=True).map(tuple))
    checked: list[tuple[bool, tuple[int, ...]]] = []
    for step in data.draw(st.lists(line, max_size=12)):  # keep accepted lines, to get far
        try:
            check_refutation(clauses, [*checked, step])
        except ProofError as error:
            if "without a conflict" in str(error):
                checked.append(step)
            continue
        pytest.fail(f"refuted {clauses} by {[*checked, step]}")


@settings(max_examples=times(30))
@given(topologies(max_ranks=3), st.data())
def test_formula_means_the_instance(machine: Topology, data: st.DataObject) -> None:
    spec = dual_of(data.draw(specs(machine.ranks))).spec
    collective = spec.at(spec.unit * data.draw(st.sampled_from([1, 2])))
    steps = data.draw(st.integers(1, 3))
    rounds = steps + data.draw(st.integers(0, 2))
    some = False
    for vector in enumerate_round_vectors(rounds, steps, 100):
        formula = Formula(Instance(machine, collective, steps, rounds), vector)
        assert max(abs(x) for c in formula.clauses for x in c) <= formula.variables
        with Solver(name="cadical195", bootstrap_with=[list(c) for c in formula.clauses]) as s:
            some |= bool(s.solve())
    answer = solve.solve(Instance(machine, collective, steps, rounds))
    assert some == isinstance(answer, Sat)


def test_dimacs_is_read_as_it_is_written() -> None:
    instance = Instance(resolve_topology("ring:3"), named_spec("allgather", 3).at(1), 1, 1)
    assert tuple(parse_dimacs(dimacs(instance, (1,)))) == Formula(instance, (1,)).clauses
    assert find_refutation(dimacs(instance, (1,)), 1000).proof is None


def test_round_vectors_of_certificates_are_all_there_are() -> None:
    assert sorted(enumerate_round_vectors(5, 3, 100)) == sorted(
        v for v in product(range(1, 4), repeat=3) if sum(v) == 5
    )
    assert len(list(enumerate_round_vectors(30, 10, 50))) == 51


# --- certificates of frontiers -------------------------------------------------------------------


def failures(folder: Path) -> list[Verdict]:
    return [v for v in check_folder(folder) if v.state != "ok"]


@pytest.mark.parametrize("machine", ["ring:4", "z52"])
@pytest.mark.parametrize("collective", collective_names())
def test_frontiers_are_certified(machine: str, collective: str, tmp_path: Path) -> None:
    frontier = swept_frontier(machine, collective, k=2)
    certify_swept(tmp_path, machine, collective, k=2)
    verdicts = list(check_folder(tmp_path))
    assert {v.state for v in verdicts} == {"ok"}
    pareto = [v.claim for v in verdicts if "Pareto-optimal" in v.claim]
    assert len([c for c in pareto if "with R <= S + 2" in c]) == len(frontier.points) > 0
    every = {c.split(" is ")[0] for c in pareto if "for every k and C" in c}
    assert every == {str(p.candidate) for p in frontier.points if p.within is None}


@pytest.mark.parametrize(
    ("says", "state", "detail"),
    [
        ("s VERIFIED", "ok", "and by drat-trim"),
        ("s NOT VERIFIED", "failed", "drat-trim does not verify it"),
        ("s TIMEOUT", "ok", "lemmas checked by unit propagation"),
    ],
)
def test_drat_trim_is_asked_where_it_is_on_the_path(
    says: str,
    state: str,
    detail: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tmp_path / "drat-trim"
    program.write_text(f'#!/bin/sh\ntest -s "$1" && test -e "$2" && echo "{says}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    told = [v for v in check_folder(PUBLISHED / "inlet-4-reduce") if detail in v.detail]
    assert told
    assert {v.state for v in told} == {state}
    if says == "s TIMEOUT":
        assert not any("drat-trim" in v.detail for v in told)


def copy(folder: Path, to: Path) -> Path:
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    return to


@pytest.fixture
def certified() -> Path:
    def write(folder: Path) -> None:
        certify_swept(folder, "dgx1", "broadcast", k=4, max_steps=3)

    return once.folder("a certificate of dgx1", write)


def test_every_kind_of_claim_can_fail(certified: Path, tmp_path: Path) -> None:
    """Each claim is damaged in turn (by day one of each kind). It or a dependent claim fails."""
    whole = json.loads((certified / CLAIMS).read_text())
    assert failures(certified) == []
    kinds = set()
    for number, claim in enumerate(whole["claims"]):
        copy(certified, tmp_path)
        content = json.loads(json.dumps(whole))
        mine = content["claims"][number]
        if not is_night() and claim["claim"] in kinds:
            continue  # by day one of each kind
        match claim["claim"]:
            case "steps":
                mine["at_least"] += 1
            case "bandwidth" | "limit":
                mine["at_least"] = "7/3"
            case "algorithm":
                mine["chunks"] += 1
            case "unsat":
                mine["vectors"] = mine["vectors"][1:]
            case "pareto" | "limit-point":
                mine["rounds"] += 1
        (tmp_path / CLAIMS).write_text(json.dumps(content))
        kinds.add(claim["claim"])
        assert any(v.state != "ok" for v in check_folder(tmp_path)), claim
    assert kinds == {
        "steps", "bandwidth", "limit", "algorithm", "unsat", "pareto", "limit-point"
    }  # fmt: skip


def test_algorithm_that_was_changed_is_seen(certified: Path, tmp_path: Path) -> None:
    paths = list(certified.glob("broadcast*.json"))
    assert paths
    for path in paths:
        copy(certified, tmp_path)
        lines = (tmp_path / path.name).read_text().splitlines()
        sends = [i for i, line in enumerate(lines) if line.strip().startswith("[")]
        del lines[sends[-1]]
        (tmp_path / path.name).write_text("\n".join(lines))
        states = {v.claim: v.state for v in check_folder(tmp_path)}
        assert "failed" in states.values()


def test_certificate_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    certify_swept(tmp_path, "ring:4", "allgather", k=1)
    first = {file.name for file in tmp_path.iterdir()}
    (tmp_path / "mine.json").write_text("{}")
    certify_swept(tmp_path, "ring:4", "allgather", k=0, max_steps=2)
    claims = json.loads((tmp_path / CLAIMS).read_text())["claims"]
    files = {claim["file"] for claim in claims if claim["claim"] == "algorithm"}
    assert {file.name for file in tmp_path.iterdir()} == {*files, CLAIMS, "mine.json"}
    assert first - files > {CLAIMS}  # something had to go
    assert failures(tmp_path) == []
    before = (tmp_path / CLAIMS).read_text()
    with pytest.raises(InputError, match="is not a certificate of alltoall on ring:4"):
        certify_swept(tmp_path, "ring:4", "alltoall", k=1)
    assert (tmp_path / CLAIMS).read_text() == before


def claimed(folder: Path) -> set[str]:
    """Return the files of a certificate that its claims name, and their list."""
    names = {CLAIMS}
    for claim in json.loads((folder / CLAIMS).read_text())["claims"]:
        reasons = [claim, *claim.get("vectors", [])]
        names |= {r[what] for r in reasons for what in ("file", "cnf", "drat") if what in r}
    return names


def test_no_file_stays_that_nothing_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The formulas of some distributions of the rounds are refuted, that of a later one is not."""
    formulas_alone(monkeypatch)
    written: list[object] = []
    refuted = certify._CertificateWriter.prove_vector

    def at_first(self: certify._CertificateWriter, instance: Instance, *rest: Any) -> object:
        if written and instance.steps > 1:
            return None, 0.0
        written.append(refuted(self, instance, *rest))
        assert list(self.folder.glob("*.cnf"))
        return written[-1]

    monkeypatch.setattr(certify._CertificateWriter, "prove_vector", at_first)
    certify_swept(tmp_path, "ring:4", "broadcast", k=1, max_steps=3)
    assert written
    assert {path.name for path in tmp_path.iterdir()} == claimed(tmp_path)
    assert "failed" not in {v.state for v in check_folder(tmp_path)}  # nor a claim without proof


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError("disk full"), RuntimeError])
@pytest.mark.parametrize("where", ["prove_vector", "add_limit_claims", "publishing"])
def test_interrupted_certificate_keeps_the_old_files(
    where: str, error: type[BaseException] | Exception, tmp_path: Path
) -> None:
    """A new folder is removed. An earlier certificate stays complete, without other files."""
    earlier = tmp_path / "earlier"
    certify_swept(earlier, "ring:4", "broadcast", k=0, max_steps=2)
    before = {path.name: path.read_bytes() for path in earlier.iterdir()}
    expected = error if isinstance(error, type) else type(error)

    def fail(*_: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        formulas_alone(patch)
        if where == "publishing":
            patch.setattr(claims, "write_atomically", _failing_at_the_list(error, late=False))
        else:
            patch.setattr(certify._CertificateWriter, where, fail)
        for folder in (earlier, tmp_path / "new"):
            with pytest.raises(expected):
                certify_swept(folder, "ring:4", "broadcast", k=1, max_steps=2)
    assert not (tmp_path / "new").exists()
    assert {path.name for path in earlier.iterdir()} == claimed(earlier) == set(before)
    assert (earlier / CLAIMS).read_bytes() == before[CLAIMS]
    assert failures(earlier) == []


def test_folder_in_the_place_of_a_file_is_reported(tmp_path: Path) -> None:
    certify_swept(tmp_path, "ring:4", "allgather", k=0, max_steps=2)
    (name,) = claimed(tmp_path) - {CLAIMS}
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=r"cannot write .*: Is a directory; check the folder"):
        certify_swept(tmp_path, "ring:4", "allgather", k=0, max_steps=2)
    assert {path.name for path in tmp_path.iterdir()} == {name, CLAIMS}


def test_interrupt_once_the_list_is_written_leaves_the_files_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify_swept(tmp_path / "earlier", "ring:4", "allgather", k=1)
    late = _failing_at_the_list(KeyboardInterrupt, late=True)
    monkeypatch.setattr(claims, "write_atomically", late)
    for folder in (tmp_path / "earlier", tmp_path / "new"):
        with pytest.raises(KeyboardInterrupt):
            certify_swept(folder, "ring:4", "allgather", k=0, max_steps=2)
        assert {path.name for path in folder.iterdir()} == claimed(folder)
        assert failures(folder) == []


def _failing_at_the_list(
    error: type[BaseException] | Exception, *, late: bool
) -> Callable[[Path, str], None]:
    """Return a writer that fails at the list of claims, or right after it."""
    really = write_atomically

    def write_some(path: Path, text: str) -> None:
        if late or path.name != CLAIMS:
            really(path, text)
        if path.name == CLAIMS:
            raise error

    return write_some


def test_invalid_certificate_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        list(check_folder(tmp_path))
    (tmp_path / CLAIMS).write_text("{}")
    with pytest.raises(FormatError, match="missing required field"):
        list(check_folder(tmp_path))


def test_names_of_files_cannot_leave_the_folder(certified: Path, tmp_path: Path) -> None:
    copy(certified, tmp_path)
    content = json.loads((tmp_path / CLAIMS).read_text())
    next(c for c in content["claims"] if c["claim"] == "algorithm")["file"] = "../x.json"
    (tmp_path / CLAIMS).write_text(json.dumps(content))
    with pytest.raises(FormatError, match="file"):
        list(check_folder(tmp_path))


def limits_of(machine: str, collective: str, to: Path) -> list[Verdict]:
    """Fill a folder with certified limits and return the frontier."""
    write = partial(certify_limits, machine, collective)
    copy(once.folder(f"certified limits {machine} {collective}", write), to)
    return list(check_folder(to))


def certify_limits(machine: str, collective: str, folder: Path) -> None:
    topology = resolve_topology(machine)
    quick = partial(solve.solve, effort=solve.Effort(2.0))
    spec = named_spec(collective, topology.ranks)
    found = [limit_frontier(topology, spec, quick, max_steps=5)]
    found += (
        [tree_frontier(topology, named_spec("allreduce", topology.ranks), max_steps=4)]
        if collective == "allreduce"
        else []
    )
    parts = [part for frontier in found for part in frontier.classes]
    write_limit_certificate(topology, spec, parts, folder)


@pytest.mark.parametrize(
    ("machine", "collective"),
    [
        ("dgx1", "allreduce"),
        ("z52", "broadcast"),
        pytest.param("dgx1", "allgather", marks=pytest.mark.nightly),
    ],
)
def test_limit_frontiers_are_certified(machine: str, collective: str, tmp_path: Path) -> None:
    verdicts = limits_of(machine, collective, tmp_path)
    assert {v.state for v in verdicts} == {"ok"}
    optimal = [v.claim for v in verdicts if "Pareto-optimal" in v.claim]
    assert optimal
    assert any("tree allreduces" in claim for claim in optimal) == (collective == "allreduce")


@small_limit_budget()
def test_compositions_of_any_halves_are_certified(tmp_path: Path) -> None:
    """By the limits that are claimed of equal ones, which are limits of each half."""
    machine, spec = resolve_topology("dgx1"), named_spec("allreduce", 8)
    quick = partial(solve.solve, effort=solve.Effort(2.0))
    limits = limit_frontier(machine, spec, quick, max_steps=6)
    worse = replace(composed_allreduce(), rounds_per_step=(4, 5, 3, 2, 3))
    algorithms = [composed_allreduce(), worse]
    write_limit_certificate(machine, spec, limits.classes, tmp_path / "limits", algorithms)
    certify_swept(tmp_path / "sweep", "dgx1", "allreduce", [composed_allreduce()])
    for folder in ("limits", "sweep"):
        verdicts = list(check_folder(tmp_path / folder))
        assert {v.state for v in verdicts} == {"ok"}
        last = [v.claim for v in verdicts if "of any steps and rounds" in v.claim]
        assert [claim.split(" is ")[0] for claim in last] == ["C=48 S=5 R=16"]
        assert len([v for v in verdicts if "S=5" in v.claim]) == 2  # the algorithm, and that


@pytest.mark.parametrize("trees", [False, True])
def test_damaged_limits_are_seen(trees: bool, tmp_path: Path) -> None:
    limits_of("dgx1", "allreduce", tmp_path)
    file = tmp_path / CLAIMS
    plain = json.loads(file.read_text())

    def failing(change: Callable[[list[dict[str, Any]]], object]) -> list[str]:
        damaged = json.loads(json.dumps(plain))
        change(damaged["claims"])
        file.write_text(json.dumps(damaged))
        return [v.detail for v in check_folder(tmp_path) if v.state == "failed"]

    def of(claims: list[dict[str, Any]], kind: str, *, trees: bool) -> dict[str, Any]:
        return next(c for c in claims if c["claim"] == kind and c.get("trees", False) == trees)

    assert failing(lambda _: None) == []
    more = failing(lambda c: of(c, "limit", trees=trees).update(at_least="9/10"))
    assert any("prove only" in detail for detail in more)
    less = failing(lambda c: c.remove(of(c, "limit", trees=trees)))
    first = 3 if trees else 4
    assert any(
        "no claim proves R/C" in detail and f"for {first} steps" in detail for detail in less
    )
    other = failing(lambda c: of(c, "limit-point", trees=trees).update(chunks=7))
    assert any("no such algorithm" in detail for detail in other)
    bought = failing(lambda c: of(c, "limit", trees=trees)["prices"].append(["x", 0, "1"]))
    assert any("of a constraint" in detail or "of a budget" in detail for detail in bought)
    swapped = failing(lambda c: of(c, "limit", trees=trees).update(trees=not trees))
    assert any("the prices" in detail or "no claim" in detail for detail in swapped)


def test_certificates_that_claim_nothing_or_the_impossible_are_rejected(tmp_path: Path) -> None:
    limits_of("ring:4", "allgather", tmp_path)
    file = tmp_path / CLAIMS
    plain = json.loads(file.read_text())
    for path, value in (
        (("claims",), []),
        (("claims", 1, "at_least"), "1/0"),
        (("claims", 0, "at_least"), 10**12),
    ):
        damaged = json.loads(json.dumps(plain))
        place: Any = damaged
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        file.write_text(json.dumps(damaged))
        with pytest.raises(FormatError, match="certificate"):
            list(check_folder(tmp_path))
    plain["claims"].append(
        {"claim": "limit", "steps": 10**9, "at_least": "1", "machine": 0, "prices": []}
    )
    file.write_text(json.dumps(plain))
    with pytest.raises(FormatError, match="512"):
        list(check_folder(tmp_path))


def test_sweep_for_every_k_is_certified_for_every_k(tmp_path: Path) -> None:
    frontier = swept_frontier("dgx1", "allgather", k=5)
    assert frontier.covers_all_k
    certify_swept(tmp_path, "dgx1", "allgather", k=5)
    optimal = [v.claim for v in check_folder(tmp_path) if "for every k and C" in v.claim]
    for shape in ("C=2 S=2 R=3", "C=6 S=3 R=7"):
        assert f"{shape} is Pareto-optimal among all algorithms, for every k and C" in optimal
