"""What a motif takes on a channel: how long, and which part of the fabric's resources.

A motif is a pattern of a synthesiser's like any other: who has which elements, and who wants them.
What it takes is what a schedule of it takes, and what that schedule sends over which links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from sccl.collectives import Spec
from sccl.core.collective import Relation, RelationKind
from sccl.core.fabric import Fabric
from sccl.core.motif import Motif
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology, as_ranks
from sccl.errors import ParameterError
from sccl.train.resources import FabricResources, resources_of

Planner = Callable[[Topology, Spec, int], Schedule]
"""Return a schedule of a collective on a machine, of chunks of so many bytes."""

_PS_PER_US = 10**6


@dataclass(frozen=True, slots=True)
class MotifCost:
    """What a motif takes on a channel.

    Attributes:
        us: from its launch until all of it has arrived.
        loads: of each resource that it uses, the part that it takes of it meanwhile.
    """

    us: Fraction
    loads: tuple[tuple[int, Fraction], ...]


class MotifCosts:
    """What motifs take on the channels of a fabric; those that are alike are planned once."""

    def __init__(self, fabric: Fabric, planner: Planner) -> None:
        self.fabric, self._planner = fabric, planner
        self.resources: FabricResources = resources_of(fabric)
        self._known: dict[tuple[object, ...], MotifCost] = {}

    def of(self, motif: Motif, channel: int, item_bytes: int) -> MotifCost:
        """Return what a motif takes on a channel.

        Args:
            channel: its number.
            item_bytes: of an element.

        Raises:
            InputError: it cannot be planned there.
        """
        spec, size = pattern_of(motif, self.fabric.ranks, item_bytes)
        key = (channel, size, spec.pre.pattern, spec.post.pattern, spec.combining, spec.counts)
        if key not in self._known:
            one = self.fabric.channels[channel]
            schedule = self._planner(one.topology, spec, size)
            launch = Fraction(str(one.launch_us))
            ticks = Fraction(schedule.finish * schedule.tick_ps, _PS_PER_US)
            us = launch + ticks
            loads = self.resources.loads(schedule, channel, us)
            self._known[key] = MotifCost(us, tuple(sorted(loads.items())))
        return self._known[key]


def pattern_of(motif: Motif, ranks: int, item_bytes: int) -> tuple[Spec, int]:
    """Return a motif as a collective on all ranks of a machine, and the bytes of a chunk.

    A chunk is what moves of a cell. Where some have an element more than others, as elements do not
    divide, all are as large as the largest: it is to be a pattern of chunks that are alike. Chunks
    of different sizes, as those of an uneven alltoall, are of so many elements each.

    Raises:
        ParameterError: it moves nothing, or is an allreduce, of which all ranks want what all have.
    """
    if motif.collective == "allreduce":
        raise ParameterError(
            "an allreduce is planned as its parts are: ask for a recipe that splits it, such as "
            "ring or levels"
        )
    moves = list(motif.moves())
    if not moves:
        raise ParameterError(f"a {motif.collective} moves nothing: it has no elements")
    sizes = [stop - start for start, stop in (move.span for move in moves)]
    alike = max(sizes) - min(sizes) <= 1
    spec = Spec(
        f"motif-{motif.collective}",
        ranks,
        unit=1,
        pattern_chunks=len(moves),
        pre=_relation(move.sources for move in moves),
        post=_relation(move.targets for move in moves),
        combining=motif.combines,
        counts=() if alike else tuple(sizes),
    )
    return spec, item_bytes * (max(sizes) if alike else 1)


def _relation(ends: Iterable[Iterable[int]]) -> Relation:
    return Relation(RelationKind.PAIRS, pattern=tuple(as_ranks(own) for own in ends))
