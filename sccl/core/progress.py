"""Reports of progress on long work."""

from __future__ import annotations

from collections.abc import Callable

ProgressCallback = Callable[[int, int], None]
"""Callback with the completed amount of work, and the total."""
