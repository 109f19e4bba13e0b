"""Compute cheapest timed trees through time slots, where links have individual delays.

The method is Dreyfus and Wagner's dynamic programming (1972) in plain integers. A state is a rank
that holds a chunk from some slot on, and a set of ranks to serve. The rank waits, sends the chunk
over a link, splits the set into two parts that are served separately, or serves itself as a member
of the set. No code is shared with :mod:`sccl.synth.packing.by_time`, which finds the prices.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add

from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.prove.check.timed_trees import Spend, StepCosts

SlotSuccessors = Sequence[Mapping[Edge, int | None]]
"""First slot in which a chunk sent in a slot over a link may be forwarded, by slot and link. None:
never.
"""

_CostRow = list[list[int]]
"""Cost of serving a set from each slot (and the end) and rank, shape (slots + 1, ranks)."""

_CELL_OPERATIONS = 2  # cost of a cell in operations


def served_cost(  # noqa: PLR0913, PLR0917 - links in slots, and who is to be served
    costs: StepCosts,
    follows: SlotSuccessors,
    collective: Collective,
    ranks: int,
    spend: Spend,
    goals: Iterable[int] | None = None,
) -> int:
    """Return the total cost of the cheapest timed trees of all chunks.

    Args:
        costs: Cost of a send over each link, by slot.
        collective: Non-combining collective.
        goals: Destinations to serve. None: all. A tree that serves more ranks costs no less.

    Raises:
        ValueError: A chunk cannot reach its destinations.
        TooMuchError: The check takes too much work.
    """
    rows = _CostRows(costs, follows, ranks, spend)
    total, counted = 0, frozenset(range(ranks) if goals is None else goals)
    for (holders, wanted), chunks in collective.chunk_classes().items():
        missing = frozenset[int](wanted) & counted - frozenset[int](holders)
        if not missing:
            continue
        cost = rows.cost(sorted(map(int, holders)), sum(1 << rank for rank in missing))
        if cost >= rows.never:
            raise ValueError(f"chunk {chunks[0]} cannot reach all its destinations in that time")
        total += collective.amount(chunks) * cost
    return total


class _CostRows:
    """Cost rows of the requested sets of ranks, and of their subsets.

    Attributes:
        never: Number above the cost of any tree. A set that cannot be served costs at least this.
    """

    def __init__(self, costs: StepCosts, follows: SlotSuccessors, ranks: int, spend: Spend) -> None:
        self.ranks, self.spend, self.slots = ranks, spend, len(costs)
        self.never = 1 + sum(sum(of_slot.values()) for of_slot in costs)
        self.links = sum(map(len, costs))
        # sends by arrival slot and rank, as (cost, slot, source rank)
        self.into: list[list[list[tuple[int, int, int]]]] = [
            [[] for _ in range(ranks)] for _ in range(self.slots + 1)
        ]
        for slot, of_slot in enumerate(costs):
            for (u, v), cost in of_slot.items():
                then = follows[slot][u, v]
                if then is not None:
                    self.into[then][v].append((cost, slot, u))
        self._rows: dict[int, _CostRow] = {0: [[0] * ranks for _ in range(self.slots + 1)]}

    def cost(self, holders: Sequence[int], goal: int) -> int:
        """Return the cost of serving a set from the initial holders of the chunk."""
        if len(holders) == 1:
            return self.row(goal)[0][holders[0]]
        best = {0: 0}
        for part in sorted(_nonempty_subsets(goal)):
            row, low = self.row(part), part & -part
            apart = (
                subset for subset in _nonempty_subsets(part) if subset & low and subset != part
            )
            both = (best[subset] + best[part ^ subset] for subset in apart)
            best[part] = min(*(row[0][holder] for holder in holders), *both, self.never)
        return best[goal]

    def row(self, goal: int) -> _CostRow:
        if goal not in self._rows:
            self._rows[goal] = self._build_row(goal)
        return self._rows[goal]

    def _build_row(self, goal: int) -> _CostRow:
        low = goal & -goal
        halves = [part for part in _nonempty_subsets(goal) if part & low and part != goal]
        cells = (self.slots + 1) * self.ranks
        self.spend(_CELL_OPERATIONS * (cells * (1 + len(halves)) + 4 * self.links))
        row = [[self.never] * self.ranks for _ in range(self.slots + 1)]
        for part in halves:
            first_row, second_row = self.row(part), self.row(goal ^ part)
            row = [
                list(map(min, into, map(add, a, b)))
                for into, a, b in zip(row, first_row, second_row, strict=True)
            ]
        for rank in range(self.ranks):
            if goal >> rank & 1:
                without = self.row(goal ^ (1 << rank))
                for slot in range(self.slots + 1):
                    row[slot][rank] = min(row[slot][rank], without[slot][rank])
        self._relax_row(row)
        return row

    def _relax_row(self, row: _CostRow) -> None:
        """Relax costs over waiting and sending (Dijkstra)."""
        queue = [
            (cost, slot, rank)
            for slot, costs in enumerate(row)
            for rank, cost in enumerate(costs)
            if cost < self.never
        ]
        heapq.heapify(queue)
        while queue:
            cost, slot, rank = heapq.heappop(queue)
            if cost > row[slot][rank]:
                continue
            before = [(0, slot - 1, rank)] if slot else []
            for more, earlier, source in (*before, *self.into[slot][rank]):
                if cost + more < row[earlier][source]:
                    row[earlier][source] = cost + more
                    heapq.heappush(queue, (cost + more, earlier, source))


def _nonempty_subsets(goal: int) -> Iterator[int]:
    """Yield the nonempty subsets of a set, the set itself first."""
    part = goal
    while part:
        yield part
        part = (part - 1) & goal
