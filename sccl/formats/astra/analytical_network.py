"""Choose the analytical network of ASTRA-sim that represents a machine, and write its file.

The congestion-aware backend has one dimension: a ring, a switch, or a link for each pair of ranks.
The last one represents every machine with equal links, since an algorithm uses only links.
Bandwidths are in GiB/s (the file's key is GB), latencies in nanoseconds, both per link.

Its switch stores whole chunks in unlimited memory, so a chunk takes its transmission time twice. If
links with budgets model an NVSwitch, our chunks take it once, so the switch needs an explicit
request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sccl.core.topology import Switch, Topology
from sccl.errors import ParameterError, TopologyError

_GIB = 2**30

Kind = Literal["Ring", "FullyConnected", "Switch"]


@dataclass(frozen=True, slots=True)
class AnalyticalNetwork:
    """A network of one dimension.

    Attributes:
        gb_per_s: Bandwidth of each link, 10^9 bytes per second.
        alpha_us: Latency of each link.
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
    """Return a machine as a star, None if it is not a star."""
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
        topology: The machine.
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
