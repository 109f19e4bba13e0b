"""The search of a sweep, asked by invented machines: no solver, no folder, no clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.collectives import dual_of, named_spec
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Answer, Origin, Sat, Unknown, Unsat
from sccl.core.instance import Candidate, SweepRange
from sccl.core.step_limit import StepLimit
from sccl.synth.common.candidates import enumerate_candidates
from sccl.synth.syncoll.pareto import (
    BoundQuery,
    LimitQuery,
    ParetoSearch,
    SearchSpace,
    WhenToAskLimits,
)

_ALGORITHM = cast("Algorithm", None)  # a search never looks at it


@dataclass(frozen=True)
class World:
    """What is true on an invented machine, and of whom a solver knows it.

    Attributes:
        most: the largest C, by (S, R) of the dual: with another round there is no less.
        silent: candidates on which the solver gives up.
        slack: how far below the truth limits are, by S; none: they cannot be computed.
        looser: likewise of bounds, which come first.
    """

    space: SearchSpace
    most: dict[tuple[int, int], int]
    silent: frozenset[tuple[int, int, int]]
    slack: dict[int, Fraction]
    looser: dict[int, Fraction]

    def has(self, c: Candidate) -> bool:
        phases = self.space.dual.phases
        return c.chunks <= self.most[c.steps // phases, c.rounds // phases]

    def steps(self) -> range:
        return range(self.space.steps, self.space.last_steps + 1, self.space.dual.phases)

    def every(self, steps: int) -> list[Candidate]:
        space = self.space
        return sorted(enumerate_candidates(space.dual, space.bandwidth, steps, space.covered))

    def answer(self, c: Candidate) -> Answer:
        if (c.steps, c.rounds, c.chunks) in self.silent:
            return Unknown("gives up", "invented", 0.0)
        return Sat(_ALGORITHM, "invented", 0.0) if self.has(c) else Unsat("so", "invented", 0.0)

    def bound(self, steps: int) -> StepLimit | None:
        found = self.limit(steps, self.looser)
        return replace(found, upper=None) if found else None

    def limit(self, steps: int, slack: dict[int, Fraction] | None = None) -> StepLimit | None:
        """Return a bound that is true: of all k and C, of which there are those of the range."""
        slack = self.slack if slack is None else slack
        if steps not in slack:
            return None
        costs = [c.cost for s in self.steps() if s <= steps for c in self.every(s) if self.has(c)]
        lower = max(min(costs, default=self.space.bandwidth) - slack[steps], Fraction(0))
        return StepLimit(steps, lower, lower)

    def frontier(self) -> list[Candidate]:
        """Return what trying every candidate finds."""
        found: list[Candidate] = []
        for steps in self.steps():
            here = [c for c in self.every(steps) if self.has(c)]
            if here and (not found or here[0].cost < found[-1].cost):
                found.append(here[0])
            if found and found[-1].cost == self.space.bandwidth:
                break
        return found

    def moves(self, *, asked: list[Candidate] | None = None) -> Iterator[ParetoSearch]:
        """Yield the search after every answer, from the first state to the last."""
        search = ParetoSearch.start(self.space)
        yield search
        while (wanted := search.next_query()) is not None:
            if isinstance(wanted, BoundQuery):
                search = search.record_bound(self.bound(wanted.steps), 0.0)
            elif isinstance(wanted, LimitQuery):
                search = search.record_limit(self.limit(wanted.steps), 0.0)
            else:
                if asked is not None:
                    asked.append(wanted)
                search = search.record(self.answer(wanted))
            yield search


@st.composite
def worlds(draw: st.DrawFn, *, gives_up: bool = False) -> World:
    """Return a machine on which more rounds never carry less."""
    collective = draw(st.sampled_from(["allgather", "allreduce", "reducescatter", "broadcast"]))
    dual = dual_of(named_spec(collective, draw(st.integers(2, 3))))
    unit = dual.spec.unit * dual.chunk_factor
    k, first = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    levels = draw(st.integers(1, 4))
    bandwidth = Fraction(draw(st.integers(1, 8)), draw(st.integers(1, 4)) * unit)
    most_chunks = draw(st.integers(1, 8)) * unit
    space = SearchSpace(
        dual,
        first * dual.phases,
        bandwidth,
        (first + levels - 1) * dual.phases,
        SweepRange(k=k, max_chunks=most_chunks),
        draw(st.sampled_from(WhenToAskLimits)),
        draw(st.booleans()),
    )
    most: dict[tuple[int, int], int] = {}
    for steps in range(first, first + levels):
        chunks = 0
        for rounds in range(steps, steps + k + 1):
            chunks = max(chunks, draw(st.integers(0, most_chunks)))
            most[steps, rounds] = chunks
    world = World(space, most, frozenset(), {}, {})
    every = [(c.steps, c.rounds, c.chunks) for s in world.steps() for c in world.every(s)]
    silent = draw(st.sets(st.sampled_from(every))) if gives_up and every else set()
    slack, looser = (
        {s: Fraction(draw(st.integers(0, 4)), 4) for s in world.steps() if draw(st.booleans())}
        for _ in range(2)
    )
    return World(space, most, frozenset(silent), slack, looser)


def last(moves: Iterator[ParetoSearch]) -> ParetoSearch:
    *_, search = moves
    return search


@given(worlds())
def test_it_finds_what_trying_everything_finds(world: World) -> None:
    search = last(world.moves())
    assert [best.candidate for best in search.optima] == world.frontier()
    assert all(best.proved for best in search.optima)
    assert search.open == ()
    met = bool(search.optima) and search.optima[-1].candidate.cost == world.space.bandwidth
    assert search.stopped == ("bandwidth-bound" if met else "max-steps")


@given(worlds(gives_up=True))
def test_it_never_asks_what_follows_from_what_it_knows(world: World) -> None:
    asked: list[Candidate] = []
    before = None
    for search in world.moves(asked=asked):
        if before is not None and isinstance(candidate := before.next_query(), Candidate):
            refuted = (r.candidate for r in before.level.refuted)
            assert not any(c.implies_unsat(candidate) for c in refuted)
            assert before.level.best is None or candidate < before.level.best
            assert all(candidate.cost < best.candidate.cost for best in before.optima)
            limit = before.current_limit
            assert limit is None or candidate.cost >= limit.lower
        before = search
    assert len(asked) == len(set(asked))


@given(worlds(gives_up=True))
def test_what_is_refuted_has_no_algorithm_and_what_is_proved_is_not_dominated(
    world: World,
) -> None:
    search = last(world.moves())
    assert not any(world.has(r.candidate) for r in search.refuted)
    true = [c for s in world.steps() for c in world.every(s) if world.has(c)]
    for best in search.optima:
        assert world.has(best.candidate)
        assert not best.proved or not any(c.may_dominate(best.candidate) for c in true)


@given(worlds(gives_up=True), st.data())
def test_interrupted_anywhere_what_is_undecided_is_open(world: World, data: st.DataObject) -> None:
    moves = list(world.moves())
    at = data.draw(st.integers(0, len(moves) - 1))
    search = moves[at].stop_interrupted()
    assert search.stopped == (moves[-1].stopped if at == len(moves) - 1 else "interrupted")
    assert search.next_query() is None
    refuted = {r.candidate for r in search.refuted}
    undecided = {o.candidate for o in search.open}
    assert not refuted & undecided
    for steps in range(world.space.steps, search.level.steps + 1, world.space.dual.phases):
        bests = [best.candidate for best in search.optima if best.candidate.steps <= steps]
        for c in world.every(steps):
            is_cheaper = all(c.cost < best.cost for best in bests)
            assert not is_cheaper or c in refuted or c in undecided
    for best in search.optima:
        dominating = any(c.may_dominate(best.candidate) for c in undecided)
        assert best.proved is not dominating


@given(worlds(gives_up=True))
def test_what_is_asked_next_was_likely(world: World) -> None:
    for search in world.moves():
        wanted = search.next_query()
        if not isinstance(wanted, Candidate):
            continue
        likely = list(search.upcoming_candidates())
        assert likely[0] == wanted
        assert len(likely) == len(set(likely))
        for answer in (Sat(_ALGORITHM, "", 0.0), Unsat("", "", 0.0), Unknown("", "", 0.0)):
            following = search.level.record(answer).next_candidate()
            assert following is None or isinstance(answer, Unknown) or following in likely


@given(worlds())
def test_a_search_is_a_value(world: World) -> None:
    first, again = list(world.moves()), list(world.moves())
    assert first == again
    assert first[0] == ParetoSearch.start(world.space)


@given(worlds())
def test_it_is_whole_only_if_no_k_gives_more(world: World) -> None:
    search = last(world.moves())
    if not search.optima or not search.is_complete_for_any_k:
        return
    lower = {limit.steps: limit.lower for limit in search.limits}
    for steps in range(world.space.steps, search.optima[-1].candidate.steps):
        costs = [b.candidate.cost for b in search.optima if b.candidate.steps <= steps]
        if steps in world.steps():
            assert min(costs) <= lower[steps]


@pytest.mark.parametrize("when", WhenToAskLimits)
def test_when_limits_are_asked_for(when: WhenToAskLimits) -> None:
    space = SearchSpace(
        dual_of(named_spec("allgather", 3)), 1, Fraction(1), 1, SweepRange(k=2, max_chunks=2), when
    )
    search = ParetoSearch.start(space)
    wanted = []
    while (question := search.next_query()) is not None:
        wanted.append(isinstance(question, LimitQuery))
        if isinstance(question, LimitQuery):
            search = search.record_limit(None, 0.0)
        else:
            search = search.record(Unknown("gives up", "invented", 0.0))
    expected = {
        WhenToAskLimits.NEVER: [],
        WhenToAskLimits.FIRST: [0],
        WhenToAskLimits.IF_NOT_CHEAPEST: [1],
    }
    assert [i for i, is_limit in enumerate(wanted) if is_limit] == expected[when]


@given(worlds(), st.data())
def test_search_proves_nothing_on_the_word_of_an_unverified_origin(
    world: World, data: st.DataObject
) -> None:
    lies: set[Candidate] = set()
    search = ParetoSearch.start(world.space)
    while (wanted := search.next_query()) is not None:
        if isinstance(wanted, BoundQuery):
            search = search.record_bound(world.bound(wanted.steps), 0.0)
        elif isinstance(wanted, LimitQuery):
            search = search.record_limit(world.limit(wanted.steps), 0.0)
        elif data.draw(st.booleans()):
            lies.add(wanted)
            search = search.record(Unsat("a claim", "invented", 0.0, origin=Origin.CLUSTER))
        else:
            search = search.record(world.answer(wanted))
    true = [c for steps in world.steps() for c in world.every(steps) if world.has(c)]
    for best in search.optima:
        if best.proved:
            assert not any(c.may_dominate(best.candidate) for c in true)
        else:
            assert best.rests_on == (Origin.CLUSTER,)
    for one in search.refuted:
        assert not world.has(one.candidate)
    if not lies:
        assert not search.open


@given(worlds(), st.data())
def test_search_names_the_origins_that_a_proof_rests_on(world: World, data: st.DataObject) -> None:
    search = ParetoSearch.start(world.space)
    while (wanted := search.next_query()) is not None:
        if isinstance(wanted, BoundQuery):
            search = search.record_bound(world.bound(wanted.steps), 0.0)
        elif isinstance(wanted, LimitQuery):
            search = search.record_limit(world.limit(wanted.steps), 0.0)
        else:
            answer = world.answer(wanted)
            if isinstance(answer, Unsat) and data.draw(st.booleans()):
                answer = replace(answer, origin=Origin.STORE_FILE, trusted=True)
            search = search.record(answer)
    assert [best.candidate for best in search.optima] == world.frontier()
    for best in search.optima:
        assert best.proved
        needed = {r.origin for r in search.refuted if r.candidate.may_dominate(best.candidate)}
        if best.within is None:  # limits prove it, whatever the range
            assert best.rests_on == ()
        else:
            assert best.rests_on == tuple(sorted(needed - {Origin.THIS_PROCESS}))
