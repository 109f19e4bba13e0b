"""Define how all ranks switch to another plan in the same iteration, as tables for code and model.

The protocol has four phases:

- PREPARE: a plan has a *version*, an increasing number. A coordinator writes it to the store.
- Vote: each rank checks whether it can run the plan, and votes.
- COMMIT or ABORT: the coordinator logs the decision, and then announces it. So far the job is
  unchanged, and no rank has waited.
- ACTIVATE: at some boundaries between iterations, each rank contributes to a MIN all-reduce the
  versions that it can run and knows to be committed. At the next such boundary all ranks switch to
  the highest version that all of them contributed. The next boundary is part of the agreement, so
  it is the same for all. There a rank waits only for ranks that have not reached the previous one.

The protocol of the paper (SYNDICATE, NSDI 2023, section 5: two-phase commit, then "switch ... from
the subsequent training iteration") has no ACTIVATE phase. It is not used, because ranks receive a
commit at different times: one may start the next iteration under the new plan while another one
still uses the old plan. A commit that names an iteration only shifts this problem to ranks that
receive it later. A test explores every interleaving of this table, and of both alternatives
(``tests/torch_backend/control/test_transitions.py``).

The protocol is safe: a rank contributes only versions that it can run, and keeps them until a later
one is active. So each rank can run the agreed version, and all ranks get the same one. This holds
for any content of the store. A forged decision can delay a switch, but it cannot make ranks run
different plans.
"""

from __future__ import annotations

from enum import IntEnum


class RankState(IntEnum):
    """The state of a version of the plan on a rank."""

    UNKNOWN = 0
    READY = 1
    """The rank can run it and voted yes. It keeps the plan until it is aborted or past."""
    REFUSED = 2
    """The rank cannot run it and voted no, or received an abort before the plan."""
    COMMITTED = 3
    """The rank voted yes and received a commit."""
    ABORTED = 4
    """The rank voted yes and received an abort. It has dropped the plan."""
    ACTIVE = 5
    """The rank runs under this version."""
    PAST = 6
    """A later version is active."""


class RankEvent(IntEnum):
    """An event of a version on a rank."""

    PREPARE_FIT = 0
    """The rank reads the plan and can run it."""
    PREPARE_UNFIT = 1
    """The rank reads the plan and cannot run it: it is damaged, or of another job."""
    COMMIT = 2
    ABORT = 3
    AGREED = 4
    """All ranks have agreed on this version."""
    AGREED_LATER = 5
    """All ranks have agreed on a later version."""


class Vote(IntEnum):
    """A rank's answer to PREPARE."""

    NONE = 0
    YES = 1
    NO = 2


_U, _R, _N, _C, _A, _X, _P = RankState
_FIT, _UNFIT, _COMMIT, _ABORT, _AGREED, _LATER = RankEvent

RANK_TRANSITIONS: dict[tuple[RankState, RankEvent], tuple[RankState, Vote]] = {
    (_U, _FIT): (_R, Vote.YES),
    (_U, _UNFIT): (_N, Vote.NO),
    # No coordinator commits without this rank's yes, or changes a decision. Such a message is
    # forged, and the state does not change.
    (_U, _COMMIT): (_U, Vote.NONE),
    (_N, _COMMIT): (_N, Vote.NONE),
    (_A, _COMMIT): (_A, Vote.NONE),
    (_C, _ABORT): (_C, Vote.NONE),
    (_X, _ABORT): (_X, Vote.NONE),
    (_U, _ABORT): (_N, Vote.NONE),  # later messages about its plan are ignored
    (_U, _LATER): (_P, Vote.NONE),
    # A repeated message gets the same vote again. A late message gets none.
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
"""The next state of a version, and the vote. Missing entries cannot occur."""

CONTRIBUTED_STATES = frozenset({RankState.COMMITTED, RankState.ACTIVE})
"""Versions in these states are committed. A rank contributes those whose plan it has."""

RETAINED_STATES = frozenset({RankState.READY, RankState.COMMITTED, RankState.ACTIVE})
"""A rank keeps the plans of versions in these states."""


class CoordinatorState(IntEnum):
    """The state of a version in a coordinator. It is lost when the coordinator dies.

    A coordinator tries to log its *choice*. The first logged choice is the decision.
    """

    IDLE = 0
    PROPOSED = 1
    CHOSE_COMMIT = 2
    CHOSE_ABORT = 3
    COMMIT_LOGGED = 4
    ABORT_LOGGED = 5
    COMMIT_ANNOUNCED = 6
    ABORT_ANNOUNCED = 7


class CoordinatorEvent(IntEnum):
    """An action or an observation of a coordinator."""

    PROPOSE = 0
    """It writes a new plan with the next version."""
    RECOVER = 1
    """It reads a version without a decision, written by another coordinator or before a restart."""
    RECOVER_COMMIT = 2
    """It reads such a version with a commit in the log."""
    RECOVER_ABORT = 3
    """It reads such a version with an abort in the log."""
    ALL_YES = 4
    NOT_ALL_YES = 5
    """A rank has voted no, or the deadline has passed."""
    LOG_HAS_COMMIT = 6
    """The log has a commit after an attempt to write a choice. The first write decides."""
    LOG_HAS_ABORT = 7
    """The same with an abort."""
    ANNOUNCE = 8


_S, _E = CoordinatorState, CoordinatorEvent

COORDINATOR_TRANSITIONS: dict[tuple[CoordinatorState, CoordinatorEvent], CoordinatorState] = {
    (_S.IDLE, _E.PROPOSE): _S.PROPOSED,
    (_S.IDLE, _E.RECOVER): _S.PROPOSED,
    (_S.IDLE, _E.RECOVER_COMMIT): _S.COMMIT_LOGGED,
    (_S.IDLE, _E.RECOVER_ABORT): _S.ABORT_LOGGED,
    (_S.PROPOSED, _E.ALL_YES): _S.CHOSE_COMMIT,
    (_S.PROPOSED, _E.NOT_ALL_YES): _S.CHOSE_ABORT,
    (_S.CHOSE_COMMIT, _E.LOG_HAS_COMMIT): _S.COMMIT_LOGGED,
    (_S.CHOSE_COMMIT, _E.LOG_HAS_ABORT): _S.ABORT_LOGGED,
    (_S.CHOSE_ABORT, _E.LOG_HAS_COMMIT): _S.COMMIT_LOGGED,
    (_S.CHOSE_ABORT, _E.LOG_HAS_ABORT): _S.ABORT_LOGGED,
    (_S.COMMIT_LOGGED, _E.ANNOUNCE): _S.COMMIT_ANNOUNCED,
    (_S.ABORT_LOGGED, _E.ANNOUNCE): _S.ABORT_ANNOUNCED,
}
"""The next state of a coordinator. Missing entries are actions that it does not take."""
