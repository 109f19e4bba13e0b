"""MSCCL++ plans in random runs of several calls agree with the reader's verdict."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from sccl.errors import InputError
from sccl.formats import mscclpp
from tests.kit.baselines import classical
from tests.kit.easy_algorithms import frontier
from tests.kit.mscclpp import LL, faults_of, write_plan
from tests.kit.nightly import times
from tests.kit.slow_mscclpp import is_right

PROTOCOLS = tuple(mscclpp.PlanProtocol)

Plan = dict[str, Any]


@pytest.mark.parametrize("machine", ["ring:4", "dgx1"])
@pytest.mark.parametrize("collective", mscclpp.COLLECTIVES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_runs_by_chance_end_right(
    machine: str, collective: str, protocol: mscclpp.PlanProtocol
) -> None:
    for algorithm in frontier(machine, collective):
        for in_place in (False, True)[: 1 + (collective != "alltoall")]:
            for blocks, words in ((1, 2), (8, 8)):
                content = write_plan(algorithm, protocol=protocol, in_place=in_place, blocks=blocks)
                for seed in range(times(1 if machine == "dgx1" else 3)):
                    assert is_right(json.loads(content), seed, words), (in_place, blocks, seed)


@pytest.mark.parametrize("version", mscclpp.Version)
@pytest.mark.parametrize("collective", ["allgather", "allreduce", "reducescatter"])
def test_runs_by_chance_over_two_nodes_end_right(collective: str, version: mscclpp.Version) -> None:
    content = write_plan(classical("ring", collective, "ndv2x2"), version=version, blocks=1)
    assert b'"port"' in content
    assert is_right(json.loads(content), 1, 2)


@pytest.mark.parametrize(
    ("machine", "collective"),
    [("ring:4", name) for name in ("allgather", "alltoall", "reducescatter")]
    + [("full:4", name) for name in ("allgather", "alltoall", "reducescatter")],
)
def test_without_halves_packets_come_into_the_last_call(machine: str, collective: str) -> None:
    plan: Plan = json.loads(write_plan(frontier(machine, collective)[0], protocol=LL, blocks=1))
    assert all(is_right(plan, seed, 2) for seed in range(10))
    plan["use_double_scratch_buffer"] = False
    faults = faults_of(json.dumps(plan).encode())
    assert {fault.kind for fault in faults} == {"overlap"}
    assert (
        "that it has not read yet, from the last call: use_double_scratch_buffer"
        in faults[0].message
    )
    assert not all(is_right(plan, seed, 2) for seed in range(10))


@pytest.mark.parametrize("machine", ["ring:4", "full:4"])
def test_full_synchronization_needs_no_halves(machine: str) -> None:
    """In an allreduce, a rank with the result knows that all have read its earlier data."""
    plan: Plan = json.loads(write_plan(frontier(machine, "allreduce")[0], protocol=LL, blocks=1))
    plan["use_double_scratch_buffer"] = False
    assert faults_of(json.dumps(plan).encode()) == []
    assert all(is_right(plan, seed, 2) for seed in range(20))


def changed(content: bytes, draw: random.Random) -> Plan:
    """Return a plan with one thing changed."""
    plan: Plan = json.loads(content)
    gpu = draw.choice(plan["gpus"])
    ops = draw.choice([b for b in gpu["threadblocks"] if len(b["ops"]) > 1])["ops"]
    i = draw.randrange(len(ops) - 1)
    parts = [p for op in ops for p in (*op.get("src_buff", ()), *op.get("dst_buff", ()))]
    match draw.randrange(6):
        case 0:
            del ops[i]
        case 1:
            ops[i], ops[i + 1] = ops[i + 1], ops[i]
        case 2:
            part = draw.choice(parts)
            part["index"] = max(0, part["index"] + draw.choice((-1, 1)))
        case 3:
            ops.insert(i, ops[i])
        case 4:
            told = draw.choice([op for op in ops if op.get("channel_ids")])
            told["channel_ids"] = [(told["channel_ids"][0] + 1) % 2, *told["channel_ids"][1:]]
        case _:
            ops.insert(draw.randrange(len(ops)), {"name": "nop"})
    return plan


@pytest.mark.parametrize("collective", mscclpp.COLLECTIVES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plans_without_faults_execute_correctly(
    collective: str, protocol: mscclpp.PlanProtocol
) -> None:
    """Six runs of each of 40 changed plans."""
    draw = random.Random(7)  # noqa: S311 - the same changes every time
    said = Counter[bool]()
    for algorithm in frontier("ring:4", collective)[:2]:
        content = write_plan(algorithm, protocol=protocol, blocks=1)
        for _ in range(times(40)):
            plan = changed(content, draw)
            text = json.dumps(plan).encode()
            try:
                wrong = bool(mscclpp.read(text, "plan").notes or faults_of(text))
            except InputError:
                continue
            said[wrong] += 1
            if not wrong:
                assert all(is_right(plan, seed, 2) for seed in range(6))
    assert min(said[True], said[False]) > 5
