"""Numbers in words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sccl.core.formatting import format_runs


@given(st.sets(st.integers(0, 30)))
def test_runs_say_every_number_once(numbers: set[int]) -> None:
    said: list[int] = []
    for run in format_runs(numbers, through="-"):
        first, _, last = run.partition("-")
        said += range(int(first), int(last or first) + 1)
    assert said == sorted(numbers)


def test_two_in_a_row_are_no_run() -> None:
    assert format_runs([9, 4, 1, 2, 3, 8], through=" to ") == ["1 to 4", "8", "9"]
