"""Joint transfers over a link: one step for several chunks, correct next to any other sends."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from sccl.api.export import export
from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.clock import Clock
from sccl.core.schedule import build_schedule
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import InputError
from sccl.formats import msccl_xml, mscclpp
from sccl.formats.common.contract import SizedPlan
from sccl.formats.common.program_graph import GraphFault
from sccl.formats.files.plans import write_plan
from sccl.formats.msccl.msccl_program import (
    MscclBlock,
    MscclGpu,
    MscclProgram,
    MscclStep,
    format_program,
    parse_program,
    split_to_single_chunks,
)
from sccl.formats.mscclpp_plans.plan_file import parse_plan
from sccl.judge import violations
from sccl.topo import resolve_topology
from sccl.transform.levels import assign_steps
from tests.kit import slow_mscclpp, tacos
from tests.kit.easy_algorithms import frontier
from tests.kit.formats import program_faults
from tests.kit.mscclpp import faults_of as mscclpp_faults_of
from tests.kit.nightly import seed, times
from tests.kit.schedules import together_around
from tests.kit.slow_msccl import runs_correctly


def faults_of(content: bytes) -> list[GraphFault]:
    """Return the faults of a program that is read back."""
    return program_faults(msccl_xml.read(content, "file").plan)


def counts(found: MscclProgram, kinds: str) -> list[int]:
    """Return how many chunks each step of some kinds is of."""
    return sorted(s.count for *_, b in found.blocks() for s in b.steps if s.type in kinds.split())


def written(algorithm: Algorithm, together: dict[Send, int]) -> bytes:
    """Return the program of an algorithm some of whose sends go together."""
    entry = SizedPlan("plan", algorithm, together=together)
    (content,) = msccl_xml.write([entry], msccl_xml.MscclOptions()).files.values()
    return content


def test_chunks_of_one_transfer_are_sends_of_one_step() -> None:
    found = assign_steps(together_around(4, 25_000))
    assert found.algorithm.steps == 3
    assert set(found.combined_transfers) == set(found.algorithm.sends)
    assert sorted(found.combined_transfers.values()) == sorted([*range(12), *range(12)])
    pairs = {(s.step, s.src, s.dst): n for s, n in found.combined_transfers.items()}
    assert [pairs[s.step, s.src, s.dst] for s in found.combined_transfers] == list(
        found.combined_transfers.values()
    )


def test_step_waits_for_the_last_of_what_goes_together() -> None:
    """Rank 1 sends its own chunk and that of rank 0 to rank 2, after its arrival."""
    line = resolve_topology("line:3")
    clock = Clock.from_topology(line, 25_000)
    place = {k.edge: i for i, k in enumerate(line.links)}
    busy, lag = clock.busy(0), clock.lag(0)
    both = clock.busy_combined(place[1, 2], (0, 1))
    rows = [
        (0, busy, 0, place[0, 1], False),
        *((busy + lag, busy + lag + both, c, place[1, 2], False) for c in (0, 1)),
        *((0, busy, c, place[c, c - 1], False) for c in (1, 2)),
        (busy + lag, 2 * busy + lag, 2, place[1, 0], False),
    ]
    found = assign_steps(build_schedule(line, named_spec("allgather", 3).at(1), rows, clock))
    assert {s.step for s in found.combined_transfers} == {1}
    assert {s.chunk for s in found.combined_transfers} == {0, 1}


def test_adjacent_chunks_go_in_one_step(tmp_path: Path) -> None:
    """Each rank's two chunks: none goes by itself, and those that are sent on are still one."""
    write_plan(tmp_path / "plan.json", together_around(4, 25_000))
    export(tmp_path / "plan.json", format="msccl-xml", path=tmp_path / "plan.xml")
    content = (tmp_path / "plan.xml").read_bytes()
    found = parse_program(content, "file")
    assert counts(found, "s rcs") == [2] * 12
    assert faults_of(content) == []
    assert all(runs_correctly(found, 0, k, in_place=way) for k in range(3) for way in (False, True))


