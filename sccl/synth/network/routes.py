"""Find paths from rank to rank without storage in between: a link, or links through switches.

TACOS (MICRO 2024) section IV-G removes switches before matching. Here a path through switches is
matched like a link, and paths share the capacity of their links: each link serves one chunk at a
time. A chunk passes a cut-through switch at the pace of the slowest link, and each link begins when
the first byte arrives. A store-and-forward switch begins again. If it can store any number of
chunks, bytes can wait in it. A faster link is then busy for its own time only: from the first byte
if it comes before the slowest link, and up to the last byte if it comes after it. Between two links
of ranks, the paths over the fewest switches are used.

Two paths may reach a shared link at different times after their starts, for example one through a
pair's switch, and one through all of a pod. The time reserved for the first cannot be used by the
second in between. List scheduling therefore leaves out such paths if the ranks also have a link
that costs no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.clock import AlphaModel, Clock
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.synth.limits import MAX_SENDS
from sccl.synth.network.transfers import stalled_error

LinkPath = tuple[int, ...]
"""Links, one after the other."""


class Routes(NamedTuple):
    """Routes of a machine. Without switches they are its links, in order.

    Attributes:
        src: Source rank of each path.
        dst: Destination rank of each path.
        cost: Ticks from the start of each path until the chunk arrives.
        first: Index of each path's first link in the following columns, and the total.
        link: Link.
        offset: Ticks from the start of the path to the start of the link.
        pace: Ticks in which the chunk passes the link, without alpha.
        busy: Ticks for which the link is busy.
    """

    src: IntArray
    dst: IntArray
    cost: IntArray
    first: IntArray
    link: IntArray
    offset: IntArray
    pace: IntArray
    busy: IntArray

    @property
    def route(self) -> IntArray:
        """Return the route of each entry of the link columns."""
        return np.repeat(np.arange(len(self.src)), np.diff(self.first))

    def paths(self) -> list[LinkPath]:
        """Return the links of each route."""
        links = self.link.tolist()
        return [tuple(links[a:b]) for a, b in pairwise(self.first.tolist())]


Factors = Callable[[IntArray, IntArray], IntArray]
"""By the ranks where ways begin and end, how many times as long each is taken. 0: not at all."""


def build_routes(
    topology: Topology,
    clock: Clock,
    factors: Factors | None = None,
    *,
    with_detours: bool = True,
    waits: bool = True,
) -> Routes:
    """Return the paths of a machine, for chunks of one size.

    Args:
        topology: The machine.
        clock: Ticks of links.
        factors: Factors of the time of routes, see :data:`Factors`. None: all routes, without
            factors.
        with_detours: Whether to keep paths that block others next to links that cost no more.
        waits: Whether bytes wait in cut-through switches that store any number of chunks.

    Raises:
        TooLargeError: There are too many paths.
        UnreachableError: There are none.
    """
    pace = passing_ticks(topology, clock)
    first, link = _route_columns(topology, with_detours=with_detours)
    slower = np.ones(len(link), dtype=np.int64)
    if factors is not None:
        first, link, slower = _select_routes(topology, first, link, factors)
    alpha = np.array(clock.alpha, dtype=np.int64)[link]
    ends = _segment_ends(topology, link, first)
    begins = np.flatnonzero(np.concatenate([[True], ends[:-1]]))
    length = np.diff(np.concatenate([begins, [len(link)]]))
    segment = np.repeat(np.arange(len(begins)), length)
    each = np.maximum(pace[link], _shared_passing_ticks(topology, clock, link, segment))
    passing = np.repeat(np.maximum.reduceat(each, begins), length) * slower
    step = np.maximum(alpha, inter_switch_links(topology)[link]) + np.where(ends, passing, 0)
    before = np.cumsum(step) - step
    offset = before - np.repeat(before[first[:-1]], np.diff(first))
    if waits and any(switch.buffer_chunks is None for switch in topology.switches):
        later, passing = _add_switch_waits(topology, link, segment, each * slower, passing)
        offset = offset + later
    occupies = clock.model is AlphaModel.OCCUPIES
    return Routes(
        src=np.array([k.src for k in topology.links], dtype=np.int64)[link[first[:-1]]],
        dst=np.array([k.dst for k in topology.links], dtype=np.int64)[link[first[1:] - 1]],
        cost=np.add.reduceat(step, first[:-1]),
        first=first,
        link=link,
        offset=offset,
        pace=passing,
        busy=passing + alpha * occupies,
    )


def _add_switch_waits(
    topology: Topology, link: IntArray, segment: IntArray, each: IntArray, passing: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the later start of each link if bytes wait in switches, and its busy time.

    Before the slowest link of its segment, a link starts with the first byte, and takes no longer
    than the slowest link so far. From the slowest link on, it ends with the last byte, and takes no
    longer than the slowest of the remaining links. So no byte leaves a switch before its arrival,
    and none arrives later.

    Args:
        topology: The machine.
        link: Links of all routes.
        segment: Segment of each link.
        each: Ticks in which a chunk passes each link alone.
        passing: Maximum of these ticks in each link's segment.
    """
    unlimited = [False] * topology.ranks + [
        switch.buffer_chunks is None for switch in topology.switches
    ]
    splits = np.array(unlimited)[np.array([k.src for k in topology.links], dtype=np.int64)[link]]
    begins = np.flatnonzero(np.r_[True, segment[1:] != segment[:-1]] | splits)
    length = np.diff(np.r_[begins, len(link)])
    segment_max, of = np.maximum.reduceat(each, begins), segment[begins]
    ahead = np.repeat(_running_maximum(segment_max, of), length)
    behind = np.repeat(_running_maximum(segment_max[::-1], of[::-1])[::-1], length)
    is_past_slowest = ahead == passing
    return np.where(is_past_slowest, passing - behind, 0), np.where(is_past_slowest, behind, ahead)


