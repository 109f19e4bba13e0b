"""Write custom collectives of ASTRA-sim: a folder that one of its binaries runs.

The folder has a workload (one collective and its bytes), an algorithm (a Chakra trace of each rank
that replaces the collective, see ``sccl.formats.chakra``), and configuration files. Paths are
relative to the folder, in which the binary has to run. The option ``network`` selects the
congestion-aware analytical backend or ns-3, which supports machines with unequal links
(``sccl.formats.common.astra_networks``).

ASTRA-sim runs an algorithm as soon as possible, each link in the order of steps or of a schedule's
starts. It does not check data, and reports only times.

Source: ASTRA-sim of 2026-03.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from sccl.core.algorithm import Algorithm
from sccl.core.schedule import Schedule
from sccl.errors import CollectiveError, ParameterError
from sccl.formats.chakra import Node, encode_trace, rank_traces
from sccl.formats.common.astra_networks import (
    NS3_BINARY,
    NS3_CONFIG,
    NS3_LOGICAL,
    NS3_NOTES,
    AnalyticalNetwork,
    choose_network,
    ns3_files,
)
from sccl.formats.common.contract import SizedPlan, WrittenFiles, write_only
from sccl.formats.common.messages import MessageOptions, chunk_sizes
from sccl.training.files.chakra_records import COLLECTIVES, NodeKind

NAME = "astra-sim"
ABOUT = "a custom collective of ASTRA-sim: a folder that its analytical or its ns-3 binary runs"
SOURCE = "ASTRA-sim 518bd51 (2026-03), congestion-aware analytical backend and ns-3"
TAKES = (Algorithm, Schedule)
BY_SIZE = True
MIXES = False

_ALGORITHM, _WORKLOAD = "algorithm", "workload"
_SYSTEM, _NETWORK, _MEMORY = "system.json", "network.yml", "memory.json"

_BINARY = "AstraSim_Analytical_Congestion_Aware"

_INPUT_KEYS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "alltoall": "all-to-all",
    "reducescatter": "reduce-scatter",
}
"""Names in ASTRA-sim's configuration of the collectives with custom algorithms."""

_Networks = Literal["auto", "Ring", "FullyConnected", "Switch", "ns3"]


class AstraOptions(MessageOptions, frozen=True, kw_only=True):
    """Options of messages and the network."""

    network: Annotated[
        _Networks,
        "Network of the simulator: auto (chosen by the machine), Ring, FullyConnected, Switch, or "
        "ns3 for its ns-3 binary.",
    ] = "auto"


Options = AstraOptions


def write(plans: Sequence[SizedPlan], options: AstraOptions) -> WrittenFiles:
    """Write the folder of one algorithm or schedule.

    Raises:
        ParameterError: There are several plans, or the chunks have fractional bytes or take no
            time.
        CollectiveError: ASTRA-sim has no custom algorithms for the collective.
        TopologyError: Its networks cannot represent the machine.
    """
    if len(plans) > 1:
        raise ParameterError(
            f"{len(plans)} plans, and ASTRA-sim runs one algorithm per collective for all sizes: "
            "export each plan separately"
        )
    (plan,) = plans
    name = plan.plan.collective.name
    if name not in _INPUT_KEYS:
        raise CollectiveError(
            f"{plan.name}: ASTRA-sim has no custom algorithms of {name}, only of "
            f"{', '.join(sorted(_INPUT_KEYS))}: export it as chakra"
        )
    on_ns3 = options.network == "ns3"
    if on_ns3:  # packets of its messages share links, so links have no order
        return build_custom_collective(
            name, _call_bytes(plan), rank_traces(plan, options.awaiting), _ns3_backend(plan)
        )
    network = choose_network(plan.plan.topology, options.network)
    network.check_bytes(min(_chunk_sizes(plan)))
    is_switch = network.kind == "Switch"  # whose links are those of senders, otherwise of pairs
    files = rank_traces(plan, options.awaiting, lambda m: (m.src,) if is_switch else (m.src, m.dst))
    return build_custom_collective(name, _call_bytes(plan), files, analytical_backend(network))


