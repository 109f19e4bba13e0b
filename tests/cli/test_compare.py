"""``sccl compare``: the fastest system, omissions with their reasons, and the errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.comparison import comparison as compare_task
from sccl.comparison import contender_selection
from sccl.comparison.comparison import Comparison, compare, comparison_subject
from sccl.comparison.contender_selection import build_contenders, contender_names
from sccl.comparison.contenders import (
    ClassicalContender,
    ComparisonProblem,
    Contender,
    DeadlineError,
    SynthesizerContender,
    TimedPlan,
)
from sccl.core.clock import AlphaModel
from sccl.core.topology import Topology
from sccl.formats.files.plans import write_plan
from sccl.judge import violations
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.synth import baselines
from sccl.synth.common import registry
from sccl.topo import resolve_topology
from tests.kit.commands import sccl
from tests.kit.easy_algorithms import frontier
from tests.kit.nightly import is_night
from tests.kit.nightly import times as examples
from tests.kit.strategies import topologies

ASKED = ("compare", "--collective", "allgather", "--topo", "ring:4")
FEW = ("--only", "ring,bruck,tacos")


def found_of(*words: str | Path) -> dict[str, Any]:
    code, out, err = sccl(*ASKED, *words, "--json")
    assert (code, err) == (0, ""), err
    found: dict[str, Any] = json.loads(out)
    return found


def without_seconds(found: dict[str, Any]) -> dict[str, Any]:
    systems = [{k: v for k, v in one.items() if k != "seconds"} for one in found["systems"]]
    return found | {"systems": systems}


def test_everybody_is_there_or_it_is_said_why_not() -> None:
    found = found_of("--size", "64KB")
    assert [one["name"] for one in found["systems"]] == list(contender_names())
    assert set(contender_names()) == {
        *registry.names(),
        contender_selection.GATHERED,
        *baselines.names(),
    }
    assert all(bool(one["times"]) != bool(one["why"]) for one in found["systems"])
    whys = {one["name"]: one["why"] for one in found["systems"] if one["why"]}
    assert whys["c-cube"] == "c-cube does not define allgather: give one of allreduce"
    (size,) = found["sizes"]
    assert size["time_us"] == min(
        row["time_us"] for one in found["systems"] for row in one["times"]
    )
    assert size["time_us"] >= size["bound_us"]
    assert size["algorithm_gb_per_s"] == pytest.approx(64 / size["time_us"])


def test_table_says_who_wins_and_how_much_slower_the_others_are() -> None:
    code, out, err = sccl(*ASKED, "--size", "1KB..1MB", "--only", "ring", "--only", "tacos, c-cube")
    assert (code, err) == (0, "")
    assert "allgather on ring:4, alpha travels" in out
    assert "without results at some sizes:\n  not defined for allgather: c-cube" in out
    rows = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    assert [row[1].strip() for row in rows[:6]] == ["tacos"] * 6
    assert [row[0].strip() for row in rows[6:]] == ["tacos", "ring"]  # the fastest first


def test_smallest_are_gathered_and_added_up_in_one_alpha(tmp_path: Path) -> None:
    words = ("--collective", "allreduce", "--topo", "full:4", "--size", "1KB..1GB")
    code, out, _ = sccl("compare", *words, "--only", "gathered,direct", "-o", tmp_path, "--json")
    found = json.loads(out)
    times = {s["name"]: [row["time_us"] for row in s["times"]] for s in found["systems"]}
    assert (code, times["gathered"][0]) == (0, 0.74)  # alpha, and 1,000 bytes at 25 GB/s
    assert times["gathered"][0] < times["direct"][0]
    assert times["gathered"][-1] > 1.9 * times["direct"][-1]
    made = json.loads((tmp_path / "allreduce-full-4-1000-gathered.json").read_text())
    pieces = made["collective"]["chunks"]
    assert (made["collective"]["name"], made["chunk_bytes"] * pieces) == ("allgather", 1000)


def test_size_dependent_contender_chooses_at_each_size() -> None:
    words = ("--collective", "allreduce", "--topo", "torus:4x4")
    both = ("--only", "nccl,multi-ring,double-binary-tree", "--json")
    for size, fastest in (("1KB", "double-binary-tree"), ("1GB", "multi-ring")):
        found = json.loads(sccl("compare", *words, "--size", size, *both)[1])
        times = {s["name"]: s["times"][0]["time_us"] for s in found["systems"]}
        assert times["nccl"] == times[fastest]
        assert min(times.values()) == times[fastest]


def test_pipelined_baseline_gets_enough_pieces() -> None:
    """Two pieces in all serve two trees of eight ranks no better than one each: sixteen do."""
    words = ("--collective", "allreduce", "--topo", "dgx1", "--size", "1GB")
    names = ("c-cube", "double-binary-tree")
    found = json.loads(sccl("compare", *words, "--only", ",".join(names), "--json")[1])
    plans = {one["name"]: one["times"][0]["plan"] for one in found["systems"]}
    assert plans["c-cube"].endswith(" in 64 pieces")
    assert plans["double-binary-tree"].endswith(" in 64 pieces")


def test_comparison_is_reproducible_except_seconds() -> None:
    asked = ("--size", "1KB..1GB", *FEW, "--seed", "7")
    assert without_seconds(found_of(*asked)) == without_seconds(found_of(*asked))


def test_fastest_plans_are_written_and_what_the_judge_accepts(tmp_path: Path) -> None:
    found = found_of("--size", "16KB..64KB", "--without", "pareto,limits", "-o", tmp_path / "kept")
    files = [size["file"] for size in found["sizes"]]
    assert sorted(Path(file) for file in files) == sorted((tmp_path / "kept").iterdir())
    checked = json.loads(sccl("check", *files, "--json")[1])["files"]
    assert all(one["valid"] for one in checked)
    assert [one["finish_us"] for one in checked] == pytest.approx(
        [size["time_us"] for size in found["sizes"]]
    )


def test_files_of_others_take_part(tmp_path: Path) -> None:
    mine, timed = tmp_path / "mine.json", tmp_path / "timed.json"
    write_plan(mine, frontier("ring:4", "allgather")[-1])
    words = ("--collective", "allgather", "--topo", "ring:4", "--size", "64KB")
    assert sccl("synth", "tacos", *words, "--alpha", "travels", "-o", timed)[0] == 0
    found = found_of("--size", "16KB..64KB", "--only", "ring", "--file", mine, "--file", timed)
    systems = {one["name"]: one for one in found["systems"]}
    assert set(systems) == {"ring", str(mine), str(timed)}
    assert [row["size_bytes"] for row in systems[str(mine)]["times"]] == [16_000, 64_000]
    assert [row["size_bytes"] for row in systems[str(timed)]["times"]] == [64_000]
    assert set(found["inputs"]) == {"topology", "collective", str(mine), str(timed)}
    other = found_of("--size", "1MB", "--only", "ring", "--file", timed)["systems"][1]
    assert (
        other["why"]
        == "it is a schedule for another size, and its times are valid for that size only"
    )


GATHERED = ("compare", "--collective", "allgather", "--topo", "dgx1")


def test_bound_is_the_higher_of_cuts_and_prices_and_says_which() -> None:
    words = ("--size", "16KB..64KB", "--only", "tacos,ring", "--json")
    found = json.loads(sccl(*GATHERED, *words)[1])
    cuts = completion_time_bound(resolve_topology("dgx1"), named_spec("allgather", 8))
    assert [size["bound_by"] for size in found["sizes"]] == ["prices", "cuts"]
    for size in found["sizes"]:
        least = float(cuts.us(size["size_bytes"]))
        above = size["bound_us"] / least - 1
        assert above == pytest.approx(0.0620155 if size["bound_by"] == "prices" else 0)
        rows = [r for one in found["systems"] for r in one["times"]]
        times = [r["time_us"] for r in rows if r["size_bytes"] == size["size_bytes"]]
        assert len(times) == 2
        assert min(times) >= size["bound_us"]


def test_bound_of_a_contender_for_all_chunks_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compare_task, "compute_bound_curve", lambda *asked: asked[2])
    words = ("--size", "16KB", "--json", "--only")
    alone, (with_it,) = (
        json.loads(sccl(*GATHERED, *words, who)[1])["sizes"]
        for who in ("ring,teccl", "ring,limits-time")
    )
    assert [size["bound_by"] for size in (*alone, with_it)] == ["cuts", "prices"]
    assert with_it["bound_us"] / alone[0]["bound_us"] - 1 == pytest.approx(0.0620155)


def test_interrupted_bound_falls_back_to_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compare_task, "compute_bound_curve", interrupt)
    code, out, _ = sccl(*GATHERED, "--size", "16KB", "--only", "ring", "--json")
    found = json.loads(out)
    assert (code, found["ended"]) == (130, "interrupted")
    assert [one["why"] for one in found["systems"]] == ["not reached"]
    assert found["sizes"][0]["bound_by"] == "cuts"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--only", "rings"), "did you mean 'ring'"),
        (("--without", "nobody"), "unknown method 'nobody'"),
        (("--only", "ring", "--without", "ring"), "no method is left"),
        (("--plot", "times.txt"), "cannot draw times.txt"),
        (("--what", "time"), "give --plot FILE as well"),
    ],
)
def test_invalid_arguments_give_one_sentence(
    words: Sequence[str], says: str, tmp_path: Path
) -> None:
    code, out, err = sccl(*ASKED, *words, "-o", tmp_path / "kept")
    assert (code, out) == (2, "")
    assert says in err
    assert not list(tmp_path.rglob("*.json"))


def test_files_of_other_machines_collectives_and_alphas_are_rejected(tmp_path: Path) -> None:
    file, timed = tmp_path / "a.json", tmp_path / "timed.json"
    write_plan(file, frontier("ring:4", "allgather")[0])
    words = ("--size", "1KB", "--only", "ring")
    elsewhere = ("compare", "--collective", "allgather", "--topo", "ring:5", *words)
    code, _, err = sccl(*elsewhere, "--file", file)
    assert (code, "its machine 'ring:4' differs" in err) == (2, True)
    other = ("compare", "--collective", "alltoall", "--topo", "ring:4", "--size", "1KB")
    code, _, err = sccl(*other, "--file", file)
    assert (code, "its collective is allgather, expected alltoall" in err) == (2, True)
    rooted = ("compare", "--collective", "broadcast", "--topo", "ring:4", "--size", "1KB")
    assert sccl("synth", "ring", *rooted[1:], "--root", "1", "-o", timed)[0] == 0
    code, _, err = sccl(*rooted, "--file", timed)
    assert (code, "its collective is broadcast (root 1), expected broadcast (root 0)" in err) == (
        2,
        True,
    )
    asked = ("--collective", "allgather", "--topo", "ring:4", "--size", "1KB")
    assert sccl("synth", "tacos", *asked, "--alpha", "occupies", "-o", timed)[0] == 0
    code, _, err = sccl(*ASKED, *words, "--file", timed)
    assert (code, "give --alpha occupies, or another file" in err) == (2, True)
    broken = json.loads(file.read_text())
    broken["sends"] = broken["sends"][1:]
    file.write_text(json.dumps(broken))
    code, _, err = sccl(*ASKED, *words, "--file", file)
    assert (code, "this algorithm fails verification" in err) == (2, True)


def test_interrupted_run_keeps_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = ClassicalContender.fastest

    def cut_off(self: ClassicalContender, size_bytes: int) -> TimedPlan | None:
        if self.name == "ring" and size_bytes > 4000:
            raise KeyboardInterrupt
        return usual(self, size_bytes)

    monkeypatch.setattr(ClassicalContender, "fastest", cut_off)
    words = ("--size", "1KB..64KB", "--only", "tacos,bruck,ring,swing")
    code, out, _ = sccl(*ASKED, *words, "-o", tmp_path, "--plot", tmp_path / "p.svg", "--json")
    found = json.loads(out)
    assert (code, found["ended"]) == (130, "interrupted")
    times = {one["name"]: len(one["times"]) for one in found["systems"]}
    assert times == {"tacos": 0, "bruck": 4, "ring": 2, "swing": 0}
    whys = {one["name"]: one["why"] for one in found["systems"]}
    assert (whys["ring"], whys["swing"], whys["tacos"]) == (
        "interrupted", "not reached", "not reached"
    )  # fmt: skip
    assert len(list(tmp_path.glob("*.json"))) == 4
    assert (tmp_path / "p.svg").exists()
    code, out, _ = sccl(*ASKED, *words)
    assert (code, "interrupted: these are partial results." in out) == (130, True)


def test_synthesiser_whose_time_has_run_out_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_of("--size", "1MB", "--only", "tacos,ring", "--timeout", "1e-9")
    tacos, ring = found["systems"]
    assert (tacos["times"], tacos["why"]) == ([], "timeout after 1e-09 s")
    assert ring["times"]
    monkeypatch.setattr(contender_selection, "MAX_LIMIT_RANKS", 3)
    (limit,) = found_of("--size", "1MB", "--only", "limits")["systems"]
    assert "limits of more than 3 ranks take minutes, and there are 4" in limit["why"]
    (limit,) = found_of("--size", "1MB", "--only", "limits", "--timeout", "60")["systems"]
    assert limit["times"]


def test_synthesizers_plan_only_sizes_between_latency_and_bandwidth() -> None:
    """The packing proves a bound for each size, and its plan is the one of its verb."""
    subject = comparison_subject(resolve_topology("dgx1"), "allreduce", None)
    contest = ComparisonProblem(subject.topology, subject.spec, AlphaModel.TRAVELS)
    sizes, names = (1_000, 4_000, 256_000, 16_384_000, 64_000_000), ("teccl", "limits-time")
    entrants = build_contenders(contest, names, {}, lambda _: None)
    comparison = compare(contest, entrants, sizes)
    teccl, packing = entrants
    assert isinstance(teccl, SynthesizerContender)
    assert isinstance(packing, SynthesizerContender)
    assert (tuple(teccl.plans), packing.planned_sizes) == ((4_000, 256_000, 16_384_000), ())
    by_teccl, by_packing = (system.measurements for system in comparison.systems)
    assert (len(by_teccl), len(by_packing)) == (5, 5)
    code, out, _ = sccl(
        *("synth", "fastest", "--collective", "allreduce", "--topo", "dgx1"),
        *("--size", "16384KB", "--json"),
    )
    (point,) = json.loads(out)["points"]
    assert (code, float(by_packing[16_384_000].us)) == (0, point["finish_us"])


def test_plans_serve_other_sizes_after_the_time_has_run_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject = comparison_subject(resolve_topology("dgx1"), "allgather", None)
    contest = ComparisonProblem(subject.topology, subject.spec, AlphaModel.TRAVELS)
    (tacos,) = build_contenders(contest, ["tacos"], {}, lambda _: None)
    assert isinstance(tacos, SynthesizerContender)
    plan_size = SynthesizerContender._plan_size

    def plan_in_time(contender: SynthesizerContender, size_bytes: int) -> list[TimedPlan]:
        if contender.plans:
            raise DeadlineError("no time left")
        return plan_size(contender, size_bytes)

    monkeypatch.setattr(SynthesizerContender, "_plan_size", plan_in_time)
    sizes = (1_000, 64_000, 1_024_000)
    (system,) = compare(contest, [tacos], sizes).systems
    assert (tuple(system.measurements), system.reason) == (sizes, "")
    assert {row.plan for row in system.measurements.values()} <= {"C=1", "C=4", "C=16"}


def test_sweep_ends_with_what_it_has_where_its_time_has_run_out() -> None:
    subject = comparison_subject(resolve_topology("dgx1"), "allgather", None)
    contest = ComparisonProblem(subject.topology, subject.spec, AlphaModel.TRAVELS, timeout_s=1e-9)
    assert contender_selection.sweep_algorithms(contest, lambda _: None) == []
    whole = ComparisonProblem(subject.topology, subject.spec, AlphaModel.TRAVELS)
    assert len(contender_selection.sweep_algorithms(whole, lambda _: None)) == 2


def compared(
    machine: Topology, collective: str, model: AlphaModel, names: Sequence[str]
) -> Comparison:
    subject = comparison_subject(machine, collective, None)
    contest = ComparisonProblem(subject.topology, subject.spec, model)
    entrants: list[Contender] = build_contenders(contest, names, {}, lambda _: None)
    return compare(contest, entrants, (1000, 64_000, 10**9))


BY_DAY = {
    ("dgx1", "broadcast", AlphaModel.TRAVELS),
    ("mesh:2x3", "alltoall", AlphaModel.OCCUPIES),
    ("rail:2x2", "allreduce", AlphaModel.TRAVELS),
}
"""Every machine, collective and model once by day, all combinations by night."""

LONG = {"dgx1": {"pareto", "limits", "teccl"}}
"""Slow systems (a quarter of a minute). The contract test of TE-CCL covers its bounds there."""

BY_NIGHT = {"dgx1": {"limits-time", "taccl"}, "rail:2x2": {"taccl", "teccl"}}
"""Equally slow systems there. By day they run on the mesh and in their contract test."""


@pytest.mark.parametrize(
    ("machine", "collective", "model"),
    [
        pytest.param(*each, marks=[pytest.mark.nightly] * (each not in BY_DAY))
        for each in product(
            ["dgx1", "mesh:2x3", "rail:2x2"], ["allreduce", "alltoall", "broadcast"], AlphaModel
        )
    ],
)
def test_no_contender_beats_the_bound(machine: str, collective: str, model: AlphaModel) -> None:
    left_out = LONG.get(machine, {"pareto", "limits"})
    left_out = left_out | (set() if is_night() else BY_NIGHT.get(machine, set()))
    names = [name for name in contender_names() if name not in left_out]
    found = compared(resolve_topology(machine), collective, model, names)
    assert found.systems
    for system in found.systems:
        for size, row in system.measurements.items():
            assert row.us >= found.lower_bounds.us(size), (system.name, size)
    assert all(violations(plan.schedule) == [] for _, plan in found.plans.values())
    assert set(found.plans) == set(found.sizes)


@given(topologies(max_ranks=5), st.sampled_from(["allgather", "allreduce", "broadcast"]))
@settings(max_examples=examples(5, by_day=3), deadline=None)
def test_no_contender_beats_the_bound_on_any_machine(machine: Topology, collective: str) -> None:
    found = compared(machine, collective, AlphaModel.TRAVELS, ["tacos", "ring", "direct", "bfb"])
    for system in found.systems:
        for size, row in system.measurements.items():
            assert row.us >= found.lower_bounds.us(size)
    for size, (name, plan) in found.plans.items():
        winner = found.winner(size)
        assert winner is not None
        assert (winner.name, winner.measurements[size].us) == (name, plan.us)
        gap = found.gap(winner.measurements[size])
        assert gap is not None
        assert gap == pytest.approx(float(plan.us / found.lower_bounds.us(size) - Fraction(1)))
