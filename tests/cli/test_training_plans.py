"""Training plans on the command line: judged, shown and drawn, or refused in a sentence."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from sccl.core.files.json_text import to_text
from sccl.training.files.workloads import workload_to_wire
from sccl.training.types.training_plan import TrainingPlan
from sccl.training.types.workload_ops import Dependency, HostAction, HostEvent, HostProgram
from tests.kit.commands import sccl
from tests.kit.small_budgets import small_tacos_budget
from tests.kit.training_plans import layered_plan, plan_file, prefetching_plan
from tests.kit.workloads import calling, comm, prefetching

CARRIED = ("direct", "ring", "tree")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return plan_file(prefetching_plan(), tmp_path / "plan.json")


def test_right_plan_passes(file: Path) -> None:
    code, out, _ = sccl("check", file)
    assert code == 0
    said = " ".join(out.split())
    assert "prefetching on hgx2, 14.5 us per iteration (at least 9.5 us, not verified)" in said
    assert "note: times come from a table of costs and are not verified" in said
    code, out, _ = sccl("check", file, "--json")
    told = json.loads(out)
    (found,) = told["files"]
    assert (code, found["valid"], found["digest_matches"]) == (0, True, True)
    assert (found["topology"], found["violations"]) == ("hgx2", [])
    assert told["inputs"] == {str(file): json.loads(file.read_text())["digest"]}


def test_wrong_plan_is_rejected_by_all(tmp_path: Path) -> None:
    wrong = replace(prefetching_plan(), period_ns=14000)
    file = plan_file(wrong, tmp_path / "wrong.json")
    code, out, err = sccl("check", file)
    assert code == 1
    assert "every 14500 ns, and the plan states 14000" in " ".join((out + err).split())
    code, out, _ = sccl("check", file, "--json")
    (found,) = json.loads(out)["files"]
    assert (code, found["valid"]) == (1, False)
    assert [fault["kind"] for fault in found["violations"]] == ["period"]
    picture = tmp_path / "wrong.svg"
    for words in (("show", file), ("plot", file, "-o", picture)):
        code, _, err = sccl(*words)
        assert code == 2
        assert "this plan fails verification: iterations repeat every" in " ".join(err.split())
        assert "sccl check" in err
    assert not picture.exists()


@small_tacos_budget()
def test_complementary_options_are_verified_independently(tmp_path: Path) -> None:
    calls = (
        comm("gradients", "allreduce", range(4), 2**20),
        comm("tokens", "alltoall", range(4), 2**20),
    )
    job, file = tmp_path / "job.json", tmp_path / "plan.json"
    job.write_text(to_text(workload_to_wire(calling(8, *calls))))
    words = ("--fabric", "dgx1-pcie", "--budget", "0.1", "--seed", "3", "-o", file)
    assert sccl("train", "plan", job, *words)[0] == 0
    assert sccl("check", file)[0] == 0
    told = json.loads(file.read_text())
    del told["digest"]
    beside = [
        motif
        for row in told["options"]
        for motif in row["motifs"]
        if " beside " in motif["carrier"]
    ]
    assert beside
    beside[0].update(ns=beside[0]["ns"] // 2, loads={})
    file.write_text(json.dumps({**told, "bound_ns": 0}))
    code, out, _ = sccl("check", file, "--json")
    (found,) = json.loads(out)["files"]
    costs = [fault["message"] for fault in found["violations"] if fault["kind"] == "cost"]
    assert code == 1
    assert any(f"the plan states {beside[0]['ns']}" in message for message in costs)


def test_edited_plan_is_reported(file: Path) -> None:
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "seed": 4}))
    code, out, _ = sccl("check", file)
    assert (code, "digest" in out) == (0, True)
    code, out, _ = sccl("show", file)
    assert "edited since sccl wrote it" in out


@pytest.mark.parametrize("verb", ["check", "show", "plot"])
def test_file_that_is_no_plan_gives_one_sentence(verb: str, file: Path, tmp_path: Path) -> None:
    told = json.loads(file.read_text())
    told["ops"][0]["option"] = 9
    file.write_text(json.dumps(told))
    more = ("-o", tmp_path / "p.svg") if verb == "plot" else ()
    code, _, err = sccl(verb, file, *more)
    assert code == 2
    assert "'batch' takes option 9, and the plan has 2, 0 to 1" in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_plan_is_shown_in_numbers(file: Path) -> None:
    code, out, _ = sccl("show", file)
    assert code == 0
    said = " ".join(out.split())
    assert "prefetching on hgx2, by none (seed 3)" in said
    assert "14.5 us per iteration, the first two in 29 us; lower bound 9.5 us" in said
    code, out, _ = sccl("show", file, "--json")
    (shown,) = json.loads(out)["training"]
    assert (shown["period_us"], shown["bound_us"], shown["proved"]) == (14.5, 9.5, False)
    assert (shown["steady"], shown["ahead"]) == (True, [])
    first, second = shown["options"]
    assert (first["collective"], first["recipe"], first["us"]) == ("alltoall", "whole", 6)
    assert (second["motifs"], second["channels"], second["us"]) == (2, ["gpu"], 5)
    lanes = {lane["name"]: (lane["computes"], lane["busy_us"]) for lane in shown["lanes"]}
    assert lanes == {"all: 7": (True, 9.5), "cpu": (False, 6), "gpu": (False, 5)}


def test_plan_without_a_bound_is_reported(tmp_path: Path) -> None:
    file = plan_file(prefetching_plan(bound_ns=0, binding=""), tmp_path / "plan.json")
    code, out, _ = sccl("show", file)
    assert (code, "no bound is known" in out) == (0, True)
    assert "gap 0.00%" not in out
    assert "at least 0 us" not in sccl("check", file)[1]


def test_bound_that_is_met_is_not_exceeded_by_nothing(tmp_path: Path) -> None:
    """Times from a table prove nothing, and a plan slightly above a bound does not meet it."""
    long = layered_plan(30)  # 81 ms
    for plan, says in (
        (prefetching_plan(bound_ns=14500), "lower bound 14.5 us"),
        (replace(long, bound_ns=long.period_ns - 1), "gap less than 0.01%"),
    ):
        file = plan_file(plan, tmp_path / "plan.json")
        page, picture = tmp_path / "page.html", tmp_path / "p.svg"
        assert sccl("explore", file, "-o", page)[0] == sccl("plot", file, "-o", picture)[0] == 0
        said = " ".join(sccl("show", file)[1].split())
        assert says in said
        for text in (said, page.read_text(), picture.read_text()):
            assert not re.search("gap 0.00?%", text)


def test_plan_of_measured_costs_meets_its_bound(tmp_path: Path) -> None:
    """Gradients take 100 us between backward and the optimizer in every plan."""
    workload, table, plan = tmp_path / "w.json", tmp_path / "c.csv", tmp_path / "plan.json"
    workload.write_text(to_text(workload_to_wire(prefetching())))
    rows = [f"allreduce,{c} {by},2,4096,100" for c in ("gpu", "cpu") for by in CARRIED]
    table.write_text("\n".join(["collective,option,ranks,bytes,us", *rows]))
    words = ("train", "plan", workload, "--fabric", "hgx2", "--budget", "0", "--max-motifs", "1")
    code, out, _ = sccl(*words, "--costs", table, "-o", plan)
    assert (code, "lower bound attained" in out, "gap" in out) == (0, True, False), out
    said = " ".join(sccl("show", plan)[1].split())
    assert "lower bound 109.5 us" in said
    assert "not verified: times come from a table of costs" in said


@pytest.mark.parametrize("verb", ["train plan", "train compare"])
def test_unplannable_workload_error_names_the_file(verb: str, tmp_path: Path) -> None:
    """The program of a role waits for a later submission, or is empty."""
    file, given = tmp_path / "w.json", prefetching()
    late = HostProgram(
        "all",
        (
            HostEvent(HostAction.SUBMIT, "gradients"),
            HostEvent(HostAction.WAIT, "gradients"),
            HostEvent(HostAction.SUBMIT, "batch"),
        ),
    )
    waits = replace(given, deps=(*given.deps, Dependency("batch", "gradients")), submits=(late,))
    nothing = replace(given, ops=(), deps=(), submits=())
    for workload, says in (
        (
            waits,
            (
                "the program of role 'all' submits 'batch' only after a wait for 'gradients', "
                "which comes after it (batch -> gradients -> batch): this deadlocks; "
                "submit 'batch' before that wait"
            ),
        ),
        (nothing, "a step has no ops: expected one at least"),
    ):
        file.write_text(to_text(workload_to_wire(workload)))
        code, _, err = sccl(*verb.split(), file, "--fabric", "hgx2", "--budget", "0")
        assert (code, f"{file}: {says}" in " ".join(err.split())) == (2, True), err


def test_plan_is_drawn(file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "p.svg"
    code, out, _ = sccl("plot", file, "-o", picture, "--json")
    told = json.loads(out)
    assert (code, told["what"], told["file"]) == (0, "timeline", str(picture))
    drawn = picture.read_text()
    words = ("prefetching on hgx2", "all: 7", "alltoall", "forward", "per iteration", "idle 0%")
    for word in words:
        assert word in drawn
    code, _, err = sccl("plot", file, "--what", "utilisation", "-o", picture)
    assert (code, "cannot draw" in " ".join(err.split())) == (2, True)


def test_timeline_is_written_and_taken_as_its_plan_is(file: Path, tmp_path: Path) -> None:
    timeline = tmp_path / "timeline.json"
    code, out, _ = sccl("show", file, "--timeline", timeline)
    assert (code, f"written to {timeline}" in "".join(out.split("\n"))) == (0, True)
    told = json.loads(timeline.read_text())
    assert (told["kind"], told["period_ns"], told["prologue_ns"]) == ("timeline", 14500, 0)
    assert told["plan"]["period_ns"] == 14500
    assert ["gradients", 1, 0, told["lanes"].index("gpu"), 11000, 13500] in told["spans"]
    jsonschema.validate(told, json.loads(sccl("doctor", "schema", "timeline")[1]))
    assert sccl("show", timeline)[1] == sccl("show", file)[1]
    shown = [json.loads(sccl("show", one, "--json")[1])["training"] for one in (file, timeline)]
    assert [{**one, "file": ""} for one in shown[0]] == [{**one, "file": ""} for one in shown[1]]
    for verb, name in (("plot", "svg"), ("explore", "html")):
        made = [tmp_path / f"{k}.{name}" for k in range(2)]
        for one, picture in zip((file, timeline), made, strict=True):
            assert sccl(verb, one, "-o", picture)[0] == 0
        assert made[0].read_bytes() == made[1].read_bytes()
    code, out, _ = sccl("check", timeline, "--json")
    assert (code, json.loads(out)["inputs"]) == (0, {str(timeline): told["digest"]})
    code, _, err = sccl("show", file, timeline, "--timeline", tmp_path / "two.json")
    assert (code, "needs a single training plan" in err) == (2, True)
    again = tmp_path / "again.json"
    assert sccl("show", timeline, "--timeline", again)[0] == 0
    assert again.read_bytes() == timeline.read_bytes()


def test_timeline_of_another_plan_is_rejected(file: Path, tmp_path: Path) -> None:
    timeline = tmp_path / "timeline.json"
    assert sccl("show", file, "--timeline", timeline)[0] == 0
    told = json.loads(timeline.read_text())
    late = [*told["spans"][0][:4], told["spans"][0][4], told["spans"][0][5] + 1]
    for edit, says in (
        ({"spans": [late, *told["spans"][1:]]}, "span 0 is motif 0 of 'forward', iteration 0, on"),
        ({"spans": told["spans"][:-1]}, "it is no timeline of its plan"),
        ({"first": told["first"] + 1}, f"every 14500 ns from iteration {told['first']} on, and"),
    ):
        timeline.write_text(json.dumps({**told, **edit}))
        code, out, _ = sccl("check", timeline)
        said = " ".join(out.split())
        assert (code, says in said, "timeline: " in said) == (1, True, True), said
        assert "edited since sccl wrote it" in said
        code, _, err = sccl("show", timeline)
        assert (code, says in " ".join(err.split())) == (2, True)


def test_options_are_told_written_and_shown(tmp_path: Path) -> None:
    """Every option with its time, once for equal collectives, and the reasons for rejected ones."""
    calls = [comm(name, "allreduce", range(8), 2**20) for name in ("one", "two")]
    workload, file = tmp_path / "w.json", tmp_path / "options.json"
    workload.write_text(
        to_text(workload_to_wire(calling(10, *calls, comm("x", "scatter", (0, 9), 2))))
    )
    asked = ("train", "plan", workload, "--fabric", "hgx2", "--options-only")
    code, _, err = sccl(*asked, "-o", file)
    assert (code, f"{workload}: operation 'x': rank 9 is in its group" in err) == (2, True)
    assert not file.exists()
    workload.write_text(to_text(workload_to_wire(calling(8, *calls))))
    code, _, err = sccl(*asked, "--merge", "8MiB", "-o", file)
    assert (code, "leave out one of them" in " ".join(err.split()), file.exists()) == (
        2,
        True,
        False,
    )
    code, out, _ = sccl(*asked, "-o", file)
    said = " ".join(out.split())
    assert "allreduce of 4 MiB among 8 ranks: 2 operations (one, two)" in said
    assert "refused: " in said
    assert f"look at it with: sccl show {file}" in "".join(out.split("\n"))
    code, printed, _ = sccl(*asked, "--json")
    assert (code, printed) == (0, file.read_text())
    told = json.loads(printed)
    jsonschema.validate(told, json.loads(sccl("doctor", "schema", "option")[1]))
    assert (told["kind"], told["planned_by"]) == ("option", "tacos")
    assert [row["op"] for row in told["ops"]] == ["one", "two"]
    assert told["ops"][0]["options"] == told["ops"][1]["options"]
    code, shown, _ = sccl("show", file)
    assert code == 0
    assert shown in out
    found = json.loads(sccl("show", file, "--json")[1])
    assert found["inputs"] == {str(file): told["digest"]}
    assert found["options"][0]["ops"] == told["ops"]
    code, out, _ = sccl("check", file)
    said = f"calling on hgx2, {2 * len(told['ops'][0]['options'])} options of 2 collectives: valid"
    assert (code, said in " ".join(out.split())) == (0, True), out
    plan = tmp_path / "plan.json"
    assert sccl(*asked[:-1], "--budget", "0", "-o", plan)[0] == 0
    taken = json.loads(plan.read_text())
    assert all(option in told["options"] for option in taken["options"])
    file.write_text(printed.replace('"max_motifs": 16', '"max_motifs": 8').replace("GB/s", "GB"))
    code, _, err = sccl("show", file)
    assert (code, "edited since sccl wrote it" in " ".join(err.split())) == (2, True)


def test_options_are_offered_again(tmp_path: Path) -> None:
    """Differences are reported. Without its table, the plan's times are reported as trusted."""
    workload, file = tmp_path / "w.json", tmp_path / "options.json"
    table = tmp_path / "costs.csv"
    job = calling(8, comm("one", "allreduce", range(8), 2**20))
    workload.write_text(to_text(workload_to_wire(job)))
    table.write_text(f"collective,option,ranks,bytes,us\nallreduce,gpu direct,8,{2**22},100\n")
    words = ("train", "plan", workload, "--fabric", "hgx2", "--options-only", "-o", file)
    assert sccl(*words)[0] == 0
    told = json.loads(file.read_text())
    told["digest"] = None
    fast = {**told["options"][0], "motifs": [{**told["options"][0]["motifs"][0], "ns": 1}]}
    row = told["ops"][0]
    fewer = {**row, "options": row["options"][:-1]}
    for edit, says in (
        ({"options": [fast, *told["options"][1:]]}, "option: operation 'one': option 0 is whole"),
        ({"ops": [fewer]}, f"it has {len(row['options'])} options, and"),
        ({"ops": [{**row, "refused": []}]}, "recipe: operation 'one': other recipes are refused"),
    ):
        file.write_text(json.dumps({**told, **edit}))
        code, out, _ = sccl("check", file)
        assert (code, says in " ".join(out.split())) == (1, True), out
        (part,) = json.loads(sccl("check", file, "--json")[1])["files"]
        assert (part["valid"], part["topology"], len(part["violations"])) == (False, "hgx2", 1)
    assert sccl(*words, "--costs", table)[0] == 0
    assert sccl("check", file, "--costs", table)[0] == 0
    code, out, _ = sccl("check", file)
    assert (code, "are not verified" in out) == (0, True)
    told = json.loads(file.read_text())
    told["digest"] = None
    told["options"][0]["recipe"] = "ring"
    file.write_text(json.dumps(told))
    code, out, _ = sccl("check", file)
    assert (code, "operation 'one', ring: it makes 2 motifs" in " ".join(out.split())) == (1, True)
    told["options"][0]["motifs"][0]["channel"] = "air"
    file.write_text(json.dumps(told))
    code, out, _ = sccl("check", file)
    assert (code, "takes channel 'air', which the fabric does not" in out) == (1, True)
    table.write_text(table.read_text().replace(",100", ",99"))
    code, out, _ = sccl("check", file, "--costs", table)
    assert (code, "cost: times come from a table of costs with the digest" in out) == (1, True)


