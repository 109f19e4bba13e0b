"""The sweep: known frontiers, and the truth about what was not decided."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.answer import Answer, Unknown
from sccl.core.cost import Costs, fastest_by_size
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.frontiers import frontier_to_plain, frontiers_from_plain
from sccl.core.frontier import Frontier
from sccl.core.instance import Instance, SweepRange
from sccl.core.stop import StopReason
from sccl.core.symmetric import AnyAlgorithm
from sccl.errors import ParameterError, SolverError
from sccl.judge import violations
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.sweep_events import PointDecided
from sccl.synth.packing.by_steps.limits_by_steps import PackingLimits
from sccl.synth.syncoll import solve
from sccl.synth.syncoll.sweep import sweep
from sccl.topo import resolve_topology
from sccl.topo.degrade import remove_parts
from sccl.view.completeness import frontier_summary
from tests.kit.commands import sccl


def run(topology: str, collective: str, **covered: int) -> Frontier:
    machine = resolve_topology(topology)
    spec = named_spec(collective, machine.ranks)
    return sweep(
        machine,
        spec,
        solve.solve,
        solver="cpsat",
        covered=SweepRange(**covered),
        limits=PackingLimits,
    )


def algorithms(frontier: Frontier) -> list[AnyAlgorithm]:
    return [point.algorithm for point in frontier.points if point.algorithm]


def costs(frontier: Frontier) -> list[tuple[int, int, int]]:
    return [(p.candidate.chunks, p.steps, p.candidate.rounds) for p in frontier.points]


def test_the_frontier_of_allgather_on_dgx1() -> None:
    frontier = run("dgx1", "allgather")
    assert costs(frontier) == [(2, 2, 3), (6, 3, 7)]
    assert [p.optimal for p in frontier.points] == [("latency", "limit"), ("bandwidth",)]
    assert frontier.covers_all_k
    assert all(p.is_proved for p in frontier.points)
    assert (frontier.is_complete, str(frontier.stop_reason)) == (True, "bandwidth-bound")
    refuted = {(u.candidate.chunks, u.candidate.rounds) for u in frontier.refuted}
    assert refuted == {(6, 7), (5, 6), (4, 5), (3, 4), (5, 7)}  # all that is cheaper than 3/2
    assert len(frontier.refuted) == len(refuted)


def test_the_frontier_of_allgather_on_z52_is_one_point() -> None:
    frontier = run("z52", "allgather")
    assert costs(frontier) == [(2, 4, 7)]
    assert frontier.points[0].optimal == ("latency", "bandwidth")


def test_combining_collectives_sweep_their_dual() -> None:
    allreduce = run("dgx1", "allreduce")
    assert costs(allreduce) == [(16, 4, 6), (48, 6, 14)]
    assert "reducescatter-then-allgather compositions" in allreduce.scope
    assert "compositions" in algorithms(allreduce)[0].scope
    reducescatter = run("dgx1", "reducescatter")
    assert costs(reducescatter) == [(16, 2, 3), (48, 3, 7)]
    assert "compositions" not in reducescatter.scope
    reduce = run("ring:4", "reduce", max_steps=3, k=1)
    assert costs(reduce) == costs(run("ring:4", "broadcast", max_steps=3, k=1))


def test_an_undecided_candidate_leaves_the_point_unproved() -> None:
    def gives_up(instance: Instance) -> Answer:
        if instance.collective.chunks == 5:
            return Unknown(StopReason.parse("asked not to"), "test", 0.0)
        return solve.solve(instance)

    machine = resolve_topology("dgx1")
    frontier = sweep(
        machine,
        named_spec("allgather", 8),
        gives_up,
        solver="test",
        covered=SweepRange(),
    )
    assert costs(frontier) == [(2, 2, 3), (6, 3, 7)]
    first, last = frontier.points
    assert not first.is_proved
    assert algorithms(frontier)[0].proved == ("latency",)
    open_ones = {(o.candidate.chunks, o.candidate.rounds) for o in frontier.open}
    assert open_ones == {(5, 6), (5, 7)}
    assert last.is_proved  # it meets the bandwidth bound, and 6/5 and 7/5 in 2 steps are dearer
    assert not frontier.is_complete


def test_giving_up_everywhere_proves_nothing() -> None:
    machine = resolve_topology("ring:4")
    frontier = sweep(
        machine,
        named_spec("allgather", 4),
        lambda _: Unknown(StopReason.parse("tired"), "test", 0.0),
        solver="test",
        covered=SweepRange(max_steps=2, k=1),
        limits=PackingLimits,
    )
    assert frontier.points == ()
    assert frontier.refuted == ()
    assert {str(o.reason) for o in frontier.open} == {"tired"}
    assert not frontier.is_complete


def test_an_interrupt_leaves_a_truthful_part(tmp_path: Path) -> None:
    asked = 0

    def interrupted(instance: Instance) -> Answer:
        nonlocal asked
        asked += 1
        if asked == 4:
            raise KeyboardInterrupt
        return solve.solve(instance)

    machine = resolve_topology("dgx1")
    frontier = sweep(
        machine,
        named_spec("allgather", 8),
        interrupted,
        solver="test",
        covered=SweepRange(),
        folder=AlgorithmFolder(tmp_path),
    )
    assert str(frontier.stop_reason) == "interrupted"
    assert not frontier.is_complete
    assert len(frontier.points) == 1
    assert not frontier.points[0].is_proved
    assert {str(o.reason) for o in frontier.open} == {"not tried: interrupted"}
    files = list(tmp_path.iterdir())
    assert files == [frontier.points[0].file]
    found, intact = load_algorithm(files[0])
    assert intact
    assert violations(found) == []


def test_points_are_written_as_they_are_found(tmp_path: Path) -> None:
    machine = resolve_topology("dgx1")
    seen: list[list[str]] = []

    def notify(event: object) -> None:
        if isinstance(event, PointDecided):
            seen.append(sorted(p.name for p in tmp_path.iterdir()))

    sweep(
        machine,
        named_spec("allgather", 8),
        partial(solve.solve, solver="cadical"),
        solver="cadical",
        covered=SweepRange(),
        folder=AlgorithmFolder(tmp_path),
        notify=notify,
        limits=PackingLimits,
    )
    first, second = "allgather-dgx1-c2-s2-r3.json", "allgather-dgx1-c6-s3-r7.json"
    assert seen == [[first], [first, second]]


@pytest.mark.parametrize("name", ["../../etc/x", "a b\n`c`", "$(x)", "-rf", "ü" * 300])
def test_names_from_files_make_safe_file_names(name: str, tmp_path: Path) -> None:
    from dataclasses import replace

    from sccl.core.answer import Sat

    machine = replace(resolve_topology("ring:3"), name=name)
    from sccl.transform import build_question

    answer = solve.solve(build_question(machine, named_spec("allgather", 3), 1, 1, 1).instances[0])
    assert isinstance(answer, Sat)
    path = AlgorithmFolder(tmp_path).save(answer.algorithm)
    assert path.parent == tmp_path
    assert path.name.isascii()
    assert load_algorithm(path)[0] == answer.algorithm


def test_limits_of_the_range() -> None:
    frontier = run("dgx1", "allgather", k=0, max_steps=4)
    assert costs(frontier) == [(1, 2, 2), (2, 3, 3), (3, 4, 4)]  # SCCL Table 4, R = S
    assert str(frontier.stop_reason) == "max-steps"
    limited = run("dgx1", "allgather", max_chunks=1, max_steps=2)
    assert costs(limited) == [(1, 2, 2)]
    assert "C <= 1" in limited.scope
    for bad in ({"k": -1}, {"k": 10**8}, {"max_steps": 0}, {"max_chunks": 0}):
        with pytest.raises(ParameterError):
            SweepRange(**bad)


def test_what_a_small_k_leaves_out_is_not_claimed() -> None:
    """Complete for every k: only where each number of steps has its limit met by a point."""
    small = run("dgx1", "allgather", k=5, max_steps=3)
    assert small.covers_all_k
    assert {x.steps: x.lower for x in small.classes[0].limits} == {
        2: Fraction(3, 2),
        3: Fraction(7, 6),
    }
    machine = resolve_topology("dgx1")
    skipped = sweep(
        machine,
        named_spec("broadcast", 8),
        lambda i: (
            solve.solve(i)
            if i.steps != 3
            else Unknown(StopReason.parse("asked not to"), "test", 0.0)
        ),
        solver="test",
        covered=SweepRange(k=0, max_steps=4),
        limits=PackingLimits,
    )
    assert not skipped.covers_all_k


def test_what_is_proved_for_some_k_only_says_so() -> None:
    """On DGX-1 without link 0-4, (4, 5, 7) is complete for k = 2, and (4, 4, 7) beats it."""
    machine = remove_parts(resolve_topology("dgx1"), links=[(0, 4), (4, 0)])
    frontiers = [
        sweep(
            machine,
            named_spec("allgather", 8),
            solve.solve,
            solver="cpsat",
            covered=SweepRange(k=k),
            limits=PackingLimits,
        )
        for k in (2, None)
    ]
    small, usual = frontiers
    assert (costs(small)[-1], costs(usual)[-1]) == ((4, 5, 7), (4, 4, 7))
    assert (small.is_complete, small.covers_all_k) == (True, False)
    assert [p.state_text for p in small.points] == ["proved for k = 2"] * 2
    assert usual.points[-1].state_text == "proved"
    assert algorithms(small)[-1].scope == "2-synchronous algorithms"
    assert algorithms(usual)[-1].scope == "all k-synchronous algorithms"
    assert [p["every_k"] for p in frontier_to_plain(usual)["points"]] == [False, True]
    (read,) = frontiers_from_plain(frontier_to_plain(small), "here")
    assert frontier_summary(read).startswith("Complete for k = 2: ")
    assert {p.state_text for p in read.points} == {"proved for k = 2"}
    limited = run("dgx1", "allgather", max_chunks=1, max_steps=2)
    assert limited.points[0].state_text == "proved for k = 5 and C <= 1"


def test_an_older_frontier_says_for_which_k_it_was_proved() -> None:
    found = frontier_to_plain(run("dgx1", "allgather", k=1, max_steps=3))
    for point in found["points"]:
        del point["every_k"]
    (read,) = frontiers_from_plain(found, "here")
    assert [p.state_text for p in read.points] == ["proved for k = 1"] * 2


def test_the_json_has_the_published_shape() -> None:
    found = frontier_to_plain(run("dgx1", "allgather"))
    assert found["schema"] == 1
    assert (found["topology"], found["collective"], found["k"]) == ("dgx1", "allgather", 5)
    assert (found["bounds"]["steps"], found["bounds"]["bandwidth"]) == (2, "7/6")
    assert found["bounds"]["certificate"]["cuts"][0]["entering_chunks"] == 7
    assert found["complete"] is True
    point = found["points"][1]
    assert (point["chunks"], point["steps"], point["rounds"]) == (6, 3, 7)
    assert sum(point["rounds_per_step"]) == 7
    assert (point["bandwidth_cost"], point["optimal"]) == ("7/6", ["bandwidth"])
    assert point["proved"] is True
    assert point["file"] is None
    assert found["open"] == []
    assert {u["bandwidth_cost"] for u in found["unsat"]} == {"7/6", "6/5", "5/4", "4/3", "7/5"}


@given(
    st.lists(st.tuples(st.integers(1, 9), st.fractions(Fraction(1, 9), 9)), min_size=1, max_size=6),
    st.floats(0, 10),
    st.floats(1e-7, 1e9),
)
def test_winners_are_the_fastest(
    points: list[tuple[int, Fraction]], alpha: float, size: float
) -> None:
    costs = Costs(alpha, 10.0)
    ranges = fastest_by_size(points, costs)
    assert ranges[0].from_bytes == 0
    assert ranges[-1].to_bytes is None
    times = [costs.time_us(s, c, size) for s, c in points]
    for r in ranges:
        if r.from_bytes <= size and (r.to_bytes is None or size < r.to_bytes):
            assert times[r.index] <= min(times) * (1 + 1e-9) + 1e-12


def test_a_tie_that_is_not_decided_is_not_open() -> None:
    """(4, 2, 6) is found; (2, 2, 3) has the same cost and could not improve on it."""

    def gives_up(instance: Instance) -> Answer:
        if (instance.collective.chunks, instance.steps) == (2, 2):
            return Unknown(StopReason.parse("asked not to"), "test", 0.0)
        return solve.solve(instance)

    frontier = sweep(
        resolve_topology("dgx1"),
        named_spec("allgather", 8),
        gives_up,
        solver="test",
        covered=SweepRange(),
        limits=PackingLimits,
    )
    assert costs(frontier) == [(4, 2, 6), (6, 3, 7)]
    assert frontier.open == ()
    assert frontier.is_complete


def test_a_broken_solver_loses_nothing_that_was_found() -> None:
    def breaks(instance: Instance) -> Answer:
        if instance.steps == 3:
            raise SolverError("killed")
        return solve.solve(instance)

    frontier = sweep(
        resolve_topology("dgx1"),
        named_spec("allgather", 8),
        breaks,
        solver="test",
        covered=SweepRange(max_steps=3),
        limits=PackingLimits,
    )
    assert costs(frontier) == [(2, 2, 3)]
    assert all("killed" in str(o.reason) for o in frontier.open)
    assert not frontier.is_complete


@pytest.mark.parametrize("earlier", [False, True])
def test_a_file_gives_way_to_a_better_one_unless_it_was_there(
    earlier: bool, tmp_path: Path
) -> None:
    """Without limits, a sweep finds two dearer algorithms of two steps before the cheapest."""
    dearest, dear, best = (f"allgather-dgx1-c{x}.json" for x in ("3-s2-r6", "4-s2-r6", "2-s2-r3"))
    if earlier:
        (tmp_path / dearest).write_text("mine")
    there: dict[str, None] = {}
    sweep(
        resolve_topology("dgx1"),
        named_spec("allgather", 8),
        solve.solve,
        solver="x",
        covered=SweepRange(max_steps=2),
        folder=AlgorithmFolder(tmp_path),
        notify=lambda _: there.update((path.name, None) for path in tmp_path.iterdir()),
    )
    assert list(there) == [dearest, dear, best]
    assert {p.name for p in tmp_path.iterdir()} == {best, *([dearest] if earlier else [])}


def test_ranges_with_nothing_in_them_are_refused() -> None:
    with pytest.raises(ParameterError, match="at least 2 steps"):
        run("dgx1", "allgather", max_steps=1)
    with pytest.raises(ParameterError, match="a multiple of 8"):
        run("dgx1", "alltoall", max_chunks=4)


def test_an_unsat_half_decides_though_the_other_is_unknown() -> None:
    from sccl.core.answer import Unsat
    from sccl.core.topology import Link, Topology
    from sccl.transform import build_question, solve_question

    one_way = Topology("r", 3, tuple(Link(i, (i + 1) % 3, 1, 1.0, 1.0) for i in range(3)), 1.0, 1.0)
    question = build_question(one_way, named_spec("allreduce", 3), 3, 4, 4)
    answers: Iterator[Answer] = iter(
        [Unknown(StopReason.parse("tired"), "t", 1.0), Unsat("no", "t", 1.0)]
    )
    found = solve_question(question, lambda _: next(answers))
    assert isinstance(found, Unsat)
    assert found.seconds == 2.0


@pytest.mark.parametrize(
    ("solver", "method"), [("cpsat", "greedy"), ("z3", "z3 (QF_LIA)"), ("cadical", "cadical")]
)
def test_points_and_refutations_name_their_method(solver: str, method: str) -> None:
    """Z3 and CaDiCaL are asked without the greedy."""
    code, text = sccl(
        "pareto", "--collective", "allgather", "--topo", "ring:4", "--solver", solver,
        "--no-store", "--json",
    )[:2]  # fmt: skip
    assert code == 0
    frontier = json.loads(text)
    assert {point["found_by"] for point in frontier["points"]} == {method}
    assert {refuted["refuted_by"] for refuted in frontier["unsat"]} <= {"cut", "packing", method}
