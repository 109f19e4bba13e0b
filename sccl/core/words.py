"""Numbers of things, as sentences say them."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """Return ``"1 chunk"``, ``"2 chunks"``; the plural takes an s."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
