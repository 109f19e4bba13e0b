"""Answers without search: alltoall by colouring, allgather breadth first, on Cayley graphs."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.answer import Sat, Unsat
from sccl.core.graphs import distances
from sccl.core.instance import Instance
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.core.topology import Budget, Topology
from sccl.errors import UnreachableError
from sccl.judge import steps, violations
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth import constructions
from sccl.synth.constructions import abelian_allgather, abelian_alltoall, bfb_costs
from sccl.synth.syncoll import solve
from sccl.topo import resolve_topology
from sccl.topo.symmetry.automorphisms import check_symmetry
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.topo.symmetry.group_choice import candidate_groups
from sccl.topo.symmetry.regular_groups import find_translations
from tests.kit.cayley import cayley_machines, graph_of, renamed
from tests.kit.nightly import times
from tests.kit.strategies import topologies


def answered(machine: Topology, collective: str, c: int, s: int, r: int) -> Sat | None:
    question = named_spec(collective, machine.ranks).at(c)
    found = constructions.answer(
        Instance(machine, question, s, r), candidate_groups(machine, question, "auto")
    )
    return found if isinstance(found, Sat) else None


@pytest.mark.parametrize(
    ("text", "c", "s", "r"),
    [
        ("torus:4x4", 16, 4, 8),
        ("torus:16x16", 256, 16, 512),
        ("torus:8x8x8", 512, 12, 512),
        ("torus:16x8", 128, 12, 256),
        ("torus:12x4x2", 96, 9, 144),
        ("torus:32x32", 1024, 32, 4096),
        ("hypercube:6", 64, 6, 32),
        ("hypercube:8", 256, 8, 128),
        ("hypercube:10", 1024, 10, 512),
        ("ring:16", 32, 8, 64),  # one chunk of each pair cannot go both ways round
    ],
)
def test_alltoall_meets_both_bounds(text: str, c: int, s: int, r: int) -> None:
    machine = resolve_topology(text)
    found = answered(machine, "alltoall", c, s, r)
    assert found is not None
    assert violations(found.algorithm) == []
    graph = graph_of(machine)
    far = graph.distances()
    # every chunk takes a link for each step of its distance, and all lanes together are so many
    lanes = sum(link.lanes for link in machine.links)
    by_distance = Fraction(machine.ranks * int(far.sum()), lanes * machine.ranks)
    assert far.max() == s
    assert abelian_alltoall.rounds_per_chunk(graph, c // machine.ranks) == Fraction(r, c)
    longest = max(graph.group.orders)
    alike = len({graph.group.ranks, *graph.group.orders}) <= 2
    assert Fraction(r, c) == (by_distance if alike else Fraction(longest, 8))
    assert answered(machine, "alltoall", c, s, r - 1) is None
    assert answered(machine, "alltoall", c, s - 1, r) is None


@pytest.mark.parametrize(
    ("text", "c", "s", "r"),
    [
        ("torus:16x16", 4, 16, 255),
        ("torus:12x4x2", 5, 9, 95),
        ("hypercube:8", 8, 8, 255),
        ("torus:8x8x8", 6, 12, 511),
        ("circulant:16:3,4", 4, 3, 15),
        ("torus:100x100", 4, 100, 9999),
    ],
)
def test_allgather_at_the_diameter(text: str, c: int, s: int, r: int) -> None:
    machine = resolve_topology(text)
    found = answered(machine, "allgather", c, s, r)
    assert found is not None
    assert violations(found.algorithm) == []
    assert found.algorithm.rounds_per_step == tuple(
        ceil(c * cost) for cost in abelian_allgather.step_costs(graph_of(machine)) or ()
    )
    assert answered(machine, "allgather", c, s, r - 1) is None


@settings(max_examples=times(60, by_day=30), deadline=None)
@given(cayley_machines(), st.integers(1, 3))
def test_alltoall_of_any_abelian_machine(machine: Topology, pieces: int) -> None:
    """The theorem: with R a multiple of S that the fullest link allows, there is a colouring."""
    graph = graph_of(machine)
    steps_ = int(graph.distances().max())
    full = abelian_alltoall.rounds_per_chunk(graph, pieces)
    assert full is not None
    c = pieces * machine.ranks
    rounds = ceil(full * c / steps_) * steps_
    found = answered(machine, "alltoall", c, steps_, rounds)
    assert found is not None
    assert steps.violations(expand_algorithm(found.algorithm)) == []
    assert found.algorithm.rounds == rounds


def plainly(machine: Topology) -> tuple[Fraction, ...]:
    """Return the costs of breadth first by all sets of links, rank by rank and step by step."""
    successors = machine.successors()
    far = [distances(successors, [root]) for root in range(machine.ranks)]
    most: dict[int, Fraction] = {}
    for rank in range(machine.ranks):
        into = [k for k in machine.links if k.dst == rank]
        for step in range(1, max(row[rank] for row in far) + 1):
            ways = [
                {k.src for k in into if row[k.src] == step - 1} for row in far if row[rank] == step
            ]
            for size in range(1, len(into) + 1):
                for some in combinations(into, size):
                    only = sum(way <= {k.src for k in some} for way in ways)
                    load = Fraction(only, sum(k.lanes for k in some))
                    most[step] = max(most.get(step, load), load)
    return tuple(most[step] for step in sorted(most))


@settings(max_examples=times(80), deadline=None)
@given(topologies(max_ranks=7), st.booleans())
def test_costs_of_breadth_first_on_any_machine(machine: Topology, few: bool) -> None:
    """By sums over subsets, or by flows, also with an unreachable rank."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bfb_costs, "MAX_SUBSET", 10 if few else 0)
        if any(-1 in distances(machine.successors(), [r]) for r in range(machine.ranks)):
            with pytest.raises(UnreachableError, match="does not reach"):
                bfb_costs.step_costs(machine)
        else:
            assert bfb_costs.step_costs(machine) == plainly(machine)


