"""Fabrics: the catalog, round trips of files, and invalid ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sccl.core.files.json_text import to_text
from sccl.core.files.topologies import topology_to_wire
from sccl.errors import FormatError, InputError, TopologyError
from sccl.topo import resolve_topology
from sccl.topo.measures import unreachable_pair
from sccl.training.fabric_names import FABRIC_NAMES as FABRICS
from sccl.training.fabric_names import resolve_fabric
from sccl.training.files.fabrics import fabric_to_wire, load_fabric
from sccl.training.types.fabric import Channel, Fabric, Incast, SharedBudget

RING = resolve_topology("ring:4")
PAIR = Fabric("pair", (Channel("a", RING), Channel("b", resolve_topology("full:4"))))


@pytest.mark.parametrize("name", FABRICS)
def test_every_channel_joins_all_ranks_and_files_say_it_all(name: str, tmp_path: Path) -> None:
    fabric = resolve_fabric(name)
    assert fabric.name == name
    assert all(unreachable_pair(channel.topology) is None for channel in fabric.channels)
    assert "SYNDICATE" in fabric.source or "DGX-1" in fabric.source
    path = tmp_path / "fabric.json"
    path.write_text(to_text(fabric_to_wire(fabric)))
    assert load_fabric(path, resolve_topology) == fabric


def test_nodes_of_the_testbed_have_the_bandwidths_of_its_table() -> None:
    gpu, cpu = resolve_fabric("hgx2x16").channels
    speeds = {
        (link.src < 128, link.dst): link.gb_per_s for link in gpu.topology.links if link.src < 128
    }
    assert sum(speed for (_, dst), speed in speeds.items() if dst < 144) == 16 * 150
    assert {k.gb_per_s for k in gpu.topology.links if k.dst == 144} == {100 / 8}
    assert {k.gb_per_s for k in cpu.topology.links if k.dst == 144} == {2 * 100 / 8}
    assert resolve_fabric("hgx2").shared == ()
    shared = resolve_fabric("hgx2x4").shared
    assert len(shared) == 2 * 32
    assert shared[0].links == (("gpu", (0, 36)), ("cpu", (0, 32)))


def test_channels_may_be_told_by_names_of_machines(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    channels = [{"name": "a", "topology": "ring:4"}, {"name": "b", "topology": "full:4"}]
    path.write_text(json.dumps({"name": "pair", "channels": channels}))
    assert load_fabric(path, resolve_topology) == PAIR
    assert PAIR.channel("b").topology.name == "full:4"


def test_machines_are_fabrics_with_one_channel(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(to_text(topology_to_wire(RING)))
    for text in ("ring:4", str(path)):
        fabric = resolve_fabric(text)
        assert fabric.channels == (Channel("links", RING),)
        assert fabric.source.startswith("Assumed: ")
    assert resolve_fabric("dgx1").ranks == 8


def of(**changes: object) -> Fabric:
    """Return a fabric of which the second channel is another."""
    return replace(PAIR, channels=(PAIR.channels[0], replace(PAIR.channels[1], **changes)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a"}, "several channels named 'a', 'a': give each a different name"),
        ({"name": " "}, "give each a different name"),
        ({"topology": resolve_topology("ring:5")}, "channel 'b' joins 5 ranks, and 'a' 4"),
        ({"streams": 0}, "streams is 0, expected 1 to 64"),
        ({"launch_us": float("nan")}, "launch_us is nan"),
        ({"slowdown": 1.5}, "slowdown is 1.5, expected 0 to 1"),
        ({"incast": (Incast(1, 0, 0.5),)}, "expected 2 senders or more"),
    ],
)
def test_channels_that_are_none(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        of(**changes)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (SharedBudget("nic", (("a", (0, 1)), ("c", (0, 1))), 1.0), "has no channel 'c'"),
        (SharedBudget("nic", (("a", (0, 1)), ("a", (0, 2))), 1.0), "link 0->2 is none of channel"),
        (SharedBudget("nic", (("a", (0, 1)),), 1.0), "has 1 different links, expected 2 or more"),
        (SharedBudget("nic", (("a", (0, 1)), ("b", (0, 1))), 0.0), "gb_per_s is 0"),
    ],
)
def test_budgets_that_are_none(budget: SharedBudget, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        replace(PAIR, shared=(budget,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hgx2x999", "has 999 nodes, expected 1 to 128"),
        ("hgx", "did you mean 'hgx2'"),
        ("missing.json", "missing.json"),
    ],
)
def test_unknown_fabric_is_rejected(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve_fabric(text)


def test_files_that_contradict_themselves_say_where(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    channels = [{"name": "a", "topology": "ring:4"}, {"name": "b", "topology": "ring:5"}]
    path.write_text(json.dumps({"name": "bad", "channels": channels}))
    with pytest.raises(FormatError, match=r"bad\.json: fabric 'bad', channel 'b' joins 5 ranks"):
        load_fabric(path, resolve_topology)
    path.write_text(json.dumps({"name": "bad", "channels": [{"name": "a", "topology": "rung:4"}]}))
    with pytest.raises(InputError, match="rung"):
        load_fabric(path, resolve_topology)
