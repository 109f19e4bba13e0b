"""What motifs share of a fabric: kinds of links, and what schedules take of them."""

from __future__ import annotations

from fractions import Fraction

from sccl.collectives import resolve as collective
from sccl.core.fabric import Channel, Fabric, SharedBudget
from sccl.topo import fabric_of, resolve
from sccl.train.resources import FabricResources, resources_of
from tests.kit.tacos import found, schedule

HGX = fabric_of("hgx2x4")


def loads_of(fabric: Fabric, channel: int, asked: str, size: int) -> dict[str, float]:
    """Return the loads of what TACOS finds, by the names of resources."""
    topology, resources = fabric.channels[channel].topology, resources_of(fabric)
    best = found(topology, collective(asked, topology.ranks), size)
    loads = resources.loads(schedule(best), channel, best.bound.attained)
    return {resources.names[kind]: float(load) for kind, load in loads.items()}


def test_links_that_are_alike_are_one_resource() -> None:
    resources = resources_of(HGX)
    assert resources.names[:4] == (
        "gpu: rank to NVSwitch, 150 GB/s",
        "gpu: rank to RoCE, 12.5 GB/s",
        "gpu: NVSwitch to rank, 150 GB/s",
        "gpu: RoCE to rank, 12.5 GB/s",
    )
    assert resources.names[-2:] == ("PCIe from GPU 0 and alike", "PCIe to GPU 0 and alike")
    assert len(resources.pipes) == 128 + 72 + 64


def test_phases_within_nodes_and_across_them_have_nothing_in_common() -> None:
    inside = loads_of(HGX, 0, "allgather@4x8", 1 << 20)
    across = loads_of(HGX, 0, "allgather@8x4.strided", 1 << 20)
    assert set(inside) == {"gpu: rank to NVSwitch, 150 GB/s", "gpu: NVSwitch to rank, 150 GB/s"}
    assert not set(inside) & set(across)
    assert all(0.9 < load <= 1 for load in inside.values())


def test_what_leaves_over_one_channel_takes_of_what_channels_share() -> None:
    across = loads_of(HGX, 0, "alltoall@8x4.strided", 1 << 20)
    assert across["PCIe from GPU 0 and alike"] == across["gpu: rank to RoCE, 12.5 GB/s"]
    assert loads_of(HGX, 1, "alltoall@8x4.strided", 1 << 20).keys() & across.keys() == {
        "PCIe from GPU 0 and alike",
        "PCIe to GPU 0 and alike",
    }


def test_loads_are_exact() -> None:
    """A chunk of 1,000 bytes over a link of 1 GB/s for 1 us, in 4 us."""
    pair = resolve("full:2@1GB+3us")
    bus = SharedBudget("bus", (("one", (0, 1)), ("two", (0, 1))), 2.0)
    fabric = Fabric("pair", (Channel("one", pair), Channel("two", pair)), (bus,))
    best = found(pair, collective("broadcast", 2), 1000)
    assert best.bound.attained == 4
    resources = resources_of(fabric)
    assert isinstance(resources, FabricResources)
    loads = resources.loads(schedule(best), 0, Fraction(4))
    by_name = {resources.names[kind]: load for kind, load in loads.items()}
    assert by_name == {
        "one: rank to rank, 1 GB/s": Fraction(1, 4),
        "bus and alike": Fraction(1, 8),
    }
