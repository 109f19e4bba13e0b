"""Record the recent calls of a job, and test whether a plan fits them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sccl.errors import InputError

MAX_RECORDED_CALLS = 1 << 15
"""Largest number of stored calls."""


_BEFORE_STEPS = 32
"""Number of calls that a job may make before its first step, such as broadcasts of parameters."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call.

    Attributes:
        key: Properties that identify the call: collective, ranks, type, and more.
        number: Number of calls of all ranks until then.
        at_s: Time of the call, in seconds.
    """

    key: tuple[Hashable, ...]
    number: int
    at_s: float


def find_iterations(
    heard: Sequence[RecordedCall], program: Sequence[tuple[Hashable, ...]]
) -> list[RecordedCall]:
    """Return the first calls of a plan's iterations in the recorded calls. Empty: not known yet.

    Args:
        heard: Recorded calls, in order.
        program: Keys of the calls of an iteration, in order.

    Raises:
        InputError: The job makes other calls.
    """
    keys, size = [call.key for call in heard], len(program)
    called = set(keys)
    missing = [key for key in program if key not in called]
    if missing and len(keys) >= 2 * size:
        raise InputError(
            f"the plan belongs to another job: it expects {_format_key(missing[0])}, which is none "
            f"of the last {len(keys)} calls"
        )
    starts: list[RecordedCall] = []
    place = 0
    while not missing and place <= len(keys) - size:
        is_match = keys[place : place + size] == program
        starts += [heard[place]] if is_match else []
        place += size if is_match else 1
    if not starts and len(keys) >= min(4 * size, MAX_RECORDED_CALLS):
        raise InputError(
            f"the plan belongs to another job: the last {len(keys)} calls never contain its {size} "
            "in a row"
        )
    return starts


def mismatch_reason(
    first: Sequence[tuple[Hashable, ...]], program: Sequence[tuple[Hashable, ...]]
) -> str:
    """Return the reason why a plan does not fit the first calls of a job. Empty: it may fit.

    A job may make other calls before its first step, so the calls of more than four iterations are
    needed.
    """
    if len(first) < 4 * len(program) + _BEFORE_STEPS:
        return ""
    try:
        find_iterations([RecordedCall(key, 0, 0.0) for key in first], program)
    except InputError as error:
        return str(error)
    return ""


def periods_us(begins: Sequence[RecordedCall], size: int) -> list[tuple[int, float]]:
    """Return the durations of consecutive iterations, with the number of calls before their end.

    Args:
        begins: First calls of iterations.
        size: Number of calls of all ranks in an iteration.
    """
    return [
        (after.number, (after.at_s - before.at_s) * 1e6)
        for before, after in pairwise(begins)
        if after.number - before.number == size
    ]


def _format_key(key: tuple[Hashable, ...]) -> str:
    collective, group, dtype, *rest = key
    count = f" of {rest[0]}" if rest else ""
    assert isinstance(group, tuple)
    return f"{collective}{count} {dtype} of {len(group)} ranks"
