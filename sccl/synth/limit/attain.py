"""Algorithms that attain a limit of R/C, or are near it: of few chunks, or from a packing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sccl.collectives import Dual
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Sat
from sccl.core.collective import MAX_CLASSIFIED
from sccl.core.limit import StepLimit
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.synth.ask import Solve, ask
from sccl.synth.direct import constructed
from sccl.synth.limit.steps import Packed
from sccl.topo.symmetry.expand import MAX_EXPANDED, expand
from sccl.transform import pose

if TYPE_CHECKING:
    from sccl.synth.limit.solve import Packing

_ROUNDED_TIMES = (256, 64, 16, 4)  # C, in units, of what is near a limit too large to write down
_ASKED_TIMES = (1, 2)
_TURNED = 1_000_000  # sends that are turned round one by one


def attain(
    packed: Packed, dual: Dual, solve: Solve | None, *, from_packing: bool = True
) -> AnyAlgorithm | None:
    """Return an algorithm at the limit with few chunks, else multiplied out, else one near it.

    Args:
        solve: None: no search for few chunks.
        from_packing: whether the packing may be written down.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    from sccl.synth.limit.multiply import multiply_out  # noqa: PLC0415 - loads the LP solver
    from sccl.synth.limit.whole import ALL_UNITS, FEW_UNITS, few_whole  # noqa: PLC0415

    limit, packings, found = packed.limit, packed.packings, packed.direct
    if found is None and not packings:
        return None  # it takes too many sends to be written down
    topology = found.topology if found else packings[0].problem.topology
    if limit.proofs[0].on_reversed:
        topology = topology.reversed()
    if found is not None:  # of as few chunks as flows have, or the best that is known
        return _of_original(found, topology, dual)
    one = len(packings) == 1 and from_packing  # not two that have to agree in C and in rounds
    multiplied = multiply_out(packings[0]) if one else None
    units = FEW_UNITS if multiplied else ALL_UNITS
    whole = few_whole(packings[0], limit.proofs[0], units) if one else None
    for chunks, rounds in _smallest(limit, dual):
        if whole and chunks >= whole.collective.chunks * dual.chunk_factor:
            break
        if solve is None or chunks * topology.ranks > MAX_CLASSIFIED:
            break
        answer = ask(pose(topology, dual.original, chunks, limit.steps, rounds), solve)
        if isinstance(answer, Sat):
            return expand(answer.algorithm)
    if not one:
        return None
    packing = packings[0]
    made = whole or multiplied or _without_search(packing) or near(packing)
    return None if made is None else _of_original(made, topology, dual)


def _without_search(packing: Packing) -> AnyAlgorithm | None:
    """Return an algorithm that needs no search, if there is one with the packing's R/C."""
    of = packing.problem
    made = constructed(of.topology, of.collective, of.steps)
    return made if made and made.bandwidth_cost == packing.upper else None


def _of_original(found: AnyAlgorithm, topology: Topology, dual: Dual) -> AnyAlgorithm | None:
    """Return the algorithm of the collective that was asked for, from one of its dual.

    One that is large as it is given, by symmetry. None: it would be too large.
    """
    if not dual.is_identity and found.num_sends > _TURNED:
        return None
    whole, phases = found.collective.chunks * dual.chunk_factor, dual.phases
    question = pose(topology, dual.original, whole, found.steps * phases, found.rounds * phases)
    try:
        made = question.recover([found])
    except TooLargeError:
        return None
    return expand(made) if made.num_sends <= MAX_EXPANDED else made


def near(packing: Packing) -> Algorithm | None:
    """Return an algorithm near a packing, of as many chunks as can well be written down."""
    from sccl.synth.limit.multiply import round_off  # noqa: PLC0415 - loads the LP solver

    return next(filter(None, (round_off(packing, times) for times in _ROUNDED_TIMES)), None)


def _smallest(limit: StepLimit, dual: Dual) -> Iterator[tuple[int, int]]:
    """Yield the smallest (C, R) with R/C at the limit."""
    unit = dual.spec.unit * dual.chunk_factor
    per_unit = limit.best * unit / dual.phases
    chunks = unit * per_unit.denominator
    while chunks * limit.best < limit.steps:
        chunks += unit * per_unit.denominator
    for times in _ASKED_TIMES:
        yield chunks * times, int(chunks * times * limit.best)