def test_long_steps_are_drawn_in_milliseconds_and_markup_stays_text(tmp_path: Path) -> None:
    plan = layered_plan(30)
    plan = replace(plan, workload=replace(plan.workload, name="<b>30</b>"))
    file, picture = plan_file(plan, tmp_path / "plan.json"), tmp_path / "p.svg"
    assert sccl("plot", file, "-o", picture)[0] == 0
    drawn = picture.read_text()
    assert "Time (ms)" in drawn
    assert "<b>" not in drawn


def test_plans_of_merged_collectives_with_measured_costs(tmp_path: Path) -> None:
    """Two buckets become one, whose time is in a table."""
    buckets = calling(
        8, *(comm(name, "allreduce", range(8), 2**20) for name in ("first", "second"))
    )
    workload, table = tmp_path / "w.json", tmp_path / "c.csv"
    workload.write_text(to_text(workload_to_wire(buckets)))
    head = "collective,option,ranks,bytes,us\n"
    table.write_text(f"{head}allreduce,gpu direct,8,{2**23},100\n")
    words = ("train", "plan", workload, "--fabric", "hgx2", "--budget", "0", "--json")
    code, out, _ = sccl(*words)
    assert (code, json.loads(out)["collectives"]) == (0, 2)
    code, out, _ = sccl(*words, "--merge", "8MiB", "--costs", table)
    told = json.loads(out)
    assert (code, told["collectives"], told["merged"]) == (0, 1, 2)
    assert told["period_us"] == pytest.approx(100, abs=1)
    code, out, _ = sccl(*words[:-1], "--merge", "8MiB", "--costs", table)
    assert "2 collectives are sent as one with others" in " ".join(out.split())
    plan, exchanging = tmp_path / "plan.json", comm("tokens", "alltoall", range(8), 2**21)
    workload.write_text(to_text(workload_to_wire(calling(8, *buckets.collectives(), exchanging))))
    beside = ("--merge", "8MiB", "--costs", table, "--search", "fifo", "-o", plan)
    code, out, _ = sccl(*words, *beside)
    assert (code, json.loads(out)["gap"] > 0) == (0, True)
    _checked_with_and_without(plan, table, tmp_path / "other.csv")
    table.write_text(f"{head}allreduce,gpu direct,8,{2**23},soon\n")
    code, _, err = sccl(*words, "--costs", table)
    assert code == 2
    assert "c.csv, line 2: us is 'soon', expected microseconds" in " ".join(err.split())


