"""Topologies of msccl-tools: read back, in an algorithm's file, and what switches limit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from sccl import formats
from sccl.core.topology import Topology
from sccl.errors import FormatError
from sccl.topo import importers
from sccl.topo.importers import Hints, load
from tests.kit.strategies import topologies

MSCCL = load("msccl-topology")


def written(machine: Topology) -> dict[str, object]:
    """Return a machine as msccl-tools has it; budgets, whose edges are any, as one switch each."""
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


def test_a_switch_limits_all_that_goes_from_its_sources_to_its_goals() -> None:
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
def test_what_is_not_right_is_said(change: dict[str, object], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        MSCCL.read(json.dumps(PAIR | change), Hints("m"))


def test_algorithms_of_taccl_are_named() -> None:
    """Their sends have five numbers, and their topology lists the links of a node."""
    topology = {
        "sccl_type": "topology",
        "name": "pair",
        "copies": 1,
        "node_links": [[0, 1], [1, 0]],
    }
    text = json.dumps({"sccl_type": "algorithm", "name": "a", "topology": topology})
    with pytest.raises(FormatError, match=r"pair\.json: it is an algorithm of TACCL"):
        importers.read(text, importers.Hints("x"), "pair.json")
    with pytest.raises(FormatError, match=r"pair\.json: it is an algorithm of TACCL"):
        formats.load("msccl-json").read(text.encode(), "pair.json")
