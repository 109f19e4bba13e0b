"""SYNDICATE's Figures 16 to 18 in shape: which option is best for which size."""

from __future__ import annotations

from benchmarks.syndicate_costs import PARTS, StepCost, run, winners
from tests.kit import once


def results() -> list[StepCost]:
    """Return the costs of all plans: seconds, so not while tests are collected."""
    return once.value("SYNDICATE's figures 16 to 18", lambda: list(run(PARTS)))


def test_trees_are_best_for_small_and_rings_for_large_allreduces() -> None:
    (first, _), (last, size) = winners(results(), "figure16")
    assert (first, last) == ("tree", "ring")
    assert 2**17 <= size <= 2**22


def test_larger_an_alltoall_the_more_parts() -> None:
    found = winners(results(), "figure17")
    assert [plan for plan, _ in found] == ["1-way", "2-way", "4-way"]


def test_allreduce_over_gpus_goes_well_with_a_small_alltoall_over_hosts() -> None:
    """The paper's best option. Here GPUs are best for large sizes, since hosts are slower."""
    rows = [r for r in results() if r.part == "figure18"]
    for size in {r.size_bytes for r in rows}:
        took = {r.plan: r.us for r in rows if r.size_bytes == size}
        theirs, reverse = took["allreduce gpu, alltoall cpu"], took["allreduce cpu, alltoall gpu"]
        if size <= 2**25:
            assert theirs < reverse
            assert theirs <= 1.01 * min(took.values())