sniff, read = write_only(
    "a trace contains message sizes and ranks, not the data, so it cannot be verified"
)


@dataclass(frozen=True, slots=True)
class AstraBackend:
    """Files and options that select the network of a run.

    Attributes:
        options: Options of the binary in addition to the common ones.
        notes: Notes for the user on the network.
    """

    files: Mapping[str, bytes]
    binary: str
    options: str
    notes: tuple[str, ...]


def analytical_backend(network: AnalyticalNetwork) -> AstraBackend:
    """Return the congestion-aware analytical backend with a network."""
    notes = (network.note,) if network.note else ()
    files = {_NETWORK: network.file_text().encode()}
    return AstraBackend(files, _BINARY, f"--network-configuration={_NETWORK}", notes)


def build_custom_collective(
    collective: str, size_bytes: int, rank_files: Sequence[bytes], backend: AstraBackend
) -> WrittenFiles:
    """Build the folder of a collective that the traces of ranks implement.

    Args:
        size_bytes: Bytes of the whole call.
    """
    comm_type = COLLECTIVES.index(collective)
    attributes: dict[str, int | bool] = {"comm_type": comm_type, "comm_size": size_bytes}
    workload = encode_trace([Node(0, NodeKind.COLLECTIVE, attributes=attributes)])
    system = {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        "local-mem-bw": 50,
        f"{_INPUT_KEYS[collective]}-implementation-custom": [_ALGORITHM],
    }
    files = {
        _SYSTEM: _encode_json(system),
        _MEMORY: _encode_json({"memory-type": "NO_MEMORY_EXPANSION"}),
    }
    files |= {f"{_WORKLOAD}.{rank}.et": workload for rank in range(len(rank_files))}
    files |= {f"{_ALGORITHM}.{rank}.et": file for rank, file in enumerate(rank_files)}
    command = (
        f"cd {{path}} && {backend.binary} --workload-configuration={_WORKLOAD} "
        f"--system-configuration={_SYSTEM} --remote-memory-configuration={_MEMORY} "
        f"{backend.options}"
    )
    note = "each rank prints its end time in nanoseconds (cycles); data are not checked"
    return WrittenFiles({**files, **backend.files}, command, (note, *backend.notes))


def _ns3_backend(plan: SizedPlan) -> AstraBackend:
    files = ns3_files(plan.plan.topology, _largest_message(plan))
    options = (
        f"--network-configuration={NS3_CONFIG} "
        f"--logical-topology-configuration={NS3_LOGICAL} --comm-group-configuration=empty"
    )
    return AstraBackend(files, NS3_BINARY, options, NS3_NOTES)


def _encode_json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def _chunk_sizes(plan: SizedPlan) -> tuple[int, ...]:
    if isinstance(plan.plan, Schedule):
        return chunk_sizes(plan.plan, plan.size_bytes)
    collective = plan.plan.collective
    assert plan.size_bytes is not None
    return (plan.size_bytes // collective.chunks,) * collective.num_chunks


def _largest_message(plan: SizedPlan) -> int:
    """Return the bytes of the largest message, which is a transfer if the plan is a schedule."""
    sizes = _chunk_sizes(plan)
    if not isinstance(plan.plan, Schedule):
        return max(sizes)
    carried: Counter[int] = Counter()
    for transfer, chunk in zip(
        plan.plan.transfer_starts().tolist(), plan.plan.chunk.tolist(), strict=True
    ):
        carried[transfer] += sizes[chunk]
    return max(carried.values(), default=0)


def _call_bytes(plan: SizedPlan) -> int:
    """Return the bytes of a call: the result of an allgather, otherwise a rank's buffer."""
    collective, total = plan.plan.collective, sum(_chunk_sizes(plan))
    if collective.name == "allgather":
        return total
    return total * collective.chunks // collective.num_chunks
