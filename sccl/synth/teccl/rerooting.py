"""Improve the roots of allreduce chains: one root per chunk, or two ranks that exchange.

A chunk's trees get another root by reversing the sends on the path between it and the old root. A
neighbor of the root may send it the partial result and receive the result from it. These two can
exchange instead: at the same time the root sends its value without the neighbor's part, and then
both have the result. So the critical path consists of the longer direction of this exchange, and
not of both directions one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import cycle, islice

from sccl.synth.limits import INFINITE, MAX_PLACED_SENDS, MAX_TRIES
from sccl.synth.scheduling.justify import ProjectSchedule
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem

MAX_SENDS = 2**12
"""Sends of chains whose roots are improved: some seconds."""

_MAX_ROOTS = 4
"""Limit on the roots to try for a chunk: those with the shortest paths. Without other roots, an
allreduce of 64 KB takes 29 % longer on rail:4x2, 13 % on hypercube:3, and 11 % on torus:4x4.
"""


@dataclass(frozen=True, slots=True)
class RootedTrees:
    """The trees of a chunk.

    Attributes:
        root: The root.
        up: Route on which each rank except the root sends its partial result.
        down: Route on which each rank except the root receives the result.
        partner: Rank that exchanges with the root. None: no exchange.
    """

    root: int
    up: dict[int, int]
    down: dict[int, int]
    partner: int | None = None


@dataclass(frozen=True, slots=True)
class _SendTask:
    """A send. ``predecessors`` are indices of sends of the same chunk."""

    route: int
    reduce: bool
    predecessors: list[int]


def chain_trees(problem: SchedulingProblem, chain: Sequence[ChunkSend]) -> list[RootedTrees]:
    """Return the trees of each chunk of a chain. Each chunk has one root."""
    up: list[dict[int, int]] = [{} for _ in range(problem.chunks)]
    down: list[dict[int, int]] = [{} for _ in range(problem.chunks)]
    for send in chain:
        if send.reduce:
            up[send.chunk][problem.src[send.route]] = send.route
        else:
            down[send.chunk][problem.dst[send.route]] = send.route
    roots = [next(r for r in range(problem.ranks) if r not in parents) for parents in up]
    return [RootedTrees(*row) for row in zip(roots, up, down, strict=True)]


def reroot_chains(
    problem: SchedulingProblem,
    chain: Sequence[ChunkSend],
    units: float,
    deadline_passed: Callable[[], bool],
) -> tuple[ChunkSend, ...]:
    """Return chains with the best roots of a local search.

    First all chunks get trees with the shortest critical path: re-rooted ones, or trees that grow
    from a pair of ranks that exchange. Then the chunks get other trees one by one, as long as the
    schedule improves.

    Args:
        problem: Allgather of the chunks.
        chain: Sends of the initial schedule.
        units: Effort limit of the caller. Less than one unit reduces the number of tries.
        deadline_passed: Whether the deadline has passed.
    """
    search = _RootSearch(problem, chain_trees(problem, chain), chain)
    max_sends = int(MAX_PLACED_SENDS * min(1.0, units))
    search.run(max_sends // max(1, len(chain)), deadline_passed)
    return search.best


class _RootSearch:
    def __init__(
        self, problem: SchedulingProblem, trees: list[RootedTrees], chain: Sequence[ChunkSend]
    ) -> None:
        self.problem, self.trees, self.best = problem, trees, tuple[ChunkSend, ...]()
        self._best_key: tuple[int, int] | None = None
        self._start_of = {(s.chunk, s.route, s.reduce): s.start for s in chain}
        self._opposite_route: dict[int, int] = {}
        number = {(s, d): w for w, (s, d) in enumerate(zip(problem.src, problem.dst, strict=True))}
        for path, (src, dst) in enumerate(zip(problem.src, problem.dst, strict=True)):
            if (dst, src) in number:
                self._opposite_route[path] = number[dst, src]
        self._grown_trees = list(self._grow_all())
        turned = [self._candidate_roots(of) for of in trees]
        self._tree_options = [[*a, b] for a, b in zip(turned, self._grown_trees, strict=True)]

    def run(self, max_tries: int, deadline_passed: Callable[[], bool]) -> None:
        """Search for better roots, with a limit on the tries for single chunks."""
        self._try_trees(self.trees)
        self._try_trees([options[0] for options in self._tree_options])
        self._try_trees(self._grown_trees)
        pairs = [(c, trees) for c, options in enumerate(self._tree_options) for trees in options]
        tries_since_best = 0
        for chunk, candidate in islice(cycle(pairs), max_tries):
            if tries_since_best == len(pairs) or deadline_passed():
                break
            tries_since_best += 1
            if candidate != self.trees[chunk] and self._try_trees(
                [*self.trees[:chunk], candidate, *self.trees[chunk + 1 :]]
            ):
                tries_since_best = 0

    def _grow_all(self) -> Iterator[RootedTrees]:
        """Yield trees of each chunk that grow from a pair over short, lightly loaded routes.

        (Without them, an allreduce of 15 KB on dgx1 takes 22 % longer.)
        """
        problem, load = self.problem, [0] * len(self.problem.capacity)
        pairs = sorted((self._pair_time(path), path) for path in self._opposite_route)[:MAX_TRIES]
        for chunk_trees in self.trees:
            best, least_busy = chunk_trees, INFINITE
            for around, path in pairs:
                if around + self._load_of(load, (path, self._opposite_route[path])) >= least_busy:
                    continue  # the trees contain this exchange
                grown = self._grow_trees(load, path)
                busy = around + self._load_of(load, (*grown.up.values(), *grown.down.values()))
                if busy < least_busy:
                    best, least_busy = grown, busy
            for path in (*best.up.values(), *best.down.values()):
                for h in problem.route_uses[path]:
                    load[h.resource] += h.busy * h.demand // problem.capacity[h.resource]
            yield best

    def _load_of(self, load: Sequence[int], paths: Iterable[int]) -> int:
        """Return the largest load of the resources of some routes."""
        return max(load[h.resource] for path in paths for h in self.problem.route_uses[path])

    def _pair_time(self, path: int) -> int:
        """Return a chunk's time without contention if its trees grow from the ends of a route."""
        problem = self.problem
        far, ends = (
            problem.earliest_arrival[: problem.ranks],
            [problem.src[path], problem.dst[path]],
        )
        distance = far[:, ends].min(axis=1).max() + far[ends].min(axis=0).max()
        return int(distance) + max(
            problem.route_costs[path], problem.route_costs[self._opposite_route[path]]
        )

    def _grow_trees(self, load: Sequence[int], path: int) -> RootedTrees:
        """Return shortest trees into and out of the two ends of a route, which exchange."""
        src, dst = self.problem.src, self.problem.dst
        root, twin = dst[path], src[path]
        up = self._shortest_tree(load, (root, twin), self.problem.routes_to, src)
        down = self._shortest_tree(load, (root, twin), self.problem.routes_from, dst)
        return RootedTrees(
            root, {**up, twin: path}, {**down, twin: self._opposite_route[path]}, twin
        )

    def _shortest_tree(
        self,
        load: Sequence[int],
        roots: tuple[int, int],
        paths: Sequence[Sequence[int]],
        ends: Sequence[int],
    ) -> dict[int, int]:
        """Return the last route to each rank except the roots: shortest, then least loaded."""
        problem, shortest = self.problem, dict[int, int]()
        heap = [(0, 0, root, -1) for root in roots]
        done: set[int] = set()
        while heap:
            far, _, rank, by = heappop(heap)
            if rank in done:
                continue
            done.add(rank)
            if by >= 0:
                shortest[rank] = by
            for path in paths[rank]:
                if ends[path] not in done:
                    full = max(load[h.resource] for h in problem.route_uses[path])
                    heappush(heap, (far + problem.route_costs[path], full, ends[path], path))
        return shortest

    def _candidate_roots(self, trees: RootedTrees) -> list[RootedTrees]:
        """Return re-rooted trees, those with the shortest time without contention first."""
        candidates = []
        for root in range(self.problem.ranks):
            turned = self._reroot(trees, root)
            if turned is not None:
                candidates += [turned, *self._partner_options(turned)]
        return sorted(candidates, key=lambda of: (self._ideal_time(of), of.root, of.partner or 0))[
            :_MAX_ROOTS
        ]

    def _partner_options(self, trees: RootedTrees) -> Iterator[RootedTrees]:
        """Yield the same trees with each neighbor that can exchange with the root.

        (Without exchanges, an allreduce of 15 KB takes 12 % longer on hypercube:3.)
        """
        src, dst = self.problem.src, self.problem.dst
        for rank, path in trees.up.items():
            if dst[path] == trees.root and src[trees.down[rank]] == trees.root:
                yield replace(trees, partner=rank)

    def _reroot(self, trees: RootedTrees, root: int) -> RootedTrees | None:
        """Return trees with another root. None: a route has no opposite."""
        up = self._reverse_path(trees.up, self.problem.dst, trees.root, root)
        down = self._reverse_path(trees.down, self.problem.src, trees.root, root)
        return None if up is None or down is None else RootedTrees(root, up, down)

    def _reverse_path(
        self, paths: dict[int, int], towards: Sequence[int], old: int, root: int
    ) -> dict[int, int] | None:
        reversed_paths, rank = dict(paths), root
        while rank != old:
            path = paths[rank]
            if path not in self._opposite_route:
                return None
            rank = towards[path]
            reversed_paths[rank] = self._opposite_route[path]
        reversed_paths.pop(root, None)
        return reversed_paths

    def _ideal_time(self, trees: RootedTrees) -> int:
        """Return the time of a chunk without contention, in units."""
        tasks = self._send_tasks(trees)
        pairs = zip(self._earliest_starts(tasks), tasks, strict=True)
        return max(start + self.problem.route_costs[task.route] for start, task in pairs)

    def _earliest_starts(self, tasks: Sequence[_SendTask]) -> list[int]:
        starts, costs = list[int](), self.problem.route_costs
        for task in tasks:
            arrivals = [starts[t] + costs[tasks[t].route] for t in task.predecessors]
            starts.append(max(arrivals, default=0))
        return starts

    def _send_tasks(self, trees: RootedTrees) -> list[_SendTask]:
        """Return the sends of a chunk, each with its predecessors."""
        problem, tasks = self.problem, list[_SendTask]()
        into: dict[int, list[int]] = {}
        for rank in _leaves_first(trees.up, problem.dst, trees.root):
            path = trees.up[rank]
            into.setdefault(problem.dst[path], []).append(len(tasks))
            tasks.append(_SendTask(path, True, into.get(rank, [])))  # noqa: FBT003
        has = {trees.root: into.get(trees.root, [])}
        if trees.partner is not None:
            others = [t for t in has[trees.root] if problem.src[tasks[t].route] != trees.partner]
            has[trees.partner] = [len(tasks), *into.get(trees.partner, [])]
            tasks.append(_SendTask(trees.down[trees.partner], True, others))  # noqa: FBT003
        for rank in reversed(_leaves_first(trees.down, problem.src, trees.root)):
            if rank != trees.partner:
                path = trees.down[rank]
                needs = has[problem.src[path]]
                has[rank] = [len(tasks)]
                tasks.append(_SendTask(path, False, needs))  # noqa: FBT003
        return tasks

    def _try_trees(self, trees: list[RootedTrees]) -> bool:
        """Schedule all sends. Return whether this is an improvement, and keep it if so.

        Chunks with unchanged trees keep their order. Sends of the others are sorted by their
        earliest start.
        """
        paths, needs, starts, rows = [], [], list[int](), list[tuple[int, _SendTask]]()
        for chunk, chunk_trees in enumerate(trees):
            tasks, first = self._send_tasks(chunk_trees), len(rows)
            paths += [(task.route,) for task in tasks]
            needs += [[(first + t, tasks[t].route) for t in task.predecessors] for task in tasks]
            if chunk_trees is self.trees[chunk]:
                starts += [self._start_of[chunk, task.route, task.reduce] for task in tasks]
            else:
                starts += self._earliest_starts(tasks)
            rows += [(chunk, task) for task in tasks]
        placed = ProjectSchedule(self.problem, paths, needs).forward_backward(starts)
        ends = [0] * self.problem.chunks
        for start, (chunk, task) in zip(placed, rows, strict=True):
            ends[chunk] = max(ends[chunk], start + self.problem.route_costs[task.route])
        key = (max(ends), sum(ends))
        if self._best_key is not None and key >= self._best_key:
            return False
        chain = tuple(
            ChunkSend(start, chunk, task.route, task.reduce)
            for start, (chunk, task) in zip(placed, rows, strict=True)
        )
        if not self._is_exchange_valid(trees, chain):
            return False
        self.best, self.trees, self._best_key = chain, trees, key
        self._start_of = {(s.chunk, s.route, s.reduce): s.start for s in chain}
        return True

    def _is_exchange_valid(self, trees: Sequence[RootedTrees], chain: Iterable[ChunkSend]) -> bool:
        """Return whether both ranks of each exchange send before they receive the other's part."""
        at = {(s.chunk, s.route): s.start for s in chain if s.reduce}
        for chunk, chunk_trees in enumerate(trees):
            if chunk_trees.partner is not None:
                paths = (chunk_trees.up[chunk_trees.partner], chunk_trees.down[chunk_trees.partner])
                starts = [at[chunk, path] for path in paths]
                ends = [s + self.problem.route_costs[w] for s, w in zip(starts, paths, strict=True)]
                if starts[0] >= ends[1] or starts[1] >= ends[0]:
                    return False
        return True


def _leaves_first(paths: dict[int, int], towards: Sequence[int], root: int) -> list[int]:
    """Return all ranks except the root, those farther from it in the tree first."""
    depths = {root: 0}

    def depth(rank: int) -> int:
        if rank not in depths:
            depths[rank] = depth(towards[paths[rank]]) + 1
        return depths[rank]

    return sorted(paths, key=lambda rank: (-depth(rank), rank))
