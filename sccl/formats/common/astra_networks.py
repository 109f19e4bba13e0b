"""Write a machine for ASTRA-sim: its analytical network, or nodes and links of ns-3.

The congestion-aware analytical backend has one dimension: a ring, a switch, or a link for each pair
of ranks. The last one represents every machine with equal links, since an algorithm uses only
existing links. Bandwidths are in GiB/s (the file's key is GB), latencies in nanoseconds, both per
link. Its switch stores complete chunks in unlimited memory, so a chunk takes its transmission time
twice. In sccl's model of an NVSwitch (links with budgets), a chunk takes it once, so the switch
must be requested explicitly.

A topology of ns-3 lists nodes, switches, and links, which are symmetric. If two nodes have several
links, ns-3 uses only the last one, so all lanes are written as one link of their total speed. ns-3
routes messages over the fewest links, and ranks do not forward. In ns-3, a one-way link also
carries acknowledgements in the other direction. A message is complete when its last acknowledgement
has returned, so latency counts in both directions, and links get half of sccl's latency. Packets of
several messages share a link.

Source: ``astra-sim/network_frontend/ns3`` of ASTRA-sim 518bd51, and ``scratch/common.h`` and
``scratch/config`` of astra-sim/astra-network-ns3.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Literal

from sccl.core.topology import Link, Switch, Topology
from sccl.errors import ParameterError, TopologyError

_GIB = 2**30

Kind = Literal["Ring", "FullyConnected", "Switch"]


@dataclass(frozen=True, slots=True)
class AnalyticalNetwork:
    """A network of one dimension.

    Attributes:
        gb_per_s: Bandwidth of each link, 10^9 bytes per second.
        note: Note for the user, or empty.
    """

    kind: Kind
    ranks: int
    gb_per_s: float
    alpha_us: float
    note: str = ""

    def file_text(self) -> str:
        """Format the network file."""
        return (
            f"topology: [ {self.kind} ]\nnpus_count: [ {self.ranks} ]\n"
            f"bandwidth: [ {self.gb_per_s * 1e9 / _GIB!r} ]  # GiB/s\n"
            f"latency: [ {self.alpha_us * 1000!r} ]  # ns\n"
        )

    def check_bytes(self, smallest: int) -> None:
        """Check that every chunk takes at least a nanosecond.

        Args:
            smallest: Bytes of the smallest chunk.

        Raises:
            ParameterError: The chunk takes less.
        """
        if smallest < self.gb_per_s:
            raise ParameterError(
                f"chunks of {smallest} bytes pass at {self.gb_per_s:g} GB/s in less than a "
                "nanosecond, which ASTRA-sim counts as none, and stops: give a larger size"
            )


@dataclass(frozen=True, slots=True)
class Star:
    """Ranks around one switch, with equal links.

    Attributes:
        gb_per_s: Bandwidth of each link.
        alpha_us: Latency of a link to or from the switch.
        switch: The switch, or None if links with budgets model it.
    """

    gb_per_s: float
    alpha_us: float
    switch: Switch | None


def find_star(topology: Topology) -> Star | None:
    """Return the star that a machine forms, None if it is not a star."""
    costs = {(k.lanes * k.gb_per_s, k.alpha_us) for k in topology.links}
    ranks = range(topology.ranks)
    if len(costs) > 1:
        return None
    ((gb_per_s, alpha_us),) = costs
    if topology.switches:
        around = {edge for r in ranks for edge in ((r, len(ranks)), (len(ranks), r))}
        is_star = len(topology.switches) == 1 and topology.edges == around and not topology.budgets
        return Star(gb_per_s, alpha_us, topology.switches[0]) if is_star else None
    speeds = zip(topology.budgets, topology.budget_speeds(), strict=True)
    rates = {budget.chunks_per_round * speed for budget, speed in speeds}
    out = (tuple((r, q) for q in ranks if q != r) for r in ranks)
    into = (tuple((q, r) for q in ranks if q != r) for r in ranks)
    sides = sorted((*out, *into))
    if rates != {gb_per_s} or sorted(b.edges for b in topology.budgets) != sides:
        return None
    return Star(gb_per_s, alpha_us / 2, None)


def choose_network(topology: Topology, wish: str) -> AnalyticalNetwork:
    """Return the network that represents a machine.

    Args:
        wish: Kind of network, or ``auto``.

    Raises:
        TopologyError: No network represents the machine, or not the requested one.
    """
    star = find_star(topology)
    if star is not None and (star.switch is not None or wish == "Switch"):
        network = _switch_network(topology, star)
    else:
        _check_uniform(topology, star)
        link = topology.links[0]
        kind: Kind = "Ring" if _is_ring(topology) and wish != "FullyConnected" else "FullyConnected"
        speed = link.lanes * link.gb_per_s
        network = AnalyticalNetwork(kind, topology.ranks, speed, link.alpha_us)
    if wish not in {"auto", network.kind}:
        raise TopologyError(
            f"topology {topology.name!r} is no {wish} of ASTRA-sim: leave network out, or give "
            f"network={network.kind}"
        )
    return network


def _is_ring(topology: Topology) -> bool:
    ranks = topology.ranks
    around = {(r, (r + step) % ranks) for r in range(ranks) for step in (1, -1)}
    return topology.edges == around


def _switch_network(topology: Topology, star: Star) -> AnalyticalNetwork:
    if star.switch is None:
        note = (
            "a switch represents the budgets, with half the latency in each direction; it stores "
            "each chunk before it forwards it, so expect longer times than those of sccl, often "
            "by half"
        )
    elif star.switch.cut_through or star.switch.buffer_chunks is not None:
        note = (
            "ASTRA-sim's switch stores each chunk before it forwards it and has unlimited "
            f"buffers, unlike {star.switch.name!r}: each chunk takes its transfer time twice"
        )
    else:
        note = ""
    return AnalyticalNetwork("Switch", topology.ranks, star.gb_per_s, star.alpha_us, note)


def _check_uniform(topology: Topology, star: Star | None) -> None:
    costs = {(k.lanes * k.gb_per_s, k.alpha_us) for k in topology.links}
    if star is not None:
        raise TopologyError(
            f"topology {topology.name!r} models a switch by budgets, and ASTRA-sim's switch "
            "stores each chunk before it forwards it, so times differ: give network=Switch to "
            "accept this, or network=ns3"
        )
    if topology.switches or topology.budgets or len(costs) > 1:
        parts = "switches" if topology.switches else "budgets" if topology.budgets else "links"
        cost = " that cost different things" if parts == "links" else ""
        raise TopologyError(
            f"topology {topology.name!r} has {parts}{cost}, and ASTRA-sim's analytical networks "
            "have one bandwidth and one latency for all links, or one switch: give network=ns3, or "
            "a machine of equal links"
        )


NS3_BINARY = "ns3.42-AstraSimNetwork-default"
NS3_CONFIG, TOPOLOGY, NS3_LOGICAL, FLOWS, TRACED = (
    "ns3.txt",
    "topology.txt",
    "logical.json",
    "flows.txt",
    "traced.txt",
)
MAX_CHUNK_BYTES = 2**31 - 1
"""Maximum bytes of a message, whose remaining bytes ns-3 counts in 32 bits."""

MIN_PACKET, MAX_PACKET = 1000, 60_000
"""Payload bytes of a packet: the minimum of ns-3's examples, and a maximum that fits 16 bits."""

