"""Distinct types for ranks, chunks, steps and edges, so that type checkers detect mix-ups."""

from __future__ import annotations

from typing import NewType

Rank = NewType("Rank", int)
"""A node that participates in collectives, counted from 0."""

ChunkId = NewType("ChunkId", int)
"""A global chunk number: chunk ``i * P + n`` is the i-th chunk of rank n (SCCL section 3.2.2)."""

Step = NewType("Step", int)
"""A synchronous step, counted from 0 as in SCCL's printed algorithms (appendix A.5.1)."""

Edge = tuple[int, int]
"""A directed connection, always ``(src, dst)``. Its ends are ranks or switch nodes."""
