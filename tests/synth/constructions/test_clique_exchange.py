"""Allreduce by halving along some dimensions and doubling along the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.answer import Sat, Unsat
from sccl.core.frontier import EXCHANGED
from sccl.core.topology import Topology
from sccl.judge import violations
from sccl.prove.bounds.timed_cuts import allreduce_bound
from sccl.solvers.effort import Effort
from sccl.synth.allreduce.limit_search import find_limits
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.settings import Settings
from sccl.synth.constructions.clique_exchange import SCOPE, find_clique_exchange
from sccl.synth.syncoll.question_search import find_algorithm
from sccl.topo import resolve_topology
from sccl.transform import build_question

QUICK = Settings("cpsat", Effort(10))


@pytest.mark.parametrize(
    "machine",
    [
        *("hypercube:1", "hypercube:3", "hypercube:5", "hyperx:3x3", "full:4", "hyperx:4x4"),
        *("ring:4", "torus:4x2", "torus:4x4", "torus:3x3", "mesh:2x2x2"),
    ],
)
def test_closed_forms_are_what_the_judge_counts(machine: str) -> None:
    topology = resolve_topology(machine)
    known = find_clique_exchange(topology)
    assert known is not None
    assert known.side**known.dimensions == topology.ranks
    found = []
    for halved in known.useful_halvings():
        made = known.algorithm(named_spec("allreduce", topology.ranks), halved)
        assert made is not None
        assert violations(made) == []
        assert (made.steps, made.bandwidth_cost) == (known.dimensions + halved, known.cost(halved))
        found.append(made.bandwidth_cost)
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_nothing_beats_it_in_2d_minus_2_steps(dimensions: int) -> None:
    topology = resolve_topology(f"hypercube:{dimensions}")
    known = find_clique_exchange(topology)
    assert known is not None
    relaxation = allreduce_bound(
        topology, named_spec("allreduce", topology.ranks), 2 * dimensions - 2
    )
    assert relaxation is not None
    assert relaxation.bound.value == known.cost(dimensions - 2) == Fraction(2, dimensions)


@pytest.mark.parametrize(
    "machine", ["ring:5", "torus:4x3", "hyperx:4x3", "dgx1", "mesh:3x3", "routed:hypercube:2"]
)
def test_machines_without_equal_cliques_have_none(machine: str) -> None:
    assert find_clique_exchange(resolve_topology(machine)) is None


@pytest.mark.parametrize("machine", ["hypercube:3", "hyperx:3x3", "hyperx:4x4", "torus:4x4"])
@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_ranks_may_be_numbered_in_any_way(machine: str, random: Random) -> None:
    topology = resolve_topology(machine)
    image = list(range(topology.ranks))
    random.shuffle(image)
    other = joined(topology, [(image[link.src], image[link.dst]) for link in topology.links])
    known = find_clique_exchange(other)
    assert known is not None
    made = known.algorithm(named_spec("allreduce", other.ranks), 1)
    assert made is not None
    assert violations(made) == []
    assert made.bandwidth_cost == known.cost(1)


def test_near_square_of_cliques_is_rejected() -> None:
    """Shrikhande's graph has as many neighbours, and common ones, as the square of 4 ranks."""
    ways = [(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)]
    edges = [
        (4 * a + b, 4 * ((a + x) % 4) + (b + y) % 4)
        for a, b in product(range(4), repeat=2)
        for x, y in ways
    ]
    square = resolve_topology("hyperx:4x4")
    assert find_clique_exchange(square) is not None
    assert find_clique_exchange(joined(square, edges)) is None


@pytest.mark.parametrize("machine", ["hypercube:3", "hyperx:3x3"])
def test_link_elsewhere_or_missing_is_seen(machine: str) -> None:
    topology = resolve_topology(machine)
    edges = sorted(topology.edges)
    for i, (src, dst) in enumerate(edges):
        assert find_clique_exchange(joined(topology, edges[:i] + edges[i + 1 :])) is None
        instead = next(r for r in range(topology.ranks) if r != src and (src, r) not in edges)
        moved = [(src, instead) if edge == (src, dst) else edge for edge in edges]
        assert find_clique_exchange(joined(topology, moved)) is None


def joined(topology: Topology, edges: Sequence[tuple[int, int]]) -> Topology:
    """Return a machine of other links, with a neutral name."""
    links = tuple(replace(topology.links[0], src=src, dst=dst) for src, dst in edges)
    return replace(topology, name="cluster", links=links)


def test_whole_frontier_of_the_3_cube_is_known(tmp_path: Path) -> None:
    found = find_limits(
        resolve_topology("hypercube:3"),
        named_spec("allreduce", 8),
        None,
        QUICK,
        folder=AlgorithmFolder(tmp_path),
    )
    points = [(p.steps, p.cost, p.state, found.is_undominated(p)) for p in found.points]
    assert points == [
        (3, Fraction(1), "proved", True),
        (4, Fraction(2, 3), "proved", True),
        (5, Fraction(7, 12), "proved", True),
    ]
    names = {p.file.name for c in found.classes if c.name == EXCHANGED for p in c.points if p.file}
    assert f"allreduce-hypercube-3-c24-s4-r16-{EXCHANGED}.json" in names


def test_solve_says_which_class_it_is_of() -> None:
    topology, spec = resolve_topology("hypercube:4"), named_spec("allreduce", 16)
    answer = find_algorithm(spec, build_question(topology, spec, 32, 6, 16), QUICK)
    assert isinstance(answer, Sat)
    assert answer.algorithm.scope == SCOPE
    assert (answer.algorithm.rounds, answer.solver) == (16, "construction (exchange)")
    none = find_algorithm(spec, build_question(topology, spec, 32, 6, 14), QUICK)
    assert isinstance(none, Unsat)
