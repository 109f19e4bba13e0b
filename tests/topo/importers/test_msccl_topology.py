"""Topologies of msccl-tools: round trips, also in an algorithm's file, and limits of switches."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError
from sccl.topo import importers
from sccl.topo.importers import Hints, load_importer
from tests.kit.strategies import topologies

MSCCL = load_importer("msccl-topology")


def written(machine: Topology) -> dict[str, object]:
    """Return a machine in the format of msccl-tools, with one switch for each budget."""
    ranks, lanes = range(machine.ranks), machine.lanes()
    return {
        "msccl_type": "topology",
        "name": machine.name,
        "switches": [
            [[src], [dst], budget.chunks_per_round, budget.name]
            for budget in machine.budgets
            for src, dst in budget.edges
        ],
        "links": [[lanes.get((src, dst), 0) for src in ranks] for dst in ranks],
    }


@given(topologies())
def test_random_machines_are_read_back(machine: Topology) -> None:
    for text in (
        json.dumps(written(machine)),
        json.dumps({"msccl_type": "algorithm", "name": "a", "topology": written(machine)}),
    ):
        assert MSCCL.sniff(text)
        found = MSCCL.read(text, Hints("m")).topology
        assert found.lanes() == machine.lanes()
        limits = sorted((b.edges, b.chunks_per_round) for b in found.budgets)
        assert limits == sorted(
            ((edge,), b.chunks_per_round) for b in machine.budgets for edge in b.edges
        )


PAIR = {"msccl_type": "topology", "name": "pair", "links": [[0, 2, 0], [2, 0, 0], [1, 0, 0]]}


def test_switch_limits_all_that_goes_from_its_sources_to_its_goals() -> None:
    switches = [[[0], [1, 2], 1, "out"], [[1, 2], [0], 1, "in"], [[1], [2], 1, "none"]]
    found = MSCCL.read(json.dumps({**PAIR, "switches": switches}), Hints("m"))
    assert {b.edges for b in found.topology.budgets} == {((0, 1), (0, 2)), ((1, 0),)}
    assert "3 switches, each a limit on the chunks per round; 1 of them" in found.understood[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"links": [[0, 1], [1]]}, r"links\[1\] has 1 columns, expected 2"),
        ({"links": [[0, -1], [1, 0]]}, r"links\[0\]\[1\] is -1"),
        ({"switches": [[[0], [1], 0, "s"]]}, r"switches\[0\] lets 0 chunks pass"),
        ({"switches": [[[0], [1], "x", "s"]]}, "no topology of msccl-tools"),
    ],
)
def test_invalid_file_is_reported(change: dict[str, object], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        MSCCL.read(json.dumps(PAIR | change), Hints("m"))


NODES = {
    "sccl_type": "topology",
    "name": "pairs_1MB",
    "copies": 3,
    "ngpus_per_node": 2,
    "node_links": [[0, 2], [2, 0]],
    "node_invbws": [[0, 20], [40, 0]],
    "remote_invbw": 102,
    "remote_alpha": 2,
    "remote_beta": 100,
    "internode_conn": {"1": [0, 0]},
    "local_switches": [],
}
"""Topology of an algorithm of TACCL: on each of three nodes GPU 1 sends to GPU 0 of the others."""


@pytest.mark.parametrize("whole", [True, False])
def test_topology_of_taccl_is_that_of_its_nodes(whole: bool) -> None:
    text = json.dumps(
        {"sccl_type": "algorithm", "name": "a", "topology": NODES} if whole else NODES
    )
    _, found = importers.read_machine(text, Hints("m"), "a.json")
    links = {link.edge: (link.lanes, link.alpha_us, link.gb_per_s) for link in found.topology.links}
    remote = {(src, dst): (1, 2, 10) for src in (1, 3, 5) for dst in (0, 2, 4) if dst != src - 1}
    inside = {(1, 0): (1, 0.7, 51.813), (0, 1): (1, 0.7, 25.445)}  # 10^6 bytes in 19.3 and 39.3 us
    every = {
        (first + src, first + dst): v for first in (0, 2, 4) for (src, dst), v in inside.items()
    }
    assert links == every | remote
    limits = {b.edges for b in found.topology.budgets}
    assert limits == {
        *(tuple(e for e in sorted(remote) if e[0] == src) for src in (1, 3, 5)),
        *(tuple(e for e in sorted(remote) if e[1] == dst) for dst in (0, 2, 4)),
    }
    assert {b.chunks_per_round for b in found.topology.budgets} == {1}
    assert "3 nodes of 2 GPUs" in found.understood


def test_topology_of_taccl_shares_the_ways_of_a_switch() -> None:
    links = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    costs = [[0, 5, 5], [5, 0, 5], [5, 5, 0]]
    node = {**NODES, "copies": 2, "ngpus_per_node": 3, "node_links": links, "node_invbws": costs}
    text = json.dumps({**node, "local_switches": [[0, 1]]})
    found = MSCCL.read(text, Hints("m", alpha_us=1.0)).topology
    assert {b.edges for b in found.budgets} == {
        ((a, b),) for a, b in ((0, 1), (1, 0), (3, 4), (4, 3))
    }
    assert found.lanes()[1, 3] == 1
    assert {link.gb_per_s for link in found.links} == {250.0, 10.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node_links": [[0, 1]]}, "node_links is no matrix of 2 rows"),
        ({"node_invbws": [[0, 0.5], [40, 0]]}, r"node_invbws\[0\]\[1\] is 0.5, expected more than"),
        ({"remote_beta": -1}, "remote_beta is -1"),
        ({"remote_alpha": -1}, "remote_alpha"),
        ({"internode_conn": {"x": [0]}}, "internode_conn names GPU 'x'"),
        ({"internode_conn": {"1": [2]}}, "names GPU 2, expected 0 to 1"),
        ({"local_switches": [[0, 1], [0, 1]]}, "local_switches has 2 switches"),
        ({"copies": 1024}, "more than 1024 ranks"),
        ({"copies": 0}, "no topology of TACCL"),
    ],
)
def test_topology_of_taccl_that_is_not_right_is_rejected(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        MSCCL.read(json.dumps(NODES | change), Hints("m"))


def test_topology_of_taccl_lists_unused_fields() -> None:
    found = MSCCL.read(json.dumps({**NODES, "nic_order": [0]}), Hints("m"))
    assert "not used: nic_order" in found.understood
