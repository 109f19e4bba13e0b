"""Symmetries: search, known ones, user input and checks, synthesis, and the streaming judge."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec, dual_of, named_spec
from sccl.core.algorithm import Send
from sccl.core.answer import Sat, Unknown
from sccl.core.collective import Collective
from sccl.core.files.algorithms import load_algorithm
from sccl.core.ids import ChunkId, Rank, Step
from sccl.core.instance import Instance
from sccl.core.symmetric import Group, SymmetricAlgorithm, Symmetry
from sccl.core.topology import Budget, Switch, Topology
from sccl.errors import (
    CollectiveError,
    FormatError,
    InputError,
    JudgeError,
    ParameterError,
    TooLargeError,
)
from sccl.formats.files.plans import write_plan
from sccl.judge import require_valid, violations
from sccl.judge.plans import stream_violations
from sccl.judge.steps_arrays import first_violation
from sccl.judge.violation import Violation
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.syncoll import solve
from sccl.synth.syncoll.symmetric_search import answer as symmetric_answer
from sccl.topo import resolve_topology
from sccl.topo.symmetry.automorphisms import automorphisms, check_symmetry
from sccl.topo.symmetry.chunk_orbits import chunk_orbits, expanded_sends
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.topo.symmetry.group_choice import candidate_groups, semiregular_groups
from sccl.topo.symmetry.permutations import (
    compose,
    identity_permutation,
    is_semiregular,
    permutation_cycles,
    permutation_order,
    power,
    rank_orbits,
)
from tests.kit.nightly import times
from tests.kit.strategies import specs, topologies
from tests.kit.symmetric import instance_of, symmetric, under


def closure(generators: tuple[tuple[int, ...], ...], ranks: int) -> set[tuple[int, ...]]:
    group = {tuple(range(ranks))}
    for element in (queue := list(group)):
        for g in generators:
            if (image := tuple(g[r] for r in element)) not in group:
                group.add(image)
                queue.append(image)
    return group


@pytest.mark.parametrize("text", ["dgx1", "z52", "ring:5", "mesh:2x3", "torus:3x3", "hypercube:3"])
def test_all_automorphisms_are_found(text: str) -> None:
    """Against networkx, which lists them all."""
    machine = resolve_topology(text)
    found = automorphisms(machine, named_spec("allgather", machine.ranks).at(1))
    graph = nx.DiGraph()
    graph.add_weighted_edges_from((u, v, n) for (u, v), n in machine.lanes().items())
    matcher = nx.isomorphism.DiGraphMatcher(
        graph, graph, edge_match=lambda a, b: a["weight"] == b["weight"]
    )
    assert len(closure(found, machine.ranks)) == sum(1 for _ in matcher.isomorphisms_iter())


@given(topologies(max_ranks=5), st.data())
def test_found_symmetries_pass_the_check(machine: Topology, data: st.DataObject) -> None:
    spec = dual_of(data.draw(specs(machine.ranks))).spec
    collective = spec.at(spec.unit)
    found = automorphisms(machine, collective)
    for image in closure(found, machine.ranks):
        check_symmetry(machine, collective, image)
    other = tuple(data.draw(st.permutations(range(machine.ranks))))
    if other not in closure(found, machine.ranks):
        with pytest.raises(ParameterError):
            check_symmetry(machine, collective, other)


def test_error_names_the_image_that_breaks() -> None:
    ring, allgather = resolve_topology("ring:4"), named_spec("allgather", 4).at(1)
    check_symmetry(ring, allgather, (1, 2, 3, 0))
    bus = Budget("bus", ((0, 1), (1, 2)), 1)
    wide = replace(ring.links[0], lanes=2)
    turn = (1, 2, 3, 0)
    for machine, collective, image, says in (
        (
            ring,
            allgather,
            (1, 0, 2, 3),
            "link 0->3 with 1 lane maps to 1->3, which does not",
        ),
        (ring, allgather, (0, 0, 1, 2), "each rank from 0 to 3 once"),
        (
            replace(ring, links=(wide, *ring.links[1:])),
            allgather,
            (1, 2, 3, 0),
            "which has 1 lane",
        ),
        (replace(ring, budgets=(bus,)), allgather, turn, "budget 'bus'"),
        (ring, named_spec("broadcast", 4).at(1), turn, "the root 0 maps to rank 1"),
    ):
        with pytest.raises(ParameterError) as error:
            check_symmetry(machine, collective, image)
        assert says in str(error.value)


@settings(max_examples=times(100))
@given(st.permutations(range(9)), st.integers(0, 40))
def test_powers_of_permutations(image: list[int], exponent: int) -> None:
    """The cycles agree with repeated application."""
    one, again = tuple(image), identity_permutation(9)
    for _ in range(exponent):
        again = compose(again, one)
    assert power(one, exponent) == again
    assert sorted(rank for cycle in permutation_cycles(one) for rank in cycle) == list(range(9))
    order = permutation_order(one)
    assert power(one, order) == identity_permutation(9)
    assert all(power(one, less) != identity_permutation(9) for less in range(1, order))
    for group in semiregular_groups([one], 9):
        assert is_semiregular(group)
        assert group == closure(tuple(group), 9)
        assert len(group) > 1
    whole = {len(cycle) for cycle in permutation_cycles(one)}
    assert (len(whole) == 1 and whole != {1}) == any(one in g for g in semiregular_groups([one], 9))


def group_of(machine: str, collective: str, chunks: int, choice: str = "auto") -> tuple[Group, ...]:
    topology = resolve_topology(machine)
    return candidate_groups(topology, named_spec(collective, topology.ranks).at(chunks), choice)


@pytest.mark.parametrize(
    ("machine", "collective", "chunks", "names"),
    [
        ("torus:4x4", "allgather", 4, ["translations and turns of order 4",
                                       "translations and turns of order 2", "translations"]),
        ("torus:4x4", "allgather", 3, ["translations"]),
        ("torus:4x4x4", "allgather", 6, ["translations and turns of order 6",
                                         "translations and turns of order 3",
                                         "translations and turns of order 2", "translations"]),
        ("hypercube:4", "allgather", 4, ["translations and turns of order 4",
                                         "translations and turns of order 2", "translations"]),
        ("torus:4x4", "broadcast", 4, ["turns of order 4 about rank 0",
                                       "turns of order 2 about rank 0"]),
        ("circulant:8:1,3", "alltoall", 8, ["translations"]),
        ("dgx1", "allgather", 1, ["4 symmetries that move every rank",
                                  "2 symmetries that move every rank"]),
        ("dgx2", "allgather", 1, None),
        ("line:4", "broadcast", 1, []),
    ],
)  # fmt: skip
def test_groups(machine: str, collective: str, chunks: int, names: list[str] | None) -> None:
    found = group_of(machine, collective, chunks)
    if names is not None:
        assert [g.name for g in found] == names
    topology = resolve_topology(machine)
    at = named_spec(collective, topology.ranks).at(chunks)
    for group in found:
        for symmetry in group.generators:
            check_symmetry(topology, at, symmetry.ranks)
            assert sorted(symmetry.chunk_images(at)) == list(range(at.num_chunks))
    assert group_of(machine, collective, chunks, "none") == ()
    only = group_of(machine, collective, chunks, "translations")
    assert all(s.chunk_shift == 0 for g in only for s in g.generators)


def test_machine_that_only_bears_a_name_is_found_out() -> None:
    line = replace(resolve_topology("line:4"), name="ring:4")
    names = [g.name for g in candidate_groups(line, named_spec("allgather", 4).at(1), "auto")]
    assert names == ["2 symmetries that move every rank"]


def write(path: Path, **content: object) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def test_groups_from_files(tmp_path: Path) -> None:
    file = tmp_path / "g.json"
    turn = {"ranks": [1, 2, 3, 0], "turn": 1, "period": 4}
    (group,) = group_of("ring:4", "allgather", 4, write(file, generators=[turn]))
    assert group.generators == (Symmetry((1, 2, 3, 0), 1, 4),)
    offsets = write(file, offsets=[[8, 16]])  # as in TACCL's sketches: chassis 0 to chassis 1
    (group,) = group_of("ndv2x2", "allgather", 1, offsets)
    assert group.generators[0].ranks == (*range(8, 16), *range(8))
    for content, says in (
        ({}, "no symmetry is given"),
        ({"generators": [{"ranks": [1, 0]}]}, "one for each of 4 ranks"),
        ({"generators": [{"ranks": [1, 0, 2, 3]}]}, "does not exist"),
        ({"offsets": [[1, 3]]}, "does not divide 4 ranks"),
        ({"generator": []}, "unknown field"),
    ):
        with pytest.raises(InputError, match=says):
            group_of("ring:4", "allgather", 4, write(file, **content))
    of_three = write(file, generators=[{"ranks": [1, 2, 3, 0], "turn": 1, "period": 3}])
    assert group_of("ring:4", "allgather", 4, of_three) == ()
    assert len(group_of("ring:4", "allgather", 6, of_three)) == 1
    with pytest.raises(ParameterError, match="expected auto, none, translations"):
        group_of("ring:4", "allgather", 4, "all")
    with pytest.raises(InputError, match="cannot read"):
        group_of("ring:4", "allgather", 4, str(tmp_path / "none.json"))


BOTH_OPTIMAL = [
    ("torus:4x4", "allgather", 4, 4, 15),
    ("torus:8x8", "allgather", 4, 8, 63),
    ("torus:16x8", "allgather", 4, 12, 127),
    ("torus:3x5", "allgather", 2, 3, 7),
    ("hypercube:6", "allgather", 6, 6, 63),
    ("torus:4x4x4", "allgather", 6, 6, 63),
    ("ring:9", "allgather", 2, 4, 8),
    ("full:7", "allgather", 1, 1, 1),
    ("mesh:4x4", "allgather", 2, 6, 15),
    ("dgx2", "allgather", 2, 1, 5),
    ("torus:4x4", "alltoall", 16, 4, 8),
    ("torus:5x5", "alltoall", 25, 4, 15),
    ("hypercube:4", "alltoall", 16, 4, 8),
    ("torus:4x4", "gather", 4, 4, 15),
]


@pytest.mark.parametrize("case", BOTH_OPTIMAL, ids=lambda c: "-".join(map(str, c)))
def test_algorithms_that_meet_both_bounds(case: tuple[str, str, int, int, int]) -> None:
    instance = instance_of(*case)
    spec = named_spec(case[1], instance.topology.ranks)
    bounds = lower_bounds(instance.topology, spec)
    assert bounds.steps == case[3]
    assert bounds.bandwidth * case[2] == case[4]
    found = under(instance)
    assert isinstance(found, Sat)
    assert violations(found.algorithm) == []
    plain = expand_algorithm(found.algorithm)
    assert violations(plain) == []  # the other judge, on all sends one by one
    assert len(plain.sends) == found.algorithm.num_sends


def test_thousand_ranks() -> None:
    found = solve.solve(
        instance := instance_of("torus:32x32", "allgather", 4, 32, 1023),
        groups=candidate_groups(instance.topology, instance.collective, "auto"),
    )
    assert isinstance(found, Sat)
    assert isinstance(found.algorithm, SymmetricAlgorithm)
    assert found.algorithm.num_sends == 4 * 1024 * 1023


def test_no_symmetric_algorithm_is_unknown_and_then_the_solver_decides() -> None:
    instance = instance_of("dgx1", "broadcast", 1, 2, 2)
    turned = replace(
        instance, topology=resolve_topology("ring:4"), collective=named_spec("broadcast", 4).at(1)
    )
    mirror = Symmetry((0, 3, 2, 1))  # rank 2 would be reached twice
    found = symmetric_answer(turned, [Group("mirror", (mirror,))], solve.Effort(10.0))
    assert isinstance(found, Unknown)
    assert "mirror: none exists" in str(found.reason)
    assert "proves nothing about others" in str(found.reason)
    assert isinstance(solve.solve(turned, groups=[Group("mirror", (mirror,))]), Sat)
    with pytest.raises(ParameterError):
        check_symmetry(instance.topology, instance.collective, (1, 0, 2, 3, 4, 5, 6, 7))


@settings(max_examples=times(40))
@given(topologies(max_ranks=4), st.data())
def test_symmetric_algorithms_of_random_machines_are_valid(
    machine: Topology, data: st.DataObject
) -> None:
    spec: Spec = dual_of(data.draw(specs(machine.ranks))).spec
    collective = spec.at(spec.unit * data.draw(st.sampled_from([1, 2])))
    steps, extra = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 3))
    instance = Instance(machine, collective, steps, steps + extra)
    images = automorphisms(machine, collective)
    if not images:
        return
    some = tuple(Symmetry(image) for image in images)
    found = symmetric_answer(instance, [Group("all", some)], solve.Effort(10.0))
    if isinstance(found, Sat):
        assert violations(found.algorithm) == []
        assert violations(expand_algorithm(found.algorithm)) == []
        assert isinstance(solve.solve(instance), Sat)


def test_chunk_orbits_and_their_ways() -> None:
    machine = resolve_topology("torus:3x3")
    collective = named_spec("alltoall", 9).at(18)
    generators = candidate_groups(machine, collective, "auto")[-1].generators
    orbits = chunk_orbits(collective, generators)
    assert sorted(c for o in orbits for c in o.chunks) == list(range(collective.num_chunks))
    for orbit in orbits:
        first = orbit.chunks[0]
        for chunk, way in orbit.images_from():
            for here, there in (
                (collective.holders(first), collective.holders(chunk)),
                (collective.destinations(first), collective.destinations(chunk)),
            ):
                assert {int(way[r]) for r in here} == set(there)


# --- the streaming judge -------------------------------------------------------------------------


@pytest.mark.parametrize("judge", [violations, stream_violations])
def test_judges_of_symmetric_algorithms_see_every_kind_of_violation(
    judge: Callable[[SymmetricAlgorithm], list[Violation]],
) -> None:
    """By the sends of one chunk, and by all sends."""

    def kind(algorithm: SymmetricAlgorithm) -> str:
        found = judge(algorithm)
        return found[0].kind if found else ""

    good = symmetric()
    assert kind(good) == ""
    first, *rest = good.sends
    assert kind(replace(good, sends=tuple(rest))) in {"availability", "postcondition"}
    assert kind(replace(good, rounds_per_step=(1, *good.rounds_per_step[1:]))) == "bandwidth"
    assert kind(replace(good, rounds_per_step=(0, *good.rounds_per_step[1:]))) == "rounds"
    assert kind(replace(good, rounds_per_step=good.rounds_per_step[:-1])) == "range"
    far = replace(first, dst=Rank(10))
    assert kind(replace(good, sends=(far, *rest))) == "link"
    early = [replace(s, step=first.step) if s.step == 1 else s for s in good.sends]
    assert kind(replace(good, sends=tuple(early), rounds_per_step=(99, 99, 99, 99))) == (
        "availability"
    )
    with pytest.raises(JudgeError, match="somebody"):
        require_valid(replace(good, sends=tuple(rest)), "somebody")
    other = replace(first, chunk=ChunkId(1))
    with pytest.raises(ParameterError, match="two chunks of one orbit"):
        judge(replace(good, sends=(*good.sends, other)))
    with pytest.raises(ParameterError, match="do not fit"):
        judge(replace(good, symmetries=(Symmetry(tuple(range(16)), 1, 3),)))


@settings(max_examples=times(60))
@given(st.randoms())
def test_both_judges_agree_on_damaged_algorithms(rng: random.Random) -> None:
    good = symmetric()
    sends = list(good.sends)
    for _ in range(rng.randint(1, 3)):
        i = rng.randrange(len(sends))
        field = rng.choice(["drop", "step", "src", "dst"])
        if field == "drop":
            del sends[i]
        elif field == "step":
            sends[i] = replace(sends[i], step=Step(rng.randrange(4)))
        elif field == "src":
            sends[i] = replace(sends[i], src=Rank(rng.randrange(16)))
        else:
            sends[i] = replace(sends[i], dst=Rank(rng.randrange(16)))
    rounds = list(good.rounds_per_step)
    rounds[rng.randrange(4)] += rng.choice([-1, 0, 0, 1])
    damaged = replace(
        good,
        sends=tuple(sends),
        rounds_per_step=tuple(rounds),
        num_sends=len(sends) * good.num_sends // len(good.sends),
    )
    found = bool(violations(expand_algorithm(damaged)))
    assert bool(violations(damaged)) == bool(stream_violations(damaged)) == found


def nothing_sent(machine: Topology, collective: Collective) -> SymmetricAlgorithm:
    return SymmetricAlgorithm(machine, collective, (1,), (), (), 0)


def test_streams_of_combining_collectives_are_rejected() -> None:
    machine = resolve_topology("ring:4")
    with pytest.raises(CollectiveError, match="reduces"):
        first_violation(nothing_sent(machine, named_spec("allreduce", 4).at(4)), [])
    none = np.array([], np.int32)
    batches = [(0, none, none, none)]
    found = first_violation(nothing_sent(machine, named_spec("allgather", 4).at(1)), batches)
    assert found is not None
    assert found.kind == "postcondition"


def test_files_of_symmetric_algorithms(tmp_path: Path) -> None:
    good = symmetric()
    path = tmp_path / "a.json"
    write_plan(path, good)
    assert load_algorithm(path) == (good, True)
    text = path.read_text()
    path.write_text(text.replace('"num_sends": 960', '"num_sends": 961'))
    assert load_algorithm(path)[1] is False
    for old, new, says in (
        ('"ranks": [4, 5, 6', '"ranks": [5, 5, 6', "each rank from 0 to 15 once"),
        ("[0, 0, 0, 1]", "[0, 0, 0, 16]", "does not exist"),
        ("[0, 0, 0, 1]", "[0, -1, 0, 1]", "does not exist"),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(FormatError, match=says):
            load_algorithm(path)


def test_too_large_algorithm_is_reported() -> None:
    huge = replace(symmetric(), num_sends=10**9)
    with pytest.raises(TooLargeError, match="can be verified but not listed"):
        expand_algorithm(huge)


def test_sends_come_by_chunk_and_all_of_them() -> None:
    good = symmetric()
    chunks = [chunk for chunk, *_ in expanded_sends(good)]
    assert sorted(chunks) == list(range(64))
    every = {
        (int(step), chunk, int(u), int(v))
        for chunk, steps, sources, destinations in expanded_sends(good)
        for step, u, v in zip(steps, sources, destinations, strict=True)
    }
    assert len(every) == good.num_sends == 960
    assert every == {(s.step, s.chunk, s.src, s.dst) for s in expand_algorithm(good).sends}
    assert all(isinstance(s, Send) for s in good.sends)


def test_rank_orbits_of_a_mesh() -> None:
    machine = resolve_topology("mesh:3x3")
    collective: Collective = named_spec("allgather", 9).at(1)
    found = rank_orbits(machine, automorphisms(machine, collective))
    assert found == {0: [0, 2, 6, 8], 1: [1, 3, 5, 7], 4: [4]}


def test_switches_are_no_other_ranks() -> None:
    """A link to a switch must not be taken for one between two ranks."""
    ring = resolve_topology("ring:2")
    machine = replace(ring, switches=(Switch("s"),), links=(replace(ring.links[0], src=0, dst=2),))
    broadcast = named_spec("broadcast", 2, 1).at(1)
    forged = SymmetricAlgorithm(
        machine, broadcast, (1,), (), (Send(Step(0), ChunkId(0), Rank(1), Rank(0)),), 1
    )
    assert [v.kind for v in violations(forged)] == ["link"]
    assert automorphisms(machine, named_spec("allgather", 2).at(1)) == ()


def test_wrong_number_of_sends_is_seen() -> None:
    good = symmetric()
    assert [v.kind for v in violations(replace(good, num_sends=1))] == ["range"]


@pytest.mark.parametrize("name", ["hypercube:999999999999", "ring:" + "9" * 5000, "torus:x"])
def test_names_of_machines_are_no_sizes(name: str) -> None:
    machine = replace(resolve_topology("ring:5"), name=name)
    assert candidate_groups(machine, named_spec("allgather", 5).at(1), "translations")
