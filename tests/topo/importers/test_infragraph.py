"""InfraGraph: machines written out and read back, slices and schemes, who leaves by which NIC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError
from sccl.topo import importers, resolve_topology
from sccl.topo.importers import Hints, Imported, load_importer
from sccl.topo.importers.common.infragraph_nodes import indices
from sccl.topo.measures import measure_topology

INFRA = load_importer("infragraph")

Json = Mapping[str, object]


def edge(first: str, second: str, link: str = "wire", scheme: str = "one2one") -> Json:
    """Return an edge within a device."""
    return {
        "ep1": {"component": first},
        "ep2": {"component": second},
        "scheme": scheme,
        "link": link,
    }


def between(first: str, second: str) -> Json:
    """Return an edge between instances: ``host[0].nic[1]``."""
    ends = [one.split(".", 1) for one in (first, second)]
    eps = [{"instance": instance, "component": component} for instance, component in ends]
    return {"ep1": eps[0], "ep2": eps[1], "scheme": "one2one", "link": "net"}


def component(name: str, count: int, choice: str = "", description: str = "") -> Json:
    return {"name": name, "count": count, "choice": choice or name, "description": description}


def link(name: str, gb_per_s: float, us: float) -> Json:
    bandwidth = {"choice": "gigabits_per_second", "gigabits_per_second": 8 * gb_per_s}
    physical = {"bandwidth": bandwidth, "latency": {"choice": "ns", "ns": 1000 * us}}
    return {"name": name, "physical": physical}


NET = link("net", 12.5, 2)


def read(*devices: Json, alone: bool = False, **fields: object) -> Imported:
    """Import devices, the first of which has XPUs."""
    file = devices[0] if alone else {"devices": list(devices), "links": [NET], **fields}
    return INFRA.read(json.dumps(file), Hints("m"))


def written(machine: Topology) -> Json:
    """Return a machine whose links go both ways, with one lane, as a device."""
    speeds = sorted({(k.gb_per_s, k.alpha_us) for k in machine.links})
    names = [f"xpu[{rank}]" for rank in range(machine.ranks)]
    names += [f"switch[{i}]" for i in range(len(machine.switches))]
    return {
        "name": "box",
        "components": [component("xpu", machine.ranks), component("switch", len(machine.switches))],
        "links": [link(f"l{i}", *costs) for i, costs in enumerate(speeds)],
        "edges": [
            edge(names[k.src], names[k.dst], f"l{speeds.index((k.gb_per_s, k.alpha_us))}")
            for k in machine.links
            if k.src < k.dst
        ],
    }


MACHINES = ["ring:5", "rail:3x3x2:2", "fattree:4", "switch2d:3x4", "rfs:2x3x4", "torus:3x4@7,3GB"]


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("text_of", [json.dumps, yaml.safe_dump])
def test_machines_are_read_back(name: str, text_of: object) -> None:
    machine = resolve_topology(name)
    assert callable(text_of)
    text = text_of(written(machine))
    assert INFRA.sniff(text)
    found = INFRA.read(text, Hints("m")).topology
    assert found.links == machine.links
    assert len(found.switches) == len(machine.switches)


@given(st.integers(2, 6), st.data())
def test_random_machines_are_read_back(ranks: int, data: st.DataObject) -> None:
    cycle = {(i, (i + 1) % ranks) for i in range(ranks)}
    more = data.draw(st.sets(st.tuples(*[st.integers(0, ranks - 1)] * 2)))
    pairs = sorted({(min(p), max(p)) for p in cycle | more if p[0] != p[1]})
    costs = st.tuples(st.sampled_from([1.0, 12.5, 50.0]), st.sampled_from([0.0, 0.5, 2.0]))
    drawn = {pair: data.draw(costs) for pair in pairs}
    links = [link(f"l{i}", *cost) for i, cost in enumerate(drawn.values())]
    edges = [edge(f"xpu[{a}]", f"xpu[{b}]", f"l{i}") for i, (a, b) in enumerate(drawn)]
    box = {"name": "box", "components": [component("xpu", ranks)], "links": links, "edges": edges}
    found = read(box, alone=True).topology
    assert {k.edge: (k.gb_per_s, k.alpha_us) for k in found.links} == {
        ends: cost for (a, b), cost in drawn.items() for ends in ((a, b), (b, a))
    }


@given(st.integers(0, 5), st.lists(st.none() | st.integers(-7, 7), min_size=1, max_size=3))
def test_slices_are_pythons(count: int, parts: list[int | None]) -> None:
    word = f"nic[{':'.join('' if part is None else str(part) for part in parts)}]"
    everything = range(count)
    if len(parts) == 1 and parts[0] is not None:
        if -count <= parts[0] < count:
            assert list(indices(word, count, "w")) == [everything[parts[0]]]
        else:
            with pytest.raises(InputError, match="w: "):
                indices(word, count, "w")
    elif len(parts) == 3 and parts[2] == 0:
        with pytest.raises(InputError, match="no slice"):
            indices(word, count, "w")
    else:
        every = slice(None) if len(parts) == 1 else slice(*parts)
        assert list(indices(word, count, "w")) == list(everything[every])


def test_schemes() -> None:
    box = {"name": "box", "components": [component("xpu", 4)], "links": [link("wire", 1, 1)]}
    expected = {
        "many2many": {(a, b) for a, b in product(range(4), repeat=2) if a != b},
        "one2one": {(0, 1), (1, 2), (2, 3)},
        "ring": {(0, 1), (1, 2), (2, 3), (3, 0)},
    }
    for scheme, pairs in expected.items():
        ends = ("xpu[:-1]", "xpu[1:]") if scheme == "one2one" else ("xpu", "xpu")
        found = read({**box, "edges": [edge(*ends, scheme=scheme)]}, alone=True).topology
        assert found.edges == pairs | {(b, a) for a, b in pairs}


def server(nics: int) -> Json:
    """Return a box with a switch of its own, and PCIe switches with two XPUs each to its NICs."""
    return {
        "name": "box",
        "components": [
            component("xpu", 4, description="NVIDIA A100"),
            component("nvsw", 1, "switch"),
            component("pcie", 2, "switch"),
            component("nic", nics),
            component("cpu", 2),
            component("disk", 3, "custom"),
        ],
        "links": [link("nvlink", 300, 0.5), {"name": "pci", "description": "PCIe gen5 x16"}],
        "edges": [
            edge("xpu", "nvsw", "nvlink", "many2many"),
            *(edge(f"pcie[{i}]", f"xpu[{2 * i}:{2 * i + 2}]", "pci", "many2many") for i in (0, 1)),
            *(edge(f"nic[{n}]", f"pcie[{n * 2 // nics}]", "pci") for n in range(nics)),
            edge("cpu", "pcie", "pci"),
            edge("cpu", "cpu", "pci", "many2many"),
            edge("cpu[0]", "disk", "pci", "many2many"),
        ],
    }


SWITCH: Json = {
    "name": "leaf",
    "components": [component("port", 16), component("asic", 1, "cpu")],
    "links": [{"name": "ic"}],
    "edges": [edge("asic", "port", "ic", "many2many")],
}


@pytest.mark.parametrize(
    ("nics", "users"),
    [
        (4, [{0}, {1}, {2}, {3}]),
        (2, [{0, 1}, {2, 3}]),
        (1, [{0, 1}]),
        (8, [{0}, {0}, {1}, {1}, {2}, {2}, {3}, {3}]),
    ],
)
def test_gpus_leave_by_their_nics(nics: int, users: list[set[int]]) -> None:
    instances = [{"name": "host", "device": "box", "count": 2}, {"name": "sw", "device": "leaf"}]
    joined = [between("host.nic", "sw.port")]
    machine = read(server(nics), SWITCH, instances=instances, edges=joined).topology
    assert machine.ranks == 8
    assert [s.name for s in machine.switches] == ["host.0.nvsw.0", "host.1.nvsw.0", "sw.0.port.0"]
    out = machine.ranks + 2
    lanes = {k.src: k.lanes for k in machine.links if k.dst == out}
    expected = {rank: sum(rank in user for user in users) for rank in range(4)}
    per_box = {r: n for r, n in expected.items() if n}
    assert lanes == per_box | {r + 4: n for r, n in per_box.items()}
    assert {k.gb_per_s for k in machine.links if out in k.edge} == {12.5}
    assert {k.alpha_us for k in machine.links if out in k.edge} == {2.0}
    shared = {
        frozenset(max(a, b) == out and min(a, b) for a, b in x.edges) for x in machine.budgets
    }
    many = [user for user in users if len(user) > 1]
    assert shared == {frozenset(r + 4 * at for r in user) for user in many for at in (0, 1)}
    assert {b.gb_per_s for b in machine.budgets} <= {12.5}
    assert machine.chassis == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert measure_topology(machine).unreachable is None


def test_nics_of_a_box_alone_are_reported() -> None:
    found = read(server(2), alone=True)
    assert [(nic.name, nic.ranks) for nic in found.nics] == [("nic.0", (0, 1)), ("nic.1", (2, 3))]
    assert len(found.topology.switches) == 1


def test_without_links_of_their_own_all_of_the_box_forwards() -> None:
    box = server(2)
    assert isinstance(box["edges"], list)
    machine = read({**box, "edges": box["edges"][1:]}, alone=True).topology
    # The CPUs have two ends each and are wires, so the two joined PCIe switches remain.
    assert {s.name for s in machine.switches} == {"pcie.0", "pcie.1"}
    assert len(machine.links) == 2 * (4 + 1)
    assert {k.gb_per_s for k in machine.links} == {50.0}


def test_devices_within_devices() -> None:
    card = {
        "name": "card",
        "components": [component("pins", 1, "custom"), component("port", 2)],
        "links": [{"name": "serdes"}],
        "edges": [edge("pins", "port", "serdes", "many2many")],
    }
    box = {
        "name": "box",
        "components": [component("xpu", 2), component("card", 2, "device")],
        "links": [link("nvlink", 100, 1), {"name": "pci", "description": "PCIe 4"}],
        "edges": [edge("xpu[0]", "xpu[1]", "nvlink"), edge("xpu", "card.pins", "pci")],
    }
    instances = [{"name": "a", "device": "box", "count": 2}]
    joined = [between("a[0].card[0:2].port[1]", "a[1].card.port[0]")]
    machine = read(box, card, instances=instances, edges=joined).topology
    pairs = {(0, 1), (2, 3), (0, 2), (1, 3)}  # of a box, and by the i-th card of both
    assert machine.edges == pairs | {(b, a) for a, b in pairs}


def test_links_of_the_gpu_are_spread_where_no_bandwidth_is_stated() -> None:
    box = {
        "name": "box",
        "components": [
            component("xpu", 4, description="NVIDIA H100 SXM5"),
            component("sw", 3, "switch"),
        ],
        "links": [{"name": "nvlink"}],
        "edges": [edge("xpu", "sw", "nvlink", "many2many")],
    }
    text = json.dumps(box)
    found = INFRA.read(text, Hints("m"))
    assert {k.gb_per_s for k in found.topology.links} == {18 * 25 / 3}
    assert any("h100" in line and "data sheet" in line for line in found.assumed)
    told = INFRA.read(text, Hints("m", gpu="a100", alpha_us=3.0)).topology
    assert {(k.gb_per_s, k.alpha_us) for k in told.links} == {(100.0, 3.0)}
    assert {k.alpha_us for k in found.topology.links} == {0.7}


def test_annotations_say_which_rank_each_is() -> None:
    box = {
        "name": "box",
        "components": [component("xpu", 3)],
        "links": [link("wire", 1, 1)],
        "edges": [edge("xpu[0]", "xpu[1:]", scheme="many2many")],
    }
    nodes = [
        {"name": name, "attributes": [{"attribute": "rank", "value": str(rank)}]}
        for name, rank in (("a[0]xpu[0]", 2), ("a.0.xpu.1", 0), ("a.0.xpu.2", 1))
    ]
    file = {"devices": [box], "instances": [{"name": "a", "device": "box"}]}
    whole = {"infrastructure": file, "annotations": {"nodes": nodes}}
    machine = INFRA.read(json.dumps(whole), Hints("m")).topology
    assert machine.labels == ("xpu.1", "xpu.2", "xpu.0")
    assert machine.edges == {(2, 0), (0, 2), (2, 1), (1, 2)}
    nodes.pop()
    found = INFRA.read(json.dumps(whole), Hints("m"))
    assert found.topology.labels == ("xpu.0", "xpu.1", "xpu.2")
    assert "ranks are in the order of the file: not all are annotated" in found.assumed


def test_thousand_gpus() -> None:
    """Each in a box of 8 around 4 switches, at 8 rails of one leaf switch."""
    hosts = 128
    box = {
        "name": "box",
        "components": [
            component("xpu", 8, description="H100"),
            component("nvsw", 4, "switch"),
            component("nic", 8),
        ],
        "links": [{"name": "nvlink"}, {"name": "pcie"}],
        "edges": [edge("xpu", "nvsw", "nvlink", "many2many"), edge("xpu", "nic", "pcie")],
    }
    leaf = {**SWITCH, "components": [component("port", hosts), component("asic", 1, "switch")]}
    machine = read(
        box,
        leaf,
        instances=[
            {"name": "host", "device": "box", "count": hosts},
            {"name": "rail", "device": "leaf", "count": 8},
        ],
        edges=[between(f"host.nic[{i}]", f"rail[{i}].port") for i in range(8)],
    ).topology
    assert machine.ranks == 1024
    assert len(machine.switches) == 4 * hosts + 8
    assert len(machine.links) == 2 * (1024 * 4 + 1024)


GOOD: Json = {
    "name": "box",
    "components": [component("xpu", 2)],
    "links": [link("wire", 1, 1)],
    "edges": [edge("xpu[0]", "xpu[1]")],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": []}, "no edge joins two components"),
        ({"edges": [edge("xpu[0]", "xpu[7]")]}, r"edges\[0\]: 'xpu\[7\]' is not there"),
        ({"edges": [edge("xpu[a]", "xpu[0]")]}, r"edges\[0\]: 'xpu\[a\]' has no slice"),
        ({"edges": [edge("xpu", "xpu", scheme="star")]}, "scheme is 'star'"),
        ({"components": [component("xpu", 1)], "edges": []}, "1 components of choice xpu"),
        ({"components": [component("xpu", 20_000)]}, "20000 components of choice xpu"),
        ({"components": [component("xpu", 2), component("xpu", 2)]}, "twice"),
        ({"components": [component("none", 2, "device")]}, "'none' is not listed"),
        ({"links": [link("wire", 0, 1)]}, "link 'wire': its bandwidth in GB/s is 0"),
        ({"components": 1}, "expected an infrastructure"),
        (
            {
                "components": [component("xpu", 16_000)],
                "edges": [edge("xpu", "xpu", scheme="many2many")],
            },
            "more than 2097152 edges",
        ),
    ],
)
def test_invalid_file_is_reported(change: Json, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read({**GOOD, **change}, alone=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instances": [{"name": "a", "device": "b"}]}, "device 'b' is not listed"),
        ({"instances": [{"name": "a", "device": "box", "count": 400_000}]}, "800000 components"),
        ({"edges": [between("x.xpu", "y.xpu")]}, "instance 'x' is not listed"),
    ],
)
def test_invalid_instances_are_reported(fields: Json, message: str) -> None:
    whole = {"devices": [GOOD], "instances": [{"name": "a", "device": "box"}], **fields}
    with pytest.raises(InputError, match=message):
        INFRA.read(json.dumps(whole), Hints("m"))


def test_device_within_itself_is_rejected() -> None:
    box = {**GOOD, "components": [component("box", 2, "device")]}
    with pytest.raises(InputError, match="nested more than"):
        read(box, instances=[{"name": "a", "device": "box"}])


OLDER = """\
name: pair
devices:
- name: box
  components:
  - {name: npu, type: npu}
  - {name: hub, type: custom}
  links:
  - {name: wire}
  connections: [npu.0.wire.hub.0, npu.1.wire.hub.0]
