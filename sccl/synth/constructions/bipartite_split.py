"""Demands on links with capacities: the least maximum load, and an integral split. Exact."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

DemandClasses = tuple[tuple[int, int], ...]
"""Demands that the same links may serve: these as the bits of a number, and how many they are."""


@lru_cache(maxsize=2**14)
def min_max_load(classes: DemandClasses, lanes: tuple[int, ...]) -> Fraction:
    """Return the least load per lane of the fullest link if demands may be split.

    By Hall's theorem this is a maximum over all sets of links: the demands that only these links
    serve, divided by their lanes. The sets are found by minimum cuts: each load that is too small
    gives a set with a larger quotient (Newton's method for fractional programs; Dinkelbach 1967).
    """
    wanted = {mask for mask, _ in classes}
    usable = [i for i in range(len(lanes)) if any(mask >> i & 1 for mask in wanted)]
    load = Fraction(sum(n for _, n in classes), sum(lanes[i] for i in usable))
    while True:
        scaled = [n * load.denominator for _, n in classes]
        flow = BipartiteFlow.of(classes, scaled, [load.numerator * n for n in lanes])
        if not flow.unmet_classes:
            return load
        links = {i for c in flow.unmet_classes for i in range(len(lanes)) if classes[c][0] >> i & 1}
        tight = sum(classes[c][1] for c in flow.unmet_classes)
        load = Fraction(tight, sum(lanes[i] for i in links))


@lru_cache(maxsize=2**14)
def split_demands(
    classes: DemandClasses, lanes: tuple[int, ...], pieces: int, rounds: int
) -> tuple[tuple[int, ...], ...]:
    """Return the number of pieces of each class on each link, shape (classes, links).

    Args:
        classes: The demands.
        lanes: Lanes of each link.
        pieces: Number of pieces of each demand.
        rounds: Number of rounds, at least ``pieces`` times :func:`min_max_load`.
    """
    flow = BipartiteFlow.of(classes, [n * pieces for _, n in classes], [rounds * n for n in lanes])
    assert not flow.unmet_classes
    return tuple(map(tuple, flow.amounts))


@dataclass(frozen=True, slots=True)
class BipartiteFlow:
    """A maximum flow from classes of demands to links.

    Attributes:
        amounts: Flow from each class to each link.
        unmet_classes: Classes on the source side of a minimum cut, with an unmet demand. Empty: all
            demands are met.
    """

    amounts: list[list[int]]
    unmet_classes: frozenset[int]

    @classmethod
    def of(
        cls, classes: DemandClasses, supplies: Sequence[int], capacities: Sequence[int]
    ) -> BipartiteFlow:
        """Return a maximum flow, by shortest augmenting paths (Edmonds and Karp 1972)."""
        left, room = list(supplies), list(capacities)
        taken = [[0] * len(room) for _ in classes]
        while True:
            before = _reachable(classes, left, taken)
            link = next((i for i in range(len(room)) if room[i] and ("link", i) in before), None)
            if link is None:
                short = {n for kind, n in before if kind == "class"}
                return cls(taken, frozenset(short))
            _augment(before, link, left, room, taken)


FlowNode = tuple[str, int]


def _reachable(
    classes: DemandClasses, left: Sequence[int], taken: Sequence[Sequence[int]]
) -> dict[FlowNode, FlowNode | None]:
    """Return the nodes reachable from unmet demands, with the predecessor of each."""
    before: dict[FlowNode, FlowNode | None] = {("class", c): None for c, n in enumerate(left) if n}
    queue = deque(before)
    while queue:
        kind, number = current = queue.popleft()
        if kind == "class":
            mask = classes[number][0]
            onward = [("link", i) for i in range(len(taken[number])) if mask >> i & 1]
        else:
            onward = [("class", c) for c in range(len(classes)) if taken[c][number]]
        for node in onward:
            if node not in before:
                before[node] = current
                queue.append(node)
    return before


def _augment(
    before: dict[FlowNode, FlowNode | None],
    link: int,
    left: list[int],
    room: list[int],
    taken: list[list[int]],
) -> None:
    """Increase the flow along the path to a link with free capacity as much as possible."""
    path: list[FlowNode] = [("link", link)]
    while (node := before[path[-1]]) is not None:
        path.append(node)
    path.reverse()
    steps = [(a[1], b[1], a[0] == "class") for a, b in pairwise(path)]
    back = [taken[b][a] for a, b, forward in steps if not forward]
    more = min(left[path[0][1]], room[link], *back)
    for a, b, forward in steps:
        if forward:
            taken[a][b] += more
        else:
            taken[b][a] -= more
    left[path[0][1]] -= more
    room[link] -= more
