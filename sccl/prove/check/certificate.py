"""Check every claim of a certificate from its proof, in plain Python and exact integers.

The check uses no solver, and no code that searches for algorithms or proofs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import assert_never

from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.claims import (
    AlgorithmClaimWire,
    AllreduceBoundWire,
    BandwidthWire,
    Claim,
    LimitClaimWire,
    LimitPointWire,
    ParetoWire,
    ScheduleClaimWire,
    StepsWire,
    TimePointWire,
    TimeWire,
    UnsatWire,
)
from sccl.core.formatting import format_count
from sccl.core.instance import MAX_K
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm
from sccl.errors import InputError, TooLargeError
from sccl.judge import violations
from sccl.prove.check.allreduce import allreduce_lower_bound, check_allreduce_bound, is_member
from sccl.prove.check.case import Case, read_case, read_regular
from sccl.prove.check.constraint_prices import (
    constraint_finder,
    fraction_text,
    price_bound,
    step_price_bound,
)
from sccl.prove.check.contradictions import find_contradiction
from sccl.prove.check.coverage import CandidateTriple, Coverage, undecided_candidates
from sccl.prove.check.infeasibility import check_unsat
from sccl.prove.check.messages import describe_claim
from sccl.prove.check.orbit_expansion import SEND_OPERATIONS, expand_symmetric
from sccl.prove.check.rules import require_rule
from sccl.prove.check.step_counts import farthest_chunk, min_tree_steps, tree_sends_bound
from sccl.prove.check.time_claims import check_schedule, check_time_bound, check_time_point
from sccl.prove.check.timed_cut_bounds import timed_cut_bound
from sccl.prove.check.translations import check_translated, is_translated
from sccl.prove.check.work import PER_CLAIM, ClaimState, TooMuchError, Work

_SUPPORT: dict[ClaimState, str] = {
    "ok": "follows from the claims above",
    "searched": "follows from the claims above, some of which rest on solvers without a proof",
    "unchecked": "would follow from the claims above, some of which were not checked",
}
"""Text for each state of a claim that follows from other claims, the best state first."""


_ProvedClaim = (
    StepsWire
    | BandwidthWire
    | LimitClaimWire
    | AllreduceBoundWire
    | AlgorithmClaimWire
    | ScheduleClaimWire
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check.

    Attributes:
        claim: the claim as text.
        state: ``"ok"``, ``"failed"``, ``"searched"`` (a solver's result without a proof), or
            ``"unchecked"`` (the check would exceed the limit on work).
        detail: the method of the check, or the error.
    """

    claim: str
    state: ClaimState
    detail: str


@dataclass(slots=True)
class _CheckedClaims:
    """The claims and algorithms that have not failed so far.

    Attributes:
        claims: Claims with their states.
        algorithms: Re-executed algorithms, by (C, S, R).
    """

    claims: list[tuple[Claim, ClaimState]]
    algorithms: dict[CandidateTriple, list[AnyAlgorithm]]


def check_folder(folder: Path) -> Iterator[Verdict]:
    """Yield a verdict on each claim of the certificate in a folder, in their order.

    Raises:
        InputError: The folder contains no certificate, it cannot be read, or its collective does
            not match its name.
    """
    yield from check_case(read_case(folder))


def check_case(case: Case) -> Iterator[Verdict]:
    """Yield a verdict on each claim of a certificate, in their order."""
    held, work = _CheckedClaims([], {}), Work()
    for claim in case.claims:
        text = describe_claim(case, claim)
        work.begin()
        try:
            state, detail = _check_claim(case, claim, held, work)
            _require_consistent(case, claim, held, work)
        except (TooMuchError, TooLargeError) as error:
            state, detail = "unchecked", str(error)
        except (InputError, ValueError) as error:
            state, detail = "failed", str(error)
        if state != "failed":
            held.claims.append((claim, state))
        yield Verdict(text, state, detail)


