"""Degraded machines compared with sweeps of machines without the failed part."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from sccl.comparison.robustness import (
    FailingPart,
    RobustnessProblem,
    RobustOutput,
    analyze_robustness,
    failure_classes,
)
from sccl.core.instance import SweepRange
from sccl.solvers.effort import Effort
from sccl.synth.allreduce.pareto_search import find_frontier
from sccl.synth.common.problem import build_problem
from sccl.synth.common.settings import Settings
from sccl.topo import resolve_topology
from sccl.topo.degrade import remove_parts
from tests.kit.commands import sccl

SETTINGS = Settings("cpsat", Effort(60, 0), no_store=True)
ALL = SweepRange(None, None, None)
LINKS, LANES, RANKS = FailingPart.LINKS, FailingPart.LANES, FailingPart.RANKS


def question(
    machine: str, collective: str, *parts: FailingPart, root: str | None = None
) -> RobustnessProblem:
    topology = resolve_topology(machine)
    subject = build_problem(topology, collective, root).require_steps()
    return RobustnessProblem(topology, subject, collective, root, parts, ALL, SETTINGS)


def points_of(found: RobustOutput) -> dict[str, tuple[tuple[int, Fraction], ...]]:
    return {
        case.failed: tuple((p.steps, Fraction(p.bandwidth)) for p in case.points)
        for case in found.cases
    }


def test_each_failure_is_the_sweep_of_what_is_left() -> None:
    """Those that are alike are swept here, too."""
    asked, whole = question("mesh:2x3", "allgather", LINKS, RANKS), resolve_topology("mesh:2x3")
    found, covered = points_of(analyze_robustness(asked)), 0
    for failure, alike in failure_classes(asked).items():
        for one in alike:
            left = one.apply_to(whole)
            frontier = find_frontier(left, build_problem(left, "allgather").spec, ALL, SETTINGS)
            expected = tuple((p.steps, p.cost) for p in frontier.points)
            assert found[failure.name(whole)] == expected, one
            covered += 1
    assert covered == len(whole.edges) // 2 + whole.ranks
    assert set(found) == {"", *(failure.name(whole) for failure in failure_classes(asked))}


def test_partition_is_reported_first() -> None:
    whole, *cases = analyze_robustness(question("line:3", "allgather", RANKS, LINKS)).cases
    assert not whole.failed
    assert [case.failed for case in cases] == ["rank 1", "link 0-1", "rank 0"]
    assert [case.why for case in cases[:2]] == [
        "no two remaining ranks are connected",
        "rank 0 does not reach rank 1",
    ]
    assert [case.alike for case in cases] == [(), ("link 1-2",), ("rank 2",)]
    assert [bool(case.points) for case in cases] == [False, False, True]


def test_root_keeps_its_rank_and_its_loss_is_reported() -> None:
    found = analyze_robustness(question("torus:3x2", "broadcast", RANKS, root="2"))
    cases = {case.failed: case for case in found.cases}
    assert cases["rank 2"].why == "it is the root"
    assert all(case.points for name, case in cases.items() if name != "rank 2")
    assert cases["rank 0"].alike == ("rank 4",)


def test_lane_is_less_than_a_link() -> None:
    _, *cases = analyze_robustness(question("dgx1", "allgather", LANES)).cases
    assert sum(1 + len(case.alike) for case in cases) == 8  # of 16 links as many have two lanes
    for case in cases:
        assert case.failed.startswith("a lane of link ")
        assert case.slowdown is not None
        assert 1 <= case.slowdown <= 1.5


def test_one_way_links_fail_by_themselves() -> None:
    machine = resolve_topology("cayley:5x1:1.0")
    (failure,) = failure_classes(question(machine.name, "allgather", LINKS))
    assert failure.name(machine) == "link 0->1"
    assert failure.apply_to(machine).edges == machine.edges - {(0, 1)}


def test_links_at_switches_are_not_taken_to_be_alike() -> None:
    asked = question("switch2d:2x2", "allgather", LINKS)
    assert all(len(alike) == 1 for alike in failure_classes(asked).values())
    assert len(failure_classes(asked)) == len(asked.machine.links) // 2


@pytest.mark.parametrize("collective", ["allreduce", "alltoall"])
def test_slowdowns_are_times_per_byte(collective: str) -> None:
    whole, broken = analyze_robustness(question("ring:4", collective, LINKS)).cases
    assert broken.alike == ("link 0-3", "link 1-2", "link 2-3")
    line = remove_parts(resolve_topology("ring:4"), links=[(0, 1), (1, 0)])
    frontier = find_frontier(line, build_problem(line, collective).spec, ALL, SETTINGS)
    slower = frontier.points[-1].cost / Fraction(whole.points[-1].bandwidth)
    assert broken.slowdown == pytest.approx(float(slower))


def test_interrupted_it_keeps_what_there_is() -> None:
    def stop(doing: str) -> None:
        if "(2 of 2)" in doing:
            raise KeyboardInterrupt

    found = analyze_robustness(question("line:3", "allgather", RANKS), stop)
    assert (found.ended, len(found.cases)) == ("interrupted", 2)


def test_robustness_is_printed_and_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "f.svg"
    asked = ("topo", "robust", "--collective", "allgather", "--topo", "ring:4", "--no-store")
    code, told, _ = sccl(*asked, "--plot", picture)
    assert code == 0
    assert "link 0-1 (+3 alike)" in told
    assert "8 failures in 2 sweeps" in told
    assert "link 0-1 (+3 alike)" in picture.read_text()
    code, _, why = sccl(*asked, "--plot", tmp_path / "f.txt")
    assert (code, "f.txt" in why) == (2, True)


def test_groups_keep_the_ranks_that_are_left() -> None:
    asked, ring = question("ring:5", "broadcast@1-2/3-4", RANKS), resolve_topology("ring:5")
    found = {case.failed: case for case in analyze_robustness(asked).cases}
    said = points_of(analyze_robustness(asked))
    for name, lost, text in (("rank 0", 0, "broadcast@0-1/2-3"), ("rank 2", 2, "broadcast@2-3")):
        left = remove_parts(ring, ranks=[lost])
        spec = build_problem(left, text).spec
        swept = find_frontier(left, spec, ALL, SETTINGS)
        (case,) = (c for c in found if name in {c, *found[c].alike})
        assert said[case] == tuple((p.steps, p.cost) for p in swept.points)
    (root,) = (c for c in found if "rank 1" in {c, *found[c].alike})
    assert found[root].why == "it is the root of its group"
