"""Routes as trees, and which transfer goes before another (TACCL, NSDI 2023, appendix B.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from sccl.synth.intervals.posed import Posed
from sccl.synth.intervals.ways import Hop


class Priority(StrEnum):
    """Which of the transfers that could be next is."""

    FARTHEST = "farthest"
    SOONEST = "soonest"


class Direction(StrEnum):
    """Whether links are filled from the start, or from the end."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class LinkOrder:
    """A heuristic of this step."""

    direction: Direction
    priority: Priority
    own_first: bool = False

    def __str__(self) -> str:
        """Return it as users spell it."""
        return f"{self.priority}-{self.direction}"


Waits = dict[tuple[int, int], int]
After = dict[tuple[int, int], list[tuple[int, int]]]


@dataclass(frozen=True)
class RouteTrees:
    """Routes as trees: the successors and predecessors of each way of a chunk.

    Attributes:
        ways: for each routed chunk, by destination rank.
        to_go: for a (chunk, way): units from its start to the last arrival after it.
        come: units of the ways before it.
    """

    ways: dict[int, dict[int, int]]
    to_go: dict[tuple[int, int], int]
    come: dict[tuple[int, int], int]

    @classmethod
    def of(cls, posed: Posed, routes: Collection[tuple[int, int]]) -> RouteTrees:
        """Return routes, which are (chunk, way), as trees."""
        ways: dict[int, dict[int, int]] = {}
        for chunk, way in sorted(routes):
            ways.setdefault(chunk, {})[posed.dst[way]] = way
        to_go: dict[tuple[int, int], int] = {}
        come: dict[tuple[int, int], int] = {}
        for chunk, own in ways.items():
            cost = posed.cost_of(chunk)
            depth = {rank: _depth(posed, own, cost, rank) for rank in own}
            for rank in sorted(own, key=lambda r: (-depth[r], r)):  # from the leaves on
                way = own[rank]
                come[chunk, way] = depth[rank] - cost[way]
                mine = max(to_go.get((chunk, way), 0), cost[way])
                to_go[chunk, way] = mine
                before = own.get(posed.src[way])
                if before is not None:
                    after = mine + cost[before]
                    to_go[chunk, before] = max(to_go.get((chunk, before), 0), after)
        return cls(ways, to_go, come)

    def waits(self, posed: Posed, *, backwards: bool) -> tuple[Waits, After]:
        """Return the number of predecessors of each transfer, and its successors.

        Args:
            backwards: whether time is reversed, so that successors come first.
        """
        waits: Waits = {}
        after: After = {}
        for chunk, own in self.ways.items():
            for way in own.values():
                before = own.get(posed.src[way])
                if before is None:
                    continue
                first, then = ((chunk, before), (chunk, way))[:: -1 if backwards else 1]
                after.setdefault(first, []).append(then)
                waits[then] = waits.get(then, 0) + 1
        return waits, after


def _depth(posed: Posed, own: dict[int, int], cost: tuple[int, ...], rank: int) -> int:
    total = 0
    while rank in own:
        total += cost[own[rank]]
        rank = posed.src[own[rank]]
    return total


def key_of(
    posed: Posed, trees: RouteTrees, order: LinkOrder, key: tuple[int, int], start: int
) -> tuple[int, ...]:
    """Return the sort key of a transfer: the smallest goes first."""
    chunk, way = key
    backwards = order.direction is Direction.END
    to_go, come = trees.to_go[key], trees.come[key]
    far, near = (come, to_go) if backwards else (to_go, come)
    others = int(order.own_first and posed.src[way] not in posed.holders[chunk])
    if order.priority is Priority.FARTHEST:
        return (others, -far, near, start)
    return (others, start, -far, near)


class Holds:
    """The resources that a chunk holds on a way, from its arrival on if time is reversed."""

    def __init__(self, posed: Posed, *, backwards: bool) -> None:
        self.posed, self.backwards = posed, backwards

    def of(self, chunk: int, way: int) -> list[Hop]:
        """Return the resources that a chunk holds on a way."""
        own = self.posed.hops_of(chunk)[way]
        return self.turned(own, self.posed.cost_of(chunk)[way])

    def turned(self, hops: Iterable[Hop], cost: int) -> list[Hop]:
        """Return the held resources, relative to the arrival if time is reversed."""
        if not self.backwards:
            return list(hops)
        return [Hop(h.thing, cost - h.offset - h.busy, h.busy, h.weight, h.stem) for h in hops]
