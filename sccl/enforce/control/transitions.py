"""How all ranks come to another plan in the same iteration: one table, for the code and its model.

A plan has a *version*, a number that grows. A coordinator writes it down for all to read (PREPARE).
Each rank looks whether it can run it and votes. The decision is logged, and then told (COMMIT or
ABORT). So far nothing has changed in the job, and nobody in it has waited. Ranks switch by
agreements of their own, ACTIVATE: at some boundaries between iterations each contributes the
versions that it can run and knows to be committed, to a MIN all-reduce, and at the next of these
all switch to the highest that all have contributed. Which boundary is the next is a part of what
they agree on, so all come to it alike, and there a rank waits only for who has not come to the one
before.

Why not as published (SYNDICATE, NSDI 2023, section 5: two-phase commit, then "switch ... from the
subsequent training iteration"): ranks hear of a commit at different times, so one is in the next
iteration under the new plan while another still is under the old one. A commit that names an
iteration only moves this: whoever hears it later than that is late. A test walks through every
interleaving of this table, and of both of these (``tests/enforce/test_switch.py``).

Why it cannot fail: a rank contributes only versions that it can run, and keeps these until a later
one is active. So each can run what comes out, and all get the same. That holds whatever is written
in the store: a forged decision can delay a switch, and cannot make ranks run different plans.
"""

from __future__ import annotations

from enum import IntEnum


class RankState(IntEnum):
    """What a version of the plan is to a rank."""

    UNKNOWN = 0
    READY = 1
    """It can be run, and was voted for: it is kept until it is aborted or past."""
    REFUSED = 2
    """It is not run here, and was not voted for."""
    COMMITTED = 3
    ABORTED = 4
    """It was voted for, and is not kept any more."""
    ACTIVE = 5
    PAST = 6
    """A later version is active."""


class RankEvent(IntEnum):
    """What a rank hears of a version."""

    PREPARE_FIT = 0
    """The plan, which this rank can run."""
    PREPARE_UNFIT = 1
    """The plan, which is damaged, or of another job."""
    COMMIT = 2
    ABORT = 3
    AGREED = 4
    """All ranks have agreed on this version."""
    AGREED_LATER = 5
    """All ranks have agreed on a later one."""


class Vote(IntEnum):
    """What a rank answers to PREPARE."""

    NONE = 0
    YES = 1
    NO = 2


_U, _R, _N, _C, _A, _X, _P = RankState
_FIT, _UNFIT, _COMMIT, _ABORT, _AGREED, _LATER = RankEvent

RANK: dict[tuple[RankState, RankEvent], tuple[RankState, Vote]] = {
    (_U, _FIT): (_R, Vote.YES),
    (_U, _UNFIT): (_N, Vote.NO),
    # A decision that cannot be is not the ranks' own: whoever wrote it, nothing changes by it.
    (_U, _COMMIT): (_U, Vote.NONE),
    (_N, _COMMIT): (_N, Vote.NONE),
    (_A, _COMMIT): (_A, Vote.NONE),
    (_C, _ABORT): (_C, Vote.NONE),
    (_X, _ABORT): (_X, Vote.NONE),
    (_U, _ABORT): (_N, Vote.NONE),  # what comes of its plan yet is too late
    (_U, _LATER): (_P, Vote.NONE),
    # What is heard again is answered again, in the same way; what is heard late is not answered.
    (_R, _FIT): (_R, Vote.YES),
    (_R, _UNFIT): (_R, Vote.YES),
    (_R, _COMMIT): (_C, Vote.NONE),
    (_R, _ABORT): (_A, Vote.NONE),
    (_R, _LATER): (_P, Vote.NONE),
    (_N, _FIT): (_N, Vote.NO),
    (_N, _UNFIT): (_N, Vote.NO),
    (_N, _ABORT): (_N, Vote.NONE),
    (_N, _LATER): (_P, Vote.NONE),
    (_C, _FIT): (_C, Vote.NONE),
    (_C, _UNFIT): (_C, Vote.NONE),
    (_C, _COMMIT): (_C, Vote.NONE),
    (_C, _AGREED): (_X, Vote.NONE),
    (_C, _LATER): (_P, Vote.NONE),
    (_A, _FIT): (_A, Vote.NONE),
    (_A, _UNFIT): (_A, Vote.NONE),
    (_A, _ABORT): (_A, Vote.NONE),
    (_A, _LATER): (_P, Vote.NONE),
    (_X, _FIT): (_X, Vote.NONE),
    (_X, _UNFIT): (_X, Vote.NONE),
    (_X, _COMMIT): (_X, Vote.NONE),
    (_X, _AGREED): (_X, Vote.NONE),
    (_X, _LATER): (_P, Vote.NONE),
    (_P, _FIT): (_P, Vote.NONE),
    (_P, _UNFIT): (_P, Vote.NONE),
    (_P, _COMMIT): (_P, Vote.NONE),
    (_P, _ABORT): (_P, Vote.NONE),
    (_P, _LATER): (_P, Vote.NONE),
}
"""What becomes of a version, and what is answered. What is not here cannot happen."""

