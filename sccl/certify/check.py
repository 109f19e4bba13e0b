"""Checking a certificate: every claim again, from its proof, without any solver.

Limits of up to 16 ranks; beyond, the cheapest timed trees are too many sets of ranks to go through:
CP-SAT looks for them, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import assert_never

from sccl.bounds import Certificate, Cut, check_certificate, farthest_pair
from sccl.certify.cover import Covered, needed, vectors
from sccl.certify.second import drat_trim
from sccl.certify.wire import (
    CLAIMS,
    AlgorithmClaimWire,
    BandwidthWire,
    CertificateWire,
    Claim,
    LimitPointWire,
    LimitWire,
    ParetoWire,
    StepsWire,
    UnsatWire,
    VectorWire,
)
from sccl.collectives import Dual, Spec, dual
from sccl.core.codec import collective_of_wire, load_algorithm, topology_of_wire
from sccl.core.files import read_text
from sccl.core.instance import Instance
from sccl.core.text import parse
from sccl.core.topology import Topology
from sccl.core.words import counted
from sccl.errors import FormatError, InputError
from sccl.limit import LimitCertificate, check_limit_certificate, is_exhaustive
from sccl.pareto import MAX_TREE_RANKS, fewest_tree_steps, tree_floor
from sccl.transform import judge
from sccl.transform import pose as pose_question
from sccl.verify.cnf import dimacs
from sccl.verify.drat import ProofError, check_refutation, parse_dimacs, parse_drat

_MOST_VECTORS = 100_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found.

    Attributes:
        claim: in words.
        state: ``"ok"``, ``"failed"``, or ``"searched"`` (solvers say so; there is no proof).
        detail: how it was checked, or what is wrong.
    """

    claim: str
    state: str
    detail: str


class _WrongError(Exception):
    """A claim is not proved; the message says why."""


@dataclass(frozen=True, slots=True)
class _Case:
    folder: Path
    topology: Topology
    spec: Spec
    other: Dual
    machines: tuple[Topology, ...]

    def machine(self, number: int) -> Topology:
        if not 0 <= number < len(self.machines):
            raise _WrongError(f"machine {number} does not exist")
        return self.machines[number]


def check_folder(folder: Path) -> Iterator[Verdict]:
    """Yield a verdict on each claim of a certificate, in their order.

    Raises:
        InputError: the folder holds none, or one that cannot be read.
    """
    where = str(folder / CLAIMS)
    wire = parse(read_text(folder / CLAIMS), CertificateWire, where)
    topology = topology_of_wire(wire.topology, f"{where}, $.topology")
    at = collective_of_wire(wire.collective, where)
    if at.ranks != topology.ranks:
        raise FormatError(f"{where}: collective and topology have different numbers of ranks")
    spec = Spec(at.name, at.ranks, at.chunks, at.num_chunks, at.pre, at.post, at.combining, at.root)
    other = dual(spec)
    case = _Case(folder, topology, spec, other, other.machines(topology))
    proved: list[Claim] = []
    for claim in wire.claims:
        text = _words(claim)
        try:
            state, detail = _check(case, claim, proved)
        except (_WrongError, InputError, ValueError, TimeoutError) as error:
            yield Verdict(text, "failed", str(error))
            continue
        proved.append(claim)
        yield Verdict(text, state, detail)


def _words(claim: Claim) -> str:  # noqa: PLR0911 - one for each kind of claim
    match claim:
        case StepsWire():
            return f"S >= {claim.at_least}"
        case BandwidthWire():
            return f"R/C >= {claim.at_least}"
        case LimitWire():
            kind = " by trees" if claim.trees else ""
            return f"R/C >= {claim.at_least} with S={claim.steps}{kind}, for all k and C"
        case AlgorithmClaimWire():
            return f"an algorithm of C={claim.chunks} S={claim.steps} R={claim.rounds}"
        case UnsatWire():
            return f"no algorithm of C={claim.chunks} S={claim.steps} R={claim.rounds}"
        case ParetoWire():
            shape = f"C={claim.chunks} S={claim.steps} R={claim.rounds}"
            return f"{shape} is Pareto-optimal for k={claim.k}"
        case LimitPointWire():
            shape = f"C={claim.chunks} S={claim.steps} R={claim.rounds}"
            kind = " among those by trees" if claim.trees else ""
            return f"{shape} is Pareto-optimal{kind}, for all k and C"
    assert_never(claim)