def test_separate_chunks_go_in_separate_steps() -> None:
    """Chunks 0 and 2 of three, from rank 0 to rank 1."""
    line = resolve_topology("line:2")
    collective = named_spec("broadcast", 2).at(3)
    sends = tuple(make_send(c, 0, 1, 0) for c in range(3))
    algorithm = Algorithm(line, collective, (3,), sends)
    apart = parse_program(written(algorithm, {sends[0]: 0, sends[2]: 0}), "file")
    assert counts(apart, "s") == [1, 1, 1]
    beside = parse_program(written(algorithm, {sends[1]: 0, sends[2]: 0}), "file")
    assert counts(beside, "s") == [1, 2]


def exchange(count: int) -> bytes:
    """Return an alltoall of two ranks that each send some chunks before they take any."""
    gpus = []
    for rank in (0, 1):
        there, own = ("i", count * (1 - rank)), ("i", count * rank)
        send_ = MscclStep("s", there, ("o", count * rank), count, None, signals=False)
        come = MscclStep("r", own, ("o", count * (1 - rank)), count, None, signals=True)
        keep = MscclStep("cpy", own, ("o", count * rank), count, None, signals=False)
        blocks = (MscclBlock(1 - rank, 1 - rank, 0, (send_, come)), MscclBlock(-1, -1, 0, (keep,)))
        gpus.append(MscclGpu(2 * count, 2 * count, 0, blocks))
    names = ("name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace")
    told = dict(zip(names, ("x", "Simple", "1", str(2 * count), "2", "alltoall", "0"), strict=True))
    told |= {"outofplace": "1", "minBytes": "0", "maxBytes": "0"}
    return format_program(MscclProgram(told, 2 * count, tuple(gpus))).encode()


def test_deadlock_of_large_calls_is_reported() -> None:
    """A queue of Simple has two places: three chunks that take one each fill it."""
    for count, stands in ((2, False), (3, True)):
        content = exchange(count)
        read = msccl_xml.read(content, "file")
        assert faults_of(content) == []
        assert any(note.startswith("in calls so large") for note in read.notes) == stands
        found = parse_program(content, "file")
        assert runs_correctly(found, 0, 0, in_place=False)
        assert runs_correctly(split_to_single_chunks(found), 0, 0, in_place=False) != stands


def by_chance(algorithm: Algorithm, draw: random.Random) -> list[dict[Send, int]]:
    """Return parties of the sends of each step and link: halves by chance, and all."""
    links = {key: n for n, key in enumerate({(s.step, s.src, s.dst): 0 for s in algorithm.sends})}
    every = {s: 2 * links[s.step, s.src, s.dst] for s in algorithm.sends}
    return [{s: party + draw.randrange(2) for s, party in every.items()}, every]


@pytest.mark.parametrize("collective", msccl_xml.COLLECTIVES)
@pytest.mark.parametrize("machine", ["ring:4", "full:4", "star:4", "dgx1"])
def test_any_joint_transfers_end_correctly(machine: str, collective: str) -> None:
    """Sends of a step and a link in parties by chance: also of chunks that others meet there."""
    draw = random.Random(seed(f"{machine} {collective}"))  # noqa: S311 - no secret
    for algorithm in frontier(machine, collective)[: times(1)]:
        for together in by_chance(algorithm, draw):
            content = written(algorithm, together)
            assert faults_of(content) == []
            found = parse_program(content, "file")
            root = algorithm.collective.root or 0
            assert runs_correctly(found, root, 0, in_place=False)
            assert runs_correctly(split_to_single_chunks(found), root, 1, in_place=False)


@pytest.mark.parametrize("collective", mscclpp.COLLECTIVES)
@pytest.mark.parametrize("machine", ["ring:4", "full:4"])
def test_any_joint_transfers_end_correctly_in_mscclpp(machine: str, collective: str) -> None:
    draw = random.Random(seed(f"{machine} {collective}"))  # noqa: S311 - no secret
    for algorithm in frontier(machine, collective)[: times(1)]:
        for together in by_chance(algorithm, draw):
            content = put(algorithm, together)
            assert mscclpp_faults_of(content) == []
            assert slow_mscclpp.is_right(json.loads(content), 0, 48)


def put(algorithm: Algorithm, together: dict[Send, int]) -> bytes:
    """Return the plan of an algorithm some of whose sends go together."""
    entry = SizedPlan("plan", algorithm, together=together)
    (content,) = mscclpp.write([entry], mscclpp.Options()).files.values()
    return content


