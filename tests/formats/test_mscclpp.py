"""MSCCL++ plans: what is written is right at any speed, and what is wrong is seen."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sccl.core.algorithm import Algorithm
from sccl.errors import FormatError, ParameterError, TooLargeError
from sccl.formats import SizedPlan, mscclpp, mscclpp_plan
from sccl.formats.mscclpp_graph import graph_program
from sccl.formats.mscclpp_lowering import nodes_of
from sccl.formats.mscclpp_plan import block_rules, broken_rules, plan_of
from sccl.lower.step_graph import GraphFault
from sccl.lower.step_graph_run import run_graph
from sccl.topo import resolve
from tests.kit.found import frontier
from tests.kit.processes import PATIENCE_S

MACHINES = ("ring:4", "ring:8", "full:4", "dgx1")
PARSER = "SCCL_MSCCLPP_PARSER"
"""Names a program that holds a plan against MSCCL++'s own parser."""

Plan = dict[str, Any]


def written(algorithm: Algorithm, **told: Any) -> bytes:
    options = mscclpp.Options(**told)
    (content,) = mscclpp.write([SizedPlan("plan", algorithm)], options).files.values()
    return content


def faults_of(content: bytes) -> list[GraphFault]:
    """Return what is wrong with a plan, whatever the speed of its thread blocks."""
    found: list[GraphFault] = []
    for calling in graph_program(plan_of(content, "plan")).callings:
        found += [*calling.faults, *run_graph(calling.graph).faults]
    return found


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("collective", mscclpp.COLLECTIVES)
@pytest.mark.parametrize("in_place", [False, True])
def test_every_point_does_what_it_should(machine: str, collective: str, in_place: bool) -> None:
    if in_place and collective == "alltoall":
        with pytest.raises(ParameterError, match="in place it overwrites"):
            written(frontier(machine, collective)[0], in_place=True)
        return
    for algorithm in frontier(machine, collective):
        for blocks in (1, 16):
            content = written(algorithm, in_place=in_place, blocks=blocks)
            read = mscclpp.read(content, "plan")
            assert read.notes == ()
            assert faults_of(content) == []
            assert read.plan.collective == algorithm.collective


def small() -> Plan:
    found: Plan = json.loads(written(frontier("ring:4", "allreduce")[0], blocks=1))
    return found


def without(name: str) -> Iterator[Plan]:
    """Yield a plan less each of its operations of a name, one at a time."""
    for block in range(len(small()["gpus"][0]["threadblocks"])):
        ops = small()["gpus"][0]["threadblocks"][block]["ops"]
        for i in (i for i, op in enumerate(ops) if op["name"] == name):
            plan = small()
            del plan["gpus"][0]["threadblocks"][block]["ops"][i]
            yield plan


@pytest.mark.parametrize("name", ["wait", "rlxwait", "signal", "rlxsignal", "put", "re", "nop"])
def test_what_is_left_out_is_seen(name: str) -> None:
    plans = list(without(name))
    assert plans
    for plan in plans:
        assert faults_of(json.dumps(plan).encode())


def test_chunks_beside_the_right_ones_are_seen() -> None:
    """Every index of every operation of a rank, one too high."""
    count = 0
    for block in range(len(small()["gpus"][0]["threadblocks"])):
        for i, op in enumerate(small()["gpus"][0]["threadblocks"][block]["ops"]):
            for side in ("src_buff", "dst_buff"):
                for at in range(len(op.get(side, []))):
                    plan = small()
                    plan["gpus"][0]["threadblocks"][block]["ops"][i][side][at]["index"] += 1
                    assert faults_of(json.dumps(plan).encode()), (block, i, side, at)
                    count += 1
    assert count


def test_a_fault_has_its_place() -> None:
    plan = next(without("wait"))
    fault = faults_of(json.dumps(plan).encode())[0]
    assert fault.message.startswith(f"rank {fault.rank}, thread block {fault.block}, ")


def test_limits_are_tried_at_their_edge() -> None:
    def ops(many: int) -> Callable[[Plan], None]:
        return lambda block: block.update(ops=[{"name": "nop"}] * many)

    def channels(many: int) -> Callable[[Plan], None]:
        chosen = [{"channel_type": "memory", "channel_ids": [0] * many}]
        return lambda block: block.update(channels=chosen, ops=[])

    def at_once(many: int) -> Callable[[Plan], None]:
        op = {"name": "wait", "channel_type": "memory", "channel_ids": [0] * many}
        return lambda block: block.update(ops=[op])

    def adds(many: int) -> Callable[[Plan], None]:
        part = {"type": "i", "index": 0, "size": 1}
        op = {"name": "re", "src_buff": [part] * many, "dst_buff": [part]}
        return lambda block: block.update(ops=[op])

    for change, most in ((ops, 64), (channels, 16), (at_once, 8), (adds, 10)):
        for many, broken in ((most, False), (most + 1, True)):
            plan = small()
            change(many)(plan["gpus"][0]["threadblocks"][0])
            read = plan_of(json.dumps(plan).encode(), "plan")
            assert bool(block_rules(read.gpus[0].threadblocks[0])) == broken
            assert bool(broken_rules(read)) == broken


def test_more_thread_blocks_are_used_where_operations_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    algorithm = frontier("ring:8", "alltoall")[0]
    one = plan_of(written(algorithm, blocks=1), "plan")
    assert {len(gpu.threadblocks) for gpu in one.gpus} == {1}
    most = max(len(gpu.threadblocks[0].ops) for gpu in one.gpus)
    monkeypatch.setattr(mscclpp_plan, "MAX_OPERATION", most - 1)
    more = plan_of(written(algorithm, blocks=1), "plan")
    assert max(len(gpu.threadblocks) for gpu in more.gpus) > 1
    assert max(len(block.ops) for gpu in more.gpus for block in gpu.threadblocks) < most
    monkeypatch.setattr(mscclpp_plan, "MAX_OPERATION", 1)
    with pytest.raises(TooLargeError, match="give an algorithm of fewer chunks or steps"):
        written(algorithm)


@pytest.mark.parametrize(
    ("machine", "nodes"),
    [("dgx1", 1), ("gb200-nvl72", 1), ("ring:4", 1), ("ndv2x2", 2), ("rail:8x4", 4)],
)
def test_nodes_are_what_a_network_joins(machine: str, nodes: int) -> None:
    assert len(set(nodes_of(resolve(machine)))) == nodes


def test_ports_are_for_what_leaves_a_node() -> None:
    content = written(frontier("dgx1", "allgather")[0])
    assert b'"port"' not in content


def test_what_its_executor_does_not_run_is_refused() -> None:
    with pytest.raises(ParameterError, match="is no collective of MSCCL"):
        written(frontier("ring:4", "broadcast")[0])


def test_plans_of_2024_are_refused_with_what_to_do() -> None:
    with pytest.raises(FormatError, match="of 2024 or before"):
        mscclpp.read(b'{"gpus": [{"inputChunks": 1, "threadblocks": []}]}', "old.json")


@pytest.mark.peer(PARSER)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("collective", mscclpp.COLLECTIVES)
def test_its_own_parser_takes_what_is_written(
    machine: str, collective: str, tmp_path: Path
) -> None:
    for algorithm in frontier(machine, collective):
        file = tmp_path / "plan.json"
        file.write_bytes(written(algorithm))
        gpu = plan_of(file.read_bytes(), "plan").gpus[0]
        sizes = [str(count * 4096) for count in (gpu.input_chunks, gpu.output_chunks)]
        words = [os.environ[PARSER], str(file), str(algorithm.topology.ranks), *sizes]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stdout
