"""Workloads and training plans in Python: their summaries, and hostile names."""

from __future__ import annotations

import json
import pkgutil
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sccl
from tests.kit.small_budgets import small_tacos_budget
from tests.kit.traces import PREFETCHING, profile
from tests.kit.training_plans import layered_plan, plan_file, prefetching_plan

JOB = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8, "zero": 3}


def test_plan_tells_what_it_comes_to(tmp_path: Path) -> None:
    plan = sccl.TrainingPlan.load(plan_file(prefetching_plan(), tmp_path / "plan.json"))
    assert repr(plan) == (
        "TrainingPlan(prefetching on hgx2: 14.5 us per iteration; gap 52.63% to the lower bound)"
    )
    assert (plan.period_us, plan.bound_us, plan.proved, plan.intact) == (14.5, 9.5, False, True)
    assert plan.gap == pytest.approx(14.5 / 9.5 - 1)
    assert plan.violations() == []
    assert plan.recipes == {"batch": "whole", "gradients": "ring"}
    assert plan.timeline().period_ns == 14500
    assert repr(plan.workload) == (
        "Workload(prefetching: 2 ranks, 2 collectives, 9.5 us of computation)"
    )
    assert plan.save(tmp_path / "again.json").read_bytes() == (tmp_path / "plan.json").read_bytes()


def test_plan_without_a_bound_has_no_gap() -> None:
    plan = sccl.TrainingPlan(layered_plan(2))
    assert (plan.gap, plan.bound_us, plan.proved) == (None, None, False)
    assert "bound" not in repr(plan)


def test_plan_is_a_table_a_chart_and_a_page(tmp_path: Path) -> None:
    plan = sccl.TrainingPlan(prefetching_plan())
    frame = plan.to_dataframe()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == len(plan.timeline().spans)
    second = frame[(frame.op == "gradients") & (frame.motif == 1) & (frame.iteration == 0)].iloc[0]
    assert (second.start_us, second.end_us, second.lane) == (11, 13.5, "gpu")
    assert (second.collective, second.bytes, second.recipe) == ("allreduce", 4096, "ring")
    chart = plan.plot()
    assert chart.title == "prefetching on hgx2: timeline"
    both = plan.plot(before=plan).value.to_dict(validate=False)["vconcat"]
    assert [panel["title"]["text"] for panel in both] == ["prefetching on hgx2, planned (none)"] * 2
    assert plan.explore(tmp_path / "page.html").read_text().startswith("<!doctype html>")
    text = plan.save_timeline(tmp_path / "timeline.json").read_text()
    assert len(json.loads(text)["spans"]) == len(frame)
    shown = plan._repr_html_()
    for words in ("14.5 us per iteration", "ring", "4 KiB", "idle 0%"):
        assert words in shown


