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
from sccl.motif import motifs_of, recipe_of
from sccl.train.resources import FabricResources, resources_of

Planner = Callable[[Topology, Spec, int], Schedule]
"""Return a schedule of a collective on a machine, of chunks of so many bytes."""

_PS_PER_US = 10**6

_RING = recipe_of("ring")


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
        self._known: dict[tuple[object, ...], tuple[Fraction, dict[int, Fraction]]] = {}

    def of(self, motif: Motif, channel: int, item_bytes: int) -> MotifCost:
        """Return what a motif takes on a channel.

        An allreduce is a reducescatter, and then an allgather, launched as one.

        Args:
            channel: its number.
            item_bytes: of an element.

        Raises:
            InputError: it cannot be planned there.
        """
        parts = motifs_of(motif, _RING) if motif.collective == "allreduce" else (motif,)
        launch = Fraction(str(self.fabric.channels[channel].launch_us))
        planned = [self._planned(part, channel, item_bytes) for part in parts]
        us = launch + sum(own for own, _ in planned)
        loads: dict[int, Fraction] = {}
        for own, part in planned:  # each for its part of the time
            for kind, load in part.items():
                loads[kind] = loads.get(kind, Fraction(0)) + load * own / us
        return MotifCost(us, tuple(sorted(loads.items())))

    def _planned(
        self, motif: Motif, channel: int, item_bytes: int
    ) -> tuple[Fraction, dict[int, Fraction]]:
        """Return the time of a schedule of a motif, and its loads meanwhile."""
        spec, size = pattern_of(motif, self.fabric.ranks, item_bytes)
        key = (channel, size, spec.pre.pattern, spec.post.pattern, spec.combining, spec.counts)
        if key not in self._known:
            schedule = self._planner(self.fabric.channels[channel].topology, spec, size)
            us = Fraction(schedule.finish * schedule.tick_ps, _PS_PER_US)
            self._known[key] = us, self.resources.loads(schedule, channel, us)
        return self._known[key]


def pattern_of(motif: Motif, ranks: int, item_bytes: int) -> tuple[Spec, int]:
    """Return a motif as a collective on all ranks of a machine, and the bytes of a chunk.

    A chunk is what moves of a cell. Where some have an element more than others, as elements do not
    divide, all are as large as the largest: it is to be a pattern of chunks that are alike. Chunks
    of different sizes, as those of an uneven alltoall, are of so many elements each.

    Raises:
        ParameterError: it moves nothing.
    """
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
