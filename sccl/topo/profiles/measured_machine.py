"""The machine that measurements tell of: their links, or those of a machine that is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sccl.core.formatting import format_count
from sccl.core.measurements import Measurements
from sccl.core.topology import Link, Topology
from sccl.errors import ParameterError
from sccl.topo.profiles.cost_groups import SharedCost


def build_measured_machine(
    measurements: Measurements, costs: Sequence[SharedCost], base: Topology | None = None
) -> Topology:
    """Return a machine with the measured link costs.

    Args:
        costs: the costs of all measured links.
        base: machine with the links, lanes and budgets. None: one link of one lane for each
            measured pair.

    Raises:
        ParameterError: the known machine has other ranks, or links without a measurement.
    """
    by_edge = {edge: cost for cost in costs for edge in cost.edges}
    if base is not None:
        check_measurable(base)
        _check_same_links(base, measurements)
    lanes = base.lanes() if base else dict.fromkeys(by_edge, 1)
    links = tuple(
        Link(*edge, n, by_edge[edge].alpha_us, _lane_cost(by_edge[edge], n))
        for edge, n in lanes.items()
    )
    usual = Counter((link.alpha_us, link.gb_per_s) for link in links).most_common(1)[0][0]
    made = Topology(
        name=measurements.name,
        ranks=measurements.ranks,
        links=links,
        alpha_us=usual[0],
        gb_per_s=usual[1],
        source=_source(measurements, costs, base),
    )
    if base is None:
        return made
    return replace(
        made,
        budgets=base.budgets,
        chassis=base.chassis,
        labels=base.labels,
        pci_bus_ids=base.pci_bus_ids,
    )


def check_measurable(machine: Topology) -> None:
    """Check that the links of a machine can be measured between ranks.

    Raises:
        ParameterError: it has switches, or budgets that state a speed.
    """
    if machine.switches:
        raise ParameterError(
            f"topology {machine.name!r} has switches as nodes, and ranks cannot measure links to "
            "switches: leave --topo out, so that every pair of ranks gets a link"
        )
    stated = [budget.name for budget in machine.budgets if budget.gb_per_s is not None]
    if stated:
        raise ParameterError(
            f"topology {machine.name!r}: budget {stated[0]!r} has gb_per_s, which measurements of "
            "single links do not give: leave that out, so that it counts chunks of its links"
        )


def _check_same_links(base: Topology, measurements: Measurements) -> None:
    if base.ranks != measurements.ranks:
        raise ParameterError(
            f"topology {base.name!r} has {base.ranks} ranks, measurements {measurements.name!r} "
            f"have {measurements.ranks}: give a machine with {measurements.ranks} ranks"
        )
    lacking = sorted(base.edges - set(measurements.by_link()))
    if lacking:
        src, dst = lacking[0]
        raise ParameterError(
            f"measurements {measurements.name!r} have no timing of link {src}->{dst} of topology "
            f"{base.name!r} ({len(lacking)} such): measure all of its links"
        )


def _lane_cost(cost: SharedCost, lanes: int) -> float:
    return float(f"{cost.gb_per_s / lanes:.6g}")


def _source(measurements: Measurements, costs: Sequence[SharedCost], base: Topology | None) -> str:
    kinds = format_count(len(costs), "cost")
    parts = [
        measurements.source or f"Measurements {measurements.name!r}.",
        f"alpha and beta fitted to them for each link, alike links together: {kinds}.",
    ]
    if base is not None:
        parts.append(f"Links, lanes and budgets of {base.name!r}: {base.source}".strip())
    return " ".join(parts)
