"""Custom collectives of ASTRA-sim: a folder that its congestion-aware analytical binary runs.

Source: ASTRA-sim of 2026-03: a workload (one collective of so many bytes), an algorithm (a Chakra
trace of each rank, which takes the collective's place: ``sccl.formats.chakra``), and three files of
settings. Paths are as seen from the folder, in which it is to be run. Its bandwidths are in GiB/s
(though they say GB), its latencies in nanoseconds, and of several dimensions only one is
congestion-aware: a ring, a switch, or a link for each pair of ranks. The last holds every machine
whose links cost alike, since an algorithm sends over links alone.

An algorithm runs there as soon as possible, and the binary checks no data: only its clock counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.algorithm import Algorithm
from sccl.core.topology import Topology
from sccl.errors import CollectiveError, ParameterError, TopologyError
from sccl.formats.chakra import traces
from sccl.formats.contract import SizedPlan, WrittenFiles, only_written
from sccl.formats.messages import MessageOptions
from sccl.formats.traces import Node, NodeKind, trace

NAME = "astra-sim"
ABOUT = "a custom collective of ASTRA-sim: a folder that its analytical binary runs"
SOURCE = "ASTRA-sim 518bd51 (2026-03), congestion-aware analytical backend"
TAKES = (Algorithm,)
BY_SIZE = True
MIXES = False

_COLLECTIVES = {"allreduce": 0, "allgather": 2, "alltoall": 6, "reducescatter": 7}
"""Those that it has custom algorithms for, by CollectiveCommType of Chakra."""

_KEYS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "alltoall": "all-to-all",
    "reducescatter": "reduce-scatter",
}

_BINARY = "AstraSim_Analytical_Congestion_Aware"
_GIB = 2**30

_Network = Literal["auto", "Ring", "FullyConnected"]


class AstraOptions(MessageOptions, frozen=True, kw_only=True):
    """What can be told beside what messages wait for."""

    network: Annotated[
        _Network,
        Meta(description="Its network: auto (that of the machine), Ring, FullyConnected."),
    ] = "auto"


Options = AstraOptions


def write(plans: Sequence[SizedPlan], options: AstraOptions) -> WrittenFiles:
    """Return the folder of one algorithm.

    Raises:
        ParameterError: there are several, or chunks are of no whole bytes.
        CollectiveError: it has no custom algorithms for such.
        TopologyError: its analytical networks do not hold such a machine.
    """
    if len(plans) > 1:
        raise ParameterError(
            f"{len(plans)} plans, and ASTRA-sim runs one algorithm of a collective, whatever the "
            "size: export each by itself"
        )
    (plan,) = plans
    name = plan.plan.collective.name
    if name not in _COLLECTIVES:
        raise CollectiveError(
            f"{plan.name}: ASTRA-sim has no custom algorithms of {name}, only of "
            f"{', '.join(sorted(_COLLECTIVES))}: export it as chakra"
        )
    network = _network(plan.plan.topology, options.network)
    files = {f"algorithm.{r}.et": file for r, file in enumerate(traces(plan, options.awaiting))}
    told: dict[str, int | bool] = {"comm_type": _COLLECTIVES[name], "comm_size": _bytes(plan)}
    workload = trace([Node(0, NodeKind.COLLECTIVE, attributes=told)])
    files |= {f"workload.{rank}.et": workload for rank in range(plan.plan.topology.ranks)}
    system = {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        "local-mem-bw": 50,
        f"{_KEYS[name]}-implementation-custom": ["algorithm"],
    }
    files |= {
        "system.json": _json(system),
        "memory.json": _json({"memory-type": "NO_MEMORY_EXPANSION"}),
        "network.yml": _network_text(plan.plan.topology, network).encode(),
    }
    command = (
        f"cd {{path}} && {_BINARY} --workload-configuration=workload "
        "--system-configuration=system.json --network-configuration=network.yml "
        "--remote-memory-configuration=memory.json"
    )
    note = "each rank prints when it ends, in nanoseconds (cycles); data are not looked at"
    return WrittenFiles(files, command, (note,))


sniff, read = only_written("a trace says how many bytes go where, not what they are")


def _json(value: dict[str, object]) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def _bytes(plan: SizedPlan) -> int:
    """Return the bytes of the whole call: of allgather the result, else a rank's buffer."""
    collective, size = plan.plan.collective, plan.size_bytes
    assert size is not None
    return size // collective.chunks * collective.num_chunks if _gathers(plan) else size


def _gathers(plan: SizedPlan) -> bool:
    return plan.plan.collective.name == "allgather"


def _network(topology: Topology, told: str) -> str:
    """Return which network of ASTRA-sim a machine is.

    Raises:
        TopologyError: none, or not that which is told.
    """
    costs = {(k.alpha_us, k.lanes, k.gb_per_s) for k in topology.links}
    if topology.switches or topology.budgets or len(costs) > 1:
        what = "switches" if topology.switches else "budgets" if topology.budgets else "links"
        cost = " that cost different things" if what == "links" else ""
        raise TopologyError(
            f"topology {topology.name!r} has {what}{cost}, and ASTRA-sim's analytical networks "
            "have one bandwidth and one latency for all links: give a machine of equal links, or "
            "export chakra traces for its ns-3 backend"
        )
    ranks = topology.ranks
    around = {(r, (r + step) % ranks) for r in range(ranks) for step in (1, -1)}
    known = "Ring" if topology.edges == around else "FullyConnected"
    if told in {"auto", known} or told == "FullyConnected":
        return known if told == "auto" else told
    raise TopologyError(
        f"topology {topology.name!r} is no {told} of ASTRA-sim: leave network out, or give "
        f"network={known}"
    )


def _network_text(topology: Topology, network: str) -> str:
    link = topology.links[0]
    speed = link.lanes * link.gb_per_s * 1e9 / _GIB
    return (
        f"topology: [ {network} ]\nnpus_count: [ {topology.ranks} ]\n"
        f"bandwidth: [ {speed!r} ]  # GiB/s\nlatency: [ {link.alpha_us * 1000!r} ]  # ns\n"
    )
