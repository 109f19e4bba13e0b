"""How much the check of a certificate may take: counted in operations, so that no clock decides."""

from __future__ import annotations

from typing import Literal

ClaimState = Literal["ok", "failed", "searched", "unchecked"]
"""The state of a claim. ``searched``: a solver's result. ``unchecked``: too much work."""

PER_CLAIM = 40_000_000
"""Elementary operations, of about a tenth of a microsecond to a microsecond each."""

_TOTAL = 400_000_000


class TooMuchError(Exception):
    """A claim takes more work than the checker does: it is neither proved nor refuted."""


class Work:
    """The work left for a claim, and for the certificate as a whole."""

    def __init__(self, total: int = _TOTAL) -> None:
        self.total, self.remaining = total, 0

    def begin(self) -> None:
        """Begin a claim."""
        self.remaining = min(PER_CLAIM, self.total)

    def spend(self, operations: int) -> None:
        """Note that something takes so many operations, best before it is done.

        Raises:
            TooMuchError: that is more than are left.
        """
        if operations > self.remaining:
            raise TooMuchError(
                "the check exceeds this checker's work limit: the claim stays unchecked"
            )
        self.remaining -= operations
        self.total -= operations