def _checked_with_and_without(plan: Path, table: Path, other: Path) -> None:
    """Check a plan by its own table of costs, without one, by another one, and a forged one."""
    code, out, _ = sccl("check", plan)
    assert (code, "not verified" in out, "proved" in out.split("note:")[0]) == (0, True, False)
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], "", *reversed(lines[1:])]))  # the same times
    code, out, _ = sccl("check", plan, "--costs", table)
    assert (code, "told" in out) == (0, False)
    other.write_text(table.read_text().replace(",100", ",99"))
    code, out, _ = sccl("check", plan, "--costs", other)
    assert (code, "cost: its times come from a table of costs with the digest" in out) == (1, True)
    plain = json.loads(plan.read_text())
    forged = {**plain, "costs": "sha256:" + 64 * "1", "bound_ns": plain["period_ns"]}
    plan.write_text(json.dumps(forged))
    told = " ".join(sccl("check", plan)[1].split())
    assert ("not verified): valid" in told, "(proved)" in told) == (True, False)
    told = " ".join(sccl("show", plan)[1].split())
    assert ("times come from a table of costs" in told, "proved" in told) == (True, False)
    (part,) = json.loads(sccl("show", plan, "--json")[1])["training"]
    assert (part["proved"], part["costs"]) == (False, forged["costs"])
    plan.write_text(json.dumps({**forged, "costs": plain["costs"]}))
    code, out, _ = sccl("check", plan, "--costs", table)
    claimed = f"ns are proved (load), and the plan states {plain['period_ns']}"
    assert (code, claimed in " ".join(out.split())) == (1, True)


