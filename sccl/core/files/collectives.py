"""Convert collectives to files and back."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from sccl.core.collective import MAX_CHUNKS, Collective, Relation, RelationKind
from sccl.core.files.disk import read_text
from sccl.core.files.json_text import detect_text_kind, parse
from sccl.core.files.kinds import GROUPS
from sccl.core.files.shapes import (
    CollectiveWire,
    CustomCollectiveWire,
    GroupsWire,
    RelationWire,
)
from sccl.core.ids import Rank
from sccl.core.topology import to_ranks
from sccl.errors import FormatError, InputError, TooLargeError

Counts = list[int | list[int]]
"""A number for each rank, or a row of numbers for each rank."""
_MAX_UNSENT = 2**18
"""Number of (chunk, rank) pairs that a file may imply regardless of its length."""
_PER_LINE = 16
"""Number of further pairs per line, so that only large files can use much memory."""


def load_custom_collective(path: Path) -> CustomCollectiveWire:
    """Load the shape of a custom collective, which :mod:`sccl.collectives` interprets.

    Raises:
        InputError: The file cannot be read, or is not a custom collective.
    """
    return parse(read_text(path), CustomCollectiveWire, str(path))


def load_groups(path: Path) -> GroupsWire | None:
    """Load the shape of a file of process groups, None if the file is of another kind.

    Raises:
        InputError: The file cannot be read, or is inconsistent.
    """
    text = read_text(path)
    if detect_text_kind(text, str(path)) is not GROUPS:
        return None
    return parse(text, GroupsWire, str(path))


def load_counts(path: Path) -> Counts:
    """Load counts of elements: a number for each rank, or a row of numbers for each rank.

    The file is a JSON array, or lines of numbers with spaces or commas between them. A single line,
    or lines with one number each, have a number for each rank.

    Raises:
        InputError: The file cannot be read, or has other content.
    """
    text = read_text(path)
    if text.lstrip().startswith("["):
        try:
            return msgspec.json.decode(text, type=Counts)
        except msgspec.MsgspecError as error:
            raise FormatError(
                f"{path}: {error}; expected an array of counts, or of rows of them"
            ) from error
    rows = list[list[int]]()
    for number, line in enumerate(text.splitlines(), 1):
        words = re.split(r"\s*,\s*|\s+", line.strip()) if line.strip() else []
        odd = next((word for word in words if not re.fullmatch(r"[0-9]{1,13}", word)), None)
        if odd is not None:
            raise FormatError(
                f"{path}, line {number}: {odd[:40]!r} is no count, expected whole numbers with "
                "spaces or commas between them, or a JSON array"
            )
        if words:
            rows.append([int(word) for word in words])
    if not rows:
        raise FormatError(f"{path}: there are no counts, expected a number or a row for each rank")
    flat = len(rows) == 1 or all(len(row) == 1 for row in rows)
    return [count for row in rows for count in row] if flat else list(rows)


def _relation_to_wire(relation: Relation) -> RelationWire:
    return RelationWire(
        relation=relation.kind.value,
        root=relation.root,
        period=len(relation.pattern) or None,
        pairs=tuple((c, r) for c, ranks in enumerate(relation.pattern) for r in sorted(ranks)),
    )


def _relation_from_wire(wire: RelationWire, where: str) -> Relation:
    kind = RelationKind(wire.relation)
    if (wire.root is not None) != (kind is RelationKind.ROOT):
        raise FormatError(
            f"{where}: 'root' requires the relation 'root', and the relation requires it"
        )
    if kind is not RelationKind.PAIRS:
        if wire.pairs or wire.period is not None:
            raise FormatError(f"{where}: 'pairs' and 'period' go with the relation 'pairs' only")
        return Relation(kind, root=wire.root)
    longest = min(MAX_CHUNKS, max_pairs(len(wire.pairs)))
    if wire.period is None or wire.period > longest:
        raise FormatError(
            f"{where}: 'period', the number of chunks that {len(wire.pairs)} 'pairs' are about, is "
            f"{wire.period}, expected 1 to {longest}"
        )
    return Relation(kind, pattern=pattern_from_pairs(wire.pairs, wire.period, where))


def max_pairs(lines: int) -> int:
    """Return the maximum number of (chunk, rank) pairs of a file with a number of lines."""
    return _MAX_UNSENT + _PER_LINE * lines


def check_pairs(collective: Collective, sends: int, where: str) -> None:
    """Check that a collective is not too large for the number of sends in its file.

    Raises:
        TooLargeError: It is.
    """
    if collective.pair_count > (pair_limit := max_pairs(sends)):
        raise TooLargeError(
            f"{where}: {sends} sends for {collective.num_chunks} chunks on {collective.ranks} "
            f"ranks, with {collective.pair_count} pairs of a chunk and a source or destination; "
            "with so "
            f"few sends, this version reads up to {pair_limit}"
        )


def pattern_from_pairs(
    pairs: tuple[tuple[int, int], ...], chunks: int, where: str
) -> tuple[frozenset[Rank], ...]:
    """Return the ranks of each of ``chunks`` chunks by ``pairs`` of (chunk, rank).

    Raises:
        FormatError: A pair has a chunk out of range, or occurs twice.
    """
    ranks: list[set[int]] = [set() for _ in range(chunks)]
    for position, (chunk, rank) in enumerate(pairs):
        if chunk >= chunks:
            raise FormatError(
                f"{where}[{position}]: chunk {chunk} does not exist, expected 0 to {chunks - 1}"
            )
        if rank in ranks[chunk]:
            raise FormatError(f"{where}[{position}]: the pair [{chunk}, {rank}] occurs twice")
        ranks[chunk].add(rank)
    return tuple(to_ranks(r) for r in ranks)


def collective_to_wire(collective: Collective) -> CollectiveWire:
    """Return the file shape of a collective."""
    return CollectiveWire(
        name=collective.name,
        ranks=collective.ranks,
        chunks=collective.chunks,
        num_chunks=collective.num_chunks,
        pre=_relation_to_wire(collective.pre),
        post=_relation_to_wire(collective.post),
        combining=collective.combining,
        root=collective.root,
        counts=collective.counts,
    )


def collective_from_wire(wire: CollectiveWire, where: str) -> Collective:
    """Return the collective of a file shape.

    Raises:
        FormatError: It is inconsistent.
    """
    try:
        return Collective(
            name=wire.name,
            ranks=wire.ranks,
            chunks=wire.chunks,
            num_chunks=wire.num_chunks,
            pre=_relation_from_wire(wire.pre, f"{where}, $.collective.pre"),
            post=_relation_from_wire(wire.post, f"{where}, $.collective.post"),
            combining=wire.combining,
            root=wire.root,
            counts=wire.counts,
        )
    except FormatError:
        raise
    except InputError as error:
        raise FormatError(f"{where}: {error}") from error
