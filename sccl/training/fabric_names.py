"""Fabrics by name: the machines of training jobs, each with its channels, and their JSON output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from os.path import isfile
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.json_text import file_kind
from sccl.core.files.kinds import TOPOLOGY
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import NonNegative, Part
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import ParameterError, unknown_name
from sccl.topo.catalogue import catalogue_names, resolve_topology
from sccl.training.files.fabrics import load_fabric
from sccl.training.types.fabric import Channel, Fabric, Incast, SharedBudget

FABRIC_NAMES = ("hgx2", "hgx2x4", "hgx2x16", "dgx1-pcie")
"""Names of fabrics in the catalog, where ``hgx2xN`` has N nodes."""

MAX_NODES = 128

_GPUS = 8
_NVSWITCH = (0.7, 150.0)
_ROCE = (1.7, 12.5)
_PCIE = (1.0, 12.5)
_SOCKET = (1.0, 12.5)
_TCP = (15.0, 25.0)
"""Latency in microseconds, and 10^9 bytes per second and direction, with sources below."""

_LAUNCH_US = 5.0

_SOURCE = (
    "Nodes of 8 V100 around NVSwitch, SYNDICATE (NSDI 2023) Table 1: 1.2 TB/s within a node and "
    "direction, so 150 GB/s per GPU; 8 NICs of 100 Gb/s for GPUs (RoCE), so 12.5 GB/s each; 2 of "
    "100 Gb/s for hosts, so 25 GB/s per node. Latencies: TACCL (NSDI 2023) Table 1, DGX-2: 0.7 "
    "us by NVSwitch, 1.7 us by InfiniBand, also assumed for RoCE. "
)
_PCIE_SOURCE = (
    "PCIe 3.0 x16 carries 12.5 GB/s, with 1 us per hop (NVIDIA/nccl, src/graph: 12 GB/s, and 1 "
    "us per step of LL). "
)
_INCAST = (Incast(33, 2**24, 0.9), Incast(65, 2**20, 0.8))
"""Assumed: the paper says which parts of an alltoall are best, and not by how much."""

_ASSUMPTIONS = (
    "Assumed: TCP takes 15 us from host to host, a motif 5 us to launch; GPUs of one node share "
    "only the listed bandwidths. "
)
_INCAST_SOURCE = (
    "Assumed: if more than 64 GPUs send 1 MiB or more to one GPU, 80 % of the bandwidth is left; "
    "if more than 32 send 16 MiB or more, 90 %. In Figure 17, because of incast, the best "
    "alltoall has one part of 128 for small sizes, two of 64 for middle, and four of 32 for "
    "large ones; the paper gives no numbers."
)


def resolve_fabric(text: str) -> Fabric:
    """Return the named fabric: one of :data:`FABRIC_NAMES`, ``hgx2xN``, or a ``.json`` file.

    A machine, by its name or file, is a fabric with one channel, which has all its links.

    Raises:
        InputError: No fabric or machine has this name, or the file is neither.
    """
    is_file = text.endswith(".json")
    if text in catalogue_names() or (":" in text and not is_file):
        return _machine_fabric(resolve_topology(text))
    if is_file:
        if file_kind(Path(text)) == TOPOLOGY:
            return _machine_fabric(resolve_topology(text))
        return load_fabric(Path(text), resolve_topology)
    if text == "dgx1-pcie":
        return _dgx1_pcie()
    if match := re.fullmatch(r"hgx2(?:x([1-9][0-9]{0,5}))?", text):
        nodes = int(match[1] or 1)
        if nodes > MAX_NODES:
            raise ParameterError(f"fabric {text!r} has {nodes} nodes, expected 1 to {MAX_NODES}")
        return _hgx2(text, nodes)
    if isfile(text):  # noqa: PTH113 - never raises
        raise ParameterError(
            f"{text} is a file, and fabric files end in .json: rename it, or give the name of a "
            "fabric"
        )
    hint = (
        f"the fabrics are {', '.join(FABRIC_NAMES)}, hgx2xN of N nodes, machines of 'sccl topo "
        "list', or a .json file of your own"
    )
    raise unknown_name("fabric", text, FABRIC_NAMES, hint)


def _machine_fabric(machine: Topology) -> Fabric:
    source = "Assumed: one channel with all links of the machine, and no launch times."
    return Fabric(machine.name, (Channel("links", machine),), source=source)


def _hgx2(name: str, nodes: int) -> Fabric:
    """Return the fabric of ``nodes`` nodes of SYNDICATE's testbed."""
    ranks = _GPUS * nodes
    gpu = _gpu_channel(f"{name}-gpu", nodes)
    cpu = _cpu_channel(f"{name}-cpu", nodes)
    shared: tuple[SharedBudget, ...] = ()
    if nodes > 1:  # data for the NIC and for the host leave a GPU over its single slot
        outside, hosts = ranks + nodes, [ranks + r // _GPUS for r in range(ranks)]
        for word, flip in (("from", False), ("to", True)):
            for r in range(ranks):
                pairs = [("gpu", (r, outside)), ("cpu", (r, hosts[r]))]
                links = tuple((c, (e[1], e[0]) if flip else e) for c, e in pairs)
                shared += (SharedBudget(f"PCIe {word} GPU {r}", links, _PCIE[1]),)
    return Fabric(
        name=name,
        channels=(
            Channel("gpu", gpu, streams=2, launch_us=_LAUNCH_US, incast=_INCAST),
            Channel("cpu", cpu, launch_us=_LAUNCH_US, incast=_INCAST),
        ),
        shared=shared,
        source=_SOURCE + _PCIE_SOURCE + _ASSUMPTIONS + _INCAST_SOURCE,
    )


def _gpu_channel(name: str, nodes: int) -> Topology:
    """Return the machine of the GPU channel: GPUs at NVSwitches, and their NICs at a network."""
    ranks = _GPUS * nodes
    links = [(r, ranks + r // _GPUS, *_half_link_cost(_NVSWITCH)) for r in range(ranks)]
    switches = [f"NVSwitch {k}" for k in range(nodes)]
    if nodes > 1:
        links += [(r, ranks + nodes, *_half_link_cost(_ROCE)) for r in range(ranks)]
        switches.append("RoCE")
    return _machine(name, ranks, links, switches, _node_ranks(nodes))


def _cpu_channel(name: str, nodes: int) -> Topology:
    """Return the machine of the CPU channel: GPUs at their hosts, and the hosts at a network."""
    ranks = _GPUS * nodes
    links = [(r, ranks + r // _GPUS, *_PCIE) for r in range(ranks)]
    switches = [f"host {k}" for k in range(nodes)]
    if nodes > 1:
        links += [(ranks + k, ranks + nodes, *_half_link_cost(_TCP)) for k in range(nodes)]
        switches.append("TCP")
    return _machine(name, ranks, links, switches, _node_ranks(nodes))


def _dgx1_pcie() -> Fabric:
    """Return a DGX-1 with two channels: NVLink, and the PCIe switches of its two sockets."""
    links = [(r, _GPUS + r // 2, *_PCIE) for r in range(_GPUS)]
    links += [(_GPUS + k, _GPUS + 4 + k // 2, *_PCIE) for k in range(4)]
    links.append((_GPUS + 4, _GPUS + 5, *_SOCKET))
    switches = [*(f"PCIe switch {k}" for k in range(4)), "socket 0", "socket 1"]
    pcie = _machine("dgx1-by-pcie", _GPUS, links, switches, _node_ranks(2, 4))
    return Fabric(
        name="dgx1-pcie",
        channels=(
            Channel("nvlink", resolve_topology("dgx1"), streams=2, launch_us=_LAUNCH_US),
            Channel("pcie", pcie, launch_us=_LAUNCH_US),
        ),
        source="NVIDIA DGX-1 with 8 V100: NVLink as in 'sccl topo show dgx1'; two GPUs per PCIe "
        "switch and two switches per socket, as 'nvidia-smi topo -m' shows (PIX, PHB, "
        f"SYS). {_PCIE_SOURCE}Between sockets 12.5 GB/s (as 'sccl topo import' assumes). "
        "Assumed: a motif takes 5 us to launch.",
    )


def _machine(
    name: str,
    ranks: int,
    both_ways: Iterable[tuple[int, int, float, float]],
    switches: Sequence[str],
    chassis: tuple[tuple[int, ...], ...],
) -> Topology:
    """Return a machine of two-way links (u, v, latency in us, bandwidth in GB/s)."""
    links = [
        Link(*edge, 1, alpha, speed)
        for u, v, alpha, speed in both_ways
        for edge in ((u, v), (v, u))
    ]
    return Topology(
        name=name,
        ranks=ranks,
        links=tuple(sorted(links)),
        alpha_us=max(link.alpha_us for link in links),
        gb_per_s=min(link.gb_per_s for link in links),
        switches=tuple(map(Switch, switches)),
        chassis=chassis if len(chassis) > 1 else (),
    )


def _half_link_cost(cost: tuple[float, float]) -> tuple[float, float]:
    """Return the cost of each of the two links over a switch, from the cost of the path."""
    return (cost[0] / 2, cost[1])


def _node_ranks(count: int, each: int = _GPUS) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(each * k, each * (k + 1))) for k in range(count))


class FabricChannelPart(Part, frozen=True, kw_only=True):
    """A channel of a fabric."""

    name: str
    topology: str
    links: NonNegative
    streams: Annotated[int, Meta(ge=1)]
    launch_us: Annotated[float, Meta(ge=0)]


class FabricPart(Part, frozen=True, kw_only=True):
    """A fabric."""

    name: str
    ranks: Annotated[int, Meta(ge=1)]
    channels: tuple[FabricChannelPart, ...]
    shared: Annotated[NonNegative, "Budgets that links of several channels share."]
    source: str


class FabricListOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train show'."""

    kind: Literal["fabric-list"] = "fabric-list"
    fabrics: tuple[FabricPart, ...]


def list_output() -> FabricListOutput:
    """Return the fabrics of the catalogue."""
    return FabricListOutput(
        inputs={}, fabrics=tuple(_fabric_part(resolve_fabric(name)) for name in FABRIC_NAMES)
    )


def _fabric_part(fabric: Fabric) -> FabricPart:
    channels = [
        build_output(FabricChannelPart, channel, links=len(channel.topology.links))
        for channel in fabric.channels
    ]
    return build_output(FabricPart, fabric, channels=channels, shared=len(fabric.shared))