@settings(max_examples=times(60, by_day=30), deadline=None)
@given(cayley_machines(), st.integers(1, 4))
def test_breadth_first_by_one_rank(machine: Topology, c: int) -> None:
    costs = abelian_allgather.step_costs(graph_of(machine))
    assert costs == bfb_costs.step_costs(machine) == bfb_costs.step_costs(machine, [0])
    assert costs is not None
    rounds = sum(ceil(c * cost) for cost in costs)
    found = answered(machine, "allgather", c, len(costs), rounds + 1)
    assert found is not None
    assert steps.violations(expand_algorithm(found.algorithm)) == []
    assert found.algorithm.rounds == rounds + 1
    if rounds > len(costs):
        assert answered(machine, "allgather", c, len(costs), rounds - 1) is None


@settings(max_examples=times(15), deadline=None)
@given(cayley_machines(), st.randoms())
def test_constructed_answers_agree_with_solvers(machine: Topology, rng: random.Random) -> None:
    if machine.ranks > 8:
        return
    c, far = machine.ranks, int(graph_of(machine).distances().max())
    rounds = far + rng.randint(0, 3)
    found = answered(machine, "alltoall", c, far, rounds)
    said = solve.solve(Instance(machine, named_spec("alltoall", c).at(c), far, rounds))
    assert not (found and isinstance(said, Unsat))


@settings(max_examples=times(60), deadline=None)
@given(cayley_machines())
def test_translations_are_recognised_under_any_name(machine: Topology) -> None:
    images = find_translations(machine)
    assert images
    for image in images:
        check_symmetry(machine, named_spec("alltoall", machine.ranks).at(machine.ranks), image)


@pytest.mark.parametrize("text", ["torus:16x16", "hypercube:6", "torus:4x4x4", "circulant:40:1,7"])
def test_larger_machines_are_recognised_too(text: str) -> None:
    machine = resolve_topology(text)
    places = list(range(machine.ranks))
    random.Random(1).shuffle(places)  # noqa: S311 - a sample, not a secret
    other = renamed(machine, places)
    c, s = machine.ranks, lower_bounds(machine, named_spec("allgather", machine.ranks)).steps
    full = abelian_alltoall.rounds_per_chunk(graph_of(other), 1)
    assert full is not None
    found = answered(other, "alltoall", c, s, ceil(full * c / s) * s)
    assert found is not None
    assert violations(found.algorithm) == []


