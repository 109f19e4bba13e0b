"""The bandwidth lower bound: the LP over all routings, its dual made exact (SCCL section 3.7, b_l).

Floating-point solutions of LPs only *propose* proofs. Every value returned here comes out of
:func:`sccl.prove.bounds.proof.check_proof` in exact arithmetic, and the best proposal
wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.prove.bounds.proof import BandwidthProof, check_proof
from sccl.prove.bounds.simple import simple_proofs
from sccl.topo.symmetry.groups import translation_groups

_CUT_LP_RANKS = 64  # above, with budgets, only simple proofs: valid, perhaps not the best


def bandwidth_bound(topology: Topology, collective: Collective) -> BandwidthProof:
    """Return the best certified lower bound on R for ``collective``; divide by C for R/C.

    Args:
        collective: a non-combining one whose demand is reachable.
    """
    best = _best(topology, collective, simple_proofs(topology, collective))
    other = _best(topology, collective, _by_linear_programming(topology, collective, best))
    return other if other.value > best.value else best


def _by_linear_programming(
    topology: Topology, collective: Collective, start: BandwidthProof
) -> Iterator[BandwidthProof]:
    # Imported here because MathOpt takes longer to load than most bounds take to compute.
    from sccl.prove.bounds.by_kind import proofs_by_kind  # noqa: PLC0415
    from sccl.prove.bounds.cut_lp import cut_proof  # noqa: PLC0415
    from sccl.prove.bounds.flow_lp import flow_proof  # noqa: PLC0415
    from sccl.prove.bounds.flow_orbits import flow_by_orbits  # noqa: PLC0415
    from sccl.prove.bounds.sinks import sinks_proof  # noqa: PLC0415
    from sccl.topo.symmetry.regular import translations  # noqa: PLC0415 - NumPy is slow to load

    proposal = None
    if collective.to_one:
        proposal = flow_proof(topology, collective)
        if proposal is None and collective.is_transpose:
            if any(translations(g.generators) for g in translation_groups(topology, collective)):
                yield from proofs_by_kind(topology, collective)
            else:
                yield from flow_by_orbits(topology, collective)
    elif collective.is_gathered and not topology.budgets:
        proposal = sinks_proof(topology, collective, start)
    elif topology.ranks <= _CUT_LP_RANKS:
        proposal = cut_proof(topology, collective, start)
    if proposal is not None and proposal.prices:
        yield proposal


def _best(
    topology: Topology, collective: Collective, proposals: Iterable[BandwidthProof]
) -> BandwidthProof:
    """Return the proposal that proves most, its value and demands computed (earlier ones first)."""
    best = BandwidthProof(Fraction(0), (), ())
    for proposal in proposals:
        if not proposal.prices:
            continue
        value = check_proof(topology, collective, proposal)
        if value > best.value:
            best = replace(proposal, value=value)
    cuts = (replace(c, chunks=collective.entering(set(c.ranks))) for c in best.cuts)
    return replace(best, cuts=tuple(cuts))
