"""Call histories of jobs, and measurements of ranks under a plan."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.errors import InputError
from sccl.torch_backend.control.call_history import (
    RecordedCall,
    find_iterations,
    mismatch_reason,
    periods_us,
)
from sccl.torch_backend.script import PlanScript, ScriptMotif, format_script, parse_script
from sccl.torch_backend.stopwatch import Stopwatch

KEYS = {name: (name, (0, 1), "float32", 8, None, "sum") for name in "abcd"}


def heard(calls: str, each_s: float = 1.0) -> list[RecordedCall]:
    return [RecordedCall(KEYS[name], k, k * each_s) for k, name in enumerate(calls)]


def begins(calls: str, program: str) -> list[int]:
    return [one.number for one in find_iterations(heard(calls), [KEYS[name] for name in program])]


def test_iterations_are_found_where_they_begin() -> None:
    assert begins("dabcabcabc", "abc") == [1, 4, 7]
    assert begins("abcdabcab", "abc") == [0, 4]
    assert begins("aaaa", "aa") == [0, 2]
    assert begins("ab", "abc") == []  # it is not known yet
    assert begins("babca", "abcd") == []


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ("ababab", "it expects c of 8 float32 of 2 ranks, which is none of the last 6 calls"),
        ("acbacbacbacb", "the last 12 calls never contain its 3 in a row"),
    ],
)
def test_plan_of_something_else_is_rejected(calls: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        begins(calls, "abc")


def test_job_that_a_plan_is_not_of_is_told_so_after_some_steps() -> None:
    program = [KEYS[name] for name in "abc"]

    def told(calls: str) -> str:
        return mismatch_reason([KEYS[name] for name in calls], program)

    assert told("ab" * 21) == ""  # its steps may not have begun
    why = "the plan belongs to another job: it expects c of 8 float32 of 2 ranks, which is none"
    assert told("ab" * 22).startswith(why)
    assert told("d" * 40 + "abcabc") == ""


@given(st.text("abcd", max_size=8), st.text("abc", min_size=1, max_size=4), st.integers(2, 5))
def test_repetition_is_detected_after_any_prefix(before: str, program: str, times: int) -> None:
    calls = before + program * times
    found = begins(calls, program)
    assert found
    assert all(calls[k : k + len(program)] == program for k in found)
    assert all(b - a >= len(program) for a, b in pairwise(found))


def test_periods_are_of_iterations_one_after_the_other() -> None:
    found = find_iterations(heard("abababdabab", 0.5), [KEYS["a"], KEYS["b"]])
    assert periods_us(found, 2) == [(2, 1e6), (4, 1e6), (9, 1e6)]


def test_measures_say_where_time_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((0, 0, 2, 3, 5, 7, 8, 9, 10))
    monkeypatch.setattr("sccl.torch_backend.stopwatch.time.perf_counter", lambda: next(clock))
    measures = Stopwatch()
    motif = ScriptMotif(channel=0, stream=0, timed=("allreduce", "a ring", 2, 64))
    measures.came_to(0)
    measures.came_to(4)  # at 0
    assert measures.taken() is None
    measures.held(has_pending=True)  # at 2: a call is there that is not issued
    measures.begun(2)  # at 3
    measures.ended(motif, None)  # at 5: it was of another size
    measures.ended(motif, 4.0)  # at 7
    measures.held(has_pending=False)  # at 8
    measures.came_to(6)  # at 9
    spent = measures.taken()  # at 10
    assert spent is not None
    assert (spent.period_us, spent.idle, spent.waited) == (4.5e6, 0.6, 0.2)
    (one,) = spent.motifs
    assert (one.option, one.us) == ("a ring", 4e6)
    assert measures.taken() is None


def test_script_may_be_of_no_plan() -> None:
    none = PlanScript(ranks=2)
    assert parse_script(format_script(none), "it") == none
