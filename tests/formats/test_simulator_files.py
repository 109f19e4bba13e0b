"""Files for simulators: Chakra traces, folders of ASTRA-sim, GOAL schedules, tables."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import pytest

from sccl import formats, sim
from sccl.collectives import collective_names
from sccl.core.algorithm import Algorithm, make_send
from sccl.core.clock import AlphaModel, Clock
from sccl.core.schedule import Schedule
from sccl.errors import InputError
from sccl.formats.common.contract import SizedPlan, WrittenFiles
from sccl.formats.files.export_plans import parse_options
from sccl.judge import violations
from sccl.sim import Messages
from sccl.transform.levels import algorithm_from_schedule
from sccl.transform.retime import schedule_algorithm
from tests.kit.astra_reference import RECEIVE, SEND, Machine, TraceNode, nodes, simulate
from tests.kit.easy_algorithms import frontier
from tests.kit.formats import convert_plan
from tests.kit.goal_reference import run_goal
from tests.kit.schedules import together_around

KIB = 1024


def written(name: str, plan: Algorithm | Schedule, size: int | None, *told: str) -> WrittenFiles:
    form = formats.load(name)
    return form.write([SizedPlan("plan", plan, size_bytes=size)], parse_options(form, told))


def traces(files: WrittenFiles, prefix: str, ranks: int) -> list[list[TraceNode]]:
    return [nodes(files.files[f"{prefix}.{rank}.et"]) for rank in range(ranks)]


CASES = [
    (machine, collective)
    for machine in ("ring:4", "full:4", "mesh:2x3", "hypercube:3")
    for collective in ("allgather", "allreduce", "alltoall", "reducescatter")
]


MACHINES = ("ring:4", "star:4", "line:3", "mesh:2x3")


def every_algorithm(machine: str) -> list[Algorithm]:
    return [one for collective in collective_names() for one in frontier(machine, collective)]


@pytest.mark.parametrize("machine", MACHINES)
def test_trace_sends_what_has_come(machine: str) -> None:
    """A rank sends a chunk that it held at first or received in an earlier step."""
    for algorithm in every_algorithm(machine):
        chunks = algorithm.collective.chunks
        count = algorithm.topology.ranks
        ranks = traces(written("chakra", algorithm, KIB * chunks), "plan", count)
        sends = [(r, n) for r, own in enumerate(ranks) for n in own if n.kind == SEND]
        assert len(sends) == algorithm.num_sends
        for rank, own in enumerate(ranks):
            received = {n.number: n.attributes for n in own if n.kind == RECEIVE}
            for n in own:
                told = n.attributes
                assert (told["comm_size"], told["msg_chunk_cnt"]) == (KIB, 1)
                assert told["total_chunk_cnt"] == algorithm.collective.num_chunks
                chunk, step = told["msg_chunk_idx"], told["local_time_step"]
                for before in n.after:
                    assert received[before]["msg_chunk_idx"] == chunk
                    assert received[before]["local_time_step"] < step
                if n.kind == SEND and rank not in algorithm.collective.holders(chunk):
                    assert n.after


@pytest.mark.parametrize(("machine", "collective"), CASES)
def test_folder_runs_as_astra_sim_runs_it(machine: str, collective: str) -> None:
    """In whichever order sends are issued that are free at once, all end when ours do."""
    for algorithm in frontier(machine, collective):
        size = 2500 * algorithm.collective.chunks  # 100 ns each
        files = written("astra-sim", algorithm, size)
        network = files.files["network.yml"].decode()
        told = dict(re.findall(r"(\w+): \[ (\S+) \]", network))
        assert told["topology"] == ("Ring" if machine == "ring:4" else "FullyConnected")
        speed = float(told["bandwidth"]) * 2**30 / 10**9
        ranks = algorithm.topology.ranks
        clock = Clock.from_topology(algorithm.topology, 2500, tick_ps=1000)
        ours = sim.simulate(Messages.from_algorithm(algorithm), algorithm.topology, clock).finish
        for downwards in (False, True):
            like = Machine(told["topology"], ranks, speed, float(told["latency"]))
            ends = simulate(like, traces(files, "algorithm", ranks), downwards=downwards)
            assert None not in ends
            assert max(end or 0 for end in ends) == ours
        schedule = schedule_algorithm(algorithm, 2500, tick_ps=1000)
        own = traces(written("astra-sim", schedule, None), "algorithm", ranks)
        for downwards in (False, True):
            like = Machine(told["topology"], ranks, speed, float(told["latency"]))
            ends = simulate(like, own, downwards=downwards)
            assert max(end or 0 for end in ends) <= schedule.finish
        (whole,) = nodes(files.files["workload.0.et"])
        result = size * (ranks if collective == "allgather" else 1)
        assert whole.attributes["comm_size"] == result
        assert "-implementation-custom" in files.files["system.json"].decode()


@pytest.mark.parametrize(
    ("machine", "collective", "told", "says"),
    [
        ("dgx1", "allgather", (), "links that cost different things"),
        ("ring:4", "broadcast", (), "has no custom algorithms of broadcast"),
        ("full:4", "allgather", ("network=Ring",), "is no Ring of ASTRA-sim"),
    ],
)
def test_unsupported_astra_sim_machine_is_reported(
    machine: str, collective: str, told: tuple[str, ...], says: str
) -> None:
    algorithm = frontier(machine, collective)[0]
    with pytest.raises(InputError, match=says):
        written("astra-sim", algorithm, 2400 * algorithm.collective.chunks, *told)


@pytest.mark.parametrize("machine", MACHINES)
def test_goal_schedule_brings_everything(machine: str) -> None:
    """It runs by its own definitions: a send carries the data that arrived before it."""
    for algorithm in every_algorithm(machine):
        for awaiting in ("data", "step"):
            files = written(
                "goal", algorithm, 64 * algorithm.collective.chunks, f"awaiting={awaiting}"
            )
            text = files.files["plan.goal"].decode()
            assert run_goal(text, 64) == algorithm.num_sends


@pytest.mark.parametrize("machine", MACHINES)
def test_tables_and_pictures_are_the_algorithm(machine: str) -> None:
    """The table is verified separately. A picture has a bar for each send, of its length."""
    for algorithm in every_algorithm(machine):
        size = 2500 * algorithm.collective.chunks
        rows = csv.DictReader(written("csv", algorithm, size).files["plan.csv"].decode().split())
        sends = [[int(row[name]) for name in SENT] for row in rows]
        again = tuple(make_send(*told, reduce=bool(adds)) for *told, adds in sends)
        assert violations(replace(algorithm, sends=again)) == []
        assert again == algorithm.sends
        schedule = schedule_algorithm(algorithm, 2500)
        text = written("chrome-trace", schedule, size).files["trace.json"]
        bars = [event for event in json.loads(text)["traceEvents"] if event["ph"] == "X"]
        assert sorted(bar["args"]["chunk"] for bar in bars) == sorted(s.chunk for s in again)
        assert max(bar["args"]["arrives_us"] for bar in bars) == schedule.clock.us(schedule.finish)


SENT = ("chunk", "src", "dst", "step", "reduce")


def test_tables_have_every_transfer() -> None:
    schedule = schedule_algorithm(frontier("ring:4", "allreduce")[0], 25_000)
    rows = list(csv.DictReader(written("csv", schedule, 0).files["plan.csv"].decode().splitlines()))
    assert len(rows) == len(schedule.start)
    assert max(float(r["arrive_us"]) for r in rows) == schedule.finish * schedule.tick_ps / 10**6
    assert {r["bytes"] for r in rows} == {"25000"}


def test_joint_transfer_is_one_message_and_one_bar() -> None:
    schedule = together_around(4, 25_000, AlphaModel.OCCUPIES)
    chakra = traces(written("chakra", schedule, None), "plan", 4)
    sent = [node for own in chakra for node in own if node.kind == SEND]
    assert {node.attributes["comm_size"] for node in sent} == {50_000}
    assert {node.attributes["msg_chunk_cnt"] for node in sent} == {2}
    assert len(sent) == schedule.num_sends // 2
    text = written("chrome-trace", schedule, None).files["trace.json"]
    bars = [event for event in json.loads(text)["traceEvents"] if event["ph"] == "X"]
    assert len(bars) == len(sent)
    assert {bar["args"]["bytes"] for bar in bars} == {50_000}
    assert {tuple(bar["args"]["chunks"]) for bar in bars} == {(r, r + 4) for r in range(4)}
    assert bars[0]["name"] == "chunks 0, 4"
    rows = written("csv", schedule, None).files["plan.csv"].decode().splitlines()[1:]
    assert len(rows) == schedule.num_sends
    tables = [tuple(row.split(",")) for row in rows]
    assert len({(*row[:3], *row[4:6]) for row in tables}) == len(sent)


def test_algorithm_of_what_is_sent_together_has_each_chunk_by_itself() -> None:
    algorithm = algorithm_from_schedule(together_around(4, 25_000))
    assert violations(algorithm) == []
    assert (algorithm.steps, algorithm.rounds_per_step, algorithm.num_sends) == (3, (2, 2, 2), 24)


def test_format_of_schedules_gets_them() -> None:
    found = convert_plan(formats.load("chrome-trace"), frontier("ring:4", "allgather")[0])
    assert isinstance(found, Schedule)


def test_system_file_names_the_algorithm() -> None:
    files = written("astra-sim", frontier("ring:4", "allgather")[0], 4096).files
    assert json.loads(files["system.json"])["all-gather-implementation-custom"] == ["algorithm"]
    assert "algorithm.0.et" in files