def sizes(content: bytes, names: str) -> list[int]:
    """Return of how many chunks each destination of some operations is."""
    blocks = [block for gpu in parse_plan(content, "plan").gpus for block in gpu.threadblocks]
    ops = [op for block in blocks for op in block.ops if op.name in names.split()]
    return sorted(part.size for op in ops for part in op.dst_buff)


def test_adjacent_chunks_go_in_one_put() -> None:
    found = assign_steps(together_around(4, 25_000))
    content = put(found.algorithm, dict(found.combined_transfers))
    assert sizes(content, "put") == [2] * 12
    assert mscclpp_faults_of(content) == []
    alone = put(found.algorithm, {})
    assert set(sizes(alone, "put")) == {1}


def test_between_nodes_the_last_of_what_goes_together_signals() -> None:
    """Two nodes of one rank: a port puts all four chunks, signals and flushes, in one operation."""
    pair = replace(resolve_topology("line:2"), chassis=((0,), (1,)))
    sends = tuple(make_send(c, c % 2, 1 - c % 2, 0) for c in range(8))
    algorithm = Algorithm(pair, named_spec("allgather", 2).at(4), (4,), sends)
    content = put(algorithm, {s: s.src for s in sends})
    assert sizes(content, "pwsf") == [4, 4]
    assert sizes(content, "put pws") == []
    assert mscclpp_faults_of(content) == []


def around(ranks: int, lanes: int) -> Topology:
    """Return ranks around a switch, each with so many lanes to it, and one from it."""
    up = [Link(r, ranks, lanes, 0.25, 25.0) for r in range(ranks)]
    down = [Link(ranks, r, 1, 0.5, 25.0) for r in range(ranks)]
    return Topology("around", ranks, (*up, *down), 0.25, 25.0, switches=(Switch("hub"),))


@pytest.mark.parametrize("collective", ["allgather", "allreduce", "alltoall", "reducescatter"])
def test_ways_through_switches_are_links(collective: str, tmp_path: Path) -> None:
    """Each has as many lanes as the narrower of its hops, and a rank's links share its lanes."""
    machine = around(4, 2)
    plan = tacos.schedule(tacos.found(machine, named_spec(collective, 4)))
    algorithm = assign_steps(plan).algorithm
    assert violations(algorithm) == []
    assert {(k.lanes, k.alpha_us) for k in algorithm.topology.links} == {(1, 0.75)}
    shared = {b.name: b.chunks_per_round for b in algorithm.topology.budgets}
    assert shared == {f"through link {r}->4": 2 for r in range(4)} | {
        f"through link 4->{r}": 1 for r in range(4)
    }
    write_plan(tmp_path / "plan.json", plan)
    export(tmp_path / "plan.json", format="msccl-xml", path=tmp_path / "plan.xml")
    assert faults_of((tmp_path / "plan.xml").read_bytes()) == []


def test_plans_on_one_machine_of_switches_are_written_together(tmp_path: Path) -> None:
    machine = around(3, 1)
    for name in ("allgather", "alltoall"):
        found = tacos.schedule(tacos.found(machine, named_spec(name, 3)))
        write_plan(tmp_path / f"{name}.json", found)
    both = (tmp_path / "allgather.json", tmp_path / "alltoall.json")
    export(*both, format="msccl-xml", path=tmp_path / "x")
    assert sorted(p.name for p in (tmp_path / "x").iterdir()) == ["allgather.xml", "alltoall.xml"]


def test_transfers_without_steps_error_names_the_file(tmp_path: Path) -> None:
    line = resolve_topology("line:3")
    clock = Clock.from_topology(line, 25_000)
    place = {k.edge: i for i, k in enumerate(line.links)}
    took = clock.busy(0) + clock.lag(0)
    hops = [(0, clock.busy(0), 0, place[0, 1], False), (took, 2 * took, 0, place[1, 2], False)]
    back = (0, clock.busy(0), 0, place[0, 1], False)
    rows = [*hops, (2 * took, 3 * took, *back[2:])]
    plan = build_schedule(line, named_spec("broadcast", 3).at(1), rows, clock, [4, 4, 5])
    write_plan(tmp_path / "relayed.json", plan)
    with pytest.raises(
        InputError, match=r"relayed\.json: message 4 has 2 hops, and hops of an algorithm"
    ):
        export(tmp_path / "relayed.json", format="msccl-xml", path=tmp_path / "plan.xml")
    assert not (tmp_path / "plan.xml").exists()
