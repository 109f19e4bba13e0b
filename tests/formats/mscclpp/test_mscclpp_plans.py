"""MSCCL++ plans: written ones are correct at any speed, and faults are detected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sccl.core.algorithm import Algorithm
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.errors import ParameterError, TooLargeError
from sccl.formats import mscclpp
from sccl.formats.common.contract import SizedPlan
from sccl.formats.common.program_graph import StepProgram
from sccl.formats.files.plans import load_plans
from sccl.formats.mscclpp_plans import executor_rules
from sccl.formats.mscclpp_plans.executor_rules import find_violations
from sccl.formats.mscclpp_plans.plan_file import parse_plan
from sccl.topo.symmetry.expansion import expand_algorithm
from tests.kit.easy_algorithms import frontier
from tests.kit.mscclpp import LL, PARSER, complaint, faults_of, write_plan
from tests.kit.paths import GOLDEN, ROOT

MACHINES = ("ring:4", "ring:8", "full:4", "dgx1")
Plan = dict[str, Any]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("collective", mscclpp.COLLECTIVES)
def test_every_point_does_what_it_should(machine: str, collective: str) -> None:
    for algorithm, protocol in product(frontier(machine, collective), mscclpp.PlanProtocol):
        if collective == "alltoall":
            with pytest.raises(ParameterError, match="in place it overwrites"):
                write_plan(algorithm, in_place=True, protocol=protocol)
        places = (False,) if collective == "alltoall" else (False, True)
        for in_place, blocks in product(places, (1, 16)):
            content = write_plan(algorithm, in_place=in_place, blocks=blocks, protocol=protocol)
            read = mscclpp.read(content, "plan")
            assert read.notes == read.refused == ()
            assert faults_of(content) == []
            assert isinstance(read.plan, StepProgram)
            assert read.plan.collective == algorithm.collective


def small() -> Plan:
    found: Plan = json.loads(write_plan(frontier("ring:4", "allreduce")[0], blocks=1))
    return found


def without(name: str) -> Iterator[Plan]:
    """Yield a plan less each of its operations of a name, one at a time."""
    for block in range(len(small()["gpus"][0]["threadblocks"])):
        ops = small()["gpus"][0]["threadblocks"][block]["ops"]
        for i in (i for i, op in enumerate(ops) if op["name"] == name):
            plan = small()
            del plan["gpus"][0]["threadblocks"][block]["ops"][i]
            yield plan


@pytest.mark.parametrize("name", ["wait", "rlxwait", "signal", "rlxsignal", "put", "res", "nop"])
def test_missing_operations_are_detected(name: str) -> None:
    plans = list(without(name))
    assert plans
    for plan in plans:
        assert faults_of(json.dumps(plan).encode())


@pytest.mark.parametrize("protocol", mscclpp.PlanProtocol)
def test_chunks_next_to_the_right_ones_are_seen(protocol: mscclpp.PlanProtocol) -> None:
    """Every index of every operation of a rank, one too high."""
    count = 0
    content = write_plan(frontier("ring:4", "allreduce")[0], blocks=1, protocol=protocol)
    for block, one in enumerate(json.loads(content)["gpus"][0]["threadblocks"]):
        for i, op in enumerate(one["ops"]):
            for side in ("src_buff", "dst_buff"):
                kept = op["name"] == "respkt" and side == "dst_buff"  # overwritten in the end
                for at in range(kept, len(op.get(side, []))):
                    plan = json.loads(content)
                    plan["gpus"][0]["threadblocks"][block]["ops"][i][side][at]["index"] += 1
                    assert faults_of(json.dumps(plan).encode()), (block, i, side, at)
                    count += 1
    assert count


def packed(collective: str = "allreduce", machine: str = "ring:4") -> Plan:
    """Return a plan of packets."""
    algorithm = frontier(machine, collective)[0]
    found: Plan = json.loads(write_plan(algorithm, blocks=1, protocol=LL))
    return found


@pytest.mark.parametrize("collective", mscclpp.COLLECTIVES)
def test_missing_packet_operations_are_detected(collective: str) -> None:
    names = set()
    for i, op in enumerate(packed(collective)["gpus"][0]["threadblocks"][0]["ops"]):
        plan = packed(collective)
        del plan["gpus"][0]["threadblocks"][0]["ops"][i]
        assert faults_of(json.dumps(plan).encode()), (i, op["name"])
        names.add(op["name"])
    assert names


def test_two_halves_are_not_enough_where_a_rank_hears_of_nobody() -> None:
    """A rank that only sends may be any number of calls ahead."""
    plan = packed("allgather", "full:4")
    ops = plan["gpus"][0]["threadblocks"][0]["ops"]
    ops[:] = [op for op in ops if op["name"] != "upkt"]
    kinds = {fault.kind for fault in faults_of(json.dumps(plan).encode())}
    assert "overlap" in kinds


def test_packets_and_data_do_not_meet_in_scratch() -> None:
    plan = packed("reducescatter")
    assert find_violations(parse_plan(json.dumps(plan).encode(), "plan")) == []
    for op in plan["gpus"][0]["threadblocks"][0]["ops"]:
        for part in op.get("dst_buff", [])[:1]:
            if op["name"] == "respkt" and part.get("type") == "s":
                part["index"] = 0
    (rule,) = find_violations(parse_plan(json.dumps(plan).encode(), "plan"))
    assert "packets and data overlap 0 chunks into scratch" in rule


@pytest.mark.parametrize("machine", MACHINES)
def test_sums_are_sent_on_where_they_are_made(machine: str) -> None:
    for algorithm in frontier(machine, "allreduce"):
        for gpu in parse_plan(write_plan(algorithm), "plan").gpus:
            for block in gpu.threadblocks:
                sums = [op.dst_buff[0] for op in block.ops if op.name in {"re", "res"}]
                ports = [op.src_buff for op in block.ops if op.name == "put"]
                assert not [part for parts in ports for part in parts if part in sums]


def test_fault_has_its_place() -> None:
    plan = next(without("wait"))
    fault = faults_of(json.dumps(plan).encode())[0]
    assert fault.message.startswith(f"rank {fault.rank}, thread block {fault.block}, ")


def test_more_thread_blocks_are_used_where_operations_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    algorithm = frontier("ring:8", "alltoall")[0]
    one = parse_plan(write_plan(algorithm, blocks=1), "plan")
    assert {len(gpu.threadblocks) for gpu in one.gpus} == {1}
    most = max(len(gpu.threadblocks[0].ops) for gpu in one.gpus)
    monkeypatch.setattr(executor_rules, "MAX_OPERATION", most - 1)
    more = parse_plan(write_plan(algorithm, blocks=1), "plan")
    assert max(len(gpu.threadblocks) for gpu in more.gpus) > 1
    assert max(len(block.ops) for gpu in more.gpus for block in gpu.threadblocks) < most
    monkeypatch.setattr(executor_rules, "MAX_OPERATION", 1)
    with pytest.raises(TooLargeError, match="give an algorithm of fewer chunks or steps"):
        write_plan(algorithm)


@pytest.mark.parametrize(
    ("least", "most", "size"),
    [(0, None, 65536), (0, 4095, 4032), (80000, None, 80000), (80001, 90000, 80064)],
)
def test_size_that_is_tried_is_one_that_is_served(least: int, most: int | None, size: int) -> None:
    """Multiples of 16 bytes for each of 4 chunks."""
    plan = SizedPlan("plan", frontier("ring:4", "allreduce")[0], least, most)
    assert f" --size {size}" in mscclpp.write([plan], mscclpp.Options()).command


@pytest.mark.parametrize(
    ("size", "is_refused", "tried"), [(6400, False, 6400), (6410, True, 65536)]
)
def test_size_that_the_executor_refuses_is_noted(size: int, is_refused: bool, tried: int) -> None:
    """Multiples of 64 bytes are served."""
    plan = SizedPlan("plan", frontier("ring:4", "allreduce")[0], size_bytes=size)
    written = mscclpp.write([plan], mscclpp.Options())
    assert any("10 bytes above a multiple of 64" in note for note in written.notes) is is_refused
    assert f" --size {tried}" in written.command


@pytest.mark.parametrize("version", mscclpp.Version)
def test_plan_says_whom_it_is_for(version: mscclpp.Version) -> None:
    content = write_plan(frontier("ring:4", "allreduce")[0], version=version)
    told = mscclpp.WRITTEN_FOR[version]
    assert json.loads(content)["written_for"] == told
    assert mscclpp.read(content, "plan").about.endswith(f"written for {told}")


def test_unsupported_operations_are_rejected() -> None:
    with pytest.raises(ParameterError, match="is no collective of MSCCL"):
        write_plan(frontier("ring:4", "broadcast")[0])


@pytest.mark.peer(PARSER)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("collective", mscclpp.COLLECTIVES)
@pytest.mark.parametrize("protocol", mscclpp.PlanProtocol)
def test_mscclpp_parser_accepts_written_plans(
    machine: str, collective: str, protocol: mscclpp.PlanProtocol, tmp_path: Path
) -> None:
    for algorithm in frontier(machine, collective):
        assert complaint(write_plan(algorithm, protocol=protocol), tmp_path) == ""


STORED = [
    file
    for folder in (GOLDEN / "algorithms", *(ROOT / "benchmarks" / "certificates").iterdir())
    for file in folder.glob("*-c*-s*.json")
    if file.name.partition("-")[0] in mscclpp.COLLECTIVES
]
"""The points of frontiers that lie in the repository."""


@pytest.mark.peer(PARSER)
@pytest.mark.parametrize("protocol", mscclpp.PlanProtocol)
@pytest.mark.parametrize("file", sorted(STORED), ids=lambda file: file.stem)
def test_mscclpp_parser_accepts_all_stored_points(
    file: Path, protocol: mscclpp.PlanProtocol, tmp_path: Path
) -> None:
    found = load_plans([file])[0].plan
    assert isinstance(found, Algorithm | SymmetricAlgorithm)
    plan = expand_algorithm(found)
    assert complaint(write_plan(plan, protocol=protocol), tmp_path) == ""
