"""How far tests go: the same examples every time, or by night ten times as many from fresh seeds.

``pytest --nightly --hypothesis-seed=N`` is such a night; with the same N it is repeated.
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
    """Go ten times as far, from this seed; to be said before tests are collected."""
    _night.here, _night.seed = True, str(seed)


def is_night() -> bool:
    """Return whether this run goes further, and tries what is left out by day."""
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
    """Return what to seed a test's random numbers with: by day its name alone."""
    return f"{name} {_night.seed}" if _night.here else name
