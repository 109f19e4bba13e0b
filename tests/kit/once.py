"""What is dear to make: made once in a run by whichever worker comes first, and kept on disk."""

from __future__ import annotations

import fcntl
import hashlib
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_base: list[Path] = []


def keep_in(base: Path) -> None:
    """Set the folder that all workers of this run share."""
    _base[:] = [base]


def value(name: str, make: Callable[[], T]) -> T:
    """Return what ``make`` returned to the first of all workers that asked for this name.

    It is pickled, so each worker has one of its own.
    """
    with alone(name) as place:
        kept = place / "value"
        if not kept.exists():
            part = place / "part"
            part.write_bytes(pickle.dumps(make()))
            part.rename(kept)
    found: T = pickle.loads(kept.read_bytes())  # noqa: S301 - it is our own
    return found


def folder(name: str, fill: Callable[[Path], object]) -> Path:
    """Return a folder that the first of all workers filled, and that is only read from then on."""
    with alone(name) as place:
        inside, filled = place / "folder", place / "filled"
        if not filled.exists():
            shutil.rmtree(inside, ignore_errors=True)  # whoever began it failed
            inside.mkdir()
            fill(inside)
            filled.touch()
    return inside


@contextmanager
def alone(name: str) -> Iterator[Path]:
    """Yield a place for what has this name, to one process at a time."""
    assert _base, f"{name} is asked for before the run has a folder: not while tests are collected"
    place = _base[0] / f"once-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place
