"""Expensive inputs, which the first worker of a run builds and stores on disk."""

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
    """Return the result of ``make`` by the first worker that asked for this name.

    It is pickled, so each worker has its own copy.
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
            shutil.rmtree(inside, ignore_errors=True)  # the worker that began it failed
            inside.mkdir()
            fill(inside)
            filled.touch()
    return inside


@contextmanager
def alone(name: str) -> Iterator[Path]:
    """Yield the folder of a name, to one process at a time."""
    assert _base, f"{name} is asked for before the run has a folder: not while tests are collected"
    place = _base[0] / f"once-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place
