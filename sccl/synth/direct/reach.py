"""The values attained without search, for every k and C: by constructions with known costs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import TYPE_CHECKING

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.topo.symmetry.groups import some_symmetries, translation_groups
from sccl.topo.symmetry.orbits import rank_orbits

if TYPE_CHECKING:
    from sccl.synth.direct.lines import Lines
    from sccl.topo.symmetry.regular import Cayley

BREADTH_FIRST, COLOURING, BY_DIMENSIONS = "breadth first", "colouring", "by dimensions"


@dataclass(frozen=True, slots=True)
class Attained:
    """The values that some constructed algorithm attains.

    Attributes:
        steps: S, that of the farthest rank.
        bandwidth: R/C, at some C.
        by: its construction, as text.
        times: possible multiples of the pattern's chunks, tried in order.
        is_least: whether distances prove that no algorithm has less.
    """

    steps: int
    bandwidth: Fraction
    by: str
    times: tuple[int, ...]
    is_least: bool = False


@lru_cache(maxsize=4)
def attained(topology: Topology, collective: Collective) -> Attained | None:
    """Return the attained values in as few steps as possible. None: no construction is known.

    Args:
        collective: non-combining, at any C.

    Raises:
        UnreachableError: some rank does not reach another.
    """
    if topology.budgets or topology.switches or collective.combining:
        return None
    if not (collective.is_gathered or collective.is_transpose):
        return None
    machine = _cayley(topology, collective)
    if collective.is_transpose:
        return _by_colouring(machine) if machine else None
    from sccl.synth.direct import allgather, lines  # noqa: PLC0415 - NumPy is slow to load

    if machine:
        return _breadth_first(allgather.costs(machine))
    by_lines = lines.served(topology)
    wide = None if by_lines and by_lines.is_even else _costs(topology, collective)
    found = [_by_lines(by_lines) if by_lines else None, _breadth_first(wide)]
    return min(filter(None, found), key=lambda each: each.bandwidth, default=None)


def _costs(topology: Topology, collective: Collective) -> tuple[Fraction, ...] | None:
    """Return the rounds per chunk of each step, breadth first. None: of too many ranks."""
    from sccl.synth.direct import arrivals, breadth_first  # noqa: PLC0415 - NumPy is slow to load

    if topology.ranks > breadth_first.MAX_RANKS:
        return None
    some = rank_orbits(topology, some_symmetries(topology, collective))
    return arrivals.known_costs(topology, tuple(some))


def _breadth_first(costs: tuple[Fraction, ...] | None) -> Attained | None:
    if not costs:
        return None
    times = lcm(*(cost.denominator for cost in costs))
    return Attained(len(costs), sum(costs, Fraction(0)), BREADTH_FIRST, (times,))


def _by_lines(lines: Lines) -> Attained:
    return Attained(lines.steps, lines.cost, BY_DIMENSIONS, (lines.pieces,))


def _cayley(topology: Topology, collective: Collective) -> Cayley | None:
    """Return a machine with its translations, if it has some."""
    from sccl.topo.symmetry.regular import cayley, translations  # noqa: PLC0415 - NumPy is slow

    for one in translation_groups(topology, collective):
        if group := translations(one.generators):
            return cayley(topology, group)
    return None


def _by_colouring(machine: Cayley) -> Attained | None:
    """Return the values of an alltoall with C = S P chunks, or twice as many, in S steps."""
    from sccl.synth.direct import alltoall  # noqa: PLC0415 - NumPy is slow to load

    once, twice = (alltoall.least_rounds(machine, pieces) for pieces in (1, 2))
    if once is None or twice is None:
        return None
    far, cost = machine.distances(), min(once, twice)
    steps = int(far.max())
    # on even rings what is half way round goes both ways: one piece of a pair can't
    times = (2, steps) if twice < once else (1, 2, steps)
    least = Fraction(int(far.sum()), sum(machine.lanes) * machine.group.ranks)
    return Attained(steps, cost, COLOURING, times, cost == least)
