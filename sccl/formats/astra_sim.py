"""Custom collectives of ASTRA-sim: a folder that one of its binaries runs.

Source: ASTRA-sim of 2026-03: a workload (one collective of so many bytes), an algorithm (a Chakra
trace of each rank, which takes the collective's place: ``sccl.formats.chakra``), and files of
settings. Paths are as seen from the folder, in which it is to be run. The network is one of the
congestion-aware analytical backend (``sccl.formats.astra_networks``).

An algorithm runs there as soon as possible, and the binary checks no data: only its clock counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.algorithm import Algorithm
from sccl.core.schedule import Schedule
from sccl.errors import CollectiveError, ParameterError
from sccl.formats.astra_networks import network_of
from sccl.formats.chakra import traces
from sccl.formats.contract import SizedPlan, WrittenFiles, only_written
from sccl.formats.messages import MessageOptions
from sccl.formats.timed_messages import sizes_of
from sccl.formats.traces import Node, NodeKind, trace

NAME = "astra-sim"
ABOUT = "a custom collective of ASTRA-sim: a folder that its analytical binary runs"
SOURCE = "ASTRA-sim 518bd51 (2026-03), congestion-aware analytical backend"
TAKES = (Algorithm, Schedule)
BY_SIZE = True
MIXES = False

ALGORITHM, WORKLOAD = "algorithm", "workload"
SYSTEM, NETWORK, MEMORY = "system.json", "network.yml", "memory.json"

BINARY = "AstraSim_Analytical_Congestion_Aware"

_COLLECTIVES = {"allreduce": 0, "allgather": 2, "alltoall": 6, "reducescatter": 7}
"""Those that it has custom algorithms for, by CollectiveCommType of Chakra."""

_KEYS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "alltoall": "all-to-all",
    "reducescatter": "reduce-scatter",
}

_Network = Literal["auto", "Ring", "FullyConnected", "Switch"]


class AstraOptions(MessageOptions, frozen=True, kw_only=True):
    """What can be told beside what messages wait for."""

    network: Annotated[
        _Network,
        Meta(description="Its network: auto (that of the machine), Ring, FullyConnected, Switch."),
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
    network = network_of(plan.plan.topology, options.network)
    rank_files = traces(plan, options.awaiting)
    network.check_bytes(min(_sizes(plan)))
    files = settings(name, plan.plan.topology.ranks, _bytes(plan))
    files |= {f"{ALGORITHM}.{rank}.et": file for rank, file in enumerate(rank_files)}
    files[NETWORK] = network.text().encode()
    command = (
        f"cd {{path}} && {BINARY} --workload-configuration={WORKLOAD} "
        f"--system-configuration={SYSTEM} --network-configuration={NETWORK} "
        f"--remote-memory-configuration={MEMORY}"
    )
    note = "each rank prints when it ends, in nanoseconds (cycles); data are not looked at"
    return WrittenFiles(files, command, tuple(filter(None, (note, network.note))))


sniff, read = only_written("a trace says how many bytes go where, not what they are")


def settings(collective: str, ranks: int, size_bytes: int) -> dict[str, bytes]:
    """Return the files that say that a collective is to be run by the algorithm beside them.

    Args:
        size_bytes: of the whole call.
    """
    told: dict[str, int | bool] = {
        "comm_type": _COLLECTIVES[collective],
        "comm_size": size_bytes,
    }
    workload = trace([Node(0, NodeKind.COLLECTIVE, attributes=told)])
    system = {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        "local-mem-bw": 50,
        f"{_KEYS[collective]}-implementation-custom": [ALGORITHM],
    }
    files = {f"{WORKLOAD}.{rank}.et": workload for rank in range(ranks)}
    memory: dict[str, object] = {"memory-type": "NO_MEMORY_EXPANSION"}
    return files | {SYSTEM: _json(system), MEMORY: _json(memory)}


def _json(value: dict[str, object]) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def _sizes(plan: SizedPlan) -> tuple[int, ...]:
    """Return the bytes of each chunk."""
    if isinstance(plan.plan, Schedule):
        return sizes_of(plan.plan, plan.size_bytes)
    collective = plan.plan.collective
    assert plan.size_bytes is not None
    return (plan.size_bytes // collective.chunks,) * collective.num_chunks


def _bytes(plan: SizedPlan) -> int:
    """Return the bytes of the whole call: of allgather the result, else a rank's buffer."""
    collective, whole = plan.plan.collective, sum(_sizes(plan))
    if collective.name == "allgather":
        return whole
    return whole * collective.chunks // collective.num_chunks