@pytest.mark.parametrize("text", ["mesh:3x3", "mesh:4x4", "dragonfly:4x5", "dgx1", "ndv2x2"])
def test_other_machines_have_no_translations(text: str) -> None:
    machine = resolve_topology(text)
    assert find_translations(machine) == ()
    c = machine.ranks
    found = answered(machine, "alltoall", c, 8, 999)
    assert found is not None
    assert found.group != "translations"


@pytest.mark.parametrize(
    ("text", "collective", "steps", "bandwidth"),
    [
        ("dgx1", "allgather", 2, Fraction(3, 2)),
        ("mesh:32x32", "allgather", 62, Fraction(1023, 2)),
        ("dragonfly:4x5", "allgather", 3, Fraction(25, 4)),
        ("torus:32x32", "allgather", 32, Fraction(1023, 4)),
        ("hypercube:8", "alltoall", 8, Fraction(1, 2)),
        ("ring:16", "alltoall", 8, Fraction(2)),
    ],
)
def test_constructions_attain_known_costs(
    text: str, collective: str, steps: int, bandwidth: Fraction
) -> None:
    machine = resolve_topology(text)
    spec = named_spec(collective, machine.ranks)
    found = constructions.cost_without_search(machine, spec.at(spec.unit))
    assert found is not None
    assert (found.steps, found.bandwidth) == (steps, bandwidth)


@pytest.mark.parametrize(
    ("text", "collective"),
    [("dgx1", "alltoall"), ("torus:4x4", "broadcast"), ("torus:4x4", "reducescatter")],
)
def test_no_more_is_said_to_be_attained(text: str, collective: str) -> None:
    machine = resolve_topology(text)
    spec = named_spec(collective, machine.ranks)
    assert constructions.cost_without_search(machine, spec.at(spec.unit)) is None
    bus = Budget("bus", tuple(sorted(machine.edges)), 8)
    gathered = named_spec("allgather", machine.ranks).at(1)
    assert constructions.cost_without_search(replace(machine, budgets=(bus,)), gathered) is None


def test_unsupported_queries_are_left_to_solvers() -> None:
    ring = resolve_topology("ring:16")
    assert answered(ring, "broadcast", 2, 8, 16) is None
    assert answered(ring, "allgather", 2, 9, 16) is None  # not at the diameter
    bus = Budget("bus", tuple(sorted(ring.edges)), 8)
    assert answered(replace(ring, budgets=(bus,)), "alltoall", 16, 8, 64) is None
    question = named_spec("alltoall", 16).at(32)
    assert constructions.answer(Instance(ring, question, 8, 64), ()) is None


def test_solvers_are_not_asked_where_there_is_an_answer() -> None:
    machine = resolve_topology("torus:8x8")
    question = named_spec("alltoall", 64).at(64)
    found = solve.solve(
        Instance(machine, question, 8, 64), groups=candidate_groups(machine, question, "auto")
    )
    assert isinstance(found, Sat)
    assert found.solver == "construction"
    assert found.group == "translations"


def test_largest_take_no_more_than_one_rank_does() -> None:
    """4,096 ranks: 16.8 million chunks, 100 million sends, judged."""
    machine = resolve_topology("hypercube:12")
    found = answered(machine, "alltoall", 4096, 12, 2048)
    assert found is not None
    assert isinstance(found.algorithm, SymmetricAlgorithm)
    assert found.algorithm.num_sends == 4096 * 4096 * 6
    assert violations(found.algorithm) == []
    first, *rest = found.algorithm.sends
    assert violations(replace(found.algorithm, sends=tuple(rest)))
    assert first.chunk % 4096 == 0
