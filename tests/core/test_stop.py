"""Why a search stopped: the texts of reasons, their kinds, and both again from the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.bound import DistanceProof
from sccl.core.outcome import DistanceRefutation, Inconclusive, Infeasible, best_plan
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopKind, StopReason
from sccl.solvers.effort import Effort

NAMED = [kind for kind in StopKind if kind is not StopKind.NOT_STOPPED]
TEXTS = st.text() | st.builds("{} {}".format, st.sampled_from(StopKind), st.text())


@given(TEXTS)
def test_text_survives_parsing(text: str) -> None:
    assert str(StopReason.parse(text)) == text


@given(st.sampled_from(NAMED), st.text())
def test_reason_that_begins_with_the_words_of_its_kind_survives_as_text(
    kind: StopKind, rest: str
) -> None:
    for reason in (StopReason(kind), StopReason(kind, f"{kind} {rest}")):
        assert StopReason.parse(str(reason)) == reason


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", StopKind.NOT_STOPPED),
        ("bandwidth-bound", StopKind.BANDWIDTH_BOUND),
        ("max-steps", StopKind.MAX_STEPS),
        ("timeout", StopKind.TIMEOUT),
        ("timeout after 60 s", StopKind.TIMEOUT),
        ("timeouts", StopKind.OTHER),
        ("interrupted", StopKind.INTERRUPTED),
        ("impossible", StopKind.INFEASIBLE),
        ("too large: 10 variables", StopKind.TOO_LARGE),
        ("the solver broke: killed", StopKind.SOLVER_FAILED),
        ("unsat according to the cluster (not verified here)", StopKind.UNVERIFIED),
        ("tired", StopKind.OTHER),
    ],
)
def test_kind_is_read_from_the_text(text: str, kind: StopKind) -> None:
    assert StopReason.parse(text).kind is kind


def test_reason_is_true_if_the_search_stopped_early() -> None:
    assert [bool(StopReason(kind)) for kind in NAMED] == [True] * len(NAMED)
    assert not NOT_STOPPED


def test_reasons_of_efforts_state_the_limit() -> None:
    effort = Effort(timeout_s=60, units=0.5)
    assert effort.timeout_reason == StopReason.parse("timeout after 60 s")
    assert effort.exhausted_reason == StopReason.parse("no schedule within a budget of 0.5")
    kinds = (effort.timeout_reason.kind, effort.exhausted_reason.kind)
    assert kinds == (StopKind.TIMEOUT, StopKind.BUDGET)


def test_outcome_without_a_plan_states_why() -> None:
    refuted = Infeasible(DistanceRefutation(1, DistanceProof("allgather", False, 0, (0,), 1, 2)))
    assert best_plan(refuted) == (None, StopReason(StopKind.INFEASIBLE))
    assert best_plan(Inconclusive(INTERRUPTED)) == (None, INTERRUPTED)
