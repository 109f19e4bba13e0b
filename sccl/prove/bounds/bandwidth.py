"""The bandwidth lower bound: the LP over all routings, its dual made exact (SCCL section 3.7, b_l).

Floating-point solutions of LPs only *propose* proofs. Every value returned here comes out of
:func:`sccl.prove.bounds.bandwidth_proof.check_proof` in exact arithmetic, and the best proposal
wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.prove.bounds.bandwidth_proof import BandwidthProof, check_proof
from sccl.prove.bounds.basic_proofs import simple_proofs
from sccl.topo.symmetry.group_choice import translation_groups

_CUT_LP_RANKS = 64  # above, with budgets, only simple proofs: valid, perhaps not the best


def bandwidth_bound(topology: Topology, collective: Collective) -> BandwidthProof:
    """Return the best certified lower bound on R for ``collective``. Divide by C for R/C.

    Args:
        collective: Non-combining collective with a reachable demand.
    """
    best = _best_proof(topology, collective, simple_proofs(topology, collective))
    lp_proof = _best_proof(
        topology, collective, _linear_programming_proofs(topology, collective, best)
    )
    return lp_proof if lp_proof.value > best.value else best


def _linear_programming_proofs(
    topology: Topology, collective: Collective, start: BandwidthProof
) -> Iterator[BandwidthProof]:
    # Imported here because MathOpt takes longer to load than most bounds take to compute.
    from sccl.prove.bounds.cayley_prices import cayley_proofs  # noqa: PLC0415
    from sccl.prove.bounds.cut_lp import cut_proof  # noqa: PLC0415
    from sccl.prove.bounds.flow_lp import flow_proof  # noqa: PLC0415
    from sccl.prove.bounds.flow_orbits import orbit_flow_proofs  # noqa: PLC0415
    from sccl.prove.bounds.sink_cuts import sinks_proof  # noqa: PLC0415
    from sccl.topo.symmetry.regular_groups import translation_group  # noqa: PLC0415 - NumPy is slow to load

    proposal = None
    if collective.is_unicast:
        proposal = flow_proof(topology, collective)
        if proposal is None and collective.is_alltoall:
            if any(
                translation_group(g.generators) for g in translation_groups(topology, collective)
            ):
                yield from cayley_proofs(topology, collective)
            else:
                yield from orbit_flow_proofs(topology, collective)
    elif collective.is_allgather and not topology.budgets:
        proposal = sinks_proof(topology, collective, start)
    elif topology.ranks <= _CUT_LP_RANKS:
        proposal = cut_proof(topology, collective, start)
    if proposal is not None and proposal.prices:
        yield proposal


def _best_proof(
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
    cuts = (replace(c, chunks=collective.amount_entering(set(c.ranks))) for c in best.cuts)
    return replace(best, cuts=tuple(cuts))