"""


@pytest.mark.parametrize(
    "text",
    [
        OLDER,
        OLDER.replace("npu", "xpu"),
        OLDER.replace("npu", "port").replace("devices", "device"),
        OLDER[: OLDER.index("  connections")],
        "infrastructure:\n  connections:\n    - host.0.nic.1.eth.leaf.0.port.1\n",
        'connections: ["a.0.wire.b.1"]',
    ],
)
@pytest.mark.parametrize("name", ["auto", "infragraph"])
def test_import_names_the_version_of_an_older_infragraph(text: str, name: str) -> None:
    with pytest.raises(FormatError, match=r"InfraGraph 0\.1\.0 .*expected the schema of 0\.4\.0"):
        importers.read_machine(text, importers.Hints("x"), "old.yaml", name)


@pytest.mark.parametrize(
    "text", ["connections:\n  - server.example.org\n", "type: xpu\n", "a: 1\n"]
)
def test_import_takes_other_yaml_for_no_infragraph(text: str) -> None:
    assert not INFRA.sniff(text)


def test_import_refuses_a_device_without_xpus_by_their_number() -> None:
    text = """\
name: card
components:
- {name: asic, choice: cpu, count: 1}
- {name: port, choice: port, count: 2}
edges:
- {ep1: {component: asic}, ep2: {component: port}, scheme: many2many, link: ic}
"""
    with pytest.raises(InputError, match="0 components of choice xpu"):
        importers.read_machine(text, importers.Hints("x"), "card.yaml")