PACKET_NS = 40
"""Minimum nanoseconds of a packet, because ns-3 rounds the time of each packet down."""

_PACKETS = (
    "messages are sent as packets with headers and acknowledgements, so times are some percent "
    "longer than those of sccl simulate"
)
_SHARED = (
    "concurrent messages share a link's bandwidth in place of queueing: with awaiting=step, "
    "messages of later steps do not slow down earlier ones; compare its times with simulations "
    "with barriers"
)
NS3_NOTES = (
    "links have half of alpha, because a message ends there when its acknowledgement is back",
    _PACKETS,
    _SHARED,
)

_KB_PER_GBPS, _MAX_KB = 4, 800
"""Queue length at which packets are marked, as in ns-3's examples: 100 KB at 25 Gb/s."""

_NS3_CONFIG = """\
ENABLE_QCN 1
USE_DYNAMIC_PFC_THRESHOLD 1
TRACE_OUTPUT_FILE packets.tr
FCT_OUTPUT_FILE flow_times.txt
PFC_OUTPUT_FILE pauses.txt
SIMULATOR_STOP_TIME 40000000000000.00
CC_MODE 12
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
L2_BACK_TO_ZERO 0
ERROR_RATE_PER_LINK 0.0
MIN_RATE 100Mb/s
RATE_AI 50Mb/s
RATE_HAI 100Mb/s
RP_TIMER 900
HAS_WIN 1
GLOBAL_T 0
VAR_WIN 1
FAST_REACT 1
RATE_BOUND 1
MULTI_RATE 0
INT_MULTI 1
ACK_HIGH_PRIO 0
LINK_DOWN 0 0 0
ENABLE_TRACE 0
BUFFER_SIZE 32
QLEN_MON_FILE queues.txt
QLEN_MON_START 0
QLEN_MON_END 20000
"""
"""CC_MODE 12 disables congestion control, so packets go at link speed."""


