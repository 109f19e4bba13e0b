"""Profiles of TACCL: published ones, matrices written and read back, invalid files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError
from sccl.topo import resolve_topology
from sccl.topo.importers import Hints, load_importer
from sccl.topo.importers.taccl import machine_of_profile
from sccl.topo.machine_model import unify_lane_speeds
from tests.kit.samples import imported
from tests.kit.strategies import topologies

TACCL = load_importer("taccl")


TWO_NVLINKS = {(0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7)}
"""Pairs of an NDv2 whose links cost the lower beta (microsoft/taccl, generic.py, ndv2)."""
ONE_NVLINK = {(0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6)}


def test_lower_beta_is_that_of_pairs_with_two_nvlinks() -> None:
    text = '{"name": "n_1MB", "gpus_per_node": 8, "alpha": 1, "node_betas_list": [10, 25]}'
    links = TACCL.read(text, Hints("m")).topology.links
    assert {k.edge for k in links if k.src < k.dst and k.gb_per_s == 100.0} == TWO_NVLINKS
    assert {k.edge for k in links if k.src < k.dst and k.gb_per_s == 40.0} == ONE_NVLINK
    assert len(links) == 32


@pytest.mark.parametrize(
    ("name", "betas"), [("1MB", [23, 46]), ("32KB", [23, 46]), ("1KB", [22.9, 46.1])]
)
def test_ndv2_is_a_dgx1_at_23_and_46_us_per_mb(name: str, betas: list[float]) -> None:
    found = imported(f"taccl/topo/topo-ndv2-{name}.json", "taccl")
    machine, dgx1 = found.topology, resolve_topology("dgx1")
    assert machine.name == f"NDv2_{name}"
    assert machine.edges == dgx1.edges
    slow = max(link.gb_per_s for link in machine.links) / 1.5
    assert {k.edge for k in machine.links if k.src < k.dst and k.gb_per_s > slow} == TWO_NVLINKS
    assert sorted({1000 / link.gb_per_s for link in machine.links}) == pytest.approx(betas, abs=0.1)
    assert {link.alpha_us for link in machine.links} == {0.3}
    (nic,) = found.nics
    assert nic.ranks == tuple(range(8))
    assert nic.gb_per_s == pytest.approx(9.524, abs=0.01)
    assert nic.alpha_us == 2.6


def test_profile_of_1_mb_is_of_lanes() -> None:
    machine, _ = unify_lane_speeds(imported("taccl/topo/topo-ndv2-1MB.json", "taccl").topology)
    lanes = {edge: 2 for a, b in TWO_NVLINKS for edge in ((a, b), (b, a))}
    assert machine.lanes() == dict.fromkeys(machine.edges, 1) | lanes
    assert machine.gb_per_s == 21.739


def test_dgx2_is_16_gpus_around_a_switch() -> None:
    found = imported("taccl/topo/topo-dgx2-1MB.json", "taccl")
    assert found.topology.ranks == 16
    assert len(found.topology.links) == 16 * 15
    assert {link.gb_per_s for link in found.topology.links} == {125.0}
    assert {b.chunks_per_round for b in found.topology.budgets} == {1}
    assert len(found.topology.budgets) == 32
    assert [nic.ranks for nic in found.nics] == [(2 * i, 2 * i + 1) for i in range(8)]
    small = imported("taccl/topo/topo-dgx2-1KB.json", "taccl")
    assert {link.alpha_us for link in small.topology.links} == {0.3}


@pytest.mark.parametrize(
    ("name", "gpus", "switched"),
    [
        ("MI300X", 8, False),
        ("mi300x 1MB", 4, False),
        ("MI250X", 8, True),
        ("A100", 8, True),
        ("node", 8, True),
    ],
)
def test_gpus_that_no_switches_join_have_a_link_for_each_pair(
    name: str, gpus: int, switched: bool
) -> None:
    text = json.dumps({"name": name, "gpus_per_node": gpus, "alpha": 1, "node_betas_list": [20]})
    found = TACCL.read(text, Hints("m"))
    assert len(found.topology.links) == gpus * (gpus - 1)
    assert bool(found.topology.budgets) == switched
    assert any("link to a switch" in line for line in found.assumed) == switched


def test_alpha_that_the_file_has_is_the_files() -> None:
    text = '{"name": "a_1MB", "gpus_per_node": 2, "alpha": 30, "node_betas_list": [100]}'
    own = TACCL.read(text, Hints("m")).topology
    assert (own.links[0].gb_per_s, own.alpha_us) == (10.0, 30.0)
    assert TACCL.read(text, Hints("m", alpha_us=0.3)).topology == own


@given(topologies(max_ranks=6), st.sampled_from([1, 4, 5, 20]))
def test_matrices_are_read_back(machine: Topology, beta: int) -> None:
    ranks, lanes = range(machine.ranks), machine.lanes()
    links = [[lanes.get((src, dst), 0) for src in ranks] for dst in ranks]
    text = json.dumps(
        {
            "name": "random_1MB",
            "gpus_per_node": machine.ranks,
            "alpha": 1,
            "links": links,
            "betas": [[beta * bool(n) for n in row] for row in links],
        }
    )
    found = TACCL.read(text, Hints("m")).topology
    assert found.lanes() == lanes
    assert {(k.gb_per_s, k.alpha_us) for k in found.links} == {(1000 / beta, 1.0)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node_betas_list": [1, 2]}, "2 node_betas_list for 4 GPUs"),
        ({"node_betas_list": [0]}, r"node_betas_list\[0\] is 0, expected a cost of more than 0"),
        ({"node_betas_list": [1], "node_invbws_list": [1, 2]}, "node_invbws_list has 2 entries"),
        ({"links": [[0, 1], [1, 0]], "betas": []}, "links is no matrix of 4 rows"),
        ({"links": [[0] * 4] * 4, "betas": [[0] * 4] * 4}, "no links"),
        ({"gpus_per_node": 1}, "gpus_per_node"),
        ({"nics_per_node": 3, "remote_alpha": 1, "remote_beta": 1}, "nics_per_node is 3"),
        ({"alpha": -1}, "alpha is -1"),
        (
            {"node_invbws_list": [-1]},
            r"node_invbws_list\[0\] is -1, expected a cost of more than 0",
        ),
        ({"remote_beta": -1}, "remote_beta is -1, expected a cost"),
        ({"remote_invbw": 0}, "remote_invbw is 0, expected a cost of more than 0"),
        ({"name": "a_0MB"}, "expected a size above 0"),
    ],
)
def test_invalid_file_is_reported(change: dict[str, object], message: str) -> None:
    given = {"name": "m", "gpus_per_node": 4, "alpha": 1, "node_betas_list": [1]}
    with pytest.raises(InputError, match=message):
        TACCL.read(json.dumps(given | change), Hints("m"))


PAIR = {
    "name": "pair_1MB",
    "gpus_per_node": 4,
    "nics_per_node": 2,
    "alpha": 0.5,
    "node_betas_list": [8],
    "remote_alpha": 2.5,
    "remote_beta": 100,
}


@pytest.mark.parametrize("nodes", [2, 3])
def test_profile_stands_for_a_machine_of_several_nodes(nodes: int) -> None:
    machine = machine_of_profile(json.dumps(PAIR), nodes, "m")
    assert (machine.ranks, len(machine.chassis)) == (4 * nodes, nodes)
    between = [k for k in machine.links if k.src // 4 != k.dst // 4]
    assert len(between) == nodes * (nodes - 1) * 16
    assert {(k.gb_per_s, k.alpha_us, k.lanes) for k in between} == {(10.0, 2.5, 1)}
    cards = [b for b in machine.budgets if b.name.startswith("NIC")]
    assert len(cards) == 2 * 2 * nodes
    for card, speed in zip(machine.budgets, machine.budget_speeds(), strict=True):
        if card in cards:
            assert (card.chunks_per_round, speed) == (1, 10.0)
            end = 0 if card.name.endswith("out") else 1
            (pair,) = {edge[end] // 2 for edge in card.edges}
            assert {edge for edge in (k.edge for k in between) if edge[end] // 2 == pair} == {
                *card.edges
            }
    assert (
        machine_of_profile(json.dumps(PAIR), 1, "m")
        == TACCL.read(json.dumps(PAIR), Hints("m")).topology
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"remote_beta": None}, "remote_beta is missing, which 2 nodes need"),
        ({"remote_alpha": None}, "remote_alpha is missing"),
        ({"nics_per_node": None}, "nics_per_node is missing"),
        ({"nics_per_node": 0}, "nics_per_node is missing"),
        ({"nics_per_node": -1}, r"`\$.nics_per_node`"),
        ({"remote_beta": 0}, "remote_beta is 0, expected a cost of more than 0"),
        ({"remote_alpha": -1}, "remote_alpha is -1"),
        ({"alpha": None}, "`alpha`"),
        ({"node_betas_list": None}, "node_betas_list is missing"),
        ({"gpus_per_node": None}, "`gpus_per_node`"),
    ],
)
def test_costs_that_are_missing_or_negative_are_reported(
    change: dict[str, object], message: str
) -> None:
    profile = {name: value for name, value in (PAIR | change).items() if value is not None}
    with pytest.raises(FormatError, match=message):
        machine_of_profile(json.dumps(profile), 2, "m")


def test_no_json_is_reported() -> None:
    with pytest.raises(FormatError, match="no profile of TACCL"):
        TACCL.read("{" * 10_000, Hints("m"))
