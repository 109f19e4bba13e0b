"""Collectives as msccl-tools has them: chunks with who has them, who wants them, and an address.

Chunks of one address are added up. Source: microsoft/msccl-tools 2.3.0 (030a750),
``msccl/collectives.py``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sccl.collectives import named, names
from sccl.core.collective import Collective, Relation, RelationKind
from sccl.core.files.disk import slug
from sccl.core.ids import Rank
from sccl.core.topology import as_ranks
from sccl.errors import FormatError, TooLargeError

MAX_RANKS = 1024
"""Largest number of ranks of a file, whose machine is a matrix."""

MAX_SENDS = 2**20
"""Largest number of sends of a file, and of chunks."""

_MAX_ROOTS = 2
"""That are tried: of a collective with a root, one of its two sides is at that root alone."""

_LONGEST_NAME = 60
"""Longest name of a custom collective."""

Move = tuple[frozenset[Rank], frozenset[Rank]]
"""Ranks that hold, or contribute to, a chunk at the beginning, and its destinations."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The demand of each address, and whether it is a sum."""

    moves: Mapping[int, Move]
    combining: bool


class ChunkPart(msgspec.Struct, frozen=True):
    """The sources and destinations of a chunk, and its address."""

    pre: list[int]
    post: list[int]
    addr: Annotated[int, Meta(ge=0, le=MAX_SENDS)]


class CollectivePart(msgspec.Struct, frozen=True):
    """A collective of one chunk each."""

    name: str
    nodes: Annotated[int, Meta(ge=2, le=MAX_RANKS)]
    chunks: Annotated[list[ChunkPart], Meta(min_length=1, max_length=MAX_SENDS)]
    triggers: dict[str, Any] = {}


def period_of(collective: Collective) -> int:
    """Return how many chunks there are before they repeat."""
    found = 1
    for relation in (collective.pre, collective.post):
        match relation.kind:
            case RelationKind.SCATTERED:
                found = max(found, collective.ranks)
            case RelationKind.TRANSPOSE:
                found = max(found, collective.ranks**2)
            case RelationKind.PAIRS:
                found = max(found, len(relation.pattern))
    return found


def wanted_of(told: CollectivePart, where: str) -> Wanted:
    """Return the demand of each address.

    Raises:
        FormatError: A node does not exist, or chunks of one address differ in more than their
            sources.
    """
    nodes = told.nodes
    found: dict[int, list[Move]] = defaultdict(list)
    for number, chunk in enumerate(told.chunks):
        if not all(0 <= rank < nodes for rank in (*chunk.pre, *chunk.post)) or not chunk.pre:
            raise FormatError(
                f"{where}: chunk {number} of its collective is at {chunk.pre[:4]} and wanted at "
                f"{chunk.post[:4]}, expected nodes from 0 to {nodes - 1}"
            )
        found[chunk.addr].append((as_ranks(chunk.pre), as_ranks(chunk.post)))
    combining = len(found) < len(told.chunks)
    moves = {
        address: _added(own, address, where) if combining else own[0]
        for address, own in sorted(found.items())
    }
    return Wanted(moves, combining)


def _added(own: list[Move], address: int, where: str) -> Move:
    """Return who contributes to an address, and who wants the sum."""
    contributors = [rank for pre, _ in own for rank in pre]
    wanted = own[0][1]
    if any(post != wanted for _, post in own) or len(set(contributors)) < len(contributors):
        raise FormatError(
            f"{where}: the sum at address {address} differs by rank, as in a scan, which sccl "
            "does not have: expected one sum of one chunk from each rank"
        )
    return as_ranks(contributors), wanted


def numbered(
    wanted: Wanted, chunks: int, told: CollectivePart, where: str
) -> tuple[Collective, dict[int, list[int]]]:
    """Return the collective of so many chunks an address, and the numbers of each of them.

    Raises:
        InputError: it is one that sccl refuses, or has more chunks than are read.
    """
    ranks = told.nodes
    cut = _cut(wanted, chunks, ranks)
    if len(wanted.moves) * chunks * cut > MAX_SENDS:
        raise TooLargeError(
            f"{where}: {len(wanted.moves)} addresses of {chunks * cut} chunks; up to {MAX_SENDS} "
            "in all are read"
        )
    collective = _known(wanted, chunks * cut, ranks)
    if collective is None:
        collective = _custom(wanted, chunks, told)
    left = {move: iter(numbers) for move, numbers in collective.classes().items()}
    numbers = {
        address * chunks + piece: [next(left[move]) for _ in range(cut)]
        for piece in range(chunks)
        for address, move in wanted.moves.items()
    }
    return collective, numbers


def _cut(wanted: Wanted, chunks: int, ranks: int) -> int:
    """Return into how many pieces chunks are cut, so that an allreduce has some for each rank."""
    everyone = as_ranks(range(ranks))
    if not wanted.combining or set(wanted.moves.values()) != {(everyone, everyone)}:
        return 1
    return ranks // gcd(ranks, len(wanted.moves) * chunks)


def _known(wanted: Wanted, chunks: int, ranks: int) -> Collective | None:
    """Return the collective by its name. None: it is none that has one."""
    count = {move: chunks * n for move, n in Counter(wanted.moves.values()).items()}
    roots = sorted({min(side) for move in count for side in move if len(side) == 1})
    for name in names():
        rooted = named(name, ranks).root is not None
        for root in roots[:_MAX_ROOTS] if rooted else [None]:
            spec = named(name, ranks, root)
            own = spec.at(spec.unit).classes()
            times = sum(count.values()) // spec.pattern_chunks
            if spec.combining == wanted.combining and count == {
                move: times * len(numbers) for move, numbers in own.items()
            }:
                return spec.at(spec.unit * times)
    return None


def _custom(wanted: Wanted, chunks: int, told: CollectivePart) -> Collective:
    pre, post = (tuple(move[side] for move in wanted.moves.values()) for side in (0, 1))
    return Collective(
        name=slug(f"msccl {told.name}")[:_LONGEST_NAME],
        ranks=told.nodes,
        chunks=chunks,
        num_chunks=len(pre) * chunks,
        pre=Relation(RelationKind.PAIRS, pattern=pre),
        post=Relation(RelationKind.PAIRS, pattern=post),
        combining=wanted.combining,
    )
