"""Extent of the tests: fixed examples by day, ten times as many from fresh seeds by night.

``pytest --nightly --hypothesis-seed=N`` is a nightly run. The same N repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass

FURTHER = 10


@dataclass
class _Night:
    here: bool = False
    seed: str = ""


_night = _Night()


def begin(seed: object) -> None:
    """Start a nightly run with this seed. It has to precede the collection of tests."""
    _night.here, _night.seed = True, str(seed)


def is_night() -> bool:
    """Return whether this is a nightly run."""
    return _night.here


def times(count: int, by_day: int | None = None) -> int:
    """Return how many examples to try: by night ten times as many as is usual by day.

    Args:
        by_day: how many by day where that is less than is usual, as each takes a solver long.
    """
    if _night.here:
        return FURTHER * count
    return count if by_day is None else by_day


def seed(name: str) -> str:
    """Return the seed of a test's random numbers, which by day is its name."""
    return f"{name} {_night.seed}" if _night.here else name
