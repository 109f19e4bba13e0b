"""Programs beside themselves: right, each with thread blocks of its own, or refused."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from sccl.codegen.instances import replicate
from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.errors import InputError, ParameterError, TooLargeError
from sccl.formats import load, msccl_xml, mscclpp
from sccl.formats.common.contract import SizedPlan
from sccl.formats.files.export_plans import parse_options
from sccl.formats.msccl.msccl_program import parse_program
from sccl.formats.mscclpp_plans.plan_file import parse_plan
from sccl.judge import violations
from sccl.topo import resolve_topology
from sccl.transform.levels import assign_steps
from tests.kit import slow_mscclpp
from tests.kit.easy_algorithms import frontier
from tests.kit.formats import program_faults
from tests.kit.mscclpp import faults_of
from tests.kit.nightly import seed
from tests.kit.schedules import together_around
from tests.kit.slow_msccl import runs_correctly

COUNTS = (1, 2, 4)


def parties(algorithm: Algorithm, draw: random.Random) -> SizedPlan:
    """Return an algorithm, of whose sends of a step and a link some go together."""
    links = {key: n for n, key in enumerate({(s.step, s.src, s.dst): 0 for s in algorithm.sends})}
    chosen = [s for s in algorithm.sends if draw.randrange(3)]
    together = {s: links[s.step, s.src, s.dst] for s in chosen}
    return SizedPlan("plan", algorithm, together=together)


def xml_of(entry: SizedPlan, count: int, dialect: str = "azure") -> bytes:
    """Return an MSCCL program so many times beside itself."""
    options = msccl_xml.MscclOptions(dialect=msccl_xml.Dialect(dialect), instances=count)
    return list(msccl_xml.write([entry], options).files.values())[-1]


def plan_bytes(entry: SizedPlan, count: int) -> bytes:
    """Return an MSCCL++ plan so many times beside itself."""
    (content,) = mscclpp.write([entry], mscclpp.Options(instances=count, blocks=2)).files.values()
    return content


@pytest.mark.parametrize("collective", msccl_xml.COLLECTIVES)
@pytest.mark.parametrize("machine", ["ring:4", "star:4", "full:4"])
def test_instances_end_right(machine: str, collective: str) -> None:
    """Read back, run by the interpreter and at random, with each part of a chunk once."""
    draw = random.Random(seed(f"{machine} {collective}"))  # noqa: S311 - no secret
    algorithm = frontier(machine, collective)[-1]
    root = algorithm.collective.root or 0
    for count in COUNTS:
        several = replicate(algorithm, {}, count).algorithm
        assert violations(several) == []
        assert several.bandwidth_cost == algorithm.bandwidth_cost
        content = xml_of(parties(algorithm, draw), count)
        read = msccl_xml.read(content, "file").plan
        assert program_faults(read) == []
        assert read is not None
        assert read.collective == several.collective
        assert runs_correctly(parse_program(content, "file"), root, 0, in_place=False)
        if collective in mscclpp.COLLECTIVES:
            plan = plan_bytes(parties(algorithm, draw), count)
            assert faults_of(plan) == []
            assert count > 2 or slow_mscclpp.is_right(json.loads(plan), 0, 2)


def test_each_instance_has_thread_blocks_and_channels_of_its_own() -> None:
    found = assign_steps(together_around(4, 25_000))
    entry = SizedPlan("plan", found.algorithm, together=found.combined_transfers)
    for count in COUNTS:
        program = parse_program(xml_of(entry, count), "file")
        for gpu in program.gpus:
            used = Counter(b.channel for b in gpu.blocks if b.send >= 0 or b.recv >= 0)
            assert used == dict.fromkeys(range(count), 1)
        moving = [s for *_, b in program.blocks() for s in b.steps if s.type in {"s", "rcs"}]
        assert [s.count for s in moving] == [2] * 12 * count
        plan = parse_plan(plan_bytes(entry, count), "plan")
        assert {len(gpu.threadblocks) for gpu in plan.gpus} == {2 * count}


def test_instances_share_no_scratch() -> None:
    """Places without access by thread blocks of one instance cause no waits of the other."""
    algorithm = frontier("star:4", "reducescatter")[-1]
    once, twice = (parse_program(xml_of(SizedPlan("p", algorithm), n), "file") for n in (1, 2))
    for alone, both in zip(once.gpus, twice.gpus, strict=True):
        assert both.scratch == 2 * alone.scratch
    for rank, number, block in twice.blocks():
        if block.send < 0 and block.recv < 0:
            continue
        for step in block.steps:
            waits = twice.gpus[rank].blocks[step.dep[0]] if step.dep else block
            local = waits.send < 0 and waits.recv < 0
            assert local or waits.channel == block.channel, (rank, number)


def many(chunks: int) -> SizedPlan:
    """Return an allgather of so many chunks of each of two ranks."""
    line = resolve_topology("line:2")
    sends = tuple(make_send(c, c % 2, 1 - c % 2, 0) for c in range(2 * chunks))
    algorithm = Algorithm(line, named_spec("allgather", 2).at(chunks), (chunks,), sends)
    return SizedPlan("many", algorithm)


def test_more_than_a_runtime_has_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooLargeError, match=r"in 32 instances, among .*: give fewer instances, an"):
        xml_of(SizedPlan("plan", frontier("full:4", "alltoall")[0]), 32, "rccl")
    with pytest.raises(
        ParameterError, match=r"counts to 32767: give .* fewer chunks, or fewer ins"
    ):
        xml_of(many(513), 32)
    monkeypatch.setattr("sccl.formats.mscclpp_plans.plan_lowering.MAX_BLOCKS", 2)
    with pytest.raises(TooLargeError, match="or fewer instances"):
        plan_bytes(many(600), 2)


@pytest.mark.parametrize("name", ["msccl-xml", "msccl++"])
@pytest.mark.parametrize("told", ["0", "65", "two"])
def test_numbers_of_instances_that_cannot_be(name: str, told: str) -> None:
    with pytest.raises(InputError, match=rf"--set instances={told}: .*; give another value"):
        parse_options(load(name), [f"instances={told}"])
