"""How ranks come to another plan: never two in one iteration, never waiting for who decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from sccl.core.arrays import UInt64Array
from sccl.torch_backend.control.transitions import RANK_TRANSITIONS, RankEvent
from sccl.torch_backend.control.transitions import RankState as S
from tests.kit.paths import ROOT
from tests.kit.switching import Model
from tests.kit.switching_words import AT, DEAD, LOG_COMMIT, Rule, active, distinct


@dataclass(frozen=True, slots=True)
class Explored:
    """Result of an exploration of all states.

    Attributes:
        words: The states.
        wrong: The fault, or empty.
        events: Shortest sequence of events that leads to it.
    """

    words: UInt64Array
    wrong: str = ""
    events: tuple[str, ...] = ()


def explore(model: Model) -> Explored:
    """Walk through all states, level by level, until something is wrong."""
    level = np.zeros(1, np.uint64)
    seen, levels = level, [level]
    while len(level):
        made: list[UInt64Array] = []
        for step in model.steps(level):
            if step.wrong.any():
                place = int(np.flatnonzero(step.wrong)[0])
                mixed = model.mixed(step.words[place : place + 1])[0]
                wrong = "two plans in one iteration" if mixed else "a plan that is not there"
                source = level[step.sources[place]]
                return Explored(seen, wrong, tuple(_way(model, levels, source)))
            made.append(distinct(model.canonical(step.words)))
        found = distinct(np.concatenate(made))
        places = np.minimum(np.searchsorted(seen, found), len(seen) - 1)
        level = found[seen[places] != found]
        seen = np.concatenate([seen, level])
        seen.sort(kind="stable")  # of two sorted parts, which it merges
        levels.append(level)
    return Explored(seen)


def _way(model: Model, levels: Sequence[UInt64Array], last: np.uint64) -> list[str]:
    """Return events that lead to a state, and one that leads to a fault.

    States are sorted by ranks, but the ranks keep their numbers here.
    """
    targets = [last]
    for level in levels[-2::-1]:
        for step in model.steps(level):
            hits = np.flatnonzero(model.canonical(step.words) == targets[-1])
            if len(hits):
                targets.append(level[step.sources[hits[0]]])
                break
    names, word = [], np.zeros(1, np.uint64)
    for target in targets[-2::-1]:
        step = next(
            step
            for step in model.steps(word)
            if len(step.words) and model.canonical(step.words)[0] == target
        )
        names.append(step.name)
        word = step.words
    return [*names, next(step.name for step in model.steps(word) if step.wrong.any())]


STATES = 1_695_120
"""Number of states of three ranks and two plans, which changes only with the table."""

FORGED_ROWS = [
    *((state, RankEvent.COMMIT) for state in (S.UNKNOWN, S.REFUSED, S.ABORTED)),
    *((state, RankEvent.ABORT) for state in (S.COMMITTED, S.ACTIVE)),
]
"""Decisions that no coordinator makes."""

PAGE = ROOT / "docs" / "explanation" / "switching.md"


@pytest.fixture(scope="module")
def explored() -> Explored:
    return explore(Model(minds=False))


def test_no_iteration_has_two_plans_whatever_happens(explored: Explored) -> None:
    assert not explored.wrong, "\n".join(explored.events)
    assert len(explored.words) == STATES


def test_ranks_never_wait_for_who_decides(explored: Explored) -> None:
    """In every state without a dead rank some rank can advance, so all do.

    Each such step brings a rank forward, and no rank is more than one agreement ahead.
    """
    assert Model(minds=False).goes_on(explored.words).all()


def test_committed_plan_is_reachable_from_any_state(explored: Explored) -> None:
    words = explored.words
    alive = np.ones(len(words), bool)
    for rank in range(3):
        alive &= AT.phase[rank].of(words) != DEAD
    wanted = np.zeros(len(words), int)
    for version in (1, 2):
        here = alive & (AT.born[version].of(words) == AT.generation.of(words))
        wanted[here & (AT.log[version].of(words) == LOG_COMMIT)] = version
    words, wanted = words[wanted > 0], wanted[wanted > 0]
    assert set(wanted.tolist()) == {1, 2}
    assert len(words) > 100_000
    after = Model(minds=False).brought_on(words)
    for rank in range(3):
        assert (active(after, rank) >= wanted).all()


def test_every_row_of_the_table_is_needed(explored: Explored) -> None:
    """Some are for decisions alone that are forged."""
    forged = explore(Model(Rule.FORGED, ranks=2, minds=False))
    rows = Model(minds=False).rows(explored.words)
    assert {(int(state), int(event)) for state, event in FORGED_ROWS}.isdisjoint(rows)
    assert rows | Model(ranks=2, minds=False).rows(forged.words) == {
        (int(state), int(event)) for state, event in RANK_TRANSITIONS
    }


def without_minds(words: UInt64Array) -> UInt64Array:
    for part in AT.minds:
        words = part.put(words, 0)
    return distinct(words)


@pytest.mark.parametrize(
    ("ranks", "versions", "states"),
    [(3, 1, 172_110), pytest.param(2, 2, 12_216_534, marks=pytest.mark.nightly)],
)
def test_knowledge_of_coordinators_makes_no_difference(
    ranks: int, versions: int, states: int
) -> None:
    """Two coordinators that die and restart reach only states that log and votes allow."""
    whole = explore(Model(ranks=ranks, versions=versions))
    assert not whole.wrong, "\n".join(whole.events)
    assert len(whole.words) == states
    stored = explore(Model(ranks=ranks, versions=versions, minds=False))
    assert np.array_equal(without_minds(whole.words), stored.words)


RULES = {
    Rule.NEXT: (13, "two plans in one iteration"),
    Rule.NAMED: (19, "two plans in one iteration"),
    Rule.LEAST: (17, "a plan that is not there"),
}
"""Fewest events, and the fault after them."""

HARMLESS = (
    (Rule.NO_GENERATION, Model(Rule.NO_GENERATION, versions=1)),
    (Rule.TOLD_FIRST, Model(Rule.TOLD_FIRST, versions=1)),
    (Rule.LAST_LOGS, Model(Rule.LAST_LOGS, versions=1)),
    (Rule.FORGETS, Model(Rule.FORGETS, minds=False)),
    (Rule.FORGED, Model(Rule.FORGED, versions=1, minds=False)),
    (Rule.FORGED, Model(Rule.FORGED, ranks=2, minds=False)),
)
"""Faults of coordinators, of ranks, and of other writers into the store."""


def found(rule: Rule) -> Explored:
    """Return the fault. Faults that need two plans are found in the store alone."""
    if rule is Rule.LEAST:
        return explore(Model(rule, ranks=2, minds=False))
    return explore(Model(rule, versions=1))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_otherwise_it_goes_wrong(rule: Rule) -> None:
    events, wrong = RULES[rule]
    result = found(rule)
    assert (result.wrong, len(result.events)) == (wrong, events), "\n".join(result.events)


@pytest.mark.parametrize(
    "model", [model for _, model in HARMLESS], ids=[rule.name for rule, _ in HARMLESS]
)
def test_faults_outside_the_agreement_mix_no_plans(model: Model) -> None:
    result = explore(model)
    assert not result.wrong, "\n".join(result.events)


def test_all_rules_are_explored() -> None:
    assert {*RULES, *(rule for rule, _ in HARMLESS), Rule.AGREED} == set(Rule)


@pytest.mark.parametrize("rule", [Rule.NEXT, Rule.NAMED], ids=lambda rule: rule.name)
def test_page_has_the_shortest_ways_to_fail(rule: Rule) -> None:
    lines = "\n".join(f"{k:2}  {event}" for k, event in enumerate(found(rule).events, 1))
    assert f"\n{lines}\n" in PAGE.read_text(encoding="utf-8"), lines
