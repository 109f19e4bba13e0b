"""Reports of progress on long work."""

from __future__ import annotations

from collections.abc import Callable

ProgressCallback = Callable[[int, int], None]
"""Receives the amount that is done, and the total."""
