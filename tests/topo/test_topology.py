"""Machines: the catalogue, the generators against closed forms, failed parts, bad input."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from dataclasses import replace
from math import comb
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sccl.core.files.json_text import to_text
from sccl.core.files.topologies import load_topology, topology_from_wire, topology_to_wire
from sccl.core.graphs import UNREACHED, distances
from sccl.core.topology import ASCENDING, Budget, BusIds, Link, Topology
from sccl.errors import FormatError, InputError, ParameterError, TopologyError, UnknownNameError
from sccl.topo import catalogue_names, resolve_topology
from sccl.topo.degrade import remove_parts
from sccl.topo.generators import generators
from sccl.topo.machine_model import machine_model
from sccl.topo.measures import measure_topology, unreachable_pair
from sccl.view.text.plan_text import print_topology
from tests.kit.samples import sample
from tests.kit.strategies import topologies


def test_catalogue_names_and_sources() -> None:
    assert catalogue_names() == (
        *("dgx-a100", "dgx-b200", "dgx-h100", "dgx1", "dgx2", "gb200-nvl72", "mi250x8", "mi300x8"),
        *("ndv2x2", "ndv2x4", "ndv4", "ndv4x2"),
        *("teccl-amd", "teccl-amdx2", "teccl-dgx1", "teccl-dgx2x2", "teccl-ndv2x2", "teccl-ndv2x4"),
        *("z52", "z52-pcie"),
    )
    for name in catalogue_names():
        machine = resolve_topology(name)
        assert machine.name == name
        assert len(machine.source) > 50
        assert "alpha" in machine.source
        assert measure_topology(machine).unreachable is None


def test_dgx1_is_numbered_as_nvidia_smi_prints_it() -> None:
    lanes = resolve_topology("dgx1").lanes()
    double = [(0, 3), (3, 2), (2, 1), (1, 5), (5, 6), (6, 7), (7, 4), (4, 0)]
    single = [(0, 1), (1, 3), (3, 7), (7, 5), (5, 4), (4, 6), (6, 2), (2, 0)]
    expected = {e: 2 for u, v in double for e in ((u, v), (v, u))}
    expected |= {e: 1 for u, v in single for e in ((u, v), (v, u))}
    assert lanes == expected
    m = measure_topology(resolve_topology("dgx1"))
    assert (m.diameter, set(m.out_lanes), set(m.in_lanes)) == (2, {6}, {6})


def test_dgx1s_numbers_follow_its_bus_ids() -> None:
    """A dump by bus ids (first two GPUs, the rest is cut off) has these lanes."""
    text = sample("nccl_topo_xml/fragment_dgx1v_cut_off.xml").read_text()
    captured: dict[tuple[str, str], int] = {}
    for part in text.split("<gpu ")[1:]:
        source = re.findall(r'busid="([^"]+)"', text[: text.index(part)])[-1]
        for target, count in re.findall(r'target="([^"]+)" count="(\d)"', part):
            captured[source, target] = int(count)
    ids = sorted({end for edge in captured for end in edge})
    machine = resolve_topology("dgx1")
    assert machine.pci_bus_ids == ASCENDING
    assert len(captured) == 7  # of the 12 that the two have
    for (a, b), count in captured.items():
        assert machine.lanes()[ids.index(a), ids.index(b)] == count


IDS = ("0000:06:00.0", "0000:0a:00.0", "10000:01:1f.7")


def test_gpus_of_ranks_are_kept_as_far_as_they_are_known() -> None:
    given = replace(
        resolve_topology("ring:3"), pci_bus_ids=("6:0.0", "00000000:0A:00.0", "10000:01:1F.7")
    )
    assert given.pci_bus_ids == IDS
    wire = topology_to_wire(given)
    assert topology_from_wire(wire, "x") == given
    assert "pci_bus_ids" not in to_text(topology_to_wire(resolve_topology("ring:3")))
    assert remove_parts(given, links=[(0, 1)]).pci_bus_ids == given.reversed().pci_bus_ids == IDS
    assert remove_parts(given, ranks=[1]).pci_bus_ids == (IDS[0], IDS[2])
    assert machine_model(given).topology.pci_bus_ids == IDS
    ordered = replace(given, pci_bus_ids=ASCENDING)
    assert topology_from_wire(topology_to_wire(ordered), "x").pci_bus_ids == ASCENDING
    assert remove_parts(ordered, links=[(0, 1)]).pci_bus_ids == ASCENDING
    assert remove_parts(ordered, ranks=[1]).pci_bus_ids == ()  # is the lost one still counted?


@pytest.mark.parametrize(
    ("bus_ids", "says"),
    [
        (ASCENDING, "GPUs: numbered by ascending PCI bus id, as nvidia-smi does"),
        (IDS, "GPUs: rank 0 is 0000:06:00.0, rank 1 is 0000:0a:00.0, rank 2 is 10000:01:1f.7"),
        ((), "GPUs: which is which rank is not stated"),
    ],
)
def test_gpus_are_shown(bus_ids: BusIds, says: str) -> None:
    out = io.StringIO()
    print_topology(
        Console(file=out, width=200), replace(resolve_topology("ring:3"), pci_bus_ids=bus_ids)
    )
    assert says in out.getvalue()


def test_z52_is_a_ring_of_eight_and_its_alternative_shares_pcie() -> None:
    ring, pcie = resolve_topology("z52"), resolve_topology("z52-pcie")
    m = measure_topology(ring)
    assert (len(ring.links), m.diameter, set(m.out_lanes)) == (16, 4, {2})
    assert {b.chunks_per_round for b in pcie.budgets} == {1}
    left = {(0, 1), (1, 0), (1, 2), (2, 1), (1, 3), (3, 1)}  # SCCL section 5.2.2
    assert set(pcie.budgets[0].edges) == left


@pytest.mark.parametrize(
    ("name", "ranks", "lanes"), [("dgx2", 16, 6), ("dgx-a100", 8, 12), ("dgx-h100", 8, 18)]
)
def test_switched_machines_limit_what_leaves_and_enters_a_gpu(
    name: str, ranks: int, lanes: int
) -> None:
    machine = resolve_topology(name)
    assert (machine.ranks, len(machine.links)) == (ranks, ranks * (ranks - 1))
    ends = Counter(
        (len({u for u, _ in b.edges}), len({v for _, v in b.edges}), b.chunks_per_round)
        for b in machine.budgets
    )
    assert ends == {(1, ranks - 1, lanes): ranks, (ranks - 1, 1, lanes): ranks}


@pytest.mark.parametrize(("name", "chassis"), [("ndv2x2", 2), ("ndv2x4", 4)])
def test_ndv2_is_dgx1s_joined_by_one_lane_each_way(name: str, chassis: int) -> None:
    machine, dgx1 = resolve_topology(name), resolve_topology("dgx1").lanes()
    inside = {(u, v): n for (u, v), n in machine.lanes().items() if u // 8 == v // 8}
    assert inside == {
        (u + 8 * c, v + 8 * c): 2 * n for (u, v), n in dgx1.items() for c in range(chassis)
    }
    between = set(machine.lanes()) - set(inside)
    assert all(u % 8 == 0 and v % 8 == 1 for u, v in between)
    assert len(between) == chassis * (chassis - 1)
    per_nic = {b.edges: b.chunks_per_round for b in machine.budgets}
    assert per_nic == ({} if chassis == 2 else dict.fromkeys(per_nic, 1))
    assert len(per_nic) == (0 if chassis == 2 else 2 * chassis)


def test_dragonfly_joins_each_pair_of_groups_once() -> None:
    machine = resolve_topology("dragonfly:4x5:2,1")
    between = Counter((u // 4, v // 4) for u, v in machine.lanes() if u // 4 != v // 4)
    assert between == {(a, b): 1 for a in range(5) for b in range(5) if a != b}
    assert Counter(u for u, v in machine.lanes() if u // 4 != v // 4) == dict.fromkeys(range(20), 1)
    assert {n for (u, v), n in machine.lanes().items() if u // 4 == v // 4} == {2}


@pytest.mark.parametrize(
    ("text", "ranks", "links", "diameter", "degree"),
    [
        ("ring:8", 8, 16, 4, {2}),
        ("ring:2", 2, 2, 1, {1}),
        ("line:4", 4, 6, 3, {1, 2}),
        ("star:5", 5, 8, 2, {1, 4}),
        ("full:4", 4, 12, 1, {3}),
        ("mesh:3x3", 9, 24, 4, {2, 3, 4}),
        ("mesh:5", 5, 8, 4, {1, 2}),
        ("torus:4x4x4", 64, 64 * 6, 6, {6}),
        ("torus:2x4", 8, 8 * 3, 3, {3}),
        ("torus:3x5", 15, 60, 3, {4}),
        ("hypercube:4", 16, 64, 4, {4}),
        ("circulant:8:1,3", 8, 32, 2, {4}),
        ("circulant:8:4", 8, 8, None, {1}),
        ("switch:16", 16, 240, 1, {1}),
        ("switch:8x18", 8, 56, 1, {18}),
        ("dragonfly:4x5", 20, 80, 3, {4}),
        ("dragonfly:3x2", 6, 14, 3, {2, 3}),
    ],
)
def test_generators_against_closed_forms(
    text: str, ranks: int, links: int, diameter: int | None, degree: set[int]
) -> None:
    machine = resolve_topology(text)
    m = measure_topology(machine)
    assert (machine.ranks, len(machine.links)) == (ranks, links)
    assert (m.diameter, set(m.out_lanes), set(m.in_lanes)) == (diameter, degree, degree)
    assert machine.reversed().same_capacities(machine)


def test_hypercube_distances_are_binomial() -> None:
    far = distances(resolve_topology("hypercube:5").successors(), [0])
    assert [far.count(d) for d in range(6)] == [comb(5, d) for d in range(6)]


def test_torus_numbers_rows_first() -> None:
    assert set(resolve_topology("torus:3x4").successors()[0]) == {1, 3, 4, 8}


def test_every_generator_has_an_example_that_works() -> None:
    for g in generators():
        assert g.example.startswith(f"{g.name}:")
        assert resolve_topology(g.example).ranks >= 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dgx", "did you mean 'dgx2' or 'dgx1'"),
        ("rign:8", "did you mean 'ring'"),
        ("ring", "as in 'ring:8'"),
        ("ring:x", "expects a whole number from 2 to"),
        ("ring:1", "number from 2"),
        ("ring:-3", "whole number"),
        ("torus:4x", "sides"),
        ("torus:1x1", "expected 2 to"),
        ("torus:9999x9999", "at most"),
        ("hypercube:99", "at most"),
        ("circulant:8", "offsets"),
        ("circulant:8:0", "offsets from 1 to 7"),
        ("full:9999999", "expected 2 to"),
        ("switch:9999", "at most 1024 ranks"),
        ("switch:8x0", "ranks, then (optionally) lanes"),
        ("switch:8x", "ranks, then (optionally) lanes"),
        ("dragonfly:4", "ranks per group x groups"),
        ("dragonfly:4x5:0,1", "ranks per group x groups"),
        ("dragonfly:999x999", "at most 1024 ranks"),
        ("no/such.json", "cannot read no/such.json"),
    ],
)
def test_bad_names_say_what_to_do(text: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        resolve_topology(text)


def test_unknown_names_are_of_their_own_kind() -> None:
    with pytest.raises(UnknownNameError):
        resolve_topology("dgx")


def test_failed_link_and_rank() -> None:
    degraded = remove_parts(resolve_topology("dgx1"), links=[(0, 4), (4, 0)], ranks=[3])
    assert degraded.ranks == 7
    assert degraded.labels == ("0", "1", "2", "4", "5", "6", "7")
    assert len(degraded.links) == 32 - 2 - 8
    assert (0, 3) not in degraded.edges  # 0 and the old 4
    assert degraded.chassis == ((0, 1, 2), (3, 4, 5, 6))
    assert "rank 3" in degraded.source
    again = remove_parts(degraded, ranks=[0])
    assert again.labels == ("1", "2", "4", "5", "6", "7")


def test_budgets_shrink_with_failed_parts() -> None:
    degraded = remove_parts(resolve_topology("z52-pcie"), ranks=[1])
    assert [b.name for b in degraded.budgets] == ["PCIe right socket"]


@pytest.mark.parametrize(
    ("links", "ranks", "says"),
    [([(0, 7)], [], "no link 0->7"), ([], [9], "no rank 9"), ([], range(7), "1 rank")],
)
def test_parts_that_cannot_fail(links: list[tuple[int, int]], ranks: list[int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        remove_parts(resolve_topology("dgx1"), links, ranks)


@given(topologies())
def test_topologies_survive_json_and_reversal(
    tmp_path_factory: pytest.TempPathFactory, topology: Topology
) -> None:
    path = tmp_path_factory.mktemp("topo") / "t.json"
    path.write_text(to_text(topology_to_wire(topology)))
    assert load_topology(path) == topology
    assert topology.reversed().reversed() == topology
    assert to_text(topology_to_wire(load_topology(path))) == path.read_text()


def machine(**changes: object) -> dict[str, object]:
    plain: dict[str, object] = {
        "name": "m",
        "ranks": 3,
        "alpha_us": 1,
        "gb_per_s": 10,
        "links": [{"src": 0, "dst": 1, "both_ways": True}, {"src": 1, "dst": 2}],
    }
    return {**plain, **changes}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"name": "m"}', "missing required field"),
        (json.dumps(machine(ranks="3")), "Expected `int`, got `str` - at `$.ranks`"),
        (json.dumps(machine(links=[{"src": 0}])), "at `$.links[0]`"),
        (json.dumps(machine(links=[{"src": 0, "dst": 1, "lanes": 0}])), "$.links[0].lanes"),
        (json.dumps(machine(lanes=1)), "unknown field `lanes`"),
        (json.dumps(machine(schema=2)), "$.schema"),
        (json.dumps(machine(links=[])), "has no links"),
        (json.dumps(machine(ranks=0)), "0 ranks"),
        (json.dumps(machine(name=" ")), "no name"),
        (json.dumps(machine(alpha_us=-1)), "alpha_us is -1"),
        (json.dumps(machine(gb_per_s=0)), "gb_per_s is 0"),
        (json.dumps(machine(links=[{"src": 0, "dst": 3}])), "node 3 does not exist"),
        (json.dumps(machine(links=[{"src": 1, "dst": 1}])), "two different nodes"),
        (json.dumps(machine(links=[{"src": 0, "dst": 1}] * 2)), "listed twice"),
        (
            json.dumps(machine(budgets=[{"name": "b", "edges": [[2, 0]], "chunks_per_round": 1}])),
            "edge 2->0 is not a link",
        ),
        (
            json.dumps(machine(budgets=[{"name": "b", "edges": [[0, 1]], "chunks_per_round": 0}])),
            "chunks_per_round",
        ),
        (
            json.dumps(
                machine(budgets=[{"name": "link 0->1", "edges": [[1, 2]], "chunks_per_round": 1}])
            ),
            "another budget or link has this name",
        ),
        (json.dumps(machine(ranks=300_000_000)), "expected 2 to 65536"),
        (json.dumps(machine(chassis=[[0, 0]])), "rank 0 is listed twice"),
        (json.dumps(machine(labels=["a"])), "1 labels for 3 ranks"),
        (json.dumps(machine(pci_bus_ids=["06:00.0"])), "1 pci_bus_ids for 3 ranks, expected one"),
        (json.dumps(machine(pci_bus_ids=["1:0.0", "2:0.8", "3:0.0"])), "has '2:0.8' for rank 1"),
        (
            json.dumps(machine(pci_bus_ids=["1:0.0\n", "2:0.0", "3:0.0"])),
            "has '1:0.0\\n' for rank 0",
        ),
        (json.dumps(machine(pci_bus_ids=["1:0.0", "0:1:0.0", "3:0.0"])), "for ranks 0 and 1"),
        (json.dumps(machine(pci_bus_ids="by name")), "`$.pci_bus_ids`"),
    ],
)
def test_bad_files_name_field_and_position(content: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(FormatError, match=re.escape(says)) as error:
        load_topology(path)
    assert str(path) in str(error.value)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="not a text file"):
        load_topology(path)
    with pytest.raises(InputError, match="cannot read"):
        load_topology(tmp_path)


def test_hand_written_files_may_be_short(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(machine()))
    mine = load_topology(path)
    assert mine.edges == {(0, 1), (1, 0), (1, 2)}
    assert {(k.alpha_us, k.gb_per_s, k.lanes) for k in mine.links} == {(1.0, 10.0, 1)}


def test_topologies_check_themselves() -> None:
    good = resolve_topology("ring:3")
    with pytest.raises(TopologyError, match="another budget"):
        replace(good, budgets=(Budget("b", ((0, 1),), 1), Budget("b", ((1, 2),), 1)))
    with pytest.raises(TopologyError, match="covers no edge"):
        replace(good, budgets=(Budget("b", (), 1),))
    with pytest.raises(TopologyError, match="lists an edge twice"):
        replace(good, budgets=(Budget("b", ((0, 1), (0, 1)), 1),))
    with pytest.raises(TopologyError, match="alpha_us is nan"):
        replace(good, links=(Link(0, 1, 1, float("nan"), 1.0),))
    with pytest.raises(ParameterError, match="no link"):
        remove_parts(good, links=[(0, 0)])


@given(topologies(max_ranks=6), st.data())
def test_two_ranks_without_a_path_are_found(whole: Topology, data: st.DataObject) -> None:
    left = data.draw(st.lists(st.sampled_from(whole.links), min_size=1, unique=True))
    topology = replace(whole, links=tuple(left), budgets=())
    pair = unreachable_pair(topology)
    assert (pair is None) == (measure_topology(topology).unreachable is None)
    if pair is not None:
        assert distances(topology.successors(), [pair[0]])[pair[1]] == UNREACHED
