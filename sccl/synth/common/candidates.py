"""The candidates (R, C) that SCCL's Algorithm 1 considers for a number of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.bound import AlgorithmBounds
from sccl.core.instance import Candidate, Instance, SweepRange
from sccl.errors import ParameterError

MAX_CANDIDATES = 1_000_000
"""Candidates of one number of steps. They grow with the square of k."""

DEFAULT_K = 5
"""The k of SCCL's evaluation (section 5.2)."""

_MAX_DENOMINATOR = (
    100  # of the fewest chunks: prices of alltoalls may have denominators of millions
)

EXTRA_STEPS = 3
"""Steps of a sweep beyond the latency bound, unless the user names the last. The allgather on
``dgx1`` attains its bandwidth bound one step beyond."""


ALL_SYNCHRONOUS = "all k-synchronous algorithms"


def scope_text(covered: SweepRange | None, composition: str) -> str:
    """Return the class that a sweep's claims cover, as text.

    The last S of a sweep does not matter: only algorithms with no more steps can dominate a point.

    Args:
        covered: The range of the sweep. None: any k and C.
        composition: The family of algorithms of the dual. Empty: all algorithms.
    """
    if covered is None:
        return composition or ALL_SYNCHRONOUS
    fewer = f" with C <= {covered.max_chunks}" if covered.max_chunks else ""
    if composition:
        return f"{composition}, each half {covered.k}-synchronous{fewer}"
    return f"{covered.k}-synchronous algorithms{fewer}"


def enumerate_candidates(
    dual: Dual, bandwidth: Fraction, steps: int, covered: SweepRange
) -> Iterator[Candidate]:
    """Yield the candidates with ``steps`` steps: R <= S + k and R/C >= the bandwidth bound.

    Args:
        dual: The dual that is solved.
        bandwidth: Lower bound on R/C of the requested collective.
        steps: S of the requested collective.
        covered: k and the largest C.
    """
    k = DEFAULT_K if covered.k is None else covered.k
    dual_steps, unit = steps // dual.phases, dual.spec.unit * dual.chunk_factor
    max_rounds = dual_steps + k
    if (
        covered.max_chunks is None
        and max_rounds * dual.phases / bandwidth / unit * k > MAX_CANDIDATES
    ):
        raise ParameterError(
            f"k is {k}: with {steps} steps that makes more than {MAX_CANDIDATES} candidates; give "
            "a smaller --k, or --max-chunks"
        )
    for dual_rounds in range(dual_steps, max_rounds + 1):
        rounds = dual_rounds * dual.phases
        cheapest = rounds / bandwidth  # the C at which R/C is the bound
        last = floor(cheapest) if covered.max_chunks is None else covered.max_chunks
        for chunks in range(unit, min(floor(cheapest), last) + 1, unit):
            yield Candidate(Fraction(rounds, chunks), chunks, steps, rounds)


def choose_k(covered: SweepRange, dual: Dual, bounds: AlgorithmBounds) -> SweepRange:
    """Return ``covered`` with its k.

    The default is 5, or enough to attain the bandwidth bound, if that is more: with the fewest
    chunks for which R is integral, in the fewest steps. If these chunks are too many for any
    search, k is chosen for the smallest number of chunks.
    """
    if covered.k is not None:
        return covered
    unit = dual.spec.unit * dual.chunk_factor
    min_rounds = bounds.bandwidth * unit / dual.phases  # rounds, of the fewest chunks
    rounds = (
        min_rounds.numerator
        if min_rounds.denominator <= _MAX_DENOMINATOR
        else ceil(min_rounds) + DEFAULT_K
    )
    return replace(covered, k=max(DEFAULT_K, rounds - bounds.steps // dual.phases))


def last_step(spec: Spec, bounds: AlgorithmBounds, asked: int | None) -> int:
    """Return the last S of a sweep.

    Raises:
        ParameterError: The requested S is less than the latency bound.
    """
    if asked is None:
        return bounds.steps + EXTRA_STEPS * dual_of(spec).phases
    check_min_steps(asked, spec, bounds)
    return asked


def check_max_chunks(spec: Spec, covered: SweepRange) -> None:
    """Check that a range contains a candidate.

    Raises:
        ParameterError: The largest C is less than the smallest C of the collective.
    """
    if covered.max_chunks is not None and covered.max_chunks < spec.unit:
        raise ParameterError(
            f"max-chunks is {covered.max_chunks}, but C of {spec.name} is a multiple of "
            f"{spec.unit}: give at least {spec.unit}"
        )


def check_min_steps(
    steps: int, spec: Spec, bounds: AlgorithmBounds, option: str = "max-steps"
) -> None:
    """Check that a number of steps is at least the latency bound.

    Raises:
        ParameterError: It is less.
    """
    if steps < bounds.steps:
        raise ParameterError(
            f"{option} is {steps}, but {collective_with_scope(spec, bounds)} takes at least "
            f"{bounds.steps} "
            "steps here: give at least that many"
        )


def collective_with_scope(spec: Spec, bounds: AlgorithmBounds) -> str:
    """Return a collective and the family for which its bounds hold, as text."""
    return f"{spec.name} by {bounds.scope}" if bounds.scope else spec.name


# --- rounds of steps -----------------------------------------------------------------------------


def round_vectors(instance: Instance) -> Iterator[tuple[int, ...]]:
    """Yield (r_0, ..., r_{S-1}) with r_s >= 1 and sum R, one of each pair of equivalent vectors.

    The only symmetry of a sequence of steps is reversal in time. Suppose that each chunk has one
    source and one destination, and that machine and demand are the same in both directions
    (alltoall on two-way links). Then reversing every send in time and direction maps algorithms to
    algorithms. So a vector has a solution exactly if its mirror image has one. Even vectors come
    first, because they are the likeliest.
    """
    mirrored = _is_reversible(instance)
    rounds, steps = instance.rounds, instance.steps
    for peak in range(-(-rounds // steps), rounds - steps + 2):
        for vector in _compositions(rounds, steps, peak):
            if max(vector) == peak and not (mirrored and vector > vector[::-1]):
                yield vector


def _compositions(total: int, parts: int, peak: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write ``total`` as ``parts`` numbers from 1 to ``peak``."""
    if parts == 1:
        yield (total,)
        return
    lower_bound = max(1, total - (parts - 1) * peak)
    for first in range(lower_bound, min(peak, total - parts + 1) + 1):
        for rest in _compositions(total - first, parts - 1, peak):
            yield (first, *rest)


def _is_reversible(instance: Instance) -> bool:
    classes = instance.collective.chunk_classes()
    single = all(len(s) == 1 and len(w) == 1 for s, w in classes)
    counts = {key: len(chunks) for key, chunks in classes.items()}
    return (
        single
        and all(counts.get((w, s)) == n for (s, w), n in counts.items())
        and instance.topology.reversed().same_capacities(instance.topology)
    )