def _running_maximum(values: IntArray, group: IntArray) -> IntArray:
    """Return the running maximum of values within groups. Values of a group are adjacent."""
    maxima = values.copy()
    after = np.flatnonzero(group[1:] == group[:-1]) + 1
    while (lower := maxima[after] < maxima[after - 1]).any():
        maxima[after[lower]] = maxima[after[lower] - 1]
    return maxima


def _route_columns(topology: Topology, *, with_detours: bool) -> tuple[IntArray, IntArray]:
    """Return the index of each route's first link, plus the total, and the links of all routes.

    Raises:
        TooLargeError: There are too many routes.
        UnreachableError: There are none.
    """
    if topology.links and not topology.switches:
        count = len(topology.links)
        return np.arange(count + 1, dtype=np.int64), np.arange(count, dtype=np.int64)
    paths = list(_paths(topology))
    if not paths:
        raise stalled_error()
    if not with_detours:
        out = _dominated_routes(topology, paths)
        paths = [path for i, path in enumerate(paths) if i not in out]
    first = np.concatenate([[0], np.cumsum([len(path) for path in paths])]).astype(np.int64)
    return first, np.array([link for path in paths for link in path], dtype=np.int64)


def _select_routes(
    topology: Topology, first: IntArray, link: IntArray, factors: Factors
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the columns of the selected routes, and the time factor of each of their links.

    Raises:
        UnreachableError: No route is selected.
    """
    src = np.array([k.src for k in topology.links], dtype=np.int64)[link[first[:-1]]]
    dst = np.array([k.dst for k in topology.links], dtype=np.int64)[link[first[1:] - 1]]
    each, length = factors(src, dst), np.diff(first)
    if not each.any():
        raise stalled_error()
    taken = np.repeat(each > 0, length)
    ends = np.cumsum(length[each > 0])
    slower = np.repeat(each, length)[taken]
    return np.concatenate([[0], ends]).astype(np.int64), link[taken], slower


def passing_ticks(topology: Topology, clock: Clock) -> IntArray:
    """Return the ticks in which a chunk passes each link, limited by the rates of budgets."""
    min_ticks = np.array(clock.beta[0], dtype=np.int64)
    if not topology.budgets:
        return min_ticks
    place = {link.edge: i for i, link in enumerate(topology.links)}
    for b, budget in enumerate(topology.budgets):
        for edge in budget.edges:
            min_ticks[place[edge]] = max(min_ticks[place[edge]], clock.budget_ticks(b))
    return min_ticks


def inter_switch_links(topology: Topology) -> NDArray[np.bool_]:
    """Return for each link whether it joins switches. Data from it start at least one tick later.

    Rows of one tick are sorted by link, not by the order of hops in a message.
    """
    if not topology.switches:
        return np.zeros(len(topology.links), dtype=np.bool_)
    return np.array([min(k.edge) >= topology.ranks for k in topology.links])


def _shared_passing_ticks(
    topology: Topology, clock: Clock, link: IntArray, segment: IntArray
) -> IntArray:
    """Return the least ticks in which a chunk passes all links of one budget at the same time.

    Args:
        topology: The machine.
        clock: Ticks of links.
        link: Links of all routes.
        segment: Segment of each link. A chunk is stored between two segments, so it passes their
            links at different times.
    """
    min_ticks = np.zeros(len(link), dtype=np.int64)
    if not (topology.switches and topology.budgets):
        return min_ticks
    place = {k.edge: i for i, k in enumerate(topology.links)}
    for b, budget in enumerate(topology.budgets):
        rows = np.flatnonzero(np.isin(link, [place[edge] for edge in budget.edges]))
        times = np.bincount(segment[rows])
        min_ticks[rows] = np.maximum(min_ticks[rows], times[segment[rows]] * clock.budget_ticks(b))
    return min_ticks


def _segment_ends(topology: Topology, link: IntArray, first: IntArray) -> NDArray[np.bool_]:
    """Return whether a chunk is stored as a whole at the end of each link."""
    stores = [True] * topology.ranks + [not switch.cut_through for switch in topology.switches]
    ends = np.array(stores)[np.array([k.dst for k in topology.links], dtype=np.int64)[link]]
    ends[first[1:] - 1] = True
    return ends


def _paths(topology: Topology) -> Iterator[LinkPath]:
    """Yield the links between ranks, and the routes through switches.

    Raises:
        TooLargeError: There are too many routes.
    """
    out: dict[int, list[int]] = {}
    for i, link in enumerate(topology.links):
        out.setdefault(link.src, []).append(i)
    inner = {
        switch: list(_switch_paths(topology, out, switch))
        for switch in range(topology.ranks, topology.ranks + len(topology.switches))
    }
    count = 0
    for i, link in enumerate(topology.links):
        if link.src < topology.ranks:
            for path in _routes_from_link(topology, i, inner):
                if topology.links[path[-1]].dst != link.src:
                    count += 1
                    _check_count(topology, count)
                    yield path


@lru_cache(maxsize=8)
def has_dominated_routes(topology: Topology) -> bool:
    """Return whether some routes block others although direct links cost no more."""
    ranks = topology.ranks
    if not topology.switches or all(max(k.edge) >= ranks for k in topology.links):
        return False
    return bool(_dominated_routes(topology, list(_paths(topology))))


def _dominated_routes(topology: Topology, paths: Sequence[LinkPath]) -> frozenset[int]:
    links = topology.links
    direct = {k.edge: k for k in links if max(k.edge) < topology.ranks}
    if not direct:
        return frozenset()
    alphas = [Fraction(str(k.alpha_us)) for k in links]
    met: dict[int, set[tuple[Fraction, Fraction]]] = {}
    for path in paths:  # from both ends, because some routes are reversed in time
        before, after = Fraction(0), sum((alphas[link] for link in path), Fraction(0))
        for link in path:
            after -= alphas[link]
            met.setdefault(link, set()).add((before, after))
            before += alphas[link]
    detours = set()
    for i, path in enumerate(paths):
        direct_link = direct.get((links[path[0]].src, links[path[-1]].dst))
        if direct_link is None or len(path) == 1 or all(len(met[link]) == 1 for link in path):
            continue
        min_rate = min(links[link].lanes * links[link].gb_per_s for link in path)
        soon = sum((alphas[link] for link in path), Fraction(0))
        if (
            Fraction(str(direct_link.alpha_us)) <= soon
            and direct_link.lanes * direct_link.gb_per_s >= min_rate
        ):
            detours.add(i)
    return frozenset(detours)


def _routes_from_link(
    topology: Topology, link: int, inner: dict[int, list[LinkPath]]
) -> Iterator[LinkPath]:
    node = topology.links[link].dst
    if node < topology.ranks:
        yield (link,)
    else:
        yield from ((link, *path) for path in inner[node])


def _switch_paths(topology: Topology, out: dict[int, list[int]], entry: int) -> Iterator[LinkPath]:
    """Yield the shortest paths from a switch to ranks, for each switch at which they leave."""
    reached: dict[int, list[LinkPath]] = {entry: [()]}
    front = [entry]
    while front:
        fresh: dict[int, list[LinkPath]] = {}
        for switch in front:
            for link in out.get(switch, []):
                node = topology.links[link].dst
                if node < topology.ranks:
                    yield from ((*path, link) for path in reached[switch])
                elif node not in reached:
                    fresh.setdefault(node, []).extend((*p, link) for p in reached[switch])
                    _check_count(topology, len(fresh[node]))
        reached |= fresh
        front = list(fresh)


def _check_count(topology: Topology, count: int) -> None:
    if count > MAX_SENDS:
        raise TooLargeError(
            f"topology {topology.name!r}: its switches join ranks in more than {MAX_SENDS} "
            "ways, the maximum; model fewer ranks, or parallel switches as one"
        )