def _require_consistent(case: Case, claim: Claim, held: _CheckedClaims, work: Work) -> None:
    """Check that a claim contradicts no earlier claim.

    Raises:
        ValueError: It does.
        TooMuchError: The check takes too much work.
    """
    claims = [prior for prior, _ in held.claims]
    prior = find_contradiction(case, claim, claims, held.algorithms, work.spend)
    if prior is not None:
        raise ValueError(
            f"it contradicts the claim above, {describe_claim(case, prior)!r}: one of them is false"
        )


def _check_claim(
    case: Case, claim: Claim, held: _CheckedClaims, work: Work
) -> tuple[ClaimState, str]:
    """Check a claim. Return its state and the method of the check.

    Raises:
        ValueError: The claim is not proved.
        InputError: A file is missing or cannot be read.
        TooMuchError: The check takes too much work.
    """
    require_rule(case, claim)
    if isinstance(claim, UnsatWire):
        return check_unsat(case, claim, work.spend)
    if isinstance(claim, ParetoWire | LimitPointWire | TimePointWire):
        return _check_derived(case, claim, held, work)
    if isinstance(claim, TimeWire):
        proved_claims = [prior for prior, how in held.claims if how == "ok"]
        return "ok", check_time_bound(case, claim, proved_claims, work.spend)
    return "ok", _check_proved(case, claim, held, work)


def _check_proved(case: Case, claim: _ProvedClaim, held: _CheckedClaims, work: Work) -> str:
    """Check a claim that needs no other claims. Return the method of the check.

    Raises:
        ValueError: The claim is not proved.
        InputError: A file is missing or cannot be read.
        TooMuchError: The check takes too much work.
    """
    match claim:
        case StepsWire():
            return _check_steps(case, claim, work)
        case BandwidthWire():
            return _check_bandwidth(case, claim, work)
        case LimitClaimWire():
            return _check_limit(case, claim, work)
        case AllreduceBoundWire():
            return check_allreduce_bound(case, claim, work.spend)
        case AlgorithmClaimWire():
            return _check_algorithm(case, claim, held, work)
        case ScheduleClaimWire():
            return check_schedule(case, claim, work.spend)
    assert_never(claim)


def _check_steps(case: Case, claim: StepsWire, work: Work) -> str:
    distances = [
        farthest_chunk(phase.topology, case.unit, work.spend, case.symmetries)
        for phase in case.phases
    ]
    steps, chunk, rank = max(distances, key=lambda far: far[0])
    if steps * case.dual.phases < claim.at_least:
        raise ValueError(f"every chunk reaches its destinations over {steps} links")
    return f"breadth first: chunk {chunk} must cross {steps} links to rank {rank}"


def _check_bandwidth(case: Case, claim: BandwidthWire, work: Work) -> str:
    machine = case.machine(claim.machine)
    key_of = constraint_finder(machine)
    prices = [(key_of(name), Fraction(price)) for name, price in claim.prices]
    cuts = [(ranks, Fraction(weight)) for ranks, weight in claim.cuts]
    lower_bound = price_bound(machine, case.unit, prices, cuts, work.spend, case.symmetries)
    proves = case.dual.bandwidth(lower_bound)
    if proves < Fraction(claim.at_least):
        raise ValueError(f"the prices prove only R/C >= {fraction_text(proves)}")
    return "cuts" if cuts else "shortest paths at the prices"


