"""Write a machine for ASTRA-sim's ns-3 backend: nodes, switches, and links of any speed.

A topology lists nodes, switches, and links, which are symmetric. If two nodes have several links,
ns-3 uses only the last one, so all lanes are written as one link of their total speed. ns-3 routes
messages over the fewest links, and ranks do not forward. A one-way link of ours also carries
acknowledgements in the other direction there.

A message is complete when its last acknowledgement has returned, so latency counts in both
directions and links get half of our latency. Messages consist of packets, which share a link with
those of other messages.

Source: ``astra-sim/network_frontend/ns3`` of ASTRA-sim 518bd51, and ``scratch/common.h`` and
``scratch/config`` of astra-sim/astra-network-ns3.
"""

from __future__ import annotations

import json
import math

from sccl.core.topology import Link, Topology
from sccl.errors import ParameterError, TopologyError
from sccl.formats.astra.analytical_network import find_star

BINARY = "ns3.42-AstraSimNetwork-default"
CONFIG, TOPOLOGY, LOGICAL, FLOWS, TRACED = (
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
NOTES = (
    "links have half of alpha, because a message ends there when its acknowledgement is back",
    _PACKETS,
    _SHARED,
)

_KB_PER_GBPS, _MAX_KB = 4, 800
"""Queue length at which packets are marked, as in ns-3's examples: 100 KB at 25 Gb/s."""

_CONFIG = """\
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
        topology: The machine.
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
        LOGICAL: json.dumps({"logical-dims": [str(topology.ranks)]}).encode() + b"\n",
        CONFIG: (_config_text(links) + _marking_thresholds(rates)).encode(),
        FLOWS: b"0\n",
        TRACED: b"0\n",
    }


def _config_text(links: list[Link]) -> str:
    fastest = max(k.lanes * k.gb_per_s for k in links)
    packet = min(MAX_PACKET, max(MIN_PACKET, math.ceil(PACKET_NS * fastest)))
    read = f"TOPOLOGY_FILE {TOPOLOGY}\nFLOW_FILE {FLOWS}\nTRACE_FILE {TRACED}\n"
    return f"{_CONFIG}PACKET_PAYLOAD_SIZE {packet}\n{read}"


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
