"""MSCCL++ plans between nodes: delayed operations of ports, and waits for them."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from sccl.core.algorithm import Algorithm
from sccl.formats import mscclpp
from sccl.formats.files.plans import load_plans
from sccl.formats.mscclpp_plans.executor_rules import find_violations
from sccl.formats.mscclpp_plans.plan_file import parse_plan
from sccl.formats.mscclpp_plans.plan_lowering import rank_nodes
from sccl.topo import resolve_topology
from tests.kit.baselines import classical
from tests.kit.easy_algorithms import frontier
from tests.kit.mscclpp import LL, PARSER, complaint, faults_of, write_plan
from tests.kit.paths import GOLDEN

TWO_NODES = ("ndv2x2", "ndv4x2")
BY_DAY = ("ndv2x2", pytest.param("ndv4x2", marks=pytest.mark.nightly))
COLLECTIVES = ("allgather", "allreduce", "reducescatter")
VERSIONS = tuple(mscclpp.Version)

Plan = dict[str, Any]


@pytest.mark.parametrize(
    ("machine", "nodes"),
    [("dgx1", 1), ("gb200-nvl72", 1), ("ring:4", 1), ("ndv2x2", 2), ("rail:8x4", 4)],
)
def test_nodes_are_what_a_network_joins(machine: str, nodes: int) -> None:
    assert len(set(rank_nodes(resolve_topology(machine)))) == nodes


def test_ports_are_for_what_leaves_a_node() -> None:
    content = write_plan(frontier("dgx1", "allgather")[0])
    assert b'"port"' not in content


def two_rings(machine: str, collective: str) -> Algorithm:
    return classical("ring", collective, machine)


def hard() -> Algorithm:
    """Return a point of a frontier over two nodes."""
    plan = load_plans([GOLDEN / "algorithms" / "allgather-ndv2x2-c2-s5-r19.json"])[0].plan
    assert isinstance(plan, Algorithm)
    return plan


def names(content: bytes) -> Counter[tuple[str, str | None]]:
    """Return how often each operation is done over each kind of channel."""
    gpus = parse_plan(content, "plan").gpus
    ops = (op for gpu in gpus for block in gpu.threadblocks for op in block.all_ops())
    return Counter((op.name, op.channel_type) for op in ops)


@pytest.mark.parametrize("machine", BY_DAY)
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize(("version", "in_place"), list(zip(VERSIONS, (False, True), strict=True)))
def test_plans_over_two_nodes_are_right(
    machine: str, collective: str, version: mscclpp.Version, in_place: bool
) -> None:
    algorithm = two_rings(machine, collective)
    content = write_plan(algorithm, version=version, in_place=in_place)
    assert faults_of(content) == []
    assert find_violations(parse_plan(content, "plan")) == []
    assert mscclpp.read(content, "plan").notes == ()
    homes = rank_nodes(algorithm.topology)
    for rank, gpu in enumerate(parse_plan(content, "plan").gpus):
        assert all(homes[peer] == homes[rank] for peer in gpu.peers("memory"))
        assert all(homes[peer] != homes[rank] for peer in gpu.peers("port"))


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
@pytest.mark.parametrize("protocol", mscclpp.PlanProtocol)
def test_plans_over_three_nodes_are_right(
    collective: str, protocol: mscclpp.PlanProtocol, tmp_path: Path
) -> None:
    """A thread block uses its ports in another order than the channels of one operation."""
    links = [
        {"src": src, "dst": dst, "alpha_us": 1 if src // 2 == dst // 2 else 2}
        for src, dst in permutations(range(6), 2)
    ]
    file = tmp_path / "machine.json"
    chassis = [[0, 1], [2, 3], [4, 5]]
    machine = {"name": "m", "ranks": 6, "alpha_us": 1, "gb_per_s": 25, "chassis": chassis}
    file.write_text(json.dumps({**machine, "links": links}))
    algorithm = classical("direct", collective, str(file))
    content = write_plan(algorithm, protocol=protocol, blocks=2)
    assert faults_of(content) == []
    assert names(content).keys() & {("pwsf", "port"), ("rppkt", "port")}


@pytest.mark.parametrize("version", VERSIONS)
def test_points_over_two_nodes_are_right(version: mscclpp.Version) -> None:
    content = write_plan(hard(), version=version)
    assert faults_of(content) == []
    assert names(content)["put", "port"] > 0


def test_ports_of_0_9_get_explicit_flushes() -> None:
    """Its kernel takes pwsf for pws."""
    old, new = (names(write_plan(hard(), version=version)) for version in VERSIONS)
    assert VERSIONS == (mscclpp.Version.V09, mscclpp.Version.HEAD)
    assert old["pwsf", "port"] == 0 == new["flush", "port"]
    assert old["flush", "port"] > 0
    assert new["pwsf", "port"] > 0
    assert old["pws", "port"] == new["pws", "port"] + new["pwsf", "port"]


@pytest.mark.parametrize(("version", "name"), [(VERSIONS[0], "flush"), (VERSIONS[1], "pwsf")])
def test_call_does_not_end_while_a_port_still_reads(version: mscclpp.Version, name: str) -> None:
    plan: Plan = json.loads(write_plan(hard(), version=version))
    for gpu in plan["gpus"]:
        for block in gpu["threadblocks"]:
            block["ops"] = [
                {**op, "name": "pws"} if op["name"] == "pwsf" else op
                for op in block["ops"]
                if op["name"] != "flush"
            ]
    notes = mscclpp.read(json.dumps(plan).encode(), "plan").notes
    assert notes, name
    assert all(
        note.endswith("may not be done when the call ends: flush its port") for note in notes
    )


@pytest.mark.parametrize("left_out", ["wait", "signal", "pwsf"])
def test_missing_port_operations_are_detected(left_out: str) -> None:
    whole = write_plan(hard())
    seen = 0
    for rank, gpu in enumerate(json.loads(whole)["gpus"]):
        for b, block in enumerate(gpu["threadblocks"]):
            for i, op in enumerate(block["ops"]):
                if op["name"] != left_out or op["channel_type"] != "port" or seen > 5:
                    continue
                plan = json.loads(whole)
                del plan["gpus"][rank]["threadblocks"][b]["ops"][i]
                content = json.dumps(plan).encode()
                assert faults_of(content) or mscclpp.read(content, "plan").notes, (rank, b, i)
                seen += 1
    assert seen


@pytest.mark.parametrize("machine", BY_DAY)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_packets_over_two_nodes_are_right(machine: str, collective: str) -> None:
    """Ports read the data that leave a node, so packets are in scratch before."""
    content = write_plan(two_rings(machine, collective), protocol=LL)
    assert faults_of(content) == []
    assert mscclpp.read(content, "plan").notes == ()
    assert {name for name, kind in names(content) if kind == "port"} == {"rppkt", "flush"}
    assert names(content)["cpkt", None] > 0


@pytest.mark.peer(PARSER)
@pytest.mark.parametrize("machine", TWO_NODES)
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("told", [{"version": v} for v in VERSIONS] + [{"protocol": LL}])
def test_mscclpp_parser_accepts_plans_over_two_nodes(
    machine: str, collective: str, told: dict[str, Any], tmp_path: Path
) -> None:
    content = write_plan(two_rings(machine, collective), **told)
    assert complaint(content, tmp_path) == ""
