"""Algorithm 1 on invented machines: no solver, no folder, no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
from sccl.core.stop import INTERRUPTED, StopReason
from sccl.synth.common.candidates import enumerate_candidates
from sccl.synth.syncoll.pareto import ParetoSearch, SearchSpace, pareto_synthesize

_ALGORITHM = cast("Algorithm", None)  # a search never looks at it


@dataclass(frozen=True)
class World:
    """The truth on an invented machine, and the part of it that a solver knows.

    Attributes:
        space: the candidates.
        most: the largest C, by (S, R) of the dual: with another round there is no less.
        silent: candidates on which the solver gives up.
        limit_slack: how far below the truth limits are, by S. Without S: they cannot be computed.
        bound_slack: likewise of lower bounds, which come first.
        asks_limit_first: whether limits are quicker than queries.
        asks_costliest_first: whether bounds take longer than queries.
    """

    space: SearchSpace
    most: dict[tuple[int, int], int]
    silent: frozenset[tuple[int, int, int]] = frozenset()
    limit_slack: dict[int, Fraction] = field(default_factory=dict)
    bound_slack: dict[int, Fraction] = field(default_factory=dict)
    asks_limit_first: bool = False
    asks_costliest_first: bool = False

    def has(self, c: Candidate) -> bool:
        phases = self.space.dual.phases
        return c.chunks <= self.most[c.steps // phases, c.rounds // phases]

    def every(self, steps: int) -> list[Candidate]:
        space = self.space
        return sorted(enumerate_candidates(space.dual, space.bandwidth, steps, space.covered))

    def answer(self, c: Candidate) -> Answer:
        if (c.steps, c.rounds, c.chunks) in self.silent:
            return Unknown(StopReason.parse("gives up"), "invented", 0.0)
        return Sat(_ALGORITHM, "invented", 0.0) if self.has(c) else Unsat("so", "invented", 0.0)

    def limit(self, steps: int, slack: dict[int, Fraction]) -> StepLimit | None:
        """Return a bound that is true: of all k and C, of which there are those of the range."""
        if steps not in slack:
            return None
        counts = self.space.step_counts
        costs = [c.cost for s in counts if s <= steps for c in self.every(s) if self.has(c)]
        lower = max(min(costs, default=self.space.bandwidth) - slack[steps], Fraction(0))
        return StepLimit(steps, lower, lower)

    def frontier(self) -> list[Candidate]:
        """Return the frontier according to every candidate."""
        frontier: list[Candidate] = []
        for steps in self.space.step_counts:
            here = [c for c in self.every(steps) if self.has(c)]
            if here and (not frontier or here[0].cost < frontier[-1].cost):
                frontier.append(here[0])
            if frontier and frontier[-1].cost == self.space.bandwidth:
                break
        return frontier


@dataclass
class Recorder:
    """An oracle of a world that records its queries, and interrupts the search at one of them.

    Attributes:
        world: knows the answers.
        change_answer: what a search gets in place of the world's answer.
        interrupt_at: the number of the query that is interrupted.
        queries: "bound", "limit" or a candidate, with the search before it, where that is known.
    """

    world: World
    change_answer: Callable[[Candidate, Answer], Answer] = lambda _, answer: answer
    interrupt_at: int | None = None
    queries: list[tuple[str | Candidate, ParetoSearch | None]] = field(default_factory=list)

    @property
    def asks_limit_first(self) -> bool:
        return self.world.asks_limit_first

    @property
    def asks_costliest_first(self) -> bool:
        return self.world.asks_costliest_first

    def answer(self, candidate: Candidate, search: ParetoSearch) -> Answer:
        self.record(candidate, search)
        return self.change_answer(candidate, self.world.answer(candidate))

    def quick_bound(self, steps: int) -> tuple[StepLimit | None, float]:
        self.record("bound")
        bound = self.world.limit(steps, self.world.bound_slack)
        return (replace(bound, upper=None) if bound else None), 0.0

    def step_limit(self, steps: int) -> tuple[StepLimit | None, float]:
        self.record("limit")
        return self.world.limit(steps, self.world.limit_slack), 0.0

    def record(self, query: str | Candidate, search: ParetoSearch | None = None) -> None:
        if len(self.queries) == self.interrupt_at:
            raise KeyboardInterrupt
        self.queries.append((query, search))

    def search(self) -> ParetoSearch:
        return pareto_synthesize(self.world.space, self, lambda _: None)

    def candidates(self) -> list[tuple[Candidate, ParetoSearch]]:
        return [(query, s) for query, s in self.queries if isinstance(query, Candidate) and s]


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
    )
    most: dict[tuple[int, int], int] = {}
    for steps in range(first, first + levels):
        chunks = 0
        for rounds in range(steps, steps + k + 1):
            chunks = max(chunks, draw(st.integers(0, most_chunks)))
            most[steps, rounds] = chunks
    world = World(space, most)
    every = [(c.steps, c.rounds, c.chunks) for s in space.step_counts for c in world.every(s)]
    silent = draw(st.sets(st.sampled_from(every))) if gives_up and every else set()
    limit_slack, bound_slack = (
        {s: Fraction(draw(st.integers(0, 4)), 4) for s in space.step_counts if draw(st.booleans())}
        for _ in range(2)
    )
    orders = draw(st.booleans()), draw(st.booleans())
    return World(space, most, frozenset(silent), limit_slack, bound_slack, *orders)


@given(worlds())
def test_search_finds_the_frontier_of_all_candidates(world: World) -> None:
    search = Recorder(world).search()
    assert [best.candidate for best in search.optima] == world.frontier()
    assert all(best.proved for best in search.optima)
    assert search.open == ()
    met = bool(search.optima) and search.optima[-1].candidate.cost == world.space.bandwidth
    assert str(search.stop_reason) == ("bandwidth-bound" if met else "max-steps")


@given(worlds(gives_up=True))
def test_search_never_asks_about_a_consequence_of_earlier_answers(world: World) -> None:
    recorder = Recorder(world)
    recorder.search()
    asked = recorder.candidates()
    for candidate, before in asked:
        refuted = (r.candidate for r in before.level.refuted)
        assert not any(c.implies_unsat(candidate) for c in refuted)
        assert before.level.best is None or candidate < before.level.best
        assert all(candidate.cost < best.candidate.cost for best in before.optima)
        limit = before.current_limit
        assert limit is None or candidate.cost >= limit.lower
    assert len(asked) == len({candidate for candidate, _ in asked})


@given(worlds(gives_up=True))
def test_search_refutes_no_algorithm_and_proves_no_dominated_point(world: World) -> None:
    search = Recorder(world).search()
    assert not any(world.has(r.candidate) for r in search.refuted)
    true = [c for s in world.space.step_counts for c in world.every(s) if world.has(c)]
    for best in search.optima:
        assert world.has(best.candidate)
        assert not best.proved or not any(c.may_dominate(best.candidate) for c in true)


@given(worlds(gives_up=True), st.data())
def test_interrupted_search_leaves_undecided_candidates_open(
    world: World, data: st.DataObject
) -> None:
    whole = Recorder(world)
    whole.search()
    at = data.draw(st.integers(0, max(0, len(whole.queries) - 1)))
    recorder = Recorder(world, interrupt_at=at)
    search = recorder.search()
    assert search.stop_reason == (INTERRUPTED if whole.queries else whole.search().stop_reason)
    refuted = {r.candidate for r in search.refuted}
    undecided = {o.candidate for o in search.open}
    assert not refuted & undecided
    last_steps = max((s.level.steps for _, s in recorder.candidates()), default=0)
    for steps in world.space.step_counts:
        if steps > last_steps:
            break
        bests = [best.candidate for best in search.optima if best.candidate.steps <= steps]
        for c in world.every(steps):
            is_cheaper = all(c.cost < best.cost for best in bests)
            assert not is_cheaper or c in refuted or c in undecided
    for best in search.optima:
        dominating = any(c.may_dominate(best.candidate) for c in undecided)
        assert best.proved is not dominating


@given(worlds(gives_up=True))
def test_next_candidate_is_among_the_likely_ones(world: World) -> None:
    recorder = Recorder(world)
    recorder.search()
    for candidate, search in recorder.candidates():
        likely = list(search.upcoming_candidates())
        if likely[0] != candidate:  # one that is asked for before the first level
            assert world.asks_costliest_first
            assert search.level.undecided[-1] == candidate
            continue
        assert len(likely) == len(set(likely))
        for answer in (Sat(_ALGORITHM, "", 0.0), Unsat("", "", 0.0)):
            level = search.level.record(answer, candidate)
            assert not level.undecided or level.next_candidate() in likely


@given(worlds(gives_up=True))
def test_search_is_deterministic(world: World) -> None:
    first, again = Recorder(world), Recorder(world)
    assert first.search() == again.search()
    assert first.queries == again.queries


@given(worlds())
def test_search_is_complete_for_any_k_only_at_met_limits(world: World) -> None:
    search = Recorder(world).search()
    if not search.optima or not search.is_complete_for_any_k:
        return
    lower = {limit.steps: limit.lower for limit in search.limits}
    for steps in range(world.space.min_steps, search.optima[-1].candidate.steps):
        costs = [b.candidate.cost for b in search.optima if b.candidate.steps <= steps]
        if steps in world.space.step_counts:
            assert min(costs) <= lower[steps]


@pytest.mark.parametrize("first", [False, True])
def test_limit_is_asked_once_at_first_or_after_the_cheapest(first: bool) -> None:
    dual = dual_of(named_spec("allgather", 3))
    space = SearchSpace(dual, 1, Fraction(1), 1, SweepRange(k=2, max_chunks=2))
    every = enumerate_candidates(dual, space.bandwidth, 1, space.covered)
    silent = frozenset((c.steps, c.rounds, c.chunks) for c in every)
    recorder = Recorder(World(space, {}, silent, asks_limit_first=first))
    recorder.search()
    kinds = [query if isinstance(query, str) else "candidate" for query, _ in recorder.queries]
    start = ["bound", "limit", "candidate"] if first else ["bound", "candidate", "limit"]
    assert kinds == start + ["candidate"] * (len(kinds) - 3)
    assert len(kinds) > 3


@given(worlds(), st.data())
def test_search_proves_nothing_by_an_unverified_origin(world: World, data: st.DataObject) -> None:
    lies: set[Candidate] = set()

    def lie(candidate: Candidate, answer: Answer) -> Answer:
        if not data.draw(st.booleans()):
            return answer
        lies.add(candidate)
        return Unsat("a claim", "invented", 0.0, origin=Origin.CLUSTER)

    search = Recorder(world, lie).search()
    true = [c for steps in world.space.step_counts for c in world.every(steps) if world.has(c)]
    for best in search.optima:
        if best.proved:
            assert not any(c.may_dominate(best.candidate) for c in true)
        else:
            assert best.proof_origins == (Origin.CLUSTER,)
    for entry in search.refuted:
        assert not world.has(entry.candidate)
    if not lies:
        assert not search.open


@given(worlds(), st.data())
def test_search_names_the_origins_of_a_proof(world: World, data: st.DataObject) -> None:
    def trust(_: Candidate, answer: Answer) -> Answer:
        if isinstance(answer, Unsat) and data.draw(st.booleans()):
            return replace(answer, origin=Origin.STORE_FILE, trusted=True)
        return answer

    search = Recorder(world, trust).search()
    assert [best.candidate for best in search.optima] == world.frontier()
    for best in search.optima:
        assert best.proved
        needed = {r.origin for r in search.refuted if r.candidate.may_dominate(best.candidate)}
        if best.within is None:  # limits prove it, whatever the range
            assert best.proof_origins == ()
        else:
            assert best.proof_origins == tuple(sorted(needed - {Origin.THIS_PROCESS}))