def _check_limit(case: Case, claim: LimitClaimWire, work: Work) -> str:
    phases = 1 if claim.trees else case.dual.phases
    if claim.trees and claim.machine:
        raise ValueError("trees up and down are on the machine itself, number 0")
    if claim.steps % phases:
        raise ValueError(f"{claim.steps} steps are not whole phases")
    machine = case.topology if claim.trees else case.machine(claim.machine)
    key_of = constraint_finder(machine)
    prices = [(key_of(name), step, Fraction(price)) for name, step, price in claim.prices]
    steps = claim.steps // phases
    if claim.cuts and claim.trees:
        raise ValueError("cuts through time are not for trees up and down")
    if claim.cuts:
        cuts = [(labels, Fraction(weight)) for labels, weight in claim.cuts]
        lower_bound = timed_cut_bound(machine, case.unit, steps, cuts, prices, work.spend)
    else:
        of = case.spec.at(case.spec.unit) if claim.trees else case.unit
        lower_bound = step_price_bound(machine, of, steps, prices, work.spend, trees=claim.trees)
    proves = lower_bound if claim.trees else case.dual.bandwidth(lower_bound)
    if proves < Fraction(claim.at_least):
        evidence = "cuts" if claim.cuts else "prices"
        raise ValueError(f"the {evidence} prove only R/C >= {fraction_text(proves)}")
    if claim.cuts:
        return format_count(len(claim.cuts), "cut") + " through time"
    return f"cheapest timed trees at {len(prices)} prices"


def _check_algorithm(
    case: Case, claim: AlgorithmClaimWire, held: _CheckedClaims, work: Work
) -> str:
    path = case.folder / claim.file
    read_regular(path)
    algorithm, intact = load_algorithm(path)
    triple = (algorithm.collective.chunks, algorithm.steps, algorithm.rounds)
    if triple != (claim.chunks, claim.steps, claim.rounds):
        raise ValueError(f"{path.name} has (C, S, R) = {triple}")
    if algorithm.collective != case.spec.at(claim.chunks):
        raise ValueError(f"{path.name} is for another collective")
    if not algorithm.topology.same_capacities(case.topology):
        raise ValueError(f"{path.name} is for another topology")
    edited = "" if intact else "; its file was edited after sccl wrote it (its digest differs)"
    few = SEND_OPERATIONS * algorithm.num_sends <= PER_CLAIM // 8
    if not few and isinstance(algorithm, SymmetricAlgorithm) and is_translated(algorithm):
        check_translated(algorithm, work.spend)
        held.algorithms.setdefault(triple, []).append(algorithm)
        prefix = f"the {len(algorithm.sends)} sends of rank 0's chunks executed, and"
        return f"{prefix} all {algorithm.num_sends} are their translations{edited}"
    expanded = expand_symmetric(algorithm, work.spend)
    if wrong := violations(expanded):
        raise ValueError(f"{path.name}: {wrong[0].message}")
    held.algorithms.setdefault(triple, []).append(expanded)
    return f"{algorithm.num_sends} sends re-executed{edited}"


def _check_derived(
    case: Case, claim: ParetoWire | LimitPointWire | TimePointWire, held: _CheckedClaims, work: Work
) -> tuple[ClaimState, str]:
    """Check that a claim of optimality follows from earlier claims. Return their weakest state.

    Raises:
        ValueError: It does not follow.
    """
    accepted: list[ClaimState] = []
    for state, words in _SUPPORT.items():
        accepted.append(state)
        claims = [c for c, how in held.claims if how in accepted]
        try:
            if isinstance(claim, TimePointWire):
                check_time_point(claim, claims)
            else:
                _check_optimal(case, claim, claims, held, work)
        except ValueError:
            if len(claims) == len(held.claims):
                raise
            continue
        return state, words
    raise AssertionError("the last claims are all claims")


def _check_optimal(
    case: Case,
    claim: ParetoWire | LimitPointWire,
    claims: Sequence[Claim],
    held: _CheckedClaims,
    work: Work,
) -> None:
    """Check that the claims imply that an algorithm is optimal in its class.

    Raises:
        ValueError: They do not.
    """
    if claim.halves != "equal" and (case.dual.phases == 1 or getattr(claim, "trees", False)):
        raise ValueError("it names halves, which algorithms of its class do not have")
    _require_algorithm(case, claim, claims, held, work)
    if isinstance(claim, LimitPointWire) and claim.every:
        _check_best_of_any_class(case, claim, claims, work)
        return
    covered = Coverage.from_claims(claims, case.spec, case.phases)
    if isinstance(claim, ParetoWire):
        _check_pareto(case, claim, covered, work)
    else:
        _check_limit_point(case, claim, covered, work)


