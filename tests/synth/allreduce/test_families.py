"""Allreduce over its families: bounds of all of them, pairs of halves, reports."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from io import StringIO
from itertools import combinations, permutations, product
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.collectives import Spec, named_spec
from sccl.core.answer import Answer, Unknown
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.frontiers import frontier_to_plain, frontiers_from_plain
from sccl.core.frontier import ClassFrontier, Frontier, LimitPoint, StepLimitFrontier
from sccl.core.instance import Instance, SweepRange
from sccl.core.stop import INTERRUPTED, StopKind, StopReason
from sccl.core.topology import Link, Topology
from sccl.errors import ParameterError
from sccl.judge import violations
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.synth.allreduce import composed, pairs, search_space
from sccl.synth.allreduce.limit_frontier import allreduce_limit_frontier
from sccl.synth.allreduce.pairs import Half, best_pairs, min_cost_sum
from sccl.synth.allreduce.search_space import AllreduceSpace
from sccl.synth.allreduce.sweep import sweep_allreduce
from sccl.synth.allreduce.tree_family import quick_tree_family
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.packing.by_steps.allreduce_trees import tree_bounds, tree_frontier
from sccl.synth.packing.by_steps.limit_sweep import limit_frontier
from sccl.synth.packing.by_steps.limits_by_steps import PackingLimits
from sccl.synth.syncoll import solve
from sccl.synth.syncoll.sweep import sweep
from sccl.topo import resolve_topology
from sccl.topo.degrade import remove_parts
from sccl.view.charts import frontier_chart, frontier_lines
from sccl.view.completeness import class_summary, unswept_text
from sccl.view.text.frontier_text import print_frontier
from tests.kit import once
from tests.kit.charts import rows_of, values
from tests.kit.easy_algorithms import MACHINES

Costs = list[tuple[int, str]]


def swept(machine: Topology, folder: Path | None = None, **covered: int) -> Frontier:
    return sweep_allreduce(
        machine,
        named_spec("allreduce", machine.ranks),
        partial(sweep, machine, solve=solve.solve, solver="cpsat", limits=PackingLimits),
        covered=SweepRange(**covered),
        folder=AlgorithmFolder(folder) if folder else None,
    )


def costs(found: Frontier, name: str = "") -> Costs:
    if not name:
        return [(p.steps, str(p.cost)) for p in found.points]
    (one,) = [one for one in found.classes if one.name == name]
    return [(p.steps, str(p.cost)) for p in one.points]


def states(one: ClassFrontier) -> list[str]:
    return [p.state_text for p in one.points]


@pytest.fixture
def dgx1() -> Frontier:
    return once.value(
        "allreduce on dgx1, whose files are in a folder of their own",
        lambda: swept(resolve_topology("dgx1"), once.folder("allreduce on dgx1", lambda _: None)),
    )


# --- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "steps", "bandwidth"),
    [("dgx1", 2, "7/24"), ("full:4", 1, "1/2"), ("ring:4", 2, "3/4"), ("ndv2x2", 5, "1")],
)
def test_bounds_of_every_allreduce(machine: str, steps: int, bandwidth: str) -> None:
    topology = resolve_topology(machine)
    found = any_class_bounds(topology, named_spec("allreduce", topology.ranks))
    assert (found.steps, str(found.bandwidth)) == (steps, bandwidth)


def test_link_that_fails_raises_the_bound_by_what_it_carried() -> None:
    found = any_class_bounds(
        remove_parts(resolve_topology("dgx1"), links=[(0, 4), (4, 0)]), named_spec("allreduce", 8)
    )
    assert str(found.bandwidth) == "7/22"  # 14 sends of each chunk, 44 in a round, unlike 7/16


@pytest.mark.parametrize(
    "machine", [pytest.param(m, marks=[pytest.mark.nightly] * (m == "z52-pcie")) for m in MACHINES]
)
def test_no_algorithm_of_any_class_is_below(machine: str) -> None:
    topology = resolve_topology(machine)
    bounds = any_class_bounds(topology, named_spec("allreduce", topology.ranks))
    found = swept(topology, k=1, max_steps=2 * bounds.steps)
    assert found.points
    for point in (p for one in found.classes for p in one.points):
        assert point.steps >= bounds.steps
        assert point.cost >= bounds.bandwidth


def test_allreduce_of_three_ranks_takes_four_sends() -> None:
    """Against all orders of three sends: somebody lacks a contribution."""
    links = list(permutations(range(3), 2))
    for sends in product(links, repeat=3):
        knows = [{0}, {1}, {2}]
        for src, dst in sends:
            knows[dst] |= knows[src]
        assert any(len(one) < 3 for one in knows)
    assert any_class_bounds(
        resolve_topology("full:3"), named_spec("allreduce", 3)
    ).bandwidth == Fraction(4, len(links))


# --- pairs ---------------------------------------------------------------------------------------


def test_unequal_halves_are_composed(dgx1: Frontier) -> None:
    assert costs(dgx1, "composed") == [(4, "3/8"), (5, "1/3"), (6, "7/24")]
    (one,) = [one for one in dgx1.classes if one.name == "composed"]
    shapes = [
        (p.algorithm.collective.chunks, p.algorithm.rounds) for p in one.points if p.algorithm
    ]
    assert shapes == [(16, 6), (48, 16), (48, 14)]
    assert (one.is_complete, one.within) == (True, None)


def test_every_class_is_in_one_frontier(dgx1: Frontier) -> None:
    assert [name for name, _ in dgx1.non_dominated][:3] == ["gathered", "trees", "trees"]
    assert costs(dgx1)[:3] == [(2, "3/2"), (3, "3/4"), (4, "1/3")]
    optimal = [p.optimal for p in dgx1.points]
    assert optimal == [("latency",), *[()] * (len(optimal) - 2), ("bandwidth",)]
    assert dgx1.points[-1].cost == Fraction(7, 24)


def test_written_algorithms_are_right(dgx1: Frontier) -> None:
    files = [p.file for one in dgx1.classes for p in one.points if p.file]
    names = {Path(file).name for file in files}
    assert "allreduce-dgx1-c48-s5-r16.json" in names
    assert "allreduce-dgx1-c24-s4-r8-trees.json" in names
    assert "allgather-dgx1-c2-s2-r3.json" in names
    for file in map(Path, files):
        algorithm, intact = load_algorithm(file)
        assert intact
        assert violations(algorithm) == []


def one_way(ranks: int) -> Topology:
    links = [Link(i, (i + 1) % ranks, 1, 1.0, 1.0) for i in range(ranks)]
    return Topology("one-way", ranks, (*links, Link(0, 2, 1, 1.0, 1.0)), 1.0, 1.0)


def test_halves_on_one_way_links_are_swept_both(tmp_path: Path) -> None:
    found = swept(one_way(4), tmp_path)
    assert [half.collective for half in found.halves] == ["reducescatter", "allgather"]
    (composed,) = [one for one in found.classes if one.name == "composed"]
    ends = [half.bounds.bandwidth for half in found.halves if half.bounds]
    assert composed.bandwidth == ends[0] + ends[1] / 4
    for point in composed.points:
        assert point.algorithm is not None
        assert violations(point.algorithm) == []


def test_composition_too_large_to_write_down_is_a_point_without_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pairs, "MAX_SENDS", 2 * 16 * 7 - 1)
    monkeypatch.setattr(composed, "MAX_SENDS", 2 * 16 * 7 - 1)
    found = swept(resolve_topology("ring:8"), tmp_path, max_steps=8)
    (one,) = [one for one in found.classes if one.name == "composed"]
    (point,) = one.points
    assert (point.chunks, point.steps, point.rounds) == (16, 8, 14)
    assert (point.algorithm, point.file, point.is_proved) == (None, None, True)
    assert not list(tmp_path.glob("allreduce-ring-8-c16*"))
    out = StringIO()
    alone = replace(found, classes=(one,), skipped=())  # trees have less
    print_frontier(Console(file=out, width=200), alone, named_spec("allreduce", 8))
    assert "too large to write down" in out.getvalue()
    assert "and more: C=16 S=8 R=14" in out.getvalue()


def test_pairs_are_the_least_sums_of_halves() -> None:
    def first(steps: int) -> Fraction | None:
        return {1: None, 2: Fraction(3), 3: Fraction(1)}.get(min(steps, 3))

    def then(steps: int) -> Fraction | None:
        return {1: Fraction(5), 2: Fraction(2)}.get(min(steps, 2))

    found = [min_cost_sum(first, then, s) for s in range(2, 7)]
    assert found == [None, 8, 5, 3, 3]


def test_equal_pairs_are_sorted_by_chunks() -> None:
    scatters = [Half(1, Fraction(1), chunks, None) for chunks in (12, 8)]
    ((first, second),) = best_pairs(scatters, [Half(1, Fraction(2), 4, None)], 2)
    assert (first.chunks, second.chunks) == (8, 12)


def test_open_half_leaves_its_pairs_unproved() -> None:
    def gives_up(instance: Instance) -> Answer:
        if instance.collective.chunks == 5:
            return Unknown(StopReason.parse("asked not to"), "test", 0.0)
        return solve.solve(instance)

    machine = resolve_topology("dgx1")
    found = sweep_allreduce(
        machine,
        named_spec("allreduce", 8),
        partial(sweep, machine, solve=gives_up, solver="test"),
        covered=SweepRange(),
    )
    (composed,) = [one for one in found.classes if one.name == "composed"]
    assert states(composed) == ["best found", "best found", "proved for k = 5"]
    assert "Not the end" in class_summary(composed)
    assert not composed.is_complete
    assert found.open
    assert {str(o.reason) for o in found.open} == {"asked not to"}


# --- reports -------------------------------------------------------------------------------------


def test_claims_restricted_to_k_do_not_cover_every_k() -> None:
    machine = remove_parts(resolve_topology("dgx1"), links=[(0, 4), (4, 0)])
    found = swept(machine, k=2)
    (composed,) = [one for one in found.classes if one.name == "composed"]
    assert "Complete for k = 2" in class_summary(composed)
    assert "proved for k = 2" in states(composed)
    trees = dict(costs(found, "trees"))
    assert Fraction(trees[7]) < Fraction(7, 16)  # unreachable for compositions


def test_classes_that_are_not_looked_at_are_named() -> None:
    found = swept(resolve_topology("ring:3"), max_chunks=3)
    assert [one.name for one in found.classes] == ["composed", "exchanged"]
    text = unswept_text(found.skipped)
    assert text.startswith("Other families may do better: gathered")
    assert "trees" in text
    assert not found.is_complete
    with pytest.raises(ParameterError, match="a multiple of 3"):
        swept(resolve_topology("ring:3"), max_chunks=2)
    big = swept(resolve_topology("ring:11"), max_steps=5)
    assert [one.name for one in big.classes] == ["composed", "trees", "gathered"]
    assert costs(big, "trees") == []
    assert costs(big, "composed") == []


@pytest.mark.parametrize(("machine", "cost"), [("torus:4x4", "15/32"), ("ring:16", "15/16")])
def test_trees_of_many_ranks_are_looked_at_where_they_are_cheap(machine: str, cost: str) -> None:
    topology = resolve_topology(machine)
    bounds = tree_bounds(topology, named_spec("allreduce", topology.ranks))
    found = quick_tree_family(
        topology, named_spec("allreduce", topology.ranks), bounds.steps + 2, []
    )
    (point,) = found.points
    assert (point.steps, str(point.cost), point.is_proved) == (bounds.steps, cost, True)
    assert point.algorithm is not None
    assert violations(point.algorithm) == []
    assert found.is_complete
    assert Fraction(cost) == bounds.bandwidth  # no allreduce has less


def test_trees_of_more_ranks_than_limits_look_at_are_not_looked_at() -> None:
    for ranks, why in ((64, ""), (65, "more than 64 ranks")):
        machine = resolve_topology(f"ring:{ranks}")
        space = AllreduceSpace.of(machine, named_spec("allreduce", ranks), None)
        for covered in (SweepRange(k=0), None):
            assert str(space.tree_exclusion_reason((), covered)) == why


def test_tree_results_are_reported_without_a_terminal() -> None:
    asked = ["pareto", "--collective", "allreduce", "--topo", "ring:4", "--no-store"]
    told = CliRunner().invoke(app, asked).stderr.splitlines()
    assert told[told.index("trees:") + 1 :] == [
        "bounds: S >= 3, R/C >= 3/4",
        "limit of R/C for S=3 is 3/4, for all k",
        "found: C=4 S=3 R=3, R/C = 3/4, proved",
    ]


def test_fewer_steps_than_a_composition_takes_leave_trees_and_the_gathering() -> None:
    found = swept(resolve_topology("dgx1"), max_steps=3)
    assert costs(found, "gathered") == [(2, "3/2"), (3, "7/6")]
    assert costs(found) == [(2, "3/2"), (3, "3/4")]
    with pytest.raises(ParameterError, match="allreduce takes at least 2 steps"):
        swept(resolve_topology("dgx1"), max_steps=1)


def test_composition_of_what_was_not_sought_says_why() -> None:
    ring = resolve_topology("ring:5")

    def late(spec: Spec, **_: object) -> StepLimitFrontier:
        found = limit_frontier(
            ring, spec, lambda _: Unknown(StopReason.parse("not asked"), "nobody", 0.0)
        )
        (part,) = found.classes
        missing = StopReason(StopKind.TIMEOUT)
        points = tuple(
            LimitPoint(p.steps, p.cost, None, None, p.optimal, p.is_proved, seconds=p.seconds,
                       missing_reason=missing)
            for p in part.points
        )  # fmt: skip
        return replace(found, classes=(replace(part, points=points),))

    trees = partial(tree_frontier, ring, named_spec("allreduce", 5), seconds=1e-9)
    found = allreduce_limit_frontier(ring, named_spec("allreduce", 5), late, trees)
    (point,) = found.classes[0].points
    assert isinstance(point, LimitPoint)
    assert point.missing_reason.kind is StopKind.TIMEOUT
    printed = StringIO()
    print_frontier(Console(file=printed, width=200), found, named_spec("allreduce", 5))
    assert "0.8 (not sought: time ran out, see --timeout)" in printed.getvalue()
    assert "--output" not in printed.getvalue()


def test_interrupted_trees_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds for all families would take seconds, in which Ctrl-C would seem unheard."""
    ring, spec = resolve_topology("ring:4"), named_spec("allreduce", 4)

    def interrupted(last: int | None) -> StepLimitFrontier:
        return replace(tree_frontier(ring, spec, last), stop_reason=INTERRUPTED)

    def fail(*_: object) -> None:
        pytest.fail("bounds are computed after an interruption")

    monkeypatch.setattr(search_space, "any_family_bounds", fail)
    limits = partial(limit_frontier, ring, solve=solve.solve)
    found = allreduce_limit_frontier(ring, spec, limits, interrupted)
    assert found.is_interrupted
    assert found.points


