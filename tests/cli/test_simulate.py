"""``sccl simulate``: closed forms, valid bounds, output, and errors."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from sccl.collectives import named_spec, recover_spec
from sccl.comparison.plan_simulation import build_source, run_together
from sccl.core.algorithm import Algorithm
from sccl.core.clock import AlphaModel, Clock, StepAlignment
from sccl.core.schedule import Schedule
from sccl.core.schedule import build_schedule as of_rows
from sccl.errors import InputError
from sccl.formats.files.plans import write_plan
from sccl.judge import violations
from sccl.sim.settings import SimulationSettings
from sccl.synth.packing.by_time.time_bound import compute_time_bound
from sccl.topo import resolve_topology
from sccl.transform.retime import schedule_algorithm
from tests.kit.baselines import classical
from tests.kit.commands import sccl
from tests.kit.nightly import times
from tests.kit.timed import right

ALPHA, LANE = 0.7, 25.0  # of generated machines: microseconds, and 10^9 bytes per second


def written(folder: Path, name: str, plan: Algorithm | Schedule) -> Path:
    path = folder / f"{name}.json"
    write_plan(path, plan)
    return path


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulate")
    return written(folder, "ring", classical("ring", "allreduce", "ring:4"))


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = schedule_algorithm(classical("ring", "allreduce", "ring:4"), 250, AlphaModel.OCCUPIES)
    return written(tmp_path_factory.mktemp("simulate"), "timed", made)


def simulated(*words: str | Path) -> Any:
    code, out, err = sccl("simulate", *words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("stepping", StepAlignment)
@pytest.mark.parametrize("model", AlphaModel)
@pytest.mark.parametrize(
    ("name", "collective", "machine", "hops", "parts"),
    [
        ("ring", "allgather", "ring:6", 5, 1),  # P-1 times the buffer of a rank
        ("ring", "allreduce", "ring:6", 10, 6),  # 2(P-1) times a P-th of it
        ("direct", "alltoall", "full:5", 1, 5),
    ],
)
def test_closed_forms(
    name: str, collective: str, machine: str, hops: int, parts: int,
    model: AlphaModel, stepping: StepAlignment,
) -> None:  # fmt: skip
    """Each link carries one chunk a step, in every model of alpha."""
    source = build_source(name, classical(name, collective, machine))
    for size in (parts, 120_000, 9_600_000_000):
        run = run_together([source], size, SimulationSettings(model, stepping))
        chunk = round(size / parts * 1000 / LANE)
        assert run.timeline.finish == hops * (700_000 + chunk), size
        other = run_together(
            [source], size, SimulationSettings(model, stepping, alpha_us=2, gb_per_s=50)
        )
        assert other.timeline.finish == hops * (2_000_000 + chunk // 2)


@pytest.mark.parametrize("stepping", StepAlignment)
@pytest.mark.parametrize("model", AlphaModel)
def test_recursive_doubling_sends_twice_as_much_in_each_step(
    model: AlphaModel, stepping: StepAlignment
) -> None:
    source = build_source("a", classical("recursive-doubling", "allgather", "hypercube:4"))
    finish = run_together([source], 25_000, SimulationSettings(model, stepping)).timeline.finish
    alphas = 4 if model is AlphaModel.TRAVELS else 15
    in_steps = alphas * 700_000 + 15 * 1_000_000
    assert finish == in_steps if stepping is StepAlignment.BARRIER else finish <= in_steps
    source = build_source("a", classical("recursive-doubling", "allreduce", "hypercube:3"))
    terms = SimulationSettings(
        model, StepAlignment.BARRIER
    )  # all that a rank has, in 8 chunks, in each of 3 steps
    alphas = 3 if model is AlphaModel.TRAVELS else 3 * 8
    assert run_together([source], 25_000, terms).timeline.finish == alphas * 700_000 + 3_000_000


@settings(max_examples=times(80, by_day=40), deadline=None)
@given(right())
def test_no_schedule_beats_the_bound(schedule: Schedule) -> None:
    spec = recover_spec(schedule.collective)
    try:
        bound = compute_time_bound(
            schedule.topology, spec, schedule.collective, schedule.clock,
            together=schedule.has_combined_transfers,
        )  # fmt: skip
    except InputError:
        return
    assert bound.value <= schedule.finish


@pytest.mark.parametrize("machine", ["line:2", "switch:2"])
def test_chunks_that_are_sent_together_beat_those_by_themselves_and_not_their_bound(
    machine: str,
) -> None:
    topology = resolve_topology(machine)
    spec = named_spec("broadcast", topology.ranks)
    clock = Clock.from_topology(topology, 25_000, AlphaModel.OCCUPIES, 1000)
    link = [k.edge for k in topology.links].index((0, 1))
    busy = clock.busy_combined(link, range(3))
    rows = [(0, busy, chunk, link, False) for chunk in range(3)]
    schedule = of_rows(topology, spec.at(3), rows, clock)
    assert violations(schedule) == []
    alone, together = (
        compute_time_bound(topology, spec, schedule.collective, clock, together=both).value
        for both in (False, True)
    )
    assert (schedule.finish, alone, together) == (700 + 3 * 1000, 3 * 1700, 700 + 3 * 1000)
    part = run_together([build_source("a", schedule)], None, SimulationSettings()).parts[0]
    assert (part.finish, part.gap) == (schedule.finish, 0)


def test_schedule_takes_as_long_as_it_says(timed: Path) -> None:
    (run,) = simulated(timed)["runs"]
    (part,) = run["collectives"]
    checked = json.loads(sccl("check", timed, "--json")[1])["files"][0]
    assert run["finish_us"] == part["finish_us"] == checked["finish_us"]
    assert (run["alpha"], run["stepping"], part["size_bytes"]) == ("occupies", None, 1000)
    for size in ("1000", "999", "1KB"):
        assert simulated(timed, "--size", size)["runs"][0]["finish_us"] == run["finish_us"]


def test_reported_simulation_numbers_agree(ring: Path) -> None:
    found = simulated(ring, "--size", "1KB..9KB", "--stepping", "barrier", "--alpha", "occupies")
    assert [r["collectives"][0]["size_bytes"] for r in found["runs"]] == [
        1000, 4000, 9000
    ]  # fmt: skip
    assert list(found["inputs"]) == [str(ring)]
    for run in found["runs"]:
        (part,) = run["collectives"]
        assert part["algorithm_gb_per_s"] == pytest.approx(
            part["size_bytes"] / part["finish_us"] / 1000
        )
        assert part["gap"] == pytest.approx(part["finish_us"] / part["bound_us"] - 1)
        assert 0 < run["utilisation"] <= run["busiest"]["busy"] <= 1
        path = run["critical_path"]
        assert (path[0]["start_us"], path[-1]["until_us"]) == (0, run["finish_us"])
        assert all(a["until_us"] == b["start_us"] for a, b in pairwise(path))
        assert path[0]["waited_for"] == "release"
        assert {step["waited_for"] for step in path[1:]} == {"barrier"}


def test_row_for_each_file_at_each_size(ring: Path, timed: Path) -> None:
    code, out, _ = sccl("simulate", ring, timed)
    assert code == 0
    assert [line.split()[1] for line in out.splitlines() if "B │" in line] == [
        str(ring), str(timed)
    ]  # fmt: skip
    out = sccl("simulate", ring, "--size", "1KB..1GB")[1]
    assert len([line for line in out.splitlines() if "B │" in line]) == 11


def test_one_simulation_is_told_at_length(ring: Path) -> None:
    out = sccl("simulate", ring, "--size", "1MB")[1]
    assert "allreduce on ring:4, 1 MB in C=4 of 250 KB:" in out
    assert "GB/s (size / time)" in out
    assert "lower bound" in out
    assert "busiest link 0->1: " in out
    assert "critical path, 6 transfers:" in out
    assert "its data arrived" in out


def test_concurrent_collectives_wait_for_links(ring: Path, timed: Path) -> None:
    (run,) = simulated(ring, timed, "--together")["runs"]
    files = [part["file"] for part in run["collectives"]]
    assert files == [str(ring), str(timed)]
    assert run["alpha"] == "occupies"
    alone = simulated(ring, "--alpha", "occupies")["runs"][0]
    assert run["collectives"][0]["finish_us"] > alone["finish_us"]
    assert run["finish_us"] == max(part["finish_us"] for part in run["collectives"])
    assert {step["file"] for step in run["critical_path"]} <= set(files)
    assert all(step["chunk"] < 4 for step in run["critical_path"])
    assert "all together:" in sccl("simulate", ring, timed, "--together")[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--alpha-us", "-1"), "alpha-us is -1.0, expected a finite number from 0 to 1e+12"),
        (("--gb-per-s", "0"), "gb-per-s is 0.0, expected a finite number"),
        (("--gb-per-s", "1e300"), "gb-per-s is 1e+300, expected a finite number"),
        (("--gb-per-s", "1e-300"), "gb-per-s is 1e-300, expected a finite number"),
        (("--together",), "--together runs several files at once"),
        (("--size", "1024P"), "a chunk has 288230376151711744 bytes, expected 1 to"),
    ],
)
def test_invalid_arguments_give_one_sentence(words: tuple[str, ...], says: str, ring: Path) -> None:
    code, out, err = sccl("simulate", ring, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--size", "1MB"), "it is a schedule for 1000 bytes"),
        (("--size", "1KB..4KB"), "size is 4000: leave --size out"),
        (("--alpha", "travels"), "where alpha occupies: leave --alpha out"),
        (("--stepping", "pipelined"), "leave --stepping out"),
        (("--gb-per-s", "1"), "leave --alpha-us and --gb-per-s out"),
    ],
)
def test_schedules_are_what_they_are(words: tuple[str, ...], says: str, timed: Path) -> None:
    code, out, err = sccl("simulate", timed, *words)
    assert (code, out) == (2, "")
    assert says in err


def test_wrong_plans_are_rejected(ring: Path, timed: Path, tmp_path: Path) -> None:
    plain = json.loads(ring.read_text())
    plain["sends"].pop()
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(plain))
    assert "this algorithm fails verification" in sccl("simulate", broken)[2]
    plain = json.loads(timed.read_text())
    plain["sends"][-1][1] -= 1
    broken.write_text(json.dumps(plain))
    assert "this schedule fails verification" in sccl("simulate", broken)[2]
    assert sccl("simulate", tmp_path / "none.json")[0] == 2
    other = written(tmp_path, "other", classical("ring", "allreduce", "ring:5"))
    assert "must be for one machine" in sccl("simulate", ring, other, "--together")[2]


def test_schedules_of_other_ticks_do_not_run_together(timed: Path, tmp_path: Path) -> None:
    made = schedule_algorithm(classical("ring", "allreduce", "ring:4"), 250, tick_ps=10)
    other = written(tmp_path, "other", made)
    assert "need one tick and one alpha" in sccl("simulate", timed, other, "--together")[2]


def test_costs_in_place_of_the_machines_are_those_of_its_budgets_too() -> None:
    switch = resolve_topology("switch:4")
    slow = replace(switch, budgets=tuple(replace(b, gb_per_s=1.0) for b in switch.budgets))
    assert SimulationSettings(gb_per_s=25.0, alpha_us=0.7).apply_to(slow) == switch
    assert SimulationSettings().apply_to(slow) == slow


@pytest.fixture(scope="module")
def project(ring: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulate") / "project"
    assert sccl("project", "new", ring, "-o", folder)[0] == 0
    return folder


def test_programs_of_projects_are_simulated(project: Path, ring: Path) -> None:
    found = simulated(project, "--size", "1MB")
    file = str(project / "program.json")
    assert list(found["inputs"]) == [file]
    parts = [run["collectives"][0] for run in found["runs"]]
    assert [part["program"].split(", ")[1] for part in parts] == ["eager", "direct"]
    assert {part["file"] for part in parts} == {file}
    assert {run["stepping"] for run in found["runs"]} == {None}
    alone = simulated(ring, "--size", "1MB")["runs"][0]
    assert [run["finish_us"] for run in found["runs"]] == [alone["finish_us"]] * 2
    assert [run["busiest"]["bytes"] for run in found["runs"]] == [alone["busiest"]["bytes"]] * 2
    on_pairs = simulated(file, "--topo", "full:4", "--size", "1MB")["runs"]
    assert on_pairs[0]["collectives"][0]["topology"] == "full:4"
    assert "by the instructions" in sccl("simulate", project)[1]
    both = simulated(project, ring, "--together", "--size", "1MB")["runs"][0]
    assert both["finish_us"] > alone["finish_us"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--topo", "ring:5"), "it is for 4 ranks, and topology 'ring:5' has 5"),
        (("--topo", "ringg:4"), "ringg"),
        (("--stepping", "barrier"), "it is a program"),
    ],
)
def test_programs_are_what_they_are(words: tuple[str, ...], says: str, project: Path) -> None:
    code, out, err = sccl("simulate", project, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_plans_have_machines_of_their_own(ring: Path) -> None:
    assert "leave it out" in sccl("simulate", ring, "--topo", "ring:4")[2]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        (1, None, "is not"),
        (2, 99, "chunk is 99, expected 0 to 3"),
        (3, 77, "peer is 77, expected another rank"),
        (3, None, "has no peer"),
        (7, None, "has no flag"),
        (9, [[50, 0]], "it waits for instruction 0 of block 50"),
        (4, "output:0", "the interpreter finds"),
    ],
)
def test_wrong_programs_are_rejected(
    field: int, value: object, says: str, project: Path, tmp_path: Path
) -> None:
    plain = json.loads((project / "program.json").read_text())
    row = plain["collectives"][0]["algorithms"][0]["eager"]["ranks"][0]["blocks"][0]
    send = next(line for line in row["instructions"] if line[0] == "send")
    send[field] = value
    file = tmp_path / "program.json"
    file.write_text(json.dumps(plain))
    code, out, err = sccl("simulate", file)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err or field == 1


def test_programs_of_machines_without_a_name_need_one(project: Path, tmp_path: Path) -> None:
    text = (project / "program.json").read_text().replace('"ring:4"', '"my machine"')
    file = tmp_path / "program.json"
    file.write_text(text)
    assert "give --topo with the machine's file" in sccl("simulate", file)[2]
    assert sccl("simulate", file, "--topo", "ring:4")[0] == 0
    file.write_text(text.replace('"allreduce"', '"mine"'))
    assert "the demand of the custom collective" in sccl("simulate", file)[2]
