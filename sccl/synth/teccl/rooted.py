"""Chains with other roots: trees modified so that they meet elsewhere, at one rank or at two.

A chunk's trees get another root by reversing the sends between it and the old one. If a neighbour
sends the root its partial result, and gets the result from there, the two may exchange instead: the
root sends its value without the neighbour's part, at the same time, and both have all. So the
longest path consists of both parts, and not of the path there and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.synth.network.paths import FAR
from sccl.synth.teccl.chains import Chain, ChainSend, is_reduced
from sccl.synth.teccl.waiting import Waiting

MOST_SENDS = 2**12
"""Limit on chains whose roots are improved."""

_PLACED = 2**16
"""Sends that are placed in all, as one chunk after the other is tried otherwise: some seconds."""

_PAIRS = 16
"""From which trees are grown: those from which the ways are shortest."""

_BEST = 4
"""Roots that are tried of a chunk: those from which the ways are shortest."""


@dataclass(frozen=True, slots=True)
class RootedTrees:
    """The trees of a chunk.

    Attributes:
        up: by rank but the root: the way on which it sends its partial result.
        down: by rank but the root: the way on which it gets the result.
        twin: who exchanges with the root. None: nobody does.
    """

    root: int
    up: dict[int, int]
    down: dict[int, int]
    twin: int | None = None


@dataclass(frozen=True, slots=True)
class _Task:
    """Something sent; ``needs`` are tasks of the same chunk, by their places."""

    way: int
    reduce: bool
    needs: list[int]


def trees_of(posed: Posed, chain: Sequence[ChunkSend]) -> list[RootedTrees]:
    """Return the trees of chains of one root each."""
    up: list[dict[int, int]] = [{} for _ in range(posed.chunks)]
    down: list[dict[int, int]] = [{} for _ in range(posed.chunks)]
    for send in chain:
        if is_reduced(send):
            up[send.chunk][posed.src[send.way]] = send.way
        else:
            down[send.chunk][posed.dst[send.way]] = send.way
    roots = [next(r for r in range(posed.ranks) if r not in own) for own in up]
    return [RootedTrees(*row) for row in zip(roots, up, down, strict=True)]


def rerooted(posed: Posed, chain: Sequence[ChunkSend], late: Callable[[], bool]) -> Chain:
    """Return chains with the best roots that are found.

    First all chunks get the root from which their ways are shortest, of trees turned, and of trees
    grown from pairs that exchange. Then one chunk after the other gets others, while that helps.

    Args:
        late: whether time has run out.
    """
    search = _Search(posed, trees_of(posed, chain), chain)
    search.run(_PLACED // max(1, len(chain)), late)
    return search.best


class _Search:
    """The best by now."""

    def __init__(self, posed: Posed, trees: list[RootedTrees], chain: Sequence[ChunkSend]) -> None:
        self.posed, self.trees, self.best = posed, trees, Chain()
        self._key: tuple[int, int] | None = None
        self._at = {(s.chunk, s.way, is_reduced(s)): s.start for s in chain}
        self._back: dict[int, int] = {}
        number = {(s, d): w for w, (s, d) in enumerate(zip(posed.src, posed.dst, strict=True))}
        for way, (src, dst) in enumerate(zip(posed.src, posed.dst, strict=True)):
            if (dst, src) in number:
                self._back[way] = number[dst, src]
        self._grown = list(self._all_grown())
        turned = [self._roots(of) for of in trees]
        self._options = [[*a, b] for a, b in zip(turned, self._grown, strict=True)]

    def run(self, most: int, late: Callable[[], bool]) -> None:
        """Look for better roots, one chunk after the other so many times at the most."""
        self._try(self.trees)
        self._try([options[0] for options in self._options])
        self._try(self._grown)
        tries, better = 0, True
        while better and tries < most and not late():
            better = False
            for chunk, options in enumerate(self._options):
                for one in options:
                    tries += 1
                    if one != self.trees[chunk] and tries <= most and not late():
                        better |= self._try([*self.trees[:chunk], one, *self.trees[chunk + 1 :]])

    def _all_grown(self) -> Iterator[RootedTrees]:
        """Yield of each chunk the trees grown from a pair, for which ways are short and free."""
        posed, load = self.posed, [0] * len(self.posed.room)
        pairs = sorted((self._around(way), way) for way in self._back)[:_PAIRS]
        for own in self.trees:
            best, least = own, FAR
            for around, way in pairs:
                grown = self._grow(load, way)
                held = [
                    h.thing
                    for w in (*grown.up.values(), *grown.down.values())
                    for h in posed.hops[w]
                ]
                if (busy := around + max(load[thing] for thing in held)) < least:
                    best, least = grown, busy
            for way in (*best.up.values(), *best.down.values()):
                for h in posed.hops[way]:
                    load[h.thing] += h.busy * h.weight // posed.room[h.thing]
            yield best

    def _around(self, way: int) -> int:
        """Return the units of a chunk whose trees grow from the ends of a way."""
        posed = self.posed
        far, ends = posed.soonest[: posed.ranks], [posed.src[way], posed.dst[way]]
        there = far[:, ends].min(axis=1).max() + far[ends].min(axis=0).max()
        return int(there) + max(posed.cost[way], posed.cost[self._back[way]])

    def _grow(self, load: Sequence[int], way: int) -> RootedTrees:
        """Return the trees of shortest ways into and out of the ends of a way."""
        src, dst = self.posed.src, self.posed.dst
        root, twin = dst[way], src[way]
        up = self._shortest(load, (root, twin), self.posed.into, src)
        down = self._shortest(load, (root, twin), self.posed.out, dst)
        return RootedTrees(root, {**up, twin: way}, {**down, twin: self._back[way]}, twin)

    def _shortest(
        self,
        load: Sequence[int],
        roots: tuple[int, int],
        ways: Sequence[Sequence[int]],
        ends: Sequence[int],
    ) -> dict[int, int]:
        """Return for each rank but roots the way to it, the least loaded among the shortest."""
        posed, found = self.posed, dict[int, int]()
        heap = [(0, 0, root, -1) for root in roots]
        done: set[int] = set()
        while heap:
            far, _, rank, by = heappop(heap)
            if rank in done:
                continue
            done.add(rank)
            if by >= 0:
                found[rank] = by
            for way in ways[rank]:
                if ends[way] not in done:
                    full = max(load[h.thing] for h in posed.hops[way])
                    heappush(heap, (far + posed.cost[way], full, ends[way], way))
        return found

    def _roots(self, trees: RootedTrees) -> list[RootedTrees]:
        """Return the trees of the roots from which ways are shortest, the best first."""
        found = []
        for root in range(self.posed.ranks):
            turned = self._turned(trees, root)
            if turned is not None:
                found += [turned, *self._twins(turned)]
        return sorted(found, key=lambda of: (self._ideal(of), of.root, of.twin or 0))[:_BEST]

    def _twins(self, trees: RootedTrees) -> Iterator[RootedTrees]:
        """Yield the same trees with each that might exchange with the root."""
        src, dst = self.posed.src, self.posed.dst
        for rank, way in trees.up.items():
            if dst[way] == trees.root and src[trees.down[rank]] == trees.root:
                yield replace(trees, twin=rank)

    def _turned(self, trees: RootedTrees, root: int) -> RootedTrees | None:
        """Return trees with another root. None: some way does not lead back."""
        up = self._reversed(trees.up, self.posed.dst, trees.root, root)
        down = self._reversed(trees.down, self.posed.src, trees.root, root)
        return None if up is None or down is None else RootedTrees(root, up, down)

    def _reversed(
        self, ways: dict[int, int], towards: Sequence[int], old: int, root: int
    ) -> dict[int, int] | None:
        found, rank = dict(ways), root
        while rank != old:
            way = ways[rank]
            if way not in self._back:
                return None
            rank = towards[way]
            found[rank] = self._back[way]
        found.pop(root, None)
        return found

    def _ideal(self, trees: RootedTrees) -> int:
        """Return the units that a chunk takes if nothing is in the way."""
        tasks = self._tasks(trees)
        starts = self._starts(tasks)
        return max(s + self.posed.cost[t.way] for s, t in zip(starts, tasks, strict=True))

    def _starts(self, tasks: Sequence[_Task]) -> list[int]:
        found: list[int] = []
        for task in tasks:
            found.append(
                max((found[t] + self.posed.cost[tasks[t].way] for t in task.needs), default=0)
            )
        return found

    def _tasks(self, trees: RootedTrees) -> list[_Task]:
        """Return the sends of a chunk, each with its predecessors."""
        posed, tasks = self.posed, list[_Task]()
        into: dict[int, list[int]] = {}
        for rank in _leaves_first(trees.up, posed.dst, trees.root):
            way = trees.up[rank]
            into.setdefault(posed.dst[way], []).append(len(tasks))
            tasks.append(_Task(way, True, into.get(rank, [])))  # noqa: FBT003
        has = {trees.root: into.get(trees.root, [])}
        if trees.twin is not None:
            others = [t for t in has[trees.root] if posed.src[tasks[t].way] != trees.twin]
            has[trees.twin] = [len(tasks), *into.get(trees.twin, [])]
            tasks.append(_Task(trees.down[trees.twin], True, others))  # noqa: FBT003
        for rank in reversed(_leaves_first(trees.down, posed.src, trees.root)):
            if rank != trees.twin:
                way = trees.down[rank]
                needs = has[posed.src[way]]
                has[rank] = [len(tasks)]
                tasks.append(_Task(way, False, needs))  # noqa: FBT003
        return tasks

    def _try(self, trees: list[RootedTrees]) -> bool:
        """Place all sends. Return whether that is better, and keep it if so.

        Chunks whose trees stay are placed in their order, others by the earliest possible start of
        each send.
        """
        ways, needs, starts, rows = [], [], list[int](), list[tuple[int, _Task]]()
        for chunk, own in enumerate(trees):
            tasks, first = self._tasks(own), len(rows)
            ways += [(task.way,) for task in tasks]
            needs += [[(first + t, tasks[t].way) for t in task.needs] for task in tasks]
            if own is self.trees[chunk]:
                starts += [self._at[chunk, task.way, task.reduce] for task in tasks]
            else:
                starts += self._starts(tasks)
            rows += [(chunk, task) for task in tasks]
        placed = Waiting(self.posed, ways, needs).tightened(starts)
        chain = tuple(
            ChainSend(start, chunk, task.way, task.reduce)
            for start, (chunk, task) in zip(placed, rows, strict=True)
        )
        ends = [0] * self.posed.chunks
        for send in chain:
            ends[send.chunk] = max(ends[send.chunk], send.start + self.posed.cost[send.way])
        key = (max(ends), sum(ends))
        if (self._key is not None and key >= self._key) or not self._apart(trees, chain):
            return False
        self.best, self.trees, self._key = chain, trees, key
        self._at = {(s.chunk, s.way, s.reduce): s.start for s in chain}
        return True

    def _apart(self, trees: Sequence[RootedTrees], chain: Chain) -> bool:
        """Return whether of two that exchange each sends before the other's part has come."""
        at = {(s.chunk, s.way): s.start for s in chain if s.reduce}
        for chunk, own in enumerate(trees):
            if own.twin is not None:
                ways = (own.up[own.twin], own.down[own.twin])
                starts = [at[chunk, way] for way in ways]
                ends = [s + self.posed.cost[w] for s, w in zip(starts, ways, strict=True)]
                if starts[0] >= ends[1] or starts[1] >= ends[0]:
                    return False
        return True


def _leaves_first(ways: dict[int, int], towards: Sequence[int], root: int) -> list[int]:
    """Return all ranks but the root, those that are farther from it in a tree first."""
    depth = {root: 0}
    for rank in ways:
        path = [rank]
        while path[-1] not in depth:
            path.append(towards[ways[path[-1]]])
        for below, here in zip(path[-2::-1], path[::-1], strict=False):
            depth[below] = depth[here] + 1
    return sorted(ways, key=lambda rank: (-depth[rank], rank))