def test_wrong_plans_say_so(tmp_path: Path) -> None:
    plan = sccl.TrainingPlan(replace(prefetching_plan(), period_ns=14000))
    assert plan.violations() == [
        "period: iterations repeat every 14500 ns, and the plan states 14000"
    ]
    assert "the plan fails verification" in plan._repr_html_()
    for show in (plan.timeline, plan.plot, plan.to_dataframe):
        with pytest.raises(sccl.InputError, match="this plan fails verification"):
            show()
    for write in (plan.explore, plan.save_timeline):
        with pytest.raises(sccl.InputError, match="this plan fails verification"):
            write(tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_names_are_text() -> None:
    plan = prefetching_plan()
    hostile = "<script>x</script>"
    workload = replace(plan.workload, name=hostile, source=hostile)
    option = replace(plan.options[0][1], recipe=hostile)
    plan = replace(plan, workload=workload, options=(("batch", option), plan.options[1]))
    assert "<script" not in sccl.TrainingPlan(plan)._repr_html_()
    assert "<script" not in sccl.Workload(workload)._repr_html_()


def test_plan_shows_times_of_other_models_next_to_its_claim() -> None:
    """Times from a table prevent the simulation of messages, and the plan gives this reason."""
    plan = sccl.TrainingPlan(prefetching_plan())
    assert plan.fluid_us == pytest.approx(14.5)
    assert plan.links_us is None
    shown = plan._repr_html_()
    assert (
        "14.5 us per iteration (+0.00%), if concurrent motifs share the bandwidth of links" in shown
    )
    assert "not simulated link by link: " in shown


def test_workload_is_of_a_model_a_file_or_traces(tmp_path: Path) -> None:
    made = sccl.workload("transformer", JOB, name="mine")
    assert made == sccl.make_workload("transformer", JOB, name="mine")
    assert sccl.workload(made.save(tmp_path / "w.json")) == made
    assert sccl.workload("dlrm", {"ranks": 16}, preset="A1").ranks == 16
    files = [tmp_path / f"rank{rank}.json" for rank in range(2)]
    for rank, file in enumerate(files):
        file.write_bytes(profile(rank, PREFETCHING))
    read = sccl.workload(files, name="traced")
    assert (read.name, read.ranks, read.collectives) == ("traced", 2, 2)
    assert sccl.workload(files[0], rank=0, alike=True).ranks == 2
    assert read.assumed
    assert f"assumed: {read.assumed[0]}" in unescape(read._repr_html_())


@pytest.mark.parametrize(
    ("given", "more", "says"),
    [
        (
            "transformer",
            {"step": 3},
            "step applies to traces only, and 'transformer' is a family of models",
        ),
        ("w.json", {"preset": "A1"}, "preset applies to models only, and "),
        (
            "w.json",
            {"ranks": 2},
            "ranks applies to traces only, and w.json is a workload: leave it out",
        ),
        ("w.json", {"name": "x"}, "name applies to traces only, and w.json is a workload"),
        ([], {}, "given is an empty list, expected traces"),
        (3, {}, "sccl.workload: given is 3, expected a text, a path or a"),
    ],
)
def test_invalid_workload_gives_one_sentence(
    given: Any, more: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sccl.make_workload("transformer", JOB).save("w.json")
    with pytest.raises(sccl.InputError, match=re.escape(says)):
        sccl.workload(given, **more)


def test_no_room_has_a_name_that_the_module_offers() -> None:
    """Importing a subpackage also sets its name, which would hide a function of that name."""
    assert not {room.name for room in pkgutil.iter_modules(sccl.__path__)} & {*sccl.__all__}


def test_workloads_are_made_written_and_read(tmp_path: Path) -> None:
    made = sccl.make_workload("transformer", JOB, name="mine")
    assert (made.name, made.ranks) == ("mine", 8)
    assert "allgather" in made._repr_html_()
    assert sccl.Workload.load(made.save(tmp_path / "w.json")).value == made.value
    with pytest.raises(sccl.InputError, match="make_workload: layers is 'x', expected a whole"):
        sccl.make_workload("transformer", {**JOB, "layers": "x"})
    with pytest.raises(sccl.InputError, match="family"):
        sccl.make_workload("perceptron")
    with pytest.raises(sccl.InputError, match="path is 3"):
        sccl.Workload.load(3)  # type: ignore[arg-type]
    with pytest.raises(sccl.InputError, match="expected a training-plan file"):
        sccl.TrainingPlan.load(tmp_path / "w.json")


@small_tacos_budget()
def test_step_is_planned(tmp_path: Path) -> None:
    step = sccl.make_workload("transformer", {**JOB, "layers": 1})
    plan = sccl.plan(step, "hgx2", search="fifo", budget=0)
    assert plan.violations() == []
    assert plan.workload.value == step.value
    assert plan.gap is not None
    assert plan.gap >= 0
    assert isinstance(plan.links_us, float)
    file = step.save(tmp_path / "w.json")
    cheap = tmp_path / "costs.csv"
    cheap.write_text("collective,option,ranks,bytes,us\nallgather,gpu ring,8,25165824,100\n")
    assert sccl.plan(file, "hgx2", search="fifo", budget=0, costs=cheap).value.costs
    merged = sccl.plan(file, "hgx2", search="fifo", budget=0, merge_bytes=2**40)
    assert merged.value.merge_bytes == 2**40
    assert merged.value.period_ns <= plan.value.period_ns
    assert merged.violations() == []
    assert merged.workload.value == plan.workload.value
    with pytest.raises(sccl.InputError, match=r"w\.json: "):
        sccl.plan(sccl.make_workload("transformer", {**JOB, "dp": 64}).save(file), "dgx1-pcie")
    with pytest.raises(sccl.InputError, match="the fabrics are"):
        sccl.plan(step, "hgx3")
    with pytest.raises(sccl.InputError, match="expected 0 to 1000000"):
        sccl.plan(step, "hgx2", budget=-1)