@pytest.mark.parametrize(
    ("name", "composed", "every", "by"),
    [
        ("ring:4", [(4, "3/4")], {2: "1", 3: "3/4"}, ("exchanged", "gathered")),
        pytest.param(
            "dgx1",
            [(4, "3/8"), (5, "1/3"), (6, "7/24")],
            {2: "3/2", 3: "3/4", 4: "1/3", 5: "7/24"},
            ("gathered",),
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_limits_have_the_shape_of_a_sweep(
    name: str, composed: Costs, every: dict[int, str], by: tuple[str, ...], tmp_path: Path
) -> None:
    machine = resolve_topology(name)
    spec = named_spec("allreduce", machine.ranks)
    limits = partial(limit_frontier, machine, solve=solve.solve)
    trees = partial(tree_frontier, machine, named_spec("allreduce", machine.ranks))
    found = allreduce_limit_frontier(machine, spec, limits, trees, folder=AlgorithmFolder(tmp_path))
    assert costs(found, "composed") == composed
    assert costs(found) == list(every.items())
    assert found.covers_all_k
    plain = frontier_to_plain(found)
    assert [p["class"] for p in plain["points"]] == [by[0], *["trees"] * (len(every) - 1)]
    assert [c["class"] for c in plain["classes"]] == ["composed", "trees", *by]


def test_only_what_no_class_reaches_is_shaded(dgx1: Frontier) -> None:
    (read,) = frontiers_from_plain(frontier_to_plain(dgx1), "here")
    assert read.name == "allreduce on dgx1"
    chart = frontier_chart(frontier_lines([read]))
    assert chart.to_dict()["title"]["text"] == "allreduce on dgx1: latency against bandwidth"
    assert values(chart, "name") == {"composed", "trees", "gathered"}
    assert {"S \u2265 2", "R/C \u2265 7/24"} <= values(chart, "text")
    shaded = [row for rows in rows_of(chart) for row in rows if "what" in row]
    assert {row["what"] for row in shaded} == {"no algorithm, for any k and C"}
    assert max(row["top"] for row in shaded if row["steps"] >= 2) == pytest.approx(7 / 24)


def test_older_file_of_limits_is_still_read() -> None:
    older = {
        "kind": "frontier", "topology": "x", "collective": "allreduce", "root": None,
        "bounds": {"steps": 4, "bandwidth": "7/24", "scope": "compositions"},
        "points": [{"steps": 4, "proved": True, "limit": "3/8"}], "complete": True,
        "classes": [{"scope": "trees", "limits": [], "points": [
            {"steps": 4, "proved": True, "limit": "1/3"}]}],
    }  # fmt: skip
    own, trees = frontiers_from_plain(older, "here")
    assert [line.name for line in frontier_lines([own, trees])] == [
        "allreduce on x, limits", "allreduce on x, trees",
    ]  # fmt: skip
    assert (own.class_without_bounds, trees.class_without_bounds) == (None, "trees")
    assert [len(one.points) for one in (own, trees)] == [1, 1]


def test_certificate_says_which_class_it_is_about(tmp_path: Path) -> None:
    command = "pareto --collective allreduce --topo ring:3 --no-store --certify"
    result = CliRunner().invoke(app, [*command.split(), str(tmp_path / "proofs")])
    assert result.exit_code == 0
    said = " ".join(result.stderr.split())
    assert "certified: reducescatter-then-allgather compositions of equal steps" in said
    assert "for any two halves, and every family, the claims proved by S" in said


@pytest.mark.parametrize("way", [[], ["--limit"]])
def test_uncertifiable_request_fails_before_any_work(way: list[str], tmp_path: Path) -> None:
    command = "pareto --collective allreduce --topo dgx1 --no-store --max-steps 3 --certify"
    proofs = tmp_path / "proofs"
    result = CliRunner().invoke(app, [*command.split(), str(proofs), *way])
    assert result.exit_code == 2
    assert "which need at least 4 steps here" in " ".join(result.stderr.split())
    assert "found" not in result.stderr
    assert not proofs.exists()


def test_new_folder_is_made_also_where_only_compositions_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    swept(resolve_topology("ring:4"), folder, max_chunks=8)
    assert list(folder.glob("allreduce-*.json"))


def test_no_class_has_weaker_bounds_than_all_allreduces() -> None:
    machine = remove_parts(resolve_topology("dgx1"), links=[(0, 4), (4, 0)], ranks=[3])
    found = swept(machine, k=0, max_steps=6)
    assert found.bounds is not None
    assert found.bounds.bandwidth == Fraction(1, 2)
    for one in found.classes:
        assert one.bandwidth is not None
        assert one.steps is not None
        assert one.bandwidth >= found.bounds.bandwidth
        assert one.steps >= found.bounds.steps


def test_last_step_asked_for_is_that_of_every_class() -> None:
    found = swept(resolve_topology("dgx1"), max_steps=4)
    assert costs(found, "gathered") == [(2, "3/2"), (3, "7/6")]
    assert costs(found) == [(2, "3/2"), (3, "3/4"), (4, "1/3")]


def test_explorer_has_one_frontier_of_all_classes(dgx1: Frontier) -> None:
    from sccl.view.explorer.explorer_data import page_data
    from sccl.view.explorer.explorer_plans import explorer_algorithms

    files = sorted({str(p.file) for one in dgx1.classes for p in one.points})
    items = explorer_algorithms((file, *load_algorithm(Path(file))) for file in files)
    data = page_data(items, [dgx1], frontier=True)
    (one,) = data["frontiers"]
    assert one["collective"] == "allreduce"
    assert one["bounds"] == {"steps": 2, "bandwidth": "7/24"}
    assert one["limits"] == []
    assert [(c["name"], len(c["points"])) for c in one["classes"]] == [
        ("composed", 3), ("trees", len(one["points"]) - 5), ("gathered", 2),
    ]  # fmt: skip
    parts = [set(c["points"]) for c in one["classes"]]
    assert all(a.isdisjoint(b) for a, b in combinations(parts, 2))
