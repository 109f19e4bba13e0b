"""Resources that paths share, in whole numbers: how much each path uses, and for how long.

A path leads from one rank to another: over a link, or over links through switches. Links of
several paths, and switches that hold few chunks, are shared in the same way as bandwidth budgets. A
transfer has a constant rate while its bytes pass. The rates of all transfers of a budget add up to
no more than the rate of the budget.

A path may use a resource only some time after its start. Times of a resource are counted from the
smallest such offset. So a path takes its share when it starts, and returns it when its use has
ended, whatever the offsets are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sccl.core.arrays import IntArray, UInt64Array
from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.synth.limits import MAX_CAPACITY
from sccl.synth.network.adjacency import group_rows
from sccl.synth.network.routes import Routes, inter_switch_links


class SharedResources(NamedTuple):
    """Shared resources ("pipes") of each path, and paths of each resource, as two sparse tables.

    Attributes:
        hold: Ticks until each path returns its shares, shape (paths,).
        pipes_first: First index in ``pipes`` of each path, shape (paths + 1,). Path p uses
            ``pipes[pipes_first[p] : pipes_first[p + 1]]``.
        pipes: Resources, ordered by path.
        weight: Share of the resource that the path takes, for each entry of ``pipes``.
        capacity: Capacity of each resource, shape (resources,).
        members_first: First index in ``members`` of each resource, shape (resources + 1,).
        members: Paths, ordered by resource.
    """

    hold: IntArray
    pipes_first: UInt64Array
    pipes: UInt64Array
    weight: IntArray
    capacity: IntArray
    members_first: UInt64Array
    members: UInt64Array


class _Uses(NamedTuple):
    """Paths that use one resource: begin and end after the start of the path, and share."""

    capacity: int
    route: IntArray
    begin: IntArray
    end: IntArray
    weight: IntArray


def shared_resources(topology: Topology, clock: Clock, crossings: Routes) -> SharedResources:
    """Return the resources that paths share, for chunks of one size."""
    resources = [
        *_shared_links(crossings, len(topology.links)),
        *_switch_buffers(topology, crossings),
        *_budget_uses(topology, clock, crossings),
    ]
    num_paths = len(crossings.src)
    hold = np.zeros(num_paths, dtype=np.int64)
    for uses in resources:
        np.maximum.at(hold, uses.route, uses.end - uses.begin.min())
    path = np.concatenate([np.zeros(0, dtype=np.int64), *(uses.route for uses in resources)])
    weight = np.concatenate([np.zeros(0, dtype=np.int64), *(uses.weight for uses in resources)])
    resource = np.repeat(np.arange(len(resources)), [len(uses.route) for uses in resources])
    pipes_first, by_way = group_rows(path, resource, num_paths)
    members_first, by_resource = group_rows(resource, path, len(resources))
    return SharedResources(
        hold=hold,
        pipes_first=pipes_first,
        pipes=resource[by_way].astype(np.uint64),
        weight=weight[by_way].astype(np.int64),
        capacity=np.array([uses.capacity for uses in resources], dtype=np.int64),
        members_first=members_first,
        members=path[by_resource].astype(np.uint64),
    )


def _shared_links(crossings: Routes, links: int) -> Iterator[_Uses]:
    """Yield the links that several routes share. Each carries one chunk at a time."""
    order = np.argsort(crossings.link, kind="stable")
    ends = np.searchsorted(crossings.link[order], np.arange(links + 1))
    path = crossings.route
    for first, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        if end - first > 1:
            rows = order[first:end]
            begin = crossings.offset[rows]
            yield _Uses(1, path[rows], begin, begin + crossings.busy[rows], np.ones_like(rows))


def _switch_buffers(topology: Topology, crossings: Routes) -> Iterator[_Uses]:
    """Yield the switches that store chunks in a limited buffer.

    As in the simulator, a buffer is occupied from the start of the link to the switch until the
    next link has finished.
    """
    dst = np.array([k.dst for k in topology.links], dtype=np.int64)[crossings.link]
    path, end = crossings.route, crossings.offset + crossings.busy
    for number, switch in enumerate(topology.switches):
        rows = np.flatnonzero(dst == topology.ranks + number)
        if switch.cut_through or switch.buffer_chunks is None or not len(rows):
            continue
        begin = crossings.offset[rows]
        yield _Uses(switch.buffer_chunks, path[rows], begin, end[rows + 1], np.ones_like(rows))


def _budget_uses(topology: Topology, clock: Clock, crossings: Routes) -> Iterator[_Uses]:
    """Yield the machine's own budgets.

    Bytes pass as long as the link is busy, without an alpha that occupies it. If all links of a
    budget have one alpha, it shifts their use in time only. Otherwise the budget is used from the
    start to the arrival, which covers the time in which bytes pass, also backwards in time.
    """
    if not topology.budgets:
        return
    place = {link.edge: i for i, link in enumerate(topology.links)}
    path = crossings.route
    for b, budget in enumerate(topology.budgets):
        links = [place[edge] for edge in budget.edges]
        rows = np.flatnonzero(np.isin(crossings.link, links))
        if not len(rows):
            continue
        shifts = np.maximum(clock.alpha, inter_switch_links(topology))[crossings.link[rows]]
        delay = shifts if len(np.unique(shifts)) > 1 else 0
        begin, pace = crossings.offset[rows], crossings.pace[rows]
        weights, capacity = _budget_weights(topology, clock, b, pace.tolist())
        yield _merge_uses(
            _Uses(capacity, path[rows], begin, begin + pace + delay, np.array(weights))
        )


def _merge_uses(uses: _Uses) -> _Uses:
    """Merge the uses of a resource by the same route, from the first to the last of them.

    The weight is the maximum at any time. Links behind a switch that stores chunks are used after
    those in front of it.
    """
    paths, which = np.unique(uses.route, return_inverse=True)
    if len(paths) == len(uses.route):
        return uses
    begin, end = np.full(len(paths), np.iinfo(np.int64).max), np.zeros(len(paths), dtype=np.int64)
    np.minimum.at(begin, which, uses.begin)
    np.maximum.at(end, which, uses.end)
    of = np.concatenate([which, which])
    change = np.concatenate([-uses.weight, uses.weight])
    order = np.lexsort((change, np.concatenate([uses.end, uses.begin]), of))
    weight = np.zeros(len(paths), dtype=np.int64)
    np.maximum.at(weight, of[order], np.cumsum(change[order]))  # changes of a route sum up to 0
    return _Uses(uses.capacity, paths, begin, end, weight)


def budget_pace(topology: Topology, clock: Clock, budget: int) -> Fraction:
    """Return the rate of a budget, bytes per tick."""
    speed = Fraction(str(topology.budget_speeds()[budget]))
    return topology.budgets[budget].chunks_per_round * speed * clock.tick_ps / 1000


def _budget_weights(
    topology: Topology, clock: Clock, budget: int, ticks: list[int]
) -> tuple[list[int], int]:
    """Return the use of a budget by paths with these ticks, and its capacity.

    The numbers are exact unless they become too large. Then the uses are rounded up.
    """
    pace, size = budget_pace(topology, clock, budget), clock.sizes[0]
    common = math.lcm(*set(ticks))
    capacity = math.floor(pace * common)
    if size * common <= MAX_CAPACITY * min(ticks) and capacity <= MAX_CAPACITY:
        return [size * (common // each) for each in ticks], capacity
    return [
        min(MAX_CAPACITY, math.ceil(MAX_CAPACITY * size / (pace * each))) for each in ticks
    ], MAX_CAPACITY