def ns3_files(topology: Topology, largest: int) -> dict[str, bytes]:
    """Generate the files of a machine.

    Args:
        largest: Bytes of the largest message, which is a chunk or a transfer of several.

    Raises:
        TopologyError: The two directions of a link differ, or budgets do not model a switch.
        ParameterError: A message exceeds the maximum.
    """
    if largest > MAX_CHUNK_BYTES:
        raise ParameterError(
            f"messages of {largest} bytes, and ASTRA-sim's ns-3 counts up to {MAX_CHUNK_BYTES}: "
            "give a smaller size"
        )
    switches, links = _physical_links(topology)
    nodes = topology.ranks + switches
    named = " ".join(map(str, range(topology.ranks, nodes)))
    lines = [f"{nodes} {switches} {len(links)}", named]
    lines += [f"{k.src} {k.dst} {_gbps(k)!r}Gbps {k.alpha_us * 500!r}ns 0" for k in links]
    rates = sorted({round(_gbps(k) * 1e9) for k in links})
    return {
        TOPOLOGY: ("\n".join(lines) + "\n").encode(),
        NS3_LOGICAL: json.dumps({"logical-dims": [str(topology.ranks)]}).encode() + b"\n",
        NS3_CONFIG: (_config_text(links) + _marking_thresholds(rates)).encode(),
        FLOWS: b"0\n",
        TRACED: b"0\n",
    }


def _config_text(links: list[Link]) -> str:
    fastest = max(k.lanes * k.gb_per_s for k in links)
    packet = min(MAX_PACKET, max(MIN_PACKET, math.ceil(PACKET_NS * fastest)))
    read = f"TOPOLOGY_FILE {TOPOLOGY}\nFLOW_FILE {FLOWS}\nTRACE_FILE {TRACED}\n"
    return f"{_NS3_CONFIG}PACKET_PAYLOAD_SIZE {packet}\n{read}"


def _gbps(link: Link) -> float:
    return link.lanes * link.gb_per_s * 8


def _marking_thresholds(rates: list[int]) -> str:
    """Format the queue lengths at which packets are marked, and the probability, by rate."""
    thresholds = {rate: min(_MAX_KB, max(1, round(_KB_PER_GBPS * rate / 1e9))) for rate in rates}
    maps = {
        "KMAX_MAP": {rate: str(4 * kb) for rate, kb in thresholds.items()},
        "KMIN_MAP": {rate: str(kb) for rate, kb in thresholds.items()},
        "PMAX_MAP": dict.fromkeys(rates, "0.2"),
    }
    return "".join(
        f"{name} {len(rates)} {' '.join(f'{rate} {of[rate]}' for rate in rates)}\n"
        for name, of in maps.items()
    )


def _physical_links(topology: Topology) -> tuple[int, list[Link]]:
    """Return the number of switches, and symmetric links."""
    if topology.budgets:
        star = find_star(topology)
        if star is None:
            raise TopologyError(
                f"topology {topology.name!r} has budgets that do not model a switch, and ns-3 "
                "supports links and switches only: give a machine without such budgets"
            )
        hub = topology.ranks
        return 1, [Link(r, hub, 1, star.alpha_us, star.gb_per_s) for r in range(hub)]
    costs = {k.edge: (k.lanes * k.gb_per_s, k.alpha_us) for k in topology.links}
    for (src, dst), cost in costs.items():
        if costs.get((dst, src), cost) != cost:
            raise TopologyError(
                f"topology {topology.name!r}, link {src}->{dst}: the reverse link has another "
                "cost, and links of ns-3 are symmetric: give a machine with symmetric links"
            )
    one_way = (k for k in topology.links if (k.dst, k.src) not in costs)
    both_ways = (k for k in topology.links if k.src < k.dst and (k.dst, k.src) in costs)
    return len(topology.switches), sorted((*one_way, *both_ways))
