"""Answers without search: alltoall by colouring, allgather breadth first, on Cayley graphs."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named
from sccl.core.answer import Sat, Unsat
from sccl.core.instance import Instance
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.core.topology import Budget, Topology
from sccl.judge import steps, violations
from sccl.prove.bounds import lower_bounds
from sccl.synth import direct
from sccl.synth.baselines import bfb
from sccl.synth.direct import allgather, alltoall
from sccl.synth.ksync import backends
from sccl.topo import resolve
from sccl.topo.symmetry.automorphisms import check_symmetry
from sccl.topo.symmetry.expand import expand
from sccl.topo.symmetry.groups import groups
from sccl.topo.symmetry.recognised import recognised_translations
from sccl.topo.symmetry.regular import Cayley, cayley, translations
from tests.kit.cayley import cayley_machines, renamed
from tests.kit.nightly import times


def answered(machine: Topology, collective: str, c: int, s: int, r: int) -> Sat | None:
    question = named(collective, machine.ranks).at(c)
    return direct.answer(Instance(machine, question, s, r), groups(machine, question, "auto"))


def graph_of(machine: Topology) -> Cayley:
    for group in groups(machine, named("allgather", machine.ranks).at(1), "auto"):
        if (found := translations(group.generators)) is not None:
            graph = cayley(machine, found)
            assert graph is not None
            return graph
    raise AssertionError(machine.name)


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
    machine = resolve(text)
    found = answered(machine, "alltoall", c, s, r)
    assert found is not None
    assert violations(found.algorithm) == []
    graph = graph_of(machine)
    far = graph.distances()
    # every chunk takes a link for each step of its distance, and all lanes together are so many
    lanes = sum(link.lanes for link in machine.links)
    by_distance = Fraction(machine.ranks * int(far.sum()), lanes * machine.ranks)
    assert far.max() == s
    assert alltoall.least_rounds(graph, c // machine.ranks) == Fraction(r, c)
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
    machine = resolve(text)
    found = answered(machine, "allgather", c, s, r)
    assert found is not None
    assert violations(found.algorithm) == []
    assert found.algorithm.rounds_per_step == tuple(
        ceil(c * cost) for cost in allgather.costs(graph_of(machine)) or ()
    )
    assert answered(machine, "allgather", c, s, r - 1) is None


@settings(max_examples=times(60), deadline=None)
@given(cayley_machines(), st.integers(1, 3))
def test_alltoall_of_any_abelian_machine(machine: Topology, pieces: int) -> None:
    """The theorem: with R a multiple of S that the fullest link allows, there is a colouring."""
    graph = graph_of(machine)
    steps_ = int(graph.distances().max())
    full = alltoall.least_rounds(graph, pieces)
    assert full is not None
    c = pieces * machine.ranks
    rounds = ceil(full * c / steps_) * steps_
    found = answered(machine, "alltoall", c, steps_, rounds)
    assert found is not None
    assert steps.violations(expand(found.algorithm)) == []
    assert found.algorithm.rounds == rounds


@settings(max_examples=times(60), deadline=None)
@given(cayley_machines(), st.integers(1, 4))
def test_breadth_first_as_the_baseline_has_it(machine: Topology, c: int) -> None:
    """By one rank, where the baseline takes each pair of ranks."""
    costs = allgather.costs(graph_of(machine))
    assert costs == bfb.costs(machine)
    assert costs is not None
    rounds = sum(ceil(c * cost) for cost in costs)
    found = answered(machine, "allgather", c, len(costs), rounds + 1)
    assert found is not None
    assert steps.violations(expand(found.algorithm)) == []
    assert found.algorithm.rounds == rounds + 1
    if rounds > len(costs):
        assert answered(machine, "allgather", c, len(costs), rounds - 1) is None


@settings(max_examples=times(15), deadline=None)
@given(cayley_machines(), st.randoms())
def test_what_is_answered_solvers_do_not_refute(machine: Topology, rng: random.Random) -> None:
    if machine.ranks > 8:
        return
    c, far = machine.ranks, int(graph_of(machine).distances().max())
    rounds = far + rng.randint(0, 3)
    found = answered(machine, "alltoall", c, far, rounds)
    said = backends.solve(Instance(machine, named("alltoall", c).at(c), far, rounds))
    assert not (found and isinstance(said, Unsat))


@settings(max_examples=times(60), deadline=None)
@given(cayley_machines())
def test_translations_are_recognised_under_any_name(machine: Topology) -> None:
    images = recognised_translations(machine)
    assert images
    for image in images:
        check_symmetry(machine, named("alltoall", machine.ranks).at(machine.ranks), image)


@pytest.mark.parametrize("text", ["torus:16x16", "hypercube:6", "torus:4x4x4", "circulant:40:1,7"])
def test_larger_machines_are_recognised_too(text: str) -> None:
    machine = resolve(text)
    places = list(range(machine.ranks))
    random.Random(1).shuffle(places)  # noqa: S311 - a sample, not a secret
    other = renamed(machine, places)
    c, s = machine.ranks, lower_bounds(machine, named("allgather", machine.ranks)).steps
    full = alltoall.least_rounds(graph_of(other), 1)
    assert full is not None
    found = answered(other, "alltoall", c, s, ceil(full * c / s) * s)
    assert found is not None
    assert violations(found.algorithm) == []


@pytest.mark.parametrize("text", ["mesh:3x3", "mesh:4x4", "dragonfly:4x5", "dgx1", "ndv2x2"])
def test_other_machines_have_no_translations(text: str) -> None:
    machine = resolve(text)
    assert recognised_translations(machine) == ()
    c = machine.ranks
    assert answered(machine, "alltoall", c, 99, 999) is None


def test_what_is_not_theirs_is_left_to_solvers() -> None:
    ring = resolve("ring:16")
    assert answered(ring, "broadcast", 2, 8, 16) is None
    assert answered(ring, "allgather", 2, 9, 16) is None  # not at the diameter
    bus = Budget("bus", tuple(sorted(ring.edges)), 8)
    assert answered(replace(ring, budgets=(bus,)), "alltoall", 16, 8, 64) is None
    question = named("allgather", 16).at(2)
    assert direct.answer(Instance(ring, question, 8, 15), ()) is None


def test_solvers_are_not_asked_where_there_is_an_answer() -> None:
    machine = resolve("torus:8x8")
    question = named("alltoall", 64).at(64)
    found = backends.solve(
        Instance(machine, question, 8, 64), groups=groups(machine, question, "auto")
    )
    assert isinstance(found, Sat)
    assert found.solver == "direct"
    assert found.group == "translations"


def test_the_largest_take_no_more_than_one_rank_does() -> None:
    """4,096 ranks: 16.8 million chunks, 100 million sends, judged."""
    machine = resolve("hypercube:12")
    found = answered(machine, "alltoall", 4096, 12, 2048)
    assert found is not None
    assert isinstance(found.algorithm, SymmetricAlgorithm)
    assert found.algorithm.num_sends == 4096 * 4096 * 6
    assert violations(found.algorithm) == []
    first, *rest = found.algorithm.sends
    assert violations(replace(found.algorithm, sends=tuple(rest)))
    assert first.chunk % 4096 == 0
