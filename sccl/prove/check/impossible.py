"""Why there is no algorithm of some C, S and R: prices, or a formula and its refutation."""

from __future__ import annotations

from fractions import Fraction

from sccl.core.files.claims import UnsatWire, VectorWire
from sccl.core.instance import Instance
from sccl.core.words import counted
from sccl.prove.check.cnf import dimacs
from sccl.prove.check.cover import number_of_vectors, vectors
from sccl.prove.check.drat import ProofError, check_refutation, parse_dimacs, parse_drat
from sccl.prove.check.prices import by_steps, keys_of
from sccl.prove.check.question import Case, read_regular
from sccl.prove.check.second import drat_trim
from sccl.prove.check.trees import Spend
from sccl.prove.check.work import ClaimState

SOLVERS = ("cadical", "cpsat", "z3")
"""Whose word counts, where there is no proof."""


def unsat(case: Case, claim: UnsatWire, spend: Spend) -> tuple[ClaimState, str]:
    """Return the state of a claim that there is no algorithm, and how it was checked.

    Raises:
        ValueError: it is not proved.
        InputError: a file is missing or cannot be read.
        TooMuchError: it takes too much work to say.
    """
    instance = _instance(case, claim)
    if claim.searched:
        return "searched", _word(claim.searched)
    given = {vector.rounds: vector for vector in claim.vectors}
    ways = number_of_vectors(instance.rounds, instance.steps, len(given))
    spend(ways * instance.steps)
    priced, formulas, lemmas, seconded = 0, 0, 0, True
    for rounds in vectors(instance.rounds, instance.steps, ways):
        if rounds not in given:
            raise ValueError(f"the round vector {_shown(rounds)} is not refuted")
        if given[rounds].prices:
            _priced(case, instance, given[rounds], spend)
            priced += 1
        else:
            more, agreed = _refuted(case, instance, given[rounds], spend)
            formulas, lemmas, seconded = formulas + 1, lemmas + more, seconded and agreed
    return "ok", _how(priced, formulas, lemmas, seconded=seconded)


def _instance(case: Case, claim: UnsatWire) -> Instance:
    """Return the instance that is claimed to have no solution.

    Raises:
        InputError: the numbers make no instance.
    """
    machine, dual = case.machine(claim.machine), case.dual
    for what, value in (("steps", claim.steps), ("rounds", claim.rounds)):
        if value % dual.phases:
            raise ValueError(f"{value} {what} are not two equal halves")
    case.spec.at(claim.chunks)  # complains of a C that is none
    collective = dual.spec.at(claim.chunks // dual.chunk_factor)
    return Instance(machine, collective, claim.steps // dual.phases, claim.rounds // dual.phases)


def _word(solvers: tuple[str, ...]) -> str:
    """Return who said that there is none.

    Raises:
        ValueError: they are not two different solvers of ours.
    """
    if any(name not in SOLVERS for name in solvers):
        raise ValueError(f"a solver is named that is none of {', '.join(SOLVERS)}")
    if len(set(solvers)) < 2:
        raise ValueError("only one solver is named, expected two different ones")
    names = " and ".join(sorted(set(solvers)))
    return f"the certificate states that {names} refuted it; there is no proof to check"


def _how(priced: int, formulas: int, lemmas: int, *, seconded: bool) -> str:
    ways = []
    if priced:
        ways.append(f"{priced} by prices")
    if formulas:
        by = "a formula" if formulas == 1 else "formulas"
        second = ", and by drat-trim" if seconded else ""
        ways.append(
            f"{formulas} by {by} ({counted(lemmas, 'lemma')} checked by unit propagation{second})"
        )
    return f"{counted(priced + formulas, 'round vector')} refuted: {' and '.join(ways)}"


def _priced(case: Case, instance: Instance, vector: VectorWire, spend: Spend) -> None:
    """Check that with these rounds the trees of all chunks cost more than can be bought.

    Raises:
        ValueError: they do not.
    """
    key_of = keys_of(instance.topology)
    prices = [(key_of(name), step, Fraction(price)) for name, step, price in vector.prices]
    found = by_steps(
        instance.topology, case.unit, instance.steps, prices, spend, rounds=vector.rounds
    )
    if found * instance.collective.chunks <= 1:
        raise ValueError(f"the prices for {_shown(vector.rounds)} leave room for all chunks")


def _refuted(case: Case, instance: Instance, vector: VectorWire, spend: Spend) -> tuple[int, bool]:
    """Check that the formula is the instance's, and its refutation.

    Returns:
        How many lemmas that took, and whether drat-trim verifies them too.

    Raises:
        ValueError: it is another formula, or the proof is none.
    """
    if vector.cnf is None or vector.drat is None:
        raise ValueError(f"the round vector {_shown(vector.rounds)} has no proof")
    spend(_size(instance, vector.rounds))
    formula = read_regular(case.folder / vector.cnf)
    if formula != dimacs(instance, vector.rounds):
        raise ValueError(f"{vector.cnf.strip()} is not the formula of this instance")
    proof = read_regular(case.folder / vector.drat)
    try:
        lemmas = check_refutation(parse_dimacs(formula), parse_drat(proof), spend)
    except ProofError as error:
        raise ValueError(f"{vector.drat.strip()}: {error}") from error
    second = drat_trim(case.folder / vector.cnf, case.folder / vector.drat)
    if second is False:
        raise ValueError(f"{vector.drat.strip()}: drat-trim does not verify it")
    return lemmas, second is True


def _shown(rounds: tuple[int, ...]) -> str:
    return str(rounds) if len(rounds) <= 16 else f"({', '.join(map(str, rounds[:16]))}, ...)"


def _size(instance: Instance, rounds: tuple[int, ...]) -> int:
    """Return about how many literals a formula has."""
    chunks, machine = instance.collective.num_chunks, instance.topology
    found = 4 * chunks * instance.steps * (machine.ranks + 2 * len(machine.links))
    for constraint in machine.constraints():
        sends = chunks * len(constraint.edges)
        for number in rounds:
            found += 7 * sends * min(sends, constraint.chunks_per_round * number)
    return found
