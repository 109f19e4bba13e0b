"""Both lower bounds of a collective on a topology, combining collectives through their duals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.bounds import Bounds, Distance, Priced
from sccl.core.instance import check_direct
from sccl.core.topology import Topology, constraint_name
from sccl.errors import CollectiveError
from sccl.prove.bounds.bandwidth import bandwidth_bound
from sccl.prove.bounds.proof import BandwidthProof
from sccl.prove.bounds.steps import FarthestPair, farthest_pair


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """No k-synchronous algorithm of the class has fewer steps, nor a smaller R/C.

    Proofs speak about ``dual.spec`` with C = ``dual.spec.unit``: for a combining collective
    that is its dual, perhaps on the reversed topology.

    Attributes:
        steps: lower bound on S of the collective that was asked for.
        bandwidth: lower bound on R/C of the collective that was asked for.
        pair: proves the bound on steps, on the reverse if ``pair_on_reversed``.
        proof: proves the bound on R/C, on ``machine``.
        machine: the topology or its reverse, as ``on_reversed`` says.
    """

    steps: int
    bandwidth: Fraction
    dual: Dual
    pair: FarthestPair
    proof: BandwidthProof
    machine: Topology
    on_reversed: bool
    pair_on_reversed: bool

    @property
    def scope(self) -> str:
        """Return the class of algorithms that the bounds hold for, empty: all of them."""
        return self.dual.scope

    @property
    def problem(self) -> str:
        """Return what the bandwidth proof speaks about, in words."""
        return self.dual.describe(on_reversed=self.on_reversed)

    @property
    def proved(self) -> Bounds:
        """Return the bounds with what proves them."""
        of, pair = self.proof, self.pair
        farther = self.dual.describe(on_reversed=self.pair_on_reversed)
        prices = tuple((constraint_name(key), price) for key, price in of.prices)
        return Bounds(
            self.steps,
            self.bandwidth,
            self.scope,
            Distance(farther, pair.chunk, pair.sources, pair.rank, pair.steps),
            Priced(self.problem, self.dual.spec.unit, of.value, prices, of.cuts),
        )


def lower_bounds(topology: Topology, spec: Spec) -> LowerBounds:
    """Return the bounds of a collective on a topology.

    For allreduce on one-way links both of its phases are bounded, and the tighter bound of the two
    holds for each: they have equal steps and rounds.

    Raises:
        CollectiveError: the collective is for another number of ranks.
        UnreachableError: a chunk cannot reach a rank that wants it.
        TopologyError: the topology has switch nodes.
    """
    check_direct(topology)
    if spec.ranks != topology.ranks:
        raise CollectiveError(
            f"collective {spec.name!r} is for {spec.ranks} ranks, topology {topology.name!r} has "
            f"{topology.ranks}"
        )
    dual = dual_of(spec)
    unit = dual.spec.at(dual.spec.unit)
    phases = dual.solved_on(topology)
    pairs = [(farthest_pair(phase.topology, unit), phase) for phase in phases]
    proofs = [(bandwidth_bound(phase.topology, unit), phase) for phase in phases]
    pair, farthest = max(pairs, key=lambda each: each[0].steps)
    proof, tightest = max(proofs, key=lambda each: each[0].value)
    return LowerBounds(
        steps=pair.steps * dual.phases,
        bandwidth=dual.bandwidth(proof.value / unit.chunks),
        dual=dual,
        pair=pair,
        proof=proof,
        machine=tightest.topology,
        on_reversed=tightest.on_reversed,
        pair_on_reversed=farthest.on_reversed,
    )
