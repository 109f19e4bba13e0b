"""Both lower bounds of a collective on a topology, combining collectives through their duals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.bounds.bandwidth import bandwidth_bound
from sccl.bounds.certificate import Certificate
from sccl.bounds.steps import FarthestPair, farthest_pair
from sccl.collectives import Dual
from sccl.core.topology import Topology


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """No k-synchronous algorithm has fewer steps, nor a smaller R/C.

    The certificates speak about ``dual.spec`` with C = ``dual.spec.unit`` on ``machine``; for a
    combining collective that is its dual, perhaps on the reversed topology.

    Attributes:
        steps: lower bound on S of the collective that was asked for.
        bandwidth: lower bound on R/C of the collective that was asked for.
    """

    steps: int
    bandwidth: Fraction
    dual: Dual
    machine: Topology
    pair: FarthestPair
    certificate: Certificate


def lower_bounds(machines: tuple[Topology, ...], other: Dual) -> LowerBounds:
    """Return the bounds for ``other.original``.

    Args:
        machines: the topologies its dual is solved on (two for allreduce on one-way links; the
            weaker side binds).
        other: the collective with its dual.

    Raises:
        UnreachableError: a chunk cannot reach a rank that wants it.
    """
    unit = other.spec.at(other.spec.unit)
    pairs = [farthest_pair(machine, unit) for machine in machines]
    certificates = [bandwidth_bound(machine, unit) for machine in machines]
    worst = max(range(len(machines)), key=lambda i: certificates[i].value)
    return LowerBounds(
        steps=max(pair.steps for pair in pairs) * other.phases,
        bandwidth=other.bandwidth(certificates[worst].value / unit.chunks),
        dual=other,
        machine=machines[worst],
        pair=max(pairs, key=lambda p: p.steps),
        certificate=certificates[worst],
    )
