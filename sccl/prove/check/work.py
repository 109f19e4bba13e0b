"""Limit the work of checking a certificate, in operations, so that no clock affects the result."""

from __future__ import annotations

from typing import Literal

ClaimState = Literal["ok", "failed", "searched", "unchecked"]
"""The state of a claim. ``searched``: a solver's result. ``unchecked``: too much work."""

PER_CLAIM = 40_000_000
"""Maximum number of elementary operations per claim, of 0.1 to 1 microsecond each."""

_TOTAL = 400_000_000


class TooMuchError(Exception):
    """A claim needs more work than the limit allows. It is neither proved nor refuted."""


class Work:
    """The remaining operations for the current claim, and for the whole certificate."""

    def __init__(self, total: int = _TOTAL) -> None:
        self.total, self.remaining = total, 0

    def begin(self) -> None:
        """Start the budget of a claim."""
        self.remaining = min(PER_CLAIM, self.total)

    def spend(self, operations: int) -> None:
        """Count operations, preferably before they are done.

        Raises:
            TooMuchError: They exceed the remaining ones.
        """
        if operations > self.remaining:
            raise TooMuchError(
                "the check exceeds this checker's work limit: the claim stays unchecked"
            )
        self.remaining -= operations
        self.total -= operations