def _check(  # noqa: PLR0911 - one for each kind of claim
    case: _Case, claim: Claim, proved: list[Claim]
) -> tuple[str, str]:
    """Return the state and how it was checked.

    Raises:
        _WrongError: the claim is not proved.
        ValueError: likewise, from a checker.
        InputError: a file is missing or cannot be read.
    """
    match claim:
        case StepsWire():
            return "ok", _steps(case, claim)
        case BandwidthWire():
            return "ok", _bandwidth(case, claim)
        case LimitWire():
            return _limit(case, claim)
        case AlgorithmClaimWire():
            return "ok", _algorithm(case, claim)
        case UnsatWire():
            return _unsat(case, claim)
        case ParetoWire():
            return _pareto(case, claim, proved)
        case LimitPointWire():
            return "ok", _limit_point(case, claim, proved)
    assert_never(claim)


def _steps(case: _Case, claim: StepsWire) -> str:
    unit = case.other.spec.at(case.other.spec.unit)
    pairs = [farthest_pair(machine, unit) for machine in case.machines]
    best = max(pairs, key=lambda pair: pair.steps)
    if best.steps * case.other.phases < claim.at_least:
        raise _WrongError(f"no chunk has more than {best.steps} links to go")
    return f"breadth first: chunk {best.chunk} has {best.steps} links to go to rank {best.rank}"


def _bandwidth(case: _Case, claim: BandwidthWire) -> str:
    unit = case.other.spec.at(case.other.spec.unit)
    cuts = tuple(Cut(ranks, Fraction(weight), 0) for ranks, weight in claim.cuts)
    prices = tuple((name, Fraction(price)) for name, price in claim.prices)
    found = check_certificate(
        case.machine(claim.machine), unit, Certificate(Fraction(0), prices, cuts)
    )
    proves = case.other.bandwidth(found / unit.chunks)
    if proves < Fraction(claim.at_least):
        raise _WrongError(f"the prices prove only R/C >= {proves}")
    return "cuts" if cuts else "shortest paths at the prices"


