"""The values attained without search, for every k and C: by constructions with known costs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import TYPE_CHECKING

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.topo.symmetry.group_choice import orbit_symmetries, translation_groups
from sccl.topo.symmetry.permutations import rank_orbits

if TYPE_CHECKING:
    from sccl.synth.constructions.mesh_allgather import Mesh
    from sccl.topo.symmetry.regular_groups import CayleyMachine

BREADTH_FIRST, COLORING, BY_DIMENSIONS = "breadth first", "colouring", "by dimensions"


@dataclass(frozen=True, slots=True)
class ConstructionCost:
    """The values that some constructed algorithm attains.

    Attributes:
        steps: S, that of the farthest rank.
        bandwidth: R/C, at some C.
        construction: its construction, as text.
        multiples: possible multiples of the pattern's chunks, tried in order.
        is_optimal: whether distances prove that no algorithm has less.
    """

    steps: int
    bandwidth: Fraction
    construction: str
    multiples: tuple[int, ...]
    is_optimal: bool = False


@lru_cache(maxsize=4)
def cost_without_search(topology: Topology, collective: Collective) -> ConstructionCost | None:
    """Return the attained values in as few steps as possible. None: no construction is known.

    Args:
        collective: non-combining, at any C.

    Raises:
        UnreachableError: some rank does not reach another.
    """
    if topology.budgets or topology.switches or collective.combining:
        return None
    if not (collective.is_allgather or collective.is_alltoall):
        return None
    machine = _cayley_graph(topology, collective)
    if collective.is_alltoall:
        return _coloring_construction(machine) if machine else None
    from sccl.synth.constructions import abelian_allgather, mesh_allgather  # noqa: PLC0415 - NumPy is slow to load

    if machine:
        return _bfb_construction(abelian_allgather.step_costs(machine))
    by_lines = mesh_allgather.find_mesh(topology)
    wide = None if by_lines and by_lines.has_equal_sides else _bfb_costs(topology, collective)
    candidates = [_mesh_construction(by_lines) if by_lines else None, _bfb_construction(wide)]
    return min(filter(None, candidates), key=lambda each: each.bandwidth, default=None)


def _bfb_costs(topology: Topology, collective: Collective) -> tuple[Fraction, ...] | None:
    """Return the rounds per chunk of each step, breadth first. None: of too many ranks."""
    from sccl.synth.constructions import bfb, bfb_costs  # noqa: PLC0415 - NumPy is slow to load

    if topology.ranks > bfb_costs.MAX_RANKS:
        return None
    orbit_ranks = rank_orbits(topology, orbit_symmetries(topology, collective))
    return bfb.cached_costs(topology, tuple(orbit_ranks))


def _bfb_construction(costs: tuple[Fraction, ...] | None) -> ConstructionCost | None:
    if not costs:
        return None
    times = lcm(*(cost.denominator for cost in costs))
    return ConstructionCost(len(costs), sum(costs, Fraction(0)), BREADTH_FIRST, (times,))


def _mesh_construction(lines: Mesh) -> ConstructionCost:
    return ConstructionCost(lines.steps, lines.cost, BY_DIMENSIONS, (lines.pieces,))


def _cayley_graph(topology: Topology, collective: Collective) -> CayleyMachine | None:
    from sccl.topo.symmetry.regular_groups import as_cayley_machine, translation_group  # noqa: PLC0415 - NumPy is slow

    for candidate in translation_groups(topology, collective):
        if group := translation_group(candidate.generators):
            return as_cayley_machine(topology, group)
    return None


def _coloring_construction(machine: CayleyMachine) -> ConstructionCost | None:
    """Return the values of an alltoall with C = S P chunks, or twice as many, in S steps."""
    from sccl.synth.constructions import abelian_alltoall  # noqa: PLC0415 - NumPy is slow to load

    once, twice = (abelian_alltoall.rounds_per_chunk(machine, pieces) for pieces in (1, 2))
    if once is None or twice is None:
        return None
    far, cost = machine.distances(), min(once, twice)
    steps = int(far.max())
    # on even rings the antipodal chunk goes both ways: one piece of a pair can't
    times = (2, steps) if twice < once else (1, 2, steps)
    lower_bound = Fraction(int(far.sum()), sum(machine.lanes) * machine.group.ranks)
    return ConstructionCost(steps, cost, COLORING, times, cost == lower_bound)
