"""Reasons why a search stopped: one type for sweeps, limits, schedules, and answers of solvers.

Code compares the kind. Files and messages contain the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class StopKind(StrEnum):
    """The kind of a reason. Its value is the beginning of the reason's text in files."""

    NOT_STOPPED = ""
    """The search is complete or still running, or its file does not contain a reason."""
    BANDWIDTH_BOUND = "bandwidth-bound"
    """A point attains the bandwidth bound: more steps cannot improve R/C."""
    MAX_STEPS = "max-steps"
    """The largest number of steps has been searched."""
    TIMEOUT = "timeout"
    """The seconds are spent."""
    BUDGET = "no schedule within a budget"
    """The budget, which does not depend on the load of the machine, is spent."""
    INTERRUPTED = "interrupted"
    """The user interrupted."""
    INFEASIBLE = "impossible"
    """There is no plan."""
    TOO_LARGE = "too large"
    """The problem or its result is larger than the limit of the program."""
    SOLVER_FAILED = "the solver broke"
    """The solver failed. It proved nothing."""
    UNVERIFIED = "unsat according to"
    """Another process claims a refutation that this one does not verify."""
    OTHER = "other reason"
    """Any other reason, which only its text states."""


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a search stopped. True unless its kind is :attr:`StopKind.NOT_STOPPED`.

    Attributes:
        kind: The kind, for comparisons.
        detail: The reason in words. Empty: the words of its kind.
    """

    kind: StopKind
    detail: str = ""

    @classmethod
    def parse(cls, text: str) -> StopReason:
        """Parse a reason, for example from a file. Its text is preserved.

        The kind is the one whose words begin the text, otherwise :attr:`StopKind.OTHER`.
        """
        if not text:
            return NOT_STOPPED
        for kind in StopKind:
            if kind and re.match(rf"{re.escape(kind)}\b", text):
                return cls(kind, "" if text == kind else text)
        return cls(StopKind.OTHER, text)

    def __str__(self) -> str:
        return self.detail or self.kind.value

    def __bool__(self) -> bool:
        return self.kind is not StopKind.NOT_STOPPED


NOT_STOPPED = StopReason(StopKind.NOT_STOPPED)
INTERRUPTED = StopReason(StopKind.INTERRUPTED)
