"""Write simulated messages as ASTRA-sim's files: the sends, receives, and waits of each rank.

A message is a send and a receive for each link of its route, so that it takes the route of sccl's
simulator. ASTRA-sim itself has routes only in rings and through its switch. A send waits for the
receives that its gate counts, and for its release, which is a computation with that duration.

Two features have no counterpart in ASTRA-sim. A gate may also count starts, because a chunk has to
leave a buffer before the next one enters it. The files omit these starts. A gate cannot span ranks,
so each step between barriers is a run of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.formats.astra_sim import analytical_backend, build_custom_collective
from sccl.formats.chakra import Node, encode_trace
from sccl.formats.common.astra_networks import AnalyticalNetwork
from sccl.formats.common.contract import WrittenFiles
from sccl.sim import Messages
from sccl.sim.message_routes import find_routes
from sccl.sim.messages import NO_GATE
from sccl.sim.segments import chunk_size_indices
from sccl.training.files.chakra_records import NodeKind

_PS_PER_US = 10**6


class Network(StrEnum):
    """A network of ASTRA-sim. ``PAIRS`` contains every other network without switches."""

    RING = "Ring"
    PAIRS = "FullyConnected"
    SWITCH = "Switch"


@dataclass(frozen=True, slots=True)
class _Hop:
    """A message on one link, or from rank to rank if ASTRA-sim chooses the route.

    Attributes:
        tag: Unique number of the hop.
        after: Tags of the receives that have to end before.
        release_us: Earliest start in microseconds.
    """

    tag: int
    src: int
    dst: int
    size: int
    after: tuple[int, ...]
    release_us: int


def folder(messages: Messages, topology: Topology, clock: Clock, network: Network) -> WrittenFiles:
    """Return ASTRA-sim's input files for a simulation.

    Raises:
        ParameterError: Links differ in cost, or a release is not a multiple of a microsecond.
    """
    if network is Network.PAIRS:
        hops = _over_links(messages, topology, clock)
    else:
        hops = _between_ranks(messages, clock)
    wiring = AnalyticalNetwork(network.value, topology.ranks, *_cost(topology))
    return build_custom_collective(
        "allgather", 1, _files(hops, topology.ranks), analytical_backend(wiring)
    )


def _cost(topology: Topology) -> tuple[float, float]:
    """Return the bandwidth in 10^9 bytes per second and latency in microseconds of every link."""
    costs = {(link.lanes * link.gb_per_s, link.alpha_us) for link in topology.links}
    if len(costs) > 1:
        raise ParameterError(
            f"topology {topology.name!r}: its links cost {len(costs)} different things, and a "
            "network of ASTRA-sim has one bandwidth and one latency: give all links the same"
        )
    return costs.pop()


def _between_ranks(messages: Messages, clock: Clock) -> list[_Hop]:
    """Return the messages from rank to rank."""
    waits, size = _waits(messages), _sizes(messages, clock)
    releases = _releases(messages, clock)
    ends = enumerate(zip(messages.src.tolist(), messages.dst.tolist(), strict=True))
    return [_Hop(i, src, dst, size[i], waits[i], releases[i]) for i, (src, dst) in ends]


def _over_links(messages: Messages, topology: Topology, clock: Clock) -> list[_Hop]:
    """Return a hop for each link on the route of each message, with ascending tags."""
    routes = find_routes(topology, messages.src, messages.dst)
    waits, size = _waits(messages), _sizes(messages, clock)
    releases = _releases(messages, clock)
    first = np.concatenate(([0], np.cumsum(np.diff(routes.first)[routes.route]))).tolist()
    hops: list[_Hop] = []
    for i, route in enumerate(routes.route.tolist()):
        links = routes.link[routes.first[route] : routes.first[route + 1]].tolist()
        predecessors, release = tuple(first[m + 1] - 1 for m in waits[i]), releases[i]
        for tag, link in enumerate(links, first[i]):
            src, dst = topology.links[link].edge
            hops.append(_Hop(tag, src, dst, size[i], predecessors, release))
            predecessors, release = (tag,), 0
    return hops


def _waits(messages: Messages) -> list[tuple[int, ...]]:
    """Return for each message the messages whose arrival its gate counts."""
    members: dict[int, list[int]] = {}
    for i, gate in enumerate(messages.arrival_opens.tolist()):
        members.setdefault(gate, []).append(i)
    members[NO_GATE] = []
    return [tuple(members.get(gate, ())) for gate in messages.waits_for.tolist()]


def _sizes(messages: Messages, clock: Clock) -> list[int]:
    return [clock.sizes[place] for place in chunk_size_indices(messages, clock).tolist()]


def _releases(messages: Messages, clock: Clock) -> list[int]:
    """Return the releases in microseconds.

    Raises:
        ParameterError: A release is not a multiple of a microsecond.
    """
    picos = messages.release * clock.tick_ps
    wrong = np.flatnonzero(picos % _PS_PER_US)
    if len(wrong):
        raise ParameterError(
            f"messages, row {wrong[0]}: it is released at {picos[wrong[0]]} ps, and a Chakra trace "
            "tells whole microseconds: choose alpha, bandwidth and size so that all take some"
        )
    return [int(us) for us in picos // _PS_PER_US]


def _files(hops: list[_Hop], ranks: int) -> list[bytes]:
    """Return the file of each rank. An idle rank has a single short computation.

    The receive, send, and computation of tag t have the numbers 3t, 3t + 1, and 3t + 2.
    """
    nodes: list[list[Node]] = [[] for _ in range(ranks)]
    for hop in hops:
        number, attributes = 3 * hop.tag, {"comm_size": hop.size, "comm_tag": hop.tag}
        after = tuple(3 * tag for tag in hop.after)
        if hop.release_us:
            nodes[hop.src].append(Node(number + 2, NodeKind.COMPUTE, micros=hop.release_us))
            after = (*after, number + 2)
        sent, received = attributes | {"comm_dst": hop.dst}, attributes | {"comm_src": hop.src}
        nodes[hop.src].append(Node(number + 1, NodeKind.SEND, after, attributes=sent))
        nodes[hop.dst].append(Node(number, NodeKind.RECEIVE, attributes=received))
    return [encode_trace(trace or [Node(0, NodeKind.COMPUTE)]) for trace in nodes]