def _check_best_of_any_class(
    case: Case, claim: LimitPointWire, claims: Sequence[Claim], work: Work
) -> None:
    """Check that the claims imply that no allreduce of any class dominates an algorithm.

    Raises:
        ValueError: They do not.
    """
    if claim.trees or claim.halves != "equal":
        raise ValueError("it covers every allreduce, so it cannot name a class or halves")
    bound, fewer = (
        allreduce_lower_bound(case, claims, steps, work.spend)
        for steps in (claim.steps, claim.steps - 1)
    )
    _require_undominated(claim, bound, claim.steps - 1, fewer)


def _require_algorithm(
    case: Case,
    claim: ParetoWire | LimitPointWire,
    claims: Sequence[Claim],
    held: _CheckedClaims,
    work: Work,
) -> None:
    """Check that the claims contain the algorithm, and that it is in the claimed class.

    Raises:
        ValueError: They do not contain it, or it is in another class.
    """
    triple = (claim.chunks, claim.steps, claim.rounds)
    if not any(
        isinstance(c, AlgorithmClaimWire) and (c.chunks, c.steps, c.rounds) == triple
        for c in claims
    ):
        raise ValueError("there is no such algorithm among the claims that hold")
    algorithms = held.algorithms.get(triple, [])
    if any(is_member(algorithm, claim, case.spec, work.spend) for algorithm in algorithms):
        return
    if algorithms:
        raise ValueError("the algorithm of that C, S and R is not of the claimed class")


def _check_limit_point(case: Case, claim: LimitPointWire, covered: Coverage, work: Work) -> None:
    equal = claim.halves == "equal"

    def min_cost(steps: int) -> Fraction | None:
        """Return the lower bound on R/C for ``steps`` steps, None if no algorithm has so few."""
        work.spend(10 * steps * (1 + len(covered.tree_limits)))
        if not claim.trees:
            return covered.lower_bound(steps, equal=equal)
        collective = case.spec.at(case.spec.unit)
        if steps < min_tree_steps(case.topology, collective, work.spend):
            return None
        return max(tree_sends_bound(case.topology, collective), covered.tree_lower_bound(steps))

    fewer = claim.steps - (case.dual.phases if equal and not claim.trees else 1)
    _require_undominated(claim, min_cost(claim.steps), fewer, min_cost(fewer))


def _require_undominated(
    claim: LimitPointWire, bound: Fraction | None, fewer: int, fewer_bound: Fraction | None
) -> None:
    """Check that no algorithm dominates a point, by lower bounds on R/C for its steps and fewer.

    Raises:
        ValueError: It does not follow.
    """
    cost = Fraction(claim.rounds, claim.chunks)
    if bound is not None and bound < cost:
        raise ValueError(f"no claim proves R/C >= {fraction_text(cost)} for {claim.steps} steps")
    if fewer_bound is not None and fewer_bound <= cost:
        raise ValueError(f"no claim proves R/C > {fraction_text(cost)} for {fewer} steps")


def _check_pareto(case: Case, claim: ParetoWire, covered: Coverage, work: Work) -> None:
    unit, phases = covered.unit, case.dual.phases
    if claim.k > MAX_K:
        raise ValueError(f"k is {claim.k}, expected up to {MAX_K}")
    if claim.rounds > claim.steps + claim.k * phases:
        raise ValueError(f"with k={claim.k} it is not in the class of its claim")
    if claim.max_chunks is not None and (
        claim.max_chunks < claim.chunks or claim.max_chunks % unit
    ):
        multiple = f", a multiple of {unit}" if unit > 1 else ""
        raise ValueError(
            f"its class is C up to {claim.max_chunks}, expected {claim.chunks} or more{multiple}"
        )
    left = next(undecided_candidates(covered, claim, work.spend), None)
    if left is not None:
        c, s, r = left
        raise ValueError(f"C={c} S={s} R={r} would dominate it and is not ruled out")