def test_table_of_costs_is_of_training_plans(file: Path, tmp_path: Path) -> None:
    table = tmp_path / "c.csv"
    table.write_text("collective,option,ranks,bytes,us\nallreduce,gpu direct,8,8,9\n")
    algorithm = tmp_path / "a.json"
    algorithm.write_text("{}")
    code, _, err = sccl("check", algorithm, "--costs", table)
    assert (code, "is a table of costs, and no training plan is given" in err) == (2, True)
    plain = json.loads(file.read_text())
    del plain["costs"]
    file.write_text(json.dumps(plain))
    code, out, _ = sccl("check", file, "--costs", table)
    assert (code, "cost: its times come from no table of costs" in out) == (1, True)
    table.write_text("no table\n")
    code, _, err = sccl("check", file, "--costs", table)
    assert (code, "c.csv, line 1: columns are" in err) == (2, True)


def test_three_models_and_the_prologue_are_shown(tmp_path: Path) -> None:
    """A plan with a table has no link-level times, another one has."""
    (told,) = json.loads(_shown(prefetching_plan(), tmp_path))["training"]
    assert (told["links_us"], told["links_note"]) == (
        None,
        "times come from a table of costs, not from links, so links cannot be simulated",
    )
    (told,) = json.loads(_shown(prefetching_plan(costs=""), tmp_path))["training"]
    assert (told["fluid_us"], told["links_note"]) == (14.5, "")
    assert told["links_us"] > 14.5  # the plan claims less than its launches take
    assert told["links_us"] >= told["links_apart_us"] > 14.5
    assert told["two_iterations_us"] == 2 * told["period_us"] + told["prologue_us"]
    said = " ".join(sccl("show", tmp_path / "plan.json")[1].split())
    assert (
        "14.5 us per iteration (+0.00%), if concurrent motifs share the bandwidth of links" in said
    )
    assert "with all messages simulated link by link (+" in said
    assert "with each motif alone; waiting for other messages is the rest)" in said


def _shown(plan: TrainingPlan, folder: Path) -> str:
    return sccl("show", plan_file(plan, folder / "plan.json"), "--json")[1]