COUNTED = frozenset({RankState.COMMITTED, RankState.ACTIVE})
"""Versions in these states are known to be committed: a rank contributes the highest of them."""

HELD = frozenset({RankState.READY, RankState.COMMITTED, RankState.ACTIVE})
"""Versions in these states can be run: their plans are kept."""


class CoordinatorState(IntEnum):
    """What a version is to a coordinator. It is lost when that dies."""

    IDLE = 0
    ASKED = 1
    CHOSE_COMMIT = 2
    CHOSE_ABORT = 3
    COMMIT_LOGGED = 4
    ABORT_LOGGED = 5
    COMMIT_TOLD = 6
    ABORT_TOLD = 7


class CoordinatorEvent(IntEnum):
    """What a coordinator does, or sees."""

    ASK = 0
    """It writes down a new plan, with the next version."""
    FOUND = 1
    """It sees a plan of another coordinator, or of its own former life, without a decision."""
    FOUND_COMMIT = 2
    FOUND_ABORT = 3
    ALL_YES = 4
    NOT_ALL_YES = 5
    """A rank has voted no, or the time is over."""
    LOG_HAS_COMMIT = 6
    """What the log has once it has tried to write its choice: the first to do so decides."""
    LOG_HAS_ABORT = 7
    TELL = 8


_S, _E = CoordinatorState, CoordinatorEvent

COORDINATOR: dict[tuple[CoordinatorState, CoordinatorEvent], CoordinatorState] = {
    (_S.IDLE, _E.ASK): _S.ASKED,
    (_S.IDLE, _E.FOUND): _S.ASKED,
    (_S.IDLE, _E.FOUND_COMMIT): _S.COMMIT_LOGGED,
    (_S.IDLE, _E.FOUND_ABORT): _S.ABORT_LOGGED,
    (_S.ASKED, _E.ALL_YES): _S.CHOSE_COMMIT,
    (_S.ASKED, _E.NOT_ALL_YES): _S.CHOSE_ABORT,
    (_S.CHOSE_COMMIT, _E.LOG_HAS_COMMIT): _S.COMMIT_LOGGED,
    (_S.CHOSE_COMMIT, _E.LOG_HAS_ABORT): _S.ABORT_LOGGED,
    (_S.CHOSE_ABORT, _E.LOG_HAS_COMMIT): _S.COMMIT_LOGGED,
    (_S.CHOSE_ABORT, _E.LOG_HAS_ABORT): _S.ABORT_LOGGED,
    (_S.COMMIT_LOGGED, _E.TELL): _S.COMMIT_TOLD,
    (_S.ABORT_LOGGED, _E.TELL): _S.ABORT_TOLD,
}
"""What a coordinator comes to. What is not here it does not do."""
