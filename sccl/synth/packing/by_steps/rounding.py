"""Algorithms at or near a limit of R/C: with few chunks, or from a packing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sccl.collectives import Dual
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Sat, describe_solver
from sccl.core.collective import MAX_CLASSIFIED
from sccl.core.step_limit import StepLimit
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.synth.constructions import construct_algorithm
from sccl.synth.limits import MAX_SENDS
from sccl.synth.packing.by_steps.limits_by_steps import LimitWithPacking
from sccl.topo.symmetry.expansion import MAX_EXPANDED_SENDS, expand_algorithm
from sccl.transform import InstanceSolver, build_question, solve_question

if TYPE_CHECKING:
    from sccl.synth.packing.by_steps.solve import Packing

_ROUNDED_MULTIPLES = (
    256,
    64,
    16,
    4,
)  # C, in units, near a limit that is too large to write down


def round_to_algorithm(
    packed: LimitWithPacking,
    dual: Dual,
    solve: InstanceSolver | None,
    *,
    from_packing: bool = True,
    few_chunks: bool = True,
) -> tuple[AnyAlgorithm, str] | None:
    """Return an algorithm at the limit with few chunks, else a multiplied packing, else one near.

    The second result is the method that made it. None: it is too large to be written down.

    Args:
        solve: Solver for instances with few chunks. None: they are not searched.
        from_packing: Whether the packing may be written down.
        few_chunks: Whether to search for algorithms with few chunks.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    from sccl.synth.packing.by_steps.round_steps import (  # noqa: PLC0415
        REDUCED_EFFORT_UNITS,
        TOTAL_EFFORT_UNITS,
        multiply_out,
        round_to_few_chunks,
    )

    limit, packings, algorithm = packed.limit, packed.packings, packed.direct
    if algorithm is None and not packings:
        return None  # it takes too many sends to be written down
    topology = algorithm.topology if algorithm else packings[0].problem.topology
    if limit.proofs[0].on_reversed:
        topology = topology.reversed()
    if algorithm is not None:  # with the fewest chunks of a flow, or the best known algorithm
        recovered = _recover_original(algorithm, topology, dual)
        return None if recovered is None else (recovered, "construction")
    is_single = len(packings) == 1 and from_packing  # two packings need not agree in C and rounds
    multiplied = multiply_out(packings[0]) if is_single else None
    units = REDUCED_EFFORT_UNITS if multiplied else TOTAL_EFFORT_UNITS
    searched = is_single and few_chunks
    integral = round_to_few_chunks(packings[0], limit.proofs[0], units) if searched else None
    for chunks, rounds in _smallest_candidates(limit, dual):
        if integral and chunks >= integral.collective.chunks * dual.chunk_factor:
            break
        if solve is None or chunks * topology.ranks > MAX_CLASSIFIED:
            break
        answer = solve_question(
            build_question(topology, dual.original, chunks, limit.steps, rounds), solve
        )
        if isinstance(answer, Sat):
            return expand_algorithm(answer.algorithm), describe_solver(answer)
    if not is_single:
        return None
    packing = packings[0]
    made: AnyAlgorithm | None = integral or multiplied
    method = "packing"
    if made is None and (constructed := _construct_directly(packing)) is not None:
        made, method = constructed, "construction"
    made = made or round_approximately(packing)
    recovered = made and _recover_original(made, topology, dual)
    return None if recovered is None else (recovered, method)


def _construct_directly(packing: Packing) -> AnyAlgorithm | None:
    """Return a constructed algorithm with the packing's R/C. None: there is none."""
    of = packing.problem
    made = construct_algorithm(of.topology, of.collective, of.steps)
    return made if made and made.bandwidth_cost == packing.upper else None


def _recover_original(
    algorithm: AnyAlgorithm, topology: Topology, dual: Dual
) -> AnyAlgorithm | None:
    """Return the algorithm of the original collective from an algorithm of its dual.

    A large algorithm remains represented by its symmetry. None: it would be too large.
    """
    if not dual.is_identity and algorithm.num_sends > MAX_SENDS:
        return None
    total_chunks, phases = algorithm.collective.chunks * dual.chunk_factor, dual.phases
    question = build_question(
        topology, dual.original, total_chunks, algorithm.steps * phases, algorithm.rounds * phases
    )
    try:
        made = question.recover([algorithm])
    except TooLargeError:
        return None
    return expand_algorithm(made) if made.num_sends <= MAX_EXPANDED_SENDS else made


def round_approximately(packing: Packing) -> Algorithm | None:
    """Return an algorithm near a packing, with the most chunks that can be written down."""
    from sccl.synth.packing.by_steps.round_steps import round_to_multiple  # noqa: PLC0415 - loads the LP solver

    return next(
        filter(None, (round_to_multiple(packing, times) for times in _ROUNDED_MULTIPLES)), None
    )


def _smallest_candidates(limit: StepLimit, dual: Dual) -> Iterator[tuple[int, int]]:
    """Yield the smallest (C, R) with R/C at the limit."""
    unit = dual.spec.unit * dual.chunk_factor
    per_unit = limit.required_upper * unit / dual.phases
    chunks = unit * per_unit.denominator
    while chunks * limit.required_upper < limit.steps:
        chunks += unit * per_unit.denominator
    for times in (1, 2):
        yield chunks * times, int(chunks * times * limit.required_upper)
