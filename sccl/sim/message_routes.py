"""Routes of messages: the links from source to destination.

The route is the direct link if there is one, else a path of fewest links. Among several shortest
paths, a hash of the pair of nodes selects the next link at every node on the way, as equal-cost
multi-path routing hashes flows. So the load spreads over all dimensions of a machine, independent
of their order. The route of a pair does not depend on other messages, so adding a collective never
changes the routes of another. (Choosing the least loaded link would balance better, but routes
would then depend on all pairs.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sccl.core.arrays import AnyIntArray, IntArray
from sccl.core.graphs import UNREACHED
from sccl.core.topology import Topology
from sccl.errors import ParameterError, UnreachableError


@dataclass(frozen=True, slots=True, eq=False)
class MessageRoutes:
    """The routes of messages: one route per pair of nodes.

    Attributes:
        route: route number of each message, shape (messages,).
        first: index in ``link`` of each route's first link, shape (routes + 1,). The last entry is
            the length of ``link``.
        link: links of all routes, one route after the other, as indices into ``topology.links``.
    """

    route: IntArray
    first: IntArray
    link: IntArray


def find_routes(topology: Topology, src: AnyIntArray, dst: AnyIntArray) -> MessageRoutes:
    """Return the route of each message from its source to its destination.

    Raises:
        ParameterError: the source or destination of a message is not on the machine.
        UnreachableError: no path leads to a message's destination.
    """
    nodes = topology.ranks + len(topology.switches)
    for column in (src, dst):
        if len(column) and column.max() >= nodes:
            raise ParameterError(
                f"messages, row {int(column.argmax())}: node {column.max()} does not exist on "
                f"topology {topology.name!r}, expected 0 to {nodes - 1}"
            )
    pairs, of = np.unique(src.astype(np.int64) * nodes + dst, return_inverse=True)
    edges = np.array([k.src * nodes + k.dst for k in topology.links], np.int64)  # ascend
    link = np.minimum(np.searchsorted(edges, pairs), len(edges) - 1)
    direct = edges[link] == pairs
    length = np.ones(len(pairs), np.int64)
    around = np.flatnonzero(~direct)
    order, far, path = _pair_paths(topology, *np.divmod(pairs[around], nodes))
    around = around[order]
    length[around] = far
    first = np.concatenate(([0], np.cumsum(length)))
    links = np.repeat(link, length)
    within = np.arange(len(path)) - np.repeat(np.cumsum(far) - far, far)
    links[np.repeat(first[around], far) + within] = path
    return MessageRoutes(of, first, links)


def _pair_paths(
    topology: Topology, src: IntArray, dst: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return shortest paths for pairs of nodes.

    Returns:
        The pairs' indices, sorted by destination. In that order, the number of links of each
        path, and the links of all paths.
    """
    from sccl.sim.hop_paths import distances_to, trace_paths  # noqa: PLC0415 - Numba loads long

    order = np.argsort(dst, kind="stable")
    nodes, bounds = np.unique(dst[order], return_index=True)
    out = _LinkIndex.from_topology(topology)
    far, reached = np.empty((2, topology.ranks + len(topology.switches)), np.int64)
    lengths, paths = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for node, group in zip(nodes, np.split(src[order], bounds[1:]), strict=bool(len(nodes))):
        distances_to(node, out.entering, out.sources, far, reached)
        lengths.append(far[group])
        if (lengths[-1] == UNREACHED).any():
            raise UnreachableError(
                f"topology {topology.name!r}: no path of links leads from node "
                f"{group[lengths[-1].argmin()]} to node {node}, and a message needs one; add the "
                "links, or leave it out"
            )
        paths.append(np.empty(lengths[-1].sum(), np.int64))
        trace_paths(group, node, far, out.leaving, out.targets, paths[-1])
    return order, np.concatenate(lengths), np.concatenate(paths)


@dataclass(frozen=True, slots=True, eq=False)
class _LinkIndex:
    """Links, indexed by source and by destination.

    Attributes:
        leaving: index in ``targets`` of each node's first outgoing link, shape (nodes + 1,).
        targets: destination of each link. Links ascend by source.
        entering: index in ``sources`` of each node's first incoming link, shape (nodes + 1,).
        sources: source of each link. Links ascend by destination.
    """

    leaving: IntArray
    targets: IntArray
    entering: IntArray
    sources: IntArray

    @classmethod
    def from_topology(cls, topology: Topology) -> _LinkIndex:
        """Return the index of a machine's links, which ascend by source."""
        nodes = np.arange(topology.ranks + len(topology.switches) + 1)
        starts, ends = np.array([k.edge for k in topology.links], np.int64).T
        order = np.argsort(ends, kind="stable")
        leaving = np.searchsorted(starts, nodes)
        entering = np.searchsorted(ends[order], nodes)
        return cls(leaving, ends.copy(), entering, starts[order])
