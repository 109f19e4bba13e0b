"""Every interleaving of a switch to another plan: the events of a state.

The model has three ranks, two coordinators and two plans. Their behavior is the table of
``sccl.torch_backend.control.transitions``. Writes are permanent and are read at any time,
repeatedly, or never, so loss, repetition, delay and any order of messages are included. A rank that
reads nothing for long is one that was stopped. Ranks and coordinators die in every state. A dead
rank blocks the agreement of the others until the job restarts, in a new generation without any
plan. A coordinator that dies only forgets its knowledge. One of the two may act while the other
takes its place.

At a boundary a rank switches to the agreement since the previous one, and contributes to the next
agreement, which is read at the next boundary: it waits there until all have contributed. Iterations
have no numbers, so runs of any length are covered: a rank is ``lead`` boundaries ahead of the last,
0 or 1. Two ranks of one lead are in one iteration, or come to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sccl.core.arrays import BoolArray, UInt64Array
from sccl.torch_backend.control.transitions import (
    CoordinatorEvent,
    CoordinatorState,
    RankEvent,
    RankState,
    Vote,
)
from tests.kit.switching_words import (
    AFTER,
    ALL,
    AT,
    COORDINATORS,
    COUNTS,
    DEAD,
    GIVES,
    IMPOSSIBLE,
    LOG_ABORT,
    LOG_COMMIT,
    LOG_NONE,
    MIND,
    RANKS,
    VERSIONS,
    VOTES,
    K,
    Rule,
    active,
    counted,
    highest,
)


@dataclass(frozen=True, slots=True)
class Step:
    """An event: the states that enable it, their successors, and the faulty ones."""

    name: str
    sources: npt.NDArray[np.intp]
    words: UInt64Array
    wrong: BoolArray


class Model:
    """The possible events of a rule."""

    def __init__(
        self, rule: Rule = Rule.AGREED, *, ranks: int = 3, versions: int = 2, minds: bool = True
    ) -> None:
        self.rule, self.minds = rule, minds
        self.ranks, self.versions = range(ranks), range(1, versions + 1)
        self.agree = rule not in {Rule.NEXT, Rule.NAMED}
        self.k = np.array(K if self.agree else (1, 1, 1))

    def steps(self, words: UInt64Array) -> Iterator[Step]:
        """Yield all events."""
        for c in range(COORDINATORS if self.minds else 0):
            knows = AT.minds[c].of(words) > 0
            yield self._step(words, f"coordinator {c} dies", knows, self._crash, c)
            for v in self.versions:
                yield from self._coordinator(words, c, v)
        for v in self.versions if not self.minds else ():
            yield from self._store(words, v)
        for r in self.ranks:
            living = AT.phase[r].of(words) != DEAD
            for v in self.versions:
                yield from self._hears(words, r, v, living)
            yield from self._runs(words, r, living)
            yield self._step(words, f"rank {r} dies", living, self._dies, r)
        yield self._step(words, "the job begins anew", self._can_restart(words), self._restarts)

    def _step(self, words: UInt64Array, name: str, mask: BoolArray, do: Any, *more: int) -> Step:
        sources = np.flatnonzero(mask)
        made = do(words[sources], *more)
        new, wrong = made if isinstance(made, tuple) else (made, np.zeros(len(made), bool))
        return Step(name, sources, new, wrong | self.mixed(new))

    # --- coordinators ------------------------------------------------------------------------

    def _coordinator(self, words: UInt64Array, c: int, v: int) -> Iterator[Step]:
        mind, written = AT.mind[c][v].of(words), AT.written[v].of(words)
        who = f"coordinator {c}"
        first = self._first(words, v)
        idle = mind == CoordinatorState.IDLE
        yield self._step(words, f"{who} writes plan {v} (PREPARE)", first & idle, self._ask, c, v)
        yield self._step(words, f"{who} finds plan {v}", (written == 1) & idle, self._find, c, v)
        asked = mind == CoordinatorState.PROPOSED
        yes = asked & (AT.votes[v].of(words) == 1)
        for event, mask in (CoordinatorEvent.ALL_YES, yes), (CoordinatorEvent.NOT_ALL_YES, asked):
            what = "commit" if event == CoordinatorEvent.ALL_YES else "abort"
            name = f"{who} chooses to {what} plan {v}"
            yield self._step(words, name, mask, self._choose, c, v, event)
        chose = (mind == CoordinatorState.CHOSE_COMMIT) | (mind == CoordinatorState.CHOSE_ABORT)
        yield self._step(words, f"{who} logs its choice of plan {v}", chose, self._logs, c, v)
        logged = (mind == CoordinatorState.COMMIT_LOGGED) | (mind == CoordinatorState.ABORT_LOGGED)
        yield self._step(words, f"{who} tells what is logged of plan {v}", logged, self._tell, c, v)

    def _store(self, words: UInt64Array, v: int) -> Iterator[Step]:
        """Yield the possible actions of any coordinator, whatever it knew before.

        Its knowledge stays true: the votes of all, and the log. So it makes no difference whether
        it chooses long before it logs, or which coordinator announces.
        """
        yield self._step(words, f"plan {v} is written", self._first(words, v), self._write, v)
        log = AT.log[v].of(words)
        undecided = (AT.written[v].of(words) == 1) & (log == LOG_NONE)
        for choice in LOG_COMMIT, LOG_ABORT:
            mask = undecided & ((choice == LOG_ABORT) | (AT.votes[v].of(words) == 1))
            yield self._step(words, f"plan {v} is decided", mask, AT.log[v].put, choice)
            part = AT.commit[v] if choice == LOG_COMMIT else AT.abort[v]
            forged = self.rule in {Rule.FORGED, Rule.LEAST}
            mask = ((log == choice) | forged) & (part.of(words) == 0)
            yield self._step(words, f"plan {v} is told", mask, part.put, 1)

    def _first(self, words: UInt64Array, v: int) -> BoolArray:
        """Return whether a version is the next: they are counted in the store."""
        found: BoolArray = AT.written[v].of(words) == 0
        if v > VERSIONS[0]:
            found &= AT.written[v - 1].of(words) == 1
        return found

    def _write(self, words: UInt64Array, v: int) -> UInt64Array:
        return AT.born[v].put(AT.written[v].put(words, 1), AT.generation.of(words))

    def _crash(self, words: UInt64Array, c: int) -> UInt64Array:
        return AT.minds[c].put(words, 0)

    def _ask(self, words: UInt64Array, c: int, v: int) -> UInt64Array:
        words = AT.mind[c][v].put(words, MIND[CoordinatorState.IDLE, CoordinatorEvent.PROPOSE])
        return self._write(words, v)

    def _find(self, words: UInt64Array, c: int, v: int) -> UInt64Array:
        events = np.array(
            [
                CoordinatorEvent.RECOVER,
                CoordinatorEvent.RECOVER_COMMIT,
                CoordinatorEvent.RECOVER_ABORT,
            ]
        )[AT.log[v].of(words)]
        return AT.mind[c][v].put(words, MIND[CoordinatorState.IDLE, events])

    def _choose(self, words: UInt64Array, c: int, v: int, event: int) -> UInt64Array:
        if self.rule is Rule.TOLD_FIRST:
            part = AT.commit[v] if event == CoordinatorEvent.ALL_YES else AT.abort[v]
            words = part.put(words, 1)
        return AT.mind[c][v].put(words, MIND[CoordinatorState.PROPOSED, event])

    def _logs(self, words: UInt64Array, c: int, v: int) -> UInt64Array:
        mind = AT.mind[c][v].of(words)
        choice = np.where(mind == CoordinatorState.CHOSE_COMMIT, LOG_COMMIT, LOG_ABORT)
        log = AT.log[v].of(words)
        log = choice if self.rule is Rule.LAST_LOGS else np.where(log == LOG_NONE, choice, log)
        has, hasnt = CoordinatorEvent.LOG_HAS_COMMIT, CoordinatorEvent.LOG_HAS_ABORT
        words = AT.log[v].put(words, log)
        return AT.mind[c][v].put(words, MIND[mind, np.where(log == LOG_COMMIT, has, hasnt)])

    def _tell(self, words: UInt64Array, c: int, v: int) -> UInt64Array:
        mind = AT.mind[c][v].of(words)
        commit = mind == CoordinatorState.COMMIT_LOGGED
        words = AT.commit[v].put(words, AT.commit[v].of(words) | commit)
        words = AT.abort[v].put(words, AT.abort[v].of(words) | ~commit)
        return AT.mind[c][v].put(words, MIND[mind, CoordinatorEvent.ANNOUNCE])

    # --- ranks -------------------------------------------------------------------------------

    def _hears(self, words: UInt64Array, r: int, v: int, living: BoolArray) -> Iterator[Step]:
        reached = living
        if self.rule is not Rule.NO_GENERATION:
            reached = living & (AT.born[v].of(words) == AT.generation.of(words))
        told = {
            RankEvent.PREPARE_FIT: (AT.written[v], f"is ready for plan {v}, votes yes"),
            RankEvent.PREPARE_UNFIT: (AT.written[v], f"cannot run plan {v}, votes no"),
            RankEvent.COMMIT: (AT.commit[v], f"hears COMMIT {v}"),
            RankEvent.ABORT: (AT.abort[v], f"hears ABORT {v}"),
        }
        state = AT.state[r][v].of(words)
        for event, (part, what) in told.items():
            changes = AFTER[state, event] != state  # a repeated message changes nothing
            mask = reached & (part.of(words) == 1) & changes
            yield self._step(words, f"rank {r} {what}", mask, self._hear, r, v, event)

    def _hear(
        self, words: UInt64Array, r: int, v: int, event: int
    ) -> tuple[UInt64Array, BoolArray]:
        state = AT.state[r][v].of(words)
        new, vote = AFTER[state, event], VOTES[state, event]
        words = AT.state[r][v].put(words, new)
        if self.rule is Rule.FORGETS and event == RankEvent.COMMIT and v > VERSIONS[0]:
            former = AT.state[r][v - 1].of(words)
            forgotten = np.where(former == RankState.READY, RankState.ABORTED, former)
            words = AT.state[r][v - 1].put(words, forgotten)
        if event == RankEvent.PREPARE_FIT:
            yes = vote == Vote.YES
            for other in self.ranks:  # those in PAST may have voted no: these count, too
                seen = AT.state[other][v].of(words)
                yes &= (seen != RankState.UNKNOWN) & (seen != RankState.REFUSED)
            words = AT.votes[v].put(words, AT.votes[v].of(words) | yes)
            if self.rule is Rule.NAMED:
                due = np.maximum(AT.due[v].of(words), AT.lead[r].of(words) + 2)
                words = AT.due[v].put(words, due)
        return words, new == IMPOSSIBLE

    def _runs(self, words: UInt64Array, r: int, living: BoolArray) -> Iterator[Step]:
        there = self._there(words, r)
        yield self._step(words, f"rank {r} runs an iteration", living & ~there, self._run, r)
        can = there & self._may_begin(words, r)
        yield self._step(words, f"rank {r} begins what follows the boundary", can, self._begin, r)

    def _there(self, words: UInt64Array, r: int) -> BoolArray:
        """Return whether a rank has come to the next boundary, and lives."""
        phase = AT.phase[r].of(words)
        there: BoolArray = (phase != DEAD) & (phase // GIVES >= self.k[active(words, r)])
        return there

    def _may_begin(self, words: UInt64Array, r: int) -> BoolArray:
        """Return whether all contributed to the agreement that a rank reads next.

        Leading ranks have waited for the last.
        """
        found: BoolArray = AT.lead[r].of(words) == 0
        if not self.agree:
            found &= AT.result.of(words) == 1
        return found

    def _run(self, words: UInt64Array, r: int) -> UInt64Array:
        words = AT.phase[r].put(words, AT.phase[r].of(words) + GIVES)
        if self.agree:
            return words
        ready = np.ones(len(words), bool)
        for other in self.ranks:
            ready &= self._there(words, other) & (AT.lead[other].of(words) == 0)
        return AT.result.put(words, AT.result.of(words) | ready)

    def _begin(self, words: UInt64Array, r: int) -> tuple[UInt64Array, BoolArray]:
        target = AT.result.of(words)
        if not self.agree:
            target = active(words, r)
            for v in self.versions:
                heard = COUNTS[AT.state[r][v].of(words)]
                if self.rule is Rule.NAMED:
                    heard &= AT.due[v].of(words) <= AT.lead[r].of(words) + 1
                target = np.where(heard, v, target)
        wrong = np.zeros(len(words), bool)
        for v in self.versions:
            state = AT.state[r][v].of(words)
            later = np.where(target > v, AFTER[state, RankEvent.AGREED_LATER], state)
            new = np.where(target == v, AFTER[state, RankEvent.AGREED], later)
            wrong |= new == IMPOSSIBLE
            words = AT.state[r][v].put(words, new)
        gives = counted(words, r) if self.agree else 0
        words = AT.lead[r].put(AT.phase[r].put(words, gives), 1)
        return self._next_round(words), wrong

    def _next_round(self, words: UInt64Array) -> UInt64Array:
        """Return the words in which no rank leads if all do, and their agreement."""
        all_lead, common = np.ones(len(words), bool), np.full(len(words), GIVES - 1)
        least = np.full(len(words), VERSIONS[-1])
        for r in self.ranks:
            phase = AT.phase[r].of(words)
            all_lead &= (AT.lead[r].of(words) == 1) & (phase != DEAD)
            common &= phase % GIVES
            least = np.minimum(least, highest(phase % GIVES))
        for r in self.ranks:
            words = AT.lead[r].put(words, np.where(all_lead, 0, AT.lead[r].of(words)))
        for part in AT.due.values():
            due = part.of(words)
            words = part.put(words, np.where(all_lead, np.maximum(due - 1, 0), due))
        agreed = least if self.rule is Rule.LEAST else highest(common)
        result = agreed if self.agree else 0
        return AT.result.put(words, np.where(all_lead, result, AT.result.of(words)))

    def _dies(self, words: UInt64Array, r: int) -> UInt64Array:
        lead = AT.lead[r].of(words)  # those that go on may be ahead of it
        return AT.lead[r].put(AT.phase[r].put(AT.ranks[r].put(words, 0), DEAD), lead)

    def _can_restart(self, words: UInt64Array) -> BoolArray:
        some = np.zeros(len(words), bool)
        for r in self.ranks:
            some |= AT.phase[r].of(words) == DEAD
        some &= AT.generation.of(words) == 0
        return some

    def _restarts(self, words: UInt64Array) -> UInt64Array:
        for part in (*AT.ranks, AT.result):
            words = part.put(words, 0)
        return AT.generation.put(words, 1)

    # --- what is looked at in all states -----------------------------------------------------

    def mixed(self, words: UInt64Array) -> BoolArray:
        """Return in which states two living ranks of one iteration run different plans."""
        found = np.zeros(len(words), bool)
        plans = [active(words, r) for r in self.ranks]
        living = [AT.phase[r].of(words) != DEAD for r in self.ranks]
        leads = [AT.lead[r].of(words) for r in self.ranks]
        for a in self.ranks:
            for b in range(a):
                found |= living[a] & living[b] & (leads[a] == leads[b]) & (plans[a] != plans[b])
        return found

    def goes_on(self, words: UInt64Array) -> BoolArray:
        """Return in which states a rank can go on by itself, or one is dead."""
        found = np.zeros(len(words), bool)
        for r in self.ranks:
            found |= ~self._there(words, r) | self._may_begin(words, r)
        return found

    def rows(self, words: UInt64Array) -> set[tuple[int, int]]:
        """Return the rows of the ranks' table by which something happens in some state."""
        found = set()
        target = AT.result.of(words)
        for r in self.ranks:
            phase = AT.phase[r].of(words)
            begins = self._there(words, r) & self._may_begin(words, r)
            for v in self.versions:
                state = AT.state[r][v].of(words)
                here = (phase != DEAD) & (AT.born[v].of(words) == AT.generation.of(words))
                written = here & (AT.written[v].of(words) == 1)
                masks = {
                    RankEvent.PREPARE_FIT: written,
                    RankEvent.PREPARE_UNFIT: written,
                    RankEvent.COMMIT: here & (AT.commit[v].of(words) == 1),
                    RankEvent.ABORT: here & (AT.abort[v].of(words) == 1),
                    RankEvent.AGREED: begins & (target == v),
                    RankEvent.AGREED_LATER: begins & (target > v),
                }
                for event, mask in masks.items():
                    found |= {(int(one), int(event)) for one in np.unique(state[mask])}
        return found

    def brought_on(self, words: UInt64Array) -> UInt64Array:
        """Return the successors of states if nothing fails for a while.

        A coordinator announces its log, ranks hear it, and each runs to the agreement after the
        next: so many events are enough.
        """
        for v in self.versions:
            told = AT.commit[v].of(words) | (AT.log[v].of(words) == LOG_COMMIT)
            words = AT.commit[v].put(words, told)
        for _ in range(3 * max(K) + 3):
            for r in self.ranks:
                for v in self.versions:
                    words = self._did("hears COMMIT", words, self._hears(words, r, v, ALL))
                words = self._did("runs", words, self._runs(words, r, ALL))
                words = self._did("begins", words, self._runs(words, r, ALL))
        return words

    @staticmethod
    def _did(what: str, words: UInt64Array, steps: Iterator[Step]) -> UInt64Array:
        """Return states after an event, where it can happen."""
        step = next(step for step in steps if what in step.name)
        words = words.copy()
        words[step.sources] = step.words
        return words

    def canonical(self, words: UInt64Array) -> UInt64Array:
        """Return words with their ranks, and their coordinators, in order: they are all alike."""
        swaps = ((0, 1), (1, 2), (0, 1)) if len(self.ranks) == RANKS else ((0, 1),)
        for parts, pairs in ((AT.ranks, swaps), (AT.minds, ((0, 1),))):
            for a, b in pairs:
                left, right = parts[a].of(words), parts[b].of(words)
                words = parts[a].put(words, np.minimum(left, right))
                words = parts[b].put(words, np.maximum(left, right))
        return words
