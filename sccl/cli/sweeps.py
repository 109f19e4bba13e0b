"""Frontiers that were written as JSON, read back for pictures."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Literal

import msgspec

from sccl.core.files import read_text
from sccl.errors import FormatError
from sccl.view.shown import Candidate, Sweep


class _Open(msgspec.Struct, frozen=True):
    chunks: int
    steps: int
    rounds: int
    reason: str = ""
    evidence: str = ""


class _Limit(msgspec.Struct, frozen=True):
    steps: int
    lower: str


class _Frontier(msgspec.Struct, frozen=True):
    topology: str
    collective: str
    complete: bool
    stopped: str
    root: int | None = None
    every_k: bool = False
    limits: tuple[_Limit, ...] = ()
    open: tuple[_Open, ...] = ()
    unsat: tuple[_Open, ...] = ()


class _Head(msgspec.Struct, frozen=True):
    kind: str = ""
    points: msgspec.Raw = msgspec.Raw()


def kind_of(file: Path) -> Literal["algorithm", "frontier", ""]:
    """Return what a JSON file holds; empty: neither an algorithm nor a frontier.

    Raises:
        InputError: it cannot be read.
    """
    try:
        head = msgspec.json.decode(read_text(file), type=_Head)
    except msgspec.MsgspecError:
        return ""
    if head.kind in ("algorithm", "symmetric-algorithm"):
        return "algorithm"
    return "frontier" if not head.kind and bytes(head.points) else ""


def read_sweep(file: Path) -> Sweep:
    """Return what a frontier says beside its points, from what ``sccl pareto --json`` printed.

    Raises:
        FormatError: it is not of that shape.
    """
    try:
        found = msgspec.json.decode(read_text(file), type=_Frontier)
        limits = tuple((limit.steps, Fraction(limit.lower)) for limit in found.limits)
    except (msgspec.MsgspecError, ValueError, ZeroDivisionError) as error:
        raise FormatError(
            f"{file}: {error}; expected a frontier as 'sccl pareto --json' prints it"
        ) from error
    return Sweep(
        found.topology,
        found.collective,
        found.root,
        tuple(Candidate(c.chunks, c.steps, c.rounds, c.evidence) for c in found.unsat),
        tuple(Candidate(c.chunks, c.steps, c.rounds, c.reason) for c in found.open),
        limits,
        _summary(found),
    )


def _summary(found: _Frontier) -> str:
    """Return how far a frontier is known, in a sentence."""
    if found.stopped == "interrupted":
        return "Interrupted: this is the part that was found."
    if found.every_k:
        return "Complete for every k: each point is the limit of its S."
    if found.complete:
        return "Complete: the bandwidth bound is met and nothing is open."
    if found.open:
        return f"{len(found.open)} candidate(s) are open: each may hide a better algorithm."
    return "Not the end: more steps may give a smaller R/C."
