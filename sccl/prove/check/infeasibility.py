"""Check claims that no algorithm of some (C, S, R) exists: by prices, or by refuted formulas."""

from __future__ import annotations

from fractions import Fraction

from sccl.core.files.claims import UNSAT_SOLVERS, UnsatWire, VectorWire
from sccl.core.formatting import format_count
from sccl.core.instance import Instance
from sccl.prove.check.case import Case, read_regular
from sccl.prove.check.cnf import dimacs
from sccl.prove.check.constraint_prices import constraint_finder, step_price_bound
from sccl.prove.check.coverage import count_round_vectors, enumerate_round_vectors
from sccl.prove.check.drat import (
    ProofError,
    check_refutation,
    parse_dimacs,
    parse_drat,
    run_drat_trim,
)
from sccl.prove.check.timed_trees import Spend
from sccl.prove.check.work import ClaimState


def check_unsat(case: Case, claim: UnsatWire, spend: Spend) -> tuple[ClaimState, str]:
    """Check a claim that no algorithm exists, and return its state and the method of the check.

    Raises:
        ValueError: The claim is not proved.
        InputError: A file is missing or cannot be read.
        TooMuchError: The check takes too much work.
    """
    instance = _claimed_instance(case, claim)
    if claim.searched:
        return "searched", _solver_names(claim.searched)
    by_rounds = {vector.rounds: vector for vector in claim.vectors}
    num_vectors = count_round_vectors(instance.rounds, instance.steps, len(by_rounds))
    spend(num_vectors * instance.steps)
    priced, formulas, lemmas, seconded = 0, 0, 0, True
    for rounds in enumerate_round_vectors(instance.rounds, instance.steps, num_vectors):
        if rounds not in by_rounds:
            raise ValueError(f"the round vector {_rounds_text(rounds)} is not refuted")
        if by_rounds[rounds].prices:
            _check_prices(case, instance, by_rounds[rounds], spend)
            priced += 1
        else:
            more, agreed = _check_refutation(case, instance, by_rounds[rounds], spend)
            formulas, lemmas, seconded = formulas + 1, lemmas + more, seconded and agreed
    return "ok", _describe_check(priced, formulas, lemmas, seconded=seconded)


def _claimed_instance(case: Case, claim: UnsatWire) -> Instance:
    """Return the instance that is claimed to have no solution.

    Raises:
        InputError: The numbers are invalid.
    """
    machine, dual = case.machine(claim.machine), case.dual
    for label, value in (("steps", claim.steps), ("rounds", claim.rounds)):
        if value % dual.phases:
            raise ValueError(f"{value} {label} are not two equal halves")
    case.spec.at(claim.chunks)  # raises an error if C is invalid
    collective = dual.spec.at(claim.chunks // dual.chunk_factor)
    return Instance(machine, collective, claim.steps // dual.phases, claim.rounds // dual.phases)


def _solver_names(solvers: tuple[str, ...]) -> str:
    """Return the text for solvers that refuted an instance without a proof.

    Raises:
        ValueError: They are not two different known solvers.
    """
    if any(name not in UNSAT_SOLVERS for name in solvers):
        raise ValueError(f"its solver is unknown, expected one of {', '.join(UNSAT_SOLVERS)}")
    if len(set(solvers)) < 2:
        raise ValueError("only one solver is named, expected two different ones")
    names = " and ".join(sorted(set(solvers)))
    return f"the certificate states that {names} refuted it; there is no proof to check"


def _describe_check(priced: int, formulas: int, lemmas: int, *, seconded: bool) -> str:
    methods = []
    if priced:
        methods.append(f"{priced} by prices")
    if formulas:
        by = "a formula" if formulas == 1 else "formulas"
        second = ", and by drat-trim" if seconded else ""
        methods.append(
            f"{formulas} by {by} ({format_count(lemmas, 'lemma')} checked by unit "
            f"propagation{second})"
        )
    return f"{format_count(priced + formulas, 'round vector')} refuted: {' and '.join(methods)}"


def _check_prices(case: Case, instance: Instance, vector: VectorWire, spend: Spend) -> None:
    """Check that the trees of all chunks cost more than the capacity of these rounds.

    Raises:
        ValueError: They do not.
    """
    key_of = constraint_finder(instance.topology)
    prices = [(key_of(name), step, Fraction(price)) for name, step, price in vector.prices]
    lower_bound = step_price_bound(
        instance.topology, case.unit, instance.steps, prices, spend, rounds=vector.rounds
    )
    if lower_bound * instance.collective.chunks <= 1:
        raise ValueError(
            f"the prices for {_rounds_text(vector.rounds)} do not exclude an algorithm"
        )


def _check_refutation(
    case: Case, instance: Instance, vector: VectorWire, spend: Spend
) -> tuple[int, bool]:
    """Check that the formula is the instance's, and its refutation.

    Returns:
        The number of lemmas used, and whether drat-trim verifies the proof, too.

    Raises:
        ValueError: The formula differs, or the proof is invalid.
    """
    if vector.cnf is None or vector.drat is None:
        raise ValueError(f"the round vector {_rounds_text(vector.rounds)} has no proof")
    spend(_formula_size(instance, vector.rounds))
    formula = read_regular(case.folder / vector.cnf)
    if formula != dimacs(instance, vector.rounds):
        raise ValueError(f"{vector.cnf.strip()} is not the formula of this instance")
    proof = read_regular(case.folder / vector.drat)
    try:
        lemmas = check_refutation(parse_dimacs(formula), parse_drat(proof), spend)
    except ProofError as error:
        raise ValueError(f"{vector.drat.strip()}: {error}") from error
    second = run_drat_trim(case.folder / vector.cnf, case.folder / vector.drat)
    if second is False:
        raise ValueError(f"{vector.drat.strip()}: drat-trim does not verify it")
    return lemmas, second is True


def _rounds_text(rounds: tuple[int, ...]) -> str:
    return str(rounds) if len(rounds) <= 16 else f"({', '.join(map(str, rounds[:16]))}, ...)"


def _formula_size(instance: Instance, rounds: tuple[int, ...]) -> int:
    """Return an estimate of the number of literals of a formula."""
    chunks, machine = instance.collective.num_chunks, instance.topology
    literals = 4 * chunks * instance.steps * (machine.ranks + 2 * len(machine.links))
    for constraint in machine.constraints():
        sends = chunks * len(constraint.edges)
        for number in rounds:
            literals += 7 * sends * min(sends, constraint.chunks_per_round * number)
    return literals