def _limit(case: _Case, claim: LimitWire) -> tuple[str, str]:
    phases = 1 if claim.trees else case.other.phases
    unit = case.other.spec.at(case.other.spec.unit)
    if claim.trees:
        if case.spec.name != "allreduce" or case.topology.ranks > MAX_TREE_RANKS:
            raise _WrongError(f"trees are for allreduce of up to {MAX_TREE_RANKS} ranks")
        unit = case.spec.at(case.spec.unit)
    if claim.steps % phases:
        raise _WrongError(f"{claim.steps} steps are not whole phases")
    found = check_limit_certificate(
        case.topology if claim.trees else case.machine(claim.machine),
        unit,
        LimitCertificate(claim.steps // phases, Fraction(0), _prices(claim.prices)),
        exhaustive=True,
        up_and_down=claim.trees,
    )
    proves = found if claim.trees else case.other.bandwidth(found)
    if proves < Fraction(claim.at_least):
        raise _WrongError(f"the prices prove only R/C >= {proves}")
    detail = f"cheapest timed trees at {len(claim.prices)} prices"
    if claim.trees or is_exhaustive(case.topology, unit):
        return "ok", detail
    return "searched", f"{detail}, by CP-SAT: too many ranks to go through all sets of them"


def _prices(
    rows: tuple[tuple[str, int, str], ...],
) -> tuple[tuple[str, int, Fraction], ...]:
    return tuple((name, step, Fraction(price)) for name, step, price in rows)


def _algorithm(case: _Case, claim: AlgorithmClaimWire) -> str:
    algorithm, _ = load_algorithm(case.folder / claim.file)
    shape = (algorithm.collective.chunks, algorithm.steps, algorithm.rounds)
    if shape != (claim.chunks, claim.steps, claim.rounds):
        raise _WrongError(f"{claim.file} has (C, S, R) = {shape}")
    if algorithm.collective != case.spec.at(claim.chunks):
        raise _WrongError(f"{claim.file} is for another collective")
    if not algorithm.topology.carries_like(case.topology):
        raise _WrongError(f"{claim.file} is for another topology")
    if wrong := judge(algorithm):
        raise _WrongError(f"{claim.file}: {wrong[0].message}")
    return f"{algorithm.num_sends} sends re-executed"


def _unsat(case: _Case, claim: UnsatWire) -> tuple[str, str]:
    question = pose_question(case.topology, case.spec, claim.chunks, claim.steps, claim.rounds)
    if not 0 <= claim.machine < len(question.instances):
        raise _WrongError(f"machine {claim.machine} does not exist")
    instance = question.instances[claim.machine]
    if claim.searched:
        if len(set(claim.searched)) < 2:
            raise _WrongError("one solver alone says so, expected two different ones")
        return "searched", f"{' and '.join(claim.searched)} say so; there is no proof to check"
    given = {vector.rounds: vector for vector in claim.vectors}
    lemmas, seconded = 0, True
    for rounds in vectors(instance.rounds, instance.steps, _MOST_VECTORS):
        if rounds not in given:
            raise _WrongError(f"the round vector {rounds} is not refuted")
        more, agreed = _vector(case, instance, given[rounds])
        lemmas, seconded = lemmas + more, seconded and agreed
    proofs = f", {lemmas} lemmas checked by unit propagation" if lemmas else " by prices"
    proofs += ", and by drat-trim" if lemmas and seconded else ""
    return "ok", f"{len(given)} round vectors refuted{proofs}"


def _vector(case: _Case, instance: Instance, vector: VectorWire) -> tuple[int, bool]:
    """Check why there is no algorithm with these rounds.

    Returns:
        How many lemmas that took, and whether drat-trim verifies them too, if there are any.
    """
    if vector.prices:
        claimed = LimitCertificate(
            instance.steps, Fraction(0), _prices(vector.prices), vector.rounds
        )
        found = check_limit_certificate(
            instance.topology, instance.collective, claimed, exhaustive=True
        )
        if found * instance.collective.chunks <= 1:
            raise _WrongError(f"the prices for {vector.rounds} leave room for all chunks")
        return 0, True
    if vector.cnf is None or vector.drat is None:
        raise _WrongError(f"the round vector {vector.rounds} has no proof")
    formula = read_text(case.folder / vector.cnf)
    if formula != dimacs(instance, vector.rounds):
        raise _WrongError(f"{vector.cnf} is not the formula of this instance")
    proof = read_text(case.folder / vector.drat)
    try:
        lemmas = check_refutation(parse_dimacs(formula), parse_drat(proof))
    except ProofError as error:
        raise _WrongError(f"{vector.drat}: {error}") from error
    second = drat_trim(case.folder / vector.cnf, case.folder / vector.drat)
    if second is False:
        raise _WrongError(f"{vector.drat}: drat-trim does not verify it")
    return lemmas, second is True


def _require_algorithm(claim: ParetoWire | LimitPointWire, proved: list[Claim]) -> None:
    there = any(
        isinstance(p, AlgorithmClaimWire)
        and (p.chunks, p.steps, p.rounds) == (claim.chunks, claim.steps, claim.rounds)
        for p in proved
    )
    if not there:
        raise _WrongError("there is no such algorithm among the claims that hold")


def _limit_point(case: _Case, claim: LimitPointWire, proved: list[Claim]) -> str:
    _require_algorithm(claim, proved)
    covered = Covered.of(proved, case.spec)
    cost = Fraction(claim.rounds, claim.chunks)
    floor = tree_floor(case.topology) if claim.trees else Fraction(0)
    if max(floor, covered.least(claim.steps, trees=claim.trees)) < cost:
        raise _WrongError(f"no claim says that {claim.steps} steps take R/C >= {cost}")
    fewer = claim.steps - (1 if claim.trees else case.other.phases)
    fewest = fewest_tree_steps(case.topology) if claim.trees else covered.steps
    if fewer >= fewest and covered.least(fewer, trees=claim.trees) <= cost:
        raise _WrongError(f"no claim says that {fewer} steps take R/C > {cost}")
    return "follows from the claims above"


def _pareto(case: _Case, claim: ParetoWire, proved: list[Claim]) -> tuple[str, str]:
    _require_algorithm(claim, proved)
    covered = Covered.of(proved, case.spec)
    if covered.bandwidth <= 0:
        raise _WrongError("no bandwidth bound holds, so C has no end")
    point = (claim.chunks, claim.steps, claim.rounds)
    if left := needed(covered, point, claim.k, claim.max_chunks):
        c, s, r = left[0]
        raise _WrongError(
            f"{counted(len(left), 'candidate')} are not ruled out, such as C={c} S={s} R={r}"
        )
    searched = any(isinstance(p, UnsatWire) and p.searched for p in proved)
    return ("searched" if searched else "ok"), "follows from the claims above"
