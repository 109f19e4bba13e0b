"""Charts of simulations: link loads over time, utilization, times by size."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from sccl.collectives import named_spec
from sccl.comparison.plan_simulation import SimulationRun, build_source, run_together
from sccl.comparison.simulation_charts import chart_run, simulation_chart
from sccl.comparison.simulation_output import build_run_part
from sccl.core.outcome import best_plan
from sccl.core.schedule import Schedule
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.sim.settings import SimulationSettings
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.topo import resolve_topology
from sccl.view.chart_files import render_svg
from sccl.view.charts import MAX_LINKS, LinkActivity, link_activity_chart
from tests.kit.baselines import classical
from tests.kit.commands import sccl


def run(name: str, collective: str, machine: str, pieces: int = 1) -> SimulationRun:
    plan = classical(name, collective, machine, pieces)
    return run_together([build_source(name, plan)], 1 << 20, SimulationSettings())


def links_of(made: SimulationRun) -> LinkActivity:
    found = chart_run(made, is_single=True).links
    assert found is not None
    return found


def test_bars_are_what_links_were_busy_with() -> None:
    made = run("multi-ring", "allreduce", "dgx1")
    busy = links_of(made)
    assert len(busy.links) == len(made.timeline.topology.links) == 32
    assert len(busy.bars) == len(made.timeline.link)
    total = sum(bar.until_us - bar.since_us for bar in busy.bars)
    assert total == pytest.approx(made.to_us(int(made.timeline.busy().sum())))
    path = [bar for bar in busy.bars if bar.critical]
    assert len(path) == len(made.timeline.critical_path())
    assert sum(busy.shares.values) / len(busy.shares.values) == pytest.approx(
        total / busy.shares.finish_us / 32
    )


def test_busiest_links_and_transfers_are_drawn() -> None:
    made = run("ring", "allreduce", "ring:64")
    busy = links_of(made)
    assert len(made.timeline.link) > 4000
    assert len(busy.links) == MAX_LINKS < 64
    assert len(busy.bars) < 4000
    assert any("48 of 128 links" in note for note in busy.notes)
    for link in range(MAX_LINKS):
        own = [bar for bar in busy.bars if bar.link == link]
        assert all(a.until_us <= b.since_us for a, b in pairwise(own))


def test_chart_says_what_it_shows() -> None:
    text = render_svg(link_activity_chart(links_of(run("direct", "alltoall", "full:4"))))
    assert "alltoall on full:4, 1 MiB: " in text
    assert "on the critical path" in text
    assert "pipelined, alpha travels" in text
    assert "0 \u2192 1" in text


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ("64KiB", ("Links busy", "dotted: lower bound")),
        (
            "1KB..1MB",
            ("Size (bytes)", "lower bound for these chunks", "lower bound for every chunk count"),
        ),
    ],
)
def test_several_are_compared(sizes: str, says: tuple[str, ...], tmp_path: Path) -> None:
    for name in ("ring", "direct"):
        words = ("--collective", "allgather", "--topo", "full:4", "-o", tmp_path / f"{name}.json")
        assert sccl("synth", name, *words)[0] == 0
    files = sorted(tmp_path.glob("*.json"))
    picture = tmp_path / "p.svg"
    code, out, err = sccl("simulate", *files, "--size", sizes, "--plot", picture)
    assert (code, err) == (0, "")
    assert f"picture: {picture}" in out
    text = picture.read_text()
    assert all(word in text for word in (*says, "ring.json", "direct.json"))


def test_line_stands_where_no_plan_of_any_chunks_ends_sooner() -> None:
    made = run("ring", "allgather", "dgx1")
    chart = json.loads(
        simulation_chart([chart_run(made, is_single=True)], [build_run_part(made)]).to_json()
    )
    rules = [
        layer
        for panel in chart["vconcat"]
        for layer in panel["layer"]
        if layer.get("mark", {}).get("type") == "rule"
    ]
    least = completion_time_bound(made.timeline.topology, named_spec("allgather", 8)).us(1 << 20)
    assert len(rules) == 2
    for rule in rules:
        (row,) = rule["data"]["values"]
        assert row["time"] == pytest.approx(float(least))


def test_chunks_that_differ_count_as_the_least_that_a_rank_has() -> None:
    fluid, topology = registry.load("limits-time"), resolve_topology("dgx1")
    request = Request(topology, named_spec("allgather", 8), 1001)
    found, _ = best_plan(registry.plan(fluid, request, fluid.Options(), Effort(units=0.5)))
    assert found is not None
    plan = found.plan
    assert isinstance(plan, Schedule)
    assert not isinstance(plan.chunk_bytes, int)
    (asked,) = chart_run(
        run_together([build_source("it", plan)], None, SimulationSettings()), is_single=True
    ).demands
    own = [
        sum(plan.chunk_bytes[chunk] for chunk in chunks)
        for chunks in plan.collective.chunk_classes().values()
    ]
    assert 1001 <= asked.rank_bytes == min(own) <= asked.size_bytes


def test_undrawable_chart_is_not_simulated(tmp_path: Path) -> None:
    words = ("--collective", "allgather", "--topo", "ring:4", "-o", tmp_path / "a.json")
    sccl("synth", "ring", *words)
    for name in ("p.txt", "none/p.svg", "p"):
        code, out, err = sccl("simulate", tmp_path / "a.json", "--plot", tmp_path / name)
        assert (code, out, err.count("\n")) == (2, "", 1)
    many = [tmp_path / f"a{i}.json" for i in range(13)]
    for path in many:
        path.write_text((tmp_path / "a.json").read_text())
    code, _, err = sccl("simulate", *many, "--plot", tmp_path / "p.svg")
    assert code == 2
    assert "13 files, expected at most 12" in err
    assert not (tmp_path / "p.svg").exists()


def test_nothing_at_all_is_drawn_too() -> None:
    made = run("ring", "allgather", "ring:4")
    drawn, part = chart_run(made, is_single=False), build_run_part(made)
    assert "Links busy" in render_svg(simulation_chart([drawn], [part]))


def test_schedules_are_plotted_and_wrong_ones_are_not(tmp_path: Path) -> None:
    file, picture = tmp_path / "s.json", tmp_path / "p.svg"
    words = ("--collective", "allgather", "--topo", "ring:4", "--size", "1MB", "-o", file)
    assert sccl("synth", "tacos", *words)[0] == 0
    code, out, err = sccl("plot", file, "-o", picture)
    assert (code, err, out.split(":")[0]) == (0, "", "utilisation")
    assert "on the critical path" in picture.read_text()
    assert sccl("plot", file, "--what", "topology", "-o", picture)[0] == 0
    for what in ("arrival", "time", "frontier"):
        code, out, err = sccl("plot", file, "--what", what, "-o", tmp_path / "none.svg")
        assert (code, out, f"what={what} draws" in err) == (2, "", True)
    plain = json.loads(file.read_text())
    plain["sends"][0][1] -= 1
    file.write_text(json.dumps(plain))
    code, _, err = sccl("plot", file, "-o", tmp_path / "none.svg")
    assert (code, "this schedule fails verification" in err) == (2, True)
    assert not (tmp_path / "none.svg").exists()
