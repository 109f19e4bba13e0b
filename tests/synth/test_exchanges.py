"""Allreduce by halving along some dimensions and doubling along the others."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from sccl.collectives import named
from sccl.core.answer import Sat, Unsat
from sccl.core.frontier import EXCHANGED
from sccl.judge import violations
from sccl.prove.bounds.timed_cuts import allreduce_bound
from sccl.solvers.effort import Effort
from sccl.synth.direct.exchanges import SCOPE, exchanges
from sccl.synth.folder import Folder
from sccl.synth.settings import Settings
from sccl.tasks.limits import find_limits
from sccl.tasks.solve import find_algorithm
from sccl.topo import resolve
from sccl.transform import pose

QUICK = Settings("cpsat", Effort(10))


@pytest.mark.parametrize(
    "machine", ["hypercube:1", "hypercube:3", "hypercube:5", "hyperx:3x3", "full:4", "hyperx:4x4"]
)
def test_closed_forms_are_what_the_judge_counts(machine: str) -> None:
    topology = resolve(machine)
    known = exchanges(topology)
    assert known is not None
    assert known.side**known.dimensions == topology.ranks
    found = []
    for halved in known.halved():
        made = known.algorithm(named("allreduce", topology.ranks), halved)
        assert made is not None
        assert violations(made) == []
        assert (made.steps, made.bandwidth_cost) == (known.dimensions + halved, known.cost(halved))
        found.append(made.bandwidth_cost)
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_nothing_beats_it_in_2d_minus_2_steps(dimensions: int) -> None:
    topology = resolve(f"hypercube:{dimensions}")
    known = exchanges(topology)
    assert known is not None
    bound = allreduce_bound(topology, named("allreduce", topology.ranks), 2 * dimensions - 2)
    assert bound is not None
    assert bound.value == known.cost(dimensions - 2) == Fraction(2, dimensions)


@pytest.mark.parametrize("machine", ["ring:5", "torus:4x3", "hyperx:4x3", "dgx1", "mesh:3x3"])
def test_machines_without_equal_cliques_have_none(machine: str) -> None:
    assert exchanges(resolve(machine)) is None


def test_the_whole_frontier_of_the_3_cube_is_known(tmp_path: Path) -> None:
    found = find_limits(
        resolve("hypercube:3"), named("allreduce", 8), None, QUICK, folder=Folder(tmp_path)
    )
    points = [(p.steps, p.cost, p.state, found.undominated(p)) for p in found.points]
    assert points == [
        (3, Fraction(1), "proved", True),
        (4, Fraction(2, 3), "proved", True),
        (5, Fraction(7, 12), "proved", True),
    ]
    names = {p.file.name for c in found.classes if c.name == EXCHANGED for p in c.points if p.file}
    assert f"allreduce-hypercube-3-c24-s4-r16-{EXCHANGED}.json" in names


def test_solve_says_which_class_it_is_of() -> None:
    topology, spec = resolve("hypercube:4"), named("allreduce", 16)
    answer = find_algorithm(spec, pose(topology, spec, 32, 6, 16), QUICK)
    assert isinstance(answer, Sat)
    assert answer.algorithm.scope == SCOPE
    assert (answer.algorithm.rounds, answer.solver) == (16, "direct")
    none = find_algorithm(spec, pose(topology, spec, 32, 6, 14), QUICK)
    assert isinstance(none, Unsat)
