"""Custom collectives of ASTRA-sim: a folder that one of its binaries runs.

Source: ASTRA-sim of 2026-03: a workload (one collective of so many bytes), an algorithm (a Chakra
trace of each rank, which takes the collective's place: ``sccl.formats.chakra``), and files of
settings. Paths are as seen from the folder, in which it is to be run. The network is one of the
congestion-aware analytical backend (``sccl.formats.astra_networks``), or, as told, one of ns-3
(``sccl.formats.astra_ns3``), which takes machines of unequal links.

An algorithm runs there as soon as possible, each link in the order of steps (or of a schedule's
starts), and the binary checks no data: only its clock counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.algorithm import Algorithm
from sccl.core.schedule import Schedule
from sccl.errors import CollectiveError, ParameterError
from sccl.formats import astra_ns3
from sccl.formats.astra_networks import AnalyticalNetwork, network_of
from sccl.formats.chakra import traces
from sccl.formats.contract import SizedPlan, WrittenFiles, only_written
from sccl.formats.messages import Message, MessageOptions
from sccl.formats.timed_messages import sizes_of
from sccl.formats.traces import Node, NodeKind, trace

NAME = "astra-sim"
ABOUT = "a custom collective of ASTRA-sim: a folder that its analytical or its ns-3 binary runs"
SOURCE = "ASTRA-sim 518bd51 (2026-03), congestion-aware analytical backend and ns-3"
TAKES = (Algorithm, Schedule)
BY_SIZE = True
MIXES = False

_ALGORITHM, _WORKLOAD = "algorithm", "workload"
_SYSTEM, _NETWORK, _MEMORY = "system.json", "network.yml", "memory.json"

_BINARY = "AstraSim_Analytical_Congestion_Aware"

_COLLECTIVES = {"allreduce": 0, "allgather": 2, "alltoall": 6, "reducescatter": 7}
"""Those that it has custom algorithms for, by CollectiveCommType of Chakra."""

_KEYS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "alltoall": "all-to-all",
    "reducescatter": "reduce-scatter",
}

_Networks = Literal["auto", "Ring", "FullyConnected", "Switch", "ns3"]


class AstraOptions(MessageOptions, frozen=True, kw_only=True):
    """What can be told beside what messages wait for."""

    network: Annotated[
        _Networks,
        Meta(
            description="Its network: auto (that of the machine), Ring, FullyConnected, Switch; or "
            "ns3, for its ns-3 binary."
        ),
    ] = "auto"


Options = AstraOptions


def write(plans: Sequence[SizedPlan], options: AstraOptions) -> WrittenFiles:
    """Return the folder of one algorithm or schedule.

    Raises:
        ParameterError: there are several, chunks are of no whole bytes, or take no time.
        CollectiveError: it has no custom algorithms for such.
        TopologyError: its networks do not hold such a machine.
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
    on_ns3 = options.network == "ns3"
    if on_ns3:  # messages share links there, packet by packet
        return custom(name, _bytes(plan), traces(plan, options.awaiting), _ns3(plan))
    network = network_of(plan.plan.topology, options.network)
    network.check_bytes(min(_sizes(plan)))
    link_of = _uplink if network.kind == "Switch" else _pair
    files = traces(plan, options.awaiting, link_of)
    return custom(name, _bytes(plan), files, analytical(network))


sniff, read = only_written("a trace says how many bytes go where, not what they are")


@dataclass(frozen=True, slots=True)
class AstraBackend:
    """What says on which network an algorithm is to run.

    Attributes:
        options: of the binary, beside those that all have.
        notes: what has to be known of the network.
    """

    files: Mapping[str, bytes]
    binary: str
    options: str
    notes: tuple[str, ...]


def analytical(network: AnalyticalNetwork) -> AstraBackend:
    """Return the analytical backend that is aware of congestion, with a network."""
    notes = (network.note,) if network.note else ()
    files = {_NETWORK: network.text().encode()}
    return AstraBackend(files, _BINARY, f"--network-configuration={_NETWORK}", notes)


def custom(
    collective: str, size_bytes: int, rank_files: Sequence[bytes], backend: AstraBackend
) -> WrittenFiles:
    """Return the folder of a collective that is run by the traces of ranks.

    Args:
        size_bytes: of the whole call.
    """
    comm_type = _COLLECTIVES[collective]
    told: dict[str, int | bool] = {"comm_type": comm_type, "comm_size": size_bytes}
    workload = trace([Node(0, NodeKind.COLLECTIVE, attributes=told)])
    system = {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        "local-mem-bw": 50,
        f"{_KEYS[collective]}-implementation-custom": [_ALGORITHM],
    }
    files = {_SYSTEM: _json(system), _MEMORY: _json({"memory-type": "NO_MEMORY_EXPANSION"})}
    files |= {f"{_WORKLOAD}.{rank}.et": workload for rank in range(len(rank_files))}
    files |= {f"{_ALGORITHM}.{rank}.et": file for rank, file in enumerate(rank_files)}
    command = (
        f"cd {{path}} && {backend.binary} --workload-configuration={_WORKLOAD} "
        f"--system-configuration={_SYSTEM} --remote-memory-configuration={_MEMORY} "
        f"{backend.options}"
    )
    note = "each rank prints when it ends, in nanoseconds (cycles); data are not looked at"
    return WrittenFiles({**files, **backend.files}, command, (note, *backend.notes))


def _uplink(message: Message) -> tuple[int, ...]:
    return (message.src,)


def _pair(message: Message) -> tuple[int, ...]:
    return (message.src, message.dst)


def _ns3(plan: SizedPlan) -> AstraBackend:
    files = astra_ns3.ns3_files(plan.plan.topology, _largest(plan))
    options = (
        f"--network-configuration={astra_ns3.CONFIG} "
        f"--logical-topology-configuration={astra_ns3.LOGICAL} --comm-group-configuration=empty"
    )
    return AstraBackend(files, astra_ns3.BINARY, options, astra_ns3.NOTES)


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def _sizes(plan: SizedPlan) -> tuple[int, ...]:
    """Return the bytes of each chunk."""
    if isinstance(plan.plan, Schedule):
        return sizes_of(plan.plan, plan.size_bytes)
    collective = plan.plan.collective
    assert plan.size_bytes is not None
    return (plan.size_bytes // collective.chunks,) * collective.num_chunks


def _largest(plan: SizedPlan) -> int:
    """Return the bytes of the largest message: of a schedule, of its largest transfer."""
    sizes = _sizes(plan)
    if not isinstance(plan.plan, Schedule):
        return max(sizes)
    carried: Counter[int] = Counter()
    for transfer, chunk in zip(
        plan.plan.transfers().tolist(), plan.plan.chunk.tolist(), strict=True
    ):
        carried[transfer] += sizes[chunk]
    return max(carried.values(), default=0)


def _bytes(plan: SizedPlan) -> int:
    """Return the bytes of the whole call: of allgather the result, else a rank's buffer."""
    collective, whole = plan.plan.collective, sum(_sizes(plan))
    if collective.name == "allgather":
        return whole
    return whole * collective.chunks // collective.num_chunks
