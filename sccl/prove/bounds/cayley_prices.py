"""Prices for an alltoall on a Cayley graph: only links of the most loaded direction have a price.

On a torus with different sides, traffic along the longest side is the bottleneck. If only its links
have prices, each chunk pays for its distance along that side.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.prove.bounds.bandwidth_proof import BandwidthProof
from sccl.topo.symmetry.group_choice import translation_groups
from sccl.topo.symmetry.regular_groups import CayleyMachine, as_cayley_machine, translation_group


def cayley_proofs(topology: Topology, collective: Collective) -> Iterator[BandwidthProof]:
    """Yield the proof by the most loaded direction, if loads differ between directions.

    Args:
        collective: an alltoall.
    """
    if topology.budgets or topology.switches:
        return
    for symmetry_group in translation_groups(topology, collective):
        group = translation_group(symmetry_group.generators)
        machine = as_cayley_machine(topology, group) if group else None
        if machine is not None:
            loads = _direction_loads(machine)
            fullest = max(loads.values())
            kinds = {kind for pair, load in loads.items() for kind in pair if load == fullest}
            if len(kinds) < len(machine.steps):
                edges = (
                    k.edge for k, n in zip(topology.links, machine.kinds, strict=True) if n in kinds
                )
                prices = tuple((edge, Fraction(1)) for edge in edges)
                yield BandwidthProof(Fraction(0), prices, ())


def _direction_loads(machine: CayleyMachine) -> dict[tuple[int, int], Fraction]:
    """Return the load per lane of each direction and its reverse, by paths from rank 0."""
    far = machine.distances()
    last = np.argmax(machine.is_nearer(far), axis=0)
    through = np.ones(len(far), dtype=np.int64)  # ranks whose path passes this rank
    load = np.zeros(len(machine.steps), dtype=np.int64)
    for distance in range(int(far.max()), 0, -1):
        ranks = np.flatnonzero(far == distance)
        np.add.at(load, last[ranks], through[ranks])
        np.add.at(through, machine.predecessors[last[ranks], ranks], through[ranks])
    number = {g: kind for kind, g in enumerate(machine.steps)}
    loads = {}
    for kind in range(len(machine.steps)):
        back = number.get(int(machine.predecessors[kind, 0]), kind)
        pair = (min(kind, back), max(kind, back))
        both = set(pair)
        lanes = sum(machine.lanes[i] for i in both)
        loads[pair] = Fraction(sum(int(load[i]) for i in both), lanes)
    return loads
