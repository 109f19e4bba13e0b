"""The analytical networks of ASTRA-sim: which of them a machine is, and its file.

Of several dimensions only one is aware of congestion: a ring, a switch, or a link for each pair of
ranks, which holds every machine whose links cost alike, since an algorithm sends over links alone.
Bandwidths are in GiB/s (though they say GB), latencies in nanoseconds, both of one link.

Its switch stores a chunk whole and has room for all, so a chunk takes its time twice. Where links
with budgets stand for an NVSwitch, our chunks pass once: it is not taken unless it is asked for.
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
        gb_per_s: of each link, 10^9 bytes per second.
        alpha_us: of each link.
        note: what has to be known of it; empty: nothing.
    """

    kind: Kind
    ranks: int
    gb_per_s: float
    alpha_us: float
    note: str = ""

    def file_text(self) -> str:
        """Return its file."""
        return (
            f"topology: [ {self.kind} ]\nnpus_count: [ {self.ranks} ]\n"
            f"bandwidth: [ {self.gb_per_s * 1e9 / _GIB!r} ]  # GiB/s\n"
            f"latency: [ {self.alpha_us * 1000!r} ]  # ns\n"
        )

    def check_bytes(self, smallest: int) -> None:
        """Check that chunks take time.

        Args:
            smallest: the bytes of the smallest chunk.

        Raises:
            ParameterError: one passes in no time.
        """
        if smallest < self.gb_per_s:
            raise ParameterError(
                f"chunks of {smallest} bytes pass at {self.gb_per_s:g} GB/s in less than a "
                "nanosecond, which ASTRA-sim counts as none, and stops: give a larger size"
            )


@dataclass(frozen=True, slots=True)
class Star:
    """Ranks around one switch, over links that cost alike.

    Attributes:
        alpha_us: of the way to the switch, or from it.
        switch: None: links with budgets stand for it.
    """

    gb_per_s: float
    alpha_us: float
    switch: Switch | None


def find_star(topology: Topology) -> Star | None:
    """Return a machine as a star; None: it is none."""
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
    """Return which network a machine is.

    Args:
        wish: its kind, or ``auto``.

    Raises:
        TopologyError: none, or not that which is told.
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
            "a switch stands for the budgets, each way of it half the latency; it stores chunks "
            "whole, and a rank's link takes them as they come, so expect later times than ours, "
            "often by half"
        )
    elif star.switch.cut_through or star.switch.buffer_chunks is not None:
        note = (
            "ASTRA-sim's switch stores chunks whole and has room for all, which "
            f"{star.switch.name!r} does not: a chunk takes its time twice"
        )
    else:
        note = ""
    return AnalyticalNetwork("Switch", topology.ranks, star.gb_per_s, star.alpha_us, note)


def _check_uniform(topology: Topology, star: Star | None) -> None:
    """Check that all there is of a machine is links that cost alike.

    Raises:
        TopologyError: there is more.
    """
    costs = {(k.lanes * k.gb_per_s, k.alpha_us) for k in topology.links}
    if star is not None:
        raise TopologyError(
            f"topology {topology.name!r} has budgets for a switch, and ASTRA-sim's stores each "
            "chunk whole before it sends it on, so that its times are others: give network=Switch "
            "to have it all the same, or network=ns3"
        )
    if topology.switches or topology.budgets or len(costs) > 1:
        parts = "switches" if topology.switches else "budgets" if topology.budgets else "links"
        cost = " that cost different things" if parts == "links" else ""
        raise TopologyError(
            f"topology {topology.name!r} has {parts}{cost}, and ASTRA-sim's analytical networks "
            "have one bandwidth and one latency for all links, or one switch: give network=ns3, or "
            "a machine of equal links"
        )
