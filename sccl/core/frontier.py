"""What is known of the best algorithms for a question."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.candidate import Candidate


@dataclass(frozen=True, slots=True)
class Refuted:
    """A candidate that has no algorithm, and why.

    Attributes:
        evidence: why that may be believed, in words.
    """

    candidate: Candidate
    evidence: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Open:
    """A candidate that would improve the frontier and was not decided, and why."""

    candidate: Candidate
    reason: str
