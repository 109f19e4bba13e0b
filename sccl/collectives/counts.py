"""Collectives with counts, as in MPI: allgatherv, alltoallv, gatherv, scatterv and others.

A rank's part is one chunk with its count of elements. Parts without elements have no chunk. Sizes
refer to one element, like the size of MPI's data type.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from sccl.core.files.json_text import parse
from sccl.core.files.shapes import COUNTED_COLLECTIVES, CustomCollectiveWire
from sccl.errors import FormatError, ParameterError, unknown_name

_ROOTED = ("gatherv", "scatterv")


def counts_to_wire(
    name: str, counts: Sequence[object], ranks: int, root: int | None, where: str
) -> CustomCollectiveWire:
    """Return the file shape of a collective with counts.

    Args:
        name: Name from :data:`COUNTED_COLLECTIVES`.
        counts: A number for each rank, or for alltoallv a row of numbers for each rank.
        where: Source of the counts, for messages.

    Raises:
        FormatError: The collective does not exist, or counts have another form.
    """
    if name not in COUNTED_COLLECTIVES:
        raise unknown_name(
            "collective of counts",
            name,
            COUNTED_COLLECTIVES,
            f"they are {', '.join(COUNTED_COLLECTIVES)}",
        )
    if root is not None and name not in _ROOTED:
        raise ParameterError(f"root is {root}, but {name} has no root: leave it out")
    if root is not None and root not in range(ranks):
        raise ParameterError(f"root is {root}, expected a rank from 0 to {ranks - 1}")
    rows = bool(counts) and isinstance(counts[0], Sequence)
    if rows != (name == "alltoallv"):
        expected = (
            "a row of counts for each rank" if name == "alltoallv" else "a count for each rank"
        )
        raise FormatError(f"{where}: {name} takes {expected}")
    plain = {"name": name, "ranks": ranks, name: counts, "root": root or 0}
    return parse(json.dumps(plain), CustomCollectiveWire, where)


Pairs = tuple[tuple[int, int], ...]
"""(chunk, rank)."""


class ExplicitCollective(NamedTuple):
    """A collective as pairs and counts. Empty counts: all chunks have one size."""

    pre: Pairs
    post: Pairs
    counts: tuple[int, ...]
    combining: bool


def expand_collective(wire: CustomCollectiveWire, where: str) -> ExplicitCollective:
    """Return a file's collective as pairs and counts, for each notation.

    Raises:
        FormatError: It uses two notations, counts do not match the ranks, or all are 0.
    """
    keys = [name for name in COUNTED_COLLECTIVES if getattr(wire, name)]
    if wire.root and not {*keys} & {*_ROOTED}:
        raise FormatError(f"{where}, $.root: only {' and '.join(_ROOTED)} have one: leave it out")
    if not keys:
        return ExplicitCollective(wire.pre, wire.post, wire.counts, wire.combining)
    pairs = [name for name in ("pre", "post", "counts") if getattr(wire, name)]
    if len(keys) + len(pairs) > 1 or wire.combining:
        others = [*keys[1:], *pairs, *(["combining"] if wire.combining else [])]
        raise FormatError(
            f"{where}: $.{keys[0]} describes the whole collective, and $.{others[0]} repeats a "
            "part of it: leave one out"
        )
    counts = getattr(wire, keys[0])
    _check_counts(counts, wire.ranks, f"{where}, $.{keys[0]}")
    if keys[0] == "alltoallv":
        made = _pair_parts(counts)
    elif keys[0] in _ROOTED:
        if wire.root >= wire.ranks:
            raise FormatError(
                f"{where}, $.root: {wire.root}, expected a rank from 0 to {wire.ranks - 1}"
            )
        made = _rooted_parts(counts, wire.root, scatters=keys[0] == "scatterv")
    else:
        made = _rank_parts(counts, scatters=keys[0] == "reducescatterv")
    if not made.counts:
        raise FormatError(f"{where}, $.{keys[0]}: no rank has any element for another")
    return made


def _check_counts(counts: Sequence[object], ranks: int, where: str) -> None:
    if len(counts) != ranks:
        raise FormatError(f"{where}: {len(counts)} entries, expected one for each of {ranks} ranks")
    for rank, row in enumerate(counts):
        if isinstance(row, Sequence) and len(row) != ranks:
            raise FormatError(
                f"{where}[{rank}]: {len(row)} entries, expected one for each of {ranks} ranks"
            )


def _pair_parts(rows: Sequence[Sequence[int]]) -> ExplicitCollective:
    """Return a chunk for each pair of different ranks. A rank's data for itself are not sent."""
    chunks = [
        (source, goal, count)
        for source, row in enumerate(rows)
        for goal, count in enumerate(row)
        if count and goal != source
    ]
    return ExplicitCollective(
        pre=tuple((c, source) for c, (source, _, _) in enumerate(chunks)),
        post=tuple((c, goal) for c, (_, goal, _) in enumerate(chunks)),
        counts=tuple(count for _, _, count in chunks),
        combining=False,
    )


def _rank_parts(counts: Sequence[int], *, scatters: bool) -> ExplicitCollective:
    """Return a chunk for each rank's part: from the rank to all, or reduced from all to it."""
    parts = [(rank, count) for rank, count in enumerate(counts) if count]
    owner_pairs = tuple((c, rank) for c, (rank, _) in enumerate(parts))
    everywhere = tuple((c, rank) for c in range(len(parts)) for rank in range(len(counts)))
    return ExplicitCollective(
        pre=everywhere if scatters else owner_pairs,
        post=owner_pairs if scatters else everywhere,
        counts=tuple(count for _, count in parts),
        combining=scatters,
    )


def _rooted_parts(counts: Sequence[int], root: int, *, scatters: bool) -> ExplicitCollective:
    """Return a chunk for each other rank's part: from the rank to the root, or in reverse."""
    parts = [(rank, count) for rank, count in enumerate(counts) if count and rank != root]
    rank_pairs = tuple((c, rank) for c, (rank, _) in enumerate(parts))
    root_pairs = tuple((c, root) for c in range(len(parts)))
    return ExplicitCollective(
        pre=root_pairs if scatters else rank_pairs,
        post=rank_pairs if scatters else root_pairs,
        counts=tuple(count for _, count in parts),
        combining=False,
    )
