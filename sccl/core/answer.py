"""Answer: the verdict of a solver on an instance. A timeout is Unknown, never Unsat."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from sccl.core.stop import StopReason
from sccl.core.symmetric import AnyAlgorithm


class Origin(StrEnum):
    """The origin of an unsat verdict."""

    THIS_PROCESS = "here"
    """A solver or a bound of this process, or of worker processes that it started."""
    STORED = "stored"
    """The user's own store, by the same version and the same solver."""
    OTHER_VERSION = "other-version"
    """The user's own store, by another version."""
    STORE_FILE = "store-file"
    """A store file that the user named, which others may have written."""
    CLUSTER = "cluster"
    """A worker of a cluster."""

    @property
    def is_verified(self) -> bool:
        """Return whether an unsat of this origin is a proof without being derived again."""
        return self in {Origin.THIS_PROCESS, Origin.STORED}

    @property
    def description(self) -> str:
        """Return the origin in words, as the subject of a sentence."""
        return _ORIGIN_DESCRIPTIONS[self]


_ORIGIN_DESCRIPTIONS = {
    Origin.THIS_PROCESS: "this process",
    Origin.STORED: "the user's own store",
    Origin.OTHER_VERSION: "the store of another version of sccl",
    Origin.STORE_FILE: "the store file",
    Origin.CLUSTER: "the cluster",
}


UNVERIFIED_HINT = (
    "--no-store without --cluster solves it in this process; --trust-store and --trust-cluster "
    "accept the claim"
)
"""Remedies for an unsat that is not verified."""


@dataclass(frozen=True, slots=True)
class Sat:
    """An algorithm exists.

    Attributes:
        algorithm: The algorithm.
        seconds: Wall-clock time of encoding and solving.
        from_store: Whether the answer comes from the store, with the time of an earlier run.
        group: Name of the group of symmetries that restricted the search. Empty: none.
    """

    algorithm: AnyAlgorithm
    solver: str
    seconds: float
    from_store: bool = False
    group: str = ""


@dataclass(frozen=True, slots=True)
class Unsat:
    """No algorithm exists.

    Attributes:
        evidence: Evidence, in words.
        origin: Origin of the verdict.
        trusted: Whether the user accepts that origin without verification.
    """

    evidence: str
    solver: str
    seconds: float
    from_store: bool = False
    origin: Origin = Origin.THIS_PROCESS
    trusted: bool = False

    @property
    def is_accepted(self) -> bool:
        """Return whether it counts as a proof: its origin is verified, or the user trusts it."""
        return self.origin.is_verified or self.trusted


@dataclass(frozen=True, slots=True)
class Unknown:
    """The solver stopped without an answer, which proves nothing.

    Attributes:
        reason: Reason for stopping, such as ``"timeout after 60 s"``.
        best: R/C of the best algorithm found. Queries for the same number of steps are useful only
            below it. None: unknown.
    """

    reason: StopReason
    solver: str
    seconds: float
    from_store: bool = False
    best: Fraction | None = None


Answer = Sat | Unsat | Unknown


def describe_solver(answer: Answer) -> str:
    """Return the solver of an answer, with the group of symmetries if there is one."""
    if isinstance(answer, Sat) and answer.group:
        return f"{answer.solver} ({answer.group})"
    return answer.solver


def verdict(answer: Answer) -> Literal["sat", "unsat", "unknown"]:
    """Return ``"sat"``, ``"unsat"`` or ``"unknown"``."""
    match answer:
        case Sat():
            return "sat"
        case Unsat():
            return "unsat"
        case Unknown():
            return "unknown"
