"""Process groups in steps and rounds: verdicts, frontiers, limits and certificates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import collective_names, dual_of, named_spec, resolve_collective
from sccl.core.answer import Sat, Unsat
from sccl.core.collective import Collective
from sccl.core.files.claims import CLAIMS
from sccl.core.frontier import COMPOSED, TREES, Frontier
from sccl.core.instance import SweepRange
from sccl.core.topology import Link, Topology
from sccl.errors import InputError
from sccl.judge import violations
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.prove.check.allreduce import is_composition
from sccl.prove.check.certificate import check_folder
from sccl.prove.check.coverage import enumerate_round_vectors
from sccl.solvers.effort import Effort
from sccl.synth.allreduce.certify import certify_frontier, certify_limits
from sccl.synth.allreduce.limit_search import find_limits
from sccl.synth.allreduce.pareto_search import find_frontier
from sccl.synth.common.problem import build_problem
from sccl.synth.common.settings import Settings
from sccl.synth.syncoll.question_search import find_algorithm
from sccl.topo import resolve_topology as machine
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform import build_question
from tests.kit.nightly import times
from tests.kit.strategies import topologies

QUICK = Settings("cpsat", Effort(20.0, 0), no_store=True)

Held = frozenset[tuple[int, int]]
"""(chunk, rank)."""


def ways(topology: Topology, collective: Collective, held: Held, rounds: int) -> Iterator[Held]:
    """Yield what ranks may hold after a step, by all that links may carry in it."""
    everything = range(collective.num_chunks)
    links = sorted(topology.lanes().items())
    choices = []
    for (u, v), lanes in links:
        fresh = [c for c in everything if (c, u) in held and (c, v) not in held]
        most = min(len(fresh), lanes * rounds)
        sets = [s for s in product((False, True), repeat=len(fresh)) if sum(s) <= most]
        choices.append([tuple(c for c, yes in zip(fresh, s, strict=True) if yes) for s in sets])
    for chosen in product(*choices):
        sent = {edge: len(chunks) for (edge, _), chunks in zip(links, chosen, strict=True)}
        if all(
            sum(sent[edge] for edge in budget.edges) <= budget.chunks_per_round * rounds
            for budget in topology.budgets
        ):
            moved = {(c, v) for ((_, v), _), cs in zip(links, chosen, strict=True) for c in cs}
            yield held | moved


def maximal(states: set[Held]) -> set[Held]:
    """Return those that no other has more than: holding more never hurts."""
    return {one for one in states if not any(one < other for other in states)}


def there_is(topology: Topology, collective: Collective, steps: int, rounds: int) -> bool:
    """Return whether there is an algorithm, by trying all of them."""
    chunks = range(collective.num_chunks)
    begin = frozenset((c, int(r)) for c in chunks for r in collective.holders(c))
    goal = {(c, int(r)) for c in chunks for r in collective.destinations(c)}
    for vector in enumerate_round_vectors(rounds, steps, 100):
        states = {begin}
        for each in vector:
            states = maximal({n for s in states for n in ways(topology, collective, s, each)})
        if any(goal <= state for state in states):
            return True
    return False


@st.composite
def pairs_of_groups(draw: st.DrawFn) -> str:
    """Return a collective in two groups of four ranks, or two collectives."""
    a, b, c, d = draw(st.permutations(range(4)))
    plain = st.sampled_from(["allgather", "broadcast", "gather", "scatter", "alltoall"])
    first = draw(plain)
    second = draw(st.sampled_from([None, first]) | plain)
    if second in {None, first}:
        return f"{first}@{a},{b}/{c},{d}"
    return f"{first}@{a},{b}+{second}@{c},{d}"


@st.composite
def of_four(draw: st.DrawFn) -> Topology:
    """Return a ring of four ranks, one way, with few links more."""
    order = draw(st.permutations(range(4)))
    edges = {(order[i], order[(i + 1) % 4]) for i in range(4)}
    others = sorted({(u, v) for u in range(4) for v in range(4) if u != v} - edges)
    edges |= draw(st.sets(st.sampled_from(others), max_size=2))
    links = tuple(Link(u, v, 1, 1.0, 10.0) for u, v in sorted(edges))
    return Topology("random", 4, links, 1.0, 10.0)


@settings(max_examples=times(30, by_day=10), deadline=None)
@given(of_four(), pairs_of_groups(), st.integers(1, 3), st.integers(0, 1))
def test_a_verdict_is_that_of_trying_everything(
    topology: Topology, text: str, steps: int, more: int
) -> None:
    spec = resolve_collective(text, 4)
    question = build_question(topology, spec, spec.unit, steps, steps + more)
    answer = find_algorithm(spec, question, QUICK)
    expected = there_is(topology, spec.at(spec.unit), steps, steps + more)
    assert isinstance(answer, Sat if expected else Unsat)


def shape(found: Frontier) -> list[tuple[str, int, str, int | None, bool]]:
    """Return what a frontier says of each point, but for classes that groups do not have."""
    return [
        (one.name, p.steps, str(p.cost), p.chunks, p.is_proved)
        for one in found.classes
        for p in one.points
        if one.name != "exchanged"
    ]


@pytest.mark.parametrize("name", collective_names())
def test_one_group_of_all_ranks_has_the_frontier_of_the_collective(name: str) -> None:
    """Its ranks in an order that a symmetry of the ring gives, so that it is no longer by name."""
    ring = machine("ring:4")
    each = named_spec(name, 4), resolve_collective(f"{name}@1,2,3,0", 4)
    assert each[1].pre.pattern
    swept, limits = [], []
    for spec in each:
        swept.append(find_frontier(ring, spec, SweepRange(1, 4), QUICK))
        limits.append(find_limits(ring, spec, 4, QUICK))
    for one, other in (swept, limits):
        least = [(s, cost) for _, s, cost, _, _ in shape(one)]
        assert least == [(s, cost) for _, s, cost, _, _ in shape(other)]
        assert least


@pytest.mark.parametrize("name", ["allgather", "alltoall", "reducescatter", "allreduce", "reduce"])
def test_groups_that_no_link_joins_are_as_one_by_itself(name: str) -> None:
    ring = machine("ring:3")
    twice = tuple(
        Link(k.src + more, k.dst + more, 1, 1.0, 10.0) for more in (0, 3) for k in ring.links
    )
    apart = Topology("apart", 6, twice, 1.0, 10.0)
    alone, both = named_spec(name, 3), resolve_collective(f"{name}@2x3", 6)
    of = partial(find_frontier, covered=SweepRange(1, 3), settings=QUICK)
    one, two = of(ring, alone), of(apart, both)
    assert shape(one) == shape(two)
    least = [lower_bounds(ring, alone), lower_bounds(apart, both)]
    assert (least[0].steps, least[0].bandwidth) == (least[1].steps, least[1].bandwidth)


def test_links_of_others_are_used() -> None:
    """Two ranks by themselves take a round for each chunk; half of it goes through the others."""
    found = find_frontier(
        machine("full:4"), resolve_collective("allgather@0-1/2-3", 4), SweepRange(1, 3), QUICK
    )
    assert [(p.steps, str(p.cost)) for p in found.points] == [(1, "1"), (2, "1/2")]
    through = found.points[-1].algorithm
    assert through is not None
    assert violations(through) == []


@settings(max_examples=times(20, by_day=6), deadline=None)
@given(topologies(), st.data())
def test_no_allreduce_in_groups_is_beneath_its_bounds(
    topology: Topology, data: st.DataObject
) -> None:
    if topology.ranks < 4:
        return
    a, b, c, d = data.draw(st.permutations(range(4)))
    spec = resolve_collective(f"allreduce@{a},{b}/{c},{d}", topology.ranks)
    bounds = any_class_bounds(topology, spec)
    found = find_frontier(topology, spec, SweepRange(1, 2 * bounds.steps), QUICK)
    assert found.bounds == bounds
    assert found.points
    for point in found.points:
        assert point.steps >= bounds.steps
        assert point.cost >= bounds.bandwidth
        assert point.algorithm is not None
        assert violations(point.algorithm) == []


def test_unequal_groups_divide_their_buffers_alike() -> None:
    """Each rank of two and of three has as much: C is a multiple of both."""
    machine_ = machine("full:5")
    spec = resolve_collective("allreduce@0-1/2-4", 5)
    assert spec.unit == 6
    found = find_limits(machine_, spec, 2, QUICK)
    costs = {one.name: [(p.steps, str(p.cost)) for p in one.points] for one in found.classes}
    # two ranks have a link for both halves; trees of theirs turn at others, too
    assert costs == {COMPOSED: [(2, "1")], TREES: [(2, "2/5")]}
    assert [one.name for one in found.skipped] == ["gathered"]
    (point,) = found.points
    assert found.gap_to_any_class(point) == 0  # no allreduce has less


@pytest.mark.parametrize(
    "text",
    ["allgather@0-1/2-3", "reducescatter@2x2.strided", "allreduce@2x2", "broadcast@0-1:1/2-3:3"],
)
def test_claims_are_certified(tmp_path: Path, text: str) -> None:
    subject = build_problem(machine("ring:4"), text)
    found = find_frontier(subject.topology, subject.spec, SweepRange(1, 2), QUICK)
    certify_frontier(subject, found, QUICK, tmp_path / "swept")
    limits = find_limits(subject.topology, subject.spec, 2, QUICK)
    certify_limits(subject, limits, 2, QUICK, tmp_path / "limits")
    for folder in ("swept", "limits"):
        verdicts = list(check_folder(tmp_path / folder))
        assert {verdict.state for verdict in verdicts} == {"ok"}


def test_claims_about_multiples_of_the_least_c_are_refused(tmp_path: Path) -> None:
    subject = build_problem(machine("ring:4"), "allgather@0-1/2-3")
    found = find_frontier(subject.topology, subject.spec, SweepRange(1, 2), QUICK)
    certify_frontier(subject, found, QUICK, tmp_path)
    file = tmp_path / CLAIMS
    claims = json.loads(file.read_text())
    twice = claims["collective"]
    for relation in (twice["pre"], twice["post"]):
        period = relation["period"]
        relation["pairs"] += [[chunk + period, rank] for chunk, rank in relation["pairs"]]
        relation["period"] *= 2
    twice["chunks"], twice["num_chunks"] = 2 * twice["chunks"], 2 * twice["num_chunks"]
    claims.pop("digest", None)
    file.write_text(json.dumps(claims))
    with pytest.raises(InputError, match="it has 2 chunks, expected 1, the smallest"):
        list(check_folder(tmp_path))


def test_a_composition_is_one_of_halves_in_the_same_groups() -> None:
    spec = resolve_collective("allreduce@0,2/3,1", 4)
    dual = dual_of(spec)
    answer = find_algorithm(spec, build_question(machine("full:4"), spec, 2, 2, 2), QUICK)
    assert isinstance(answer, Sat)
    algorithm = expand_algorithm(answer.algorithm)
    assert is_composition(algorithm, dual, 1)
    other = dual_of(resolve_collective("allreduce@0,1/2,3", 4))
    assert not is_composition(algorithm, other, 1)
    late = replace(algorithm, rounds_per_step=(1, 1, 1))
    assert not is_composition(late, dual, 2)
