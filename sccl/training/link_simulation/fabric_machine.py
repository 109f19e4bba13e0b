"""Build one topology from the channels of a fabric and their shared resources.

Each channel has its own nodes, so that a pair of ranks may have several links. In addition there
are clocks: links to nodes of their own, on which a task takes its time alone, for launches and
computations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.fabric import Fabric
from sccl.core.ids import Edge
from sccl.core.topology import Budget, Link, Topology

_FAST_GB_PER_S = 1.0
"""Speed of clocks: one byte per nanosecond, their resolution."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkMachine:
    """A fabric as one machine.

    Attributes:
        topology: of all channels, and of clocks.
        links: of each channel, the places of its links among all.
        hub: the node from which all clocks lead.
        clocks: where each leads.
        clock_links: the places of their links.
    """

    topology: Topology
    links: tuple[IntArray, ...]
    hub: int
    clocks: IntArray
    clock_links: IntArray
    ranks: int

    def node(self, channel: int, rank: IntArray) -> IntArray:
        """Return the nodes of ranks as a channel joins them."""
        return rank + channel * self.ranks


def build_link_machine(fabric: Fabric, clocks: int) -> LinkMachine:
    """Return the machine of a fabric, and so many clocks.

    Raises:
        TopologyError: it is none.
    """
    machines = [channel.topology for channel in fabric.channels]
    hub = fabric.ranks * len(machines)
    switches = [switch for machine in machines for switch in machine.switches]
    firsts = np.cumsum([hub + 1 + clocks, *(len(machine.switches) for machine in machines)])
    links: list[Link] = []
    edges: list[dict[Edge, Edge]] = []
    for number, machine in enumerate(machines):
        first, after = number * fabric.ranks, int(firsts[number]) - fabric.ranks
        edge_map: dict[Edge, Edge] = {}
        for link in machine.links:
            src, dst = (node + (first if node < fabric.ranks else after) for node in link.edge)
            edge_map[link.edge] = src, dst
            links.append(Link(src, dst, link.lanes, link.alpha_us, link.gb_per_s))
        edges.append(edge_map)
    links += [Link(hub, hub + 1 + k, 1, 0.0, _FAST_GB_PER_S) for k in range(clocks)]
    topology = Topology(
        name=fabric.name,
        ranks=hub + 1 + clocks,
        links=tuple(links),
        alpha_us=0.0,
        gb_per_s=_FAST_GB_PER_S,
        budgets=tuple(_link_budgets(fabric, edges)),
        switches=tuple(switches),
    )
    place = {link.edge: k for k, link in enumerate(topology.links)}
    ends = np.arange(clocks) + hub + 1
    return LinkMachine(
        topology=topology,
        links=tuple(
            np.array([place[edge_map[link.edge]] for link in machine.links], np.int64)
            for machine, edge_map in zip(machines, edges, strict=True)
        ),
        hub=hub,
        clocks=ends,
        clock_links=np.array([place[hub, node] for node in ends.tolist()], np.int64),
        ranks=fabric.ranks,
    )


def _link_budgets(fabric: Fabric, edges: list[dict[Edge, Edge]]) -> list[Budget]:
    """Return the budgets of channels and the shared resources, for links of this topology."""
    budgets = []
    numbers = {channel.name: k for k, channel in enumerate(fabric.channels)}
    for channel in fabric.channels:
        edge_map, machine = edges[numbers[channel.name]], channel.topology
        for budget, speed in zip(machine.budgets, machine.budget_speeds(), strict=True):
            members = tuple(edge_map[edge] for edge in budget.edges)
            name = f"{channel.name}: {budget.name}"
            budgets.append(Budget(name, members, budget.chunks_per_round, speed))
    for number, shared in enumerate(fabric.shared):
        members = tuple(edges[numbers[name]][edge] for name, edge in shared.links)
        budgets.append(Budget(f"shared {number}: {shared.name}", members, 1, shared.gb_per_s))
    return budgets
