"""Convert msccl-tools' collectives: chunks with sources, destinations, and an address.

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

from sccl.collectives import collective_names, named_spec
from sccl.core.collective import Collective, Relation, RelationKind
from sccl.core.files.disk import slugify
from sccl.core.ids import Rank
from sccl.core.topology import to_ranks
from sccl.errors import FormatError, TooLargeError

MAX_RANKS = 1024
"""Maximum number of ranks of a file, whose machine is a matrix."""

MAX_SENDS = 2**20
"""Maximum number of sends of a file, and of chunks."""

_MAX_ROOTS = 2
"""Maximum number of roots to try: in a rooted collective, one of the two sides is only the root."""

_MAX_NAME = 60
"""Longest name of a custom collective."""

Move = tuple[frozenset[Rank], frozenset[Rank]]
"""Ranks that initially hold, or contribute to, a chunk, and its destinations."""


@dataclass(frozen=True, slots=True)
class AddressDemand:
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


def parse_demand(part: CollectivePart, where: str) -> AddressDemand:
    """Return the demand of each address.

    Raises:
        FormatError: A node does not exist, or chunks of one address differ in more than their
            sources.
    """
    nodes = part.nodes
    by_address: dict[int, list[Move]] = defaultdict(list)
    for number, chunk in enumerate(part.chunks):
        if not all(0 <= rank < nodes for rank in (*chunk.pre, *chunk.post)) or not chunk.pre:
            raise FormatError(
                f"{where}: chunk {number} of its collective is at {chunk.pre[:4]} and wanted at "
                f"{chunk.post[:4]}, expected nodes from 0 to {nodes - 1}"
            )
        by_address[chunk.addr].append((to_ranks(chunk.pre), to_ranks(chunk.post)))
    combining = len(by_address) < len(part.chunks)
    moves = {
        address: _reduction_move(address_moves, address, where) if combining else address_moves[0]
        for address, address_moves in sorted(by_address.items())
    }
    return AddressDemand(moves, combining)


def _reduction_move(moves: list[Move], address: int, where: str) -> Move:
    """Return the contributors to an address, and the destinations of the sum."""
    contributors = [rank for pre, _ in moves for rank in pre]
    wanted = moves[0][1]
    if any(post != wanted for _, post in moves) or len(set(contributors)) < len(contributors):
        raise FormatError(
            f"{where}: the sum at address {address} differs by rank, as in a scan, which sccl "
            "does not have: expected one sum of one chunk from each rank"
        )
    return to_ranks(contributors), wanted


def number_chunks(
    wanted: AddressDemand, chunks: int, part: CollectivePart, where: str
) -> tuple[Collective, dict[int, list[int]]]:
    """Return the collective with ``chunks`` chunks per address, and the numbers of its chunks.

    Raises:
        InputError: sccl does not support the collective, or it has too many chunks.
    """
    ranks = part.nodes
    cut = _pieces_per_chunk(wanted, chunks, ranks)
    if len(wanted.moves) * chunks * cut > MAX_SENDS:
        raise TooLargeError(
            f"{where}: {len(wanted.moves)} addresses of {chunks * cut} chunks; up to {MAX_SENDS} "
            "in all are read"
        )
    collective = _named_collective(wanted, chunks * cut, ranks)
    if collective is None:
        collective = _custom_collective(wanted, chunks, part)
    left = {move: iter(numbers) for move, numbers in collective.chunk_classes().items()}
    numbers = {
        address * chunks + piece: [next(left[move]) for _ in range(cut)]
        for piece in range(chunks)
        for address, move in wanted.moves.items()
    }
    return collective, numbers


def _pieces_per_chunk(wanted: AddressDemand, chunks: int, ranks: int) -> int:
    """Return the number of pieces per chunk, such that an allreduce has chunks for each rank."""
    everyone = to_ranks(range(ranks))
    if not wanted.combining or set(wanted.moves.values()) != {(everyone, everyone)}:
        return 1
    return ranks // gcd(ranks, len(wanted.moves) * chunks)


def _named_collective(wanted: AddressDemand, chunks: int, ranks: int) -> Collective | None:
    """Return the built-in collective with this demand, None if there is none."""
    count = {move: chunks * n for move, n in Counter(wanted.moves.values()).items()}
    roots = sorted({min(side) for move in count for side in move if len(side) == 1})
    for name in collective_names():
        rooted = named_spec(name, ranks).root is not None
        for root in roots[:_MAX_ROOTS] if rooted else [None]:
            spec = named_spec(name, ranks, root)
            classes = spec.at(spec.unit).chunk_classes()
            times = sum(count.values()) // spec.pattern_chunks
            if spec.combining == wanted.combining and count == {
                move: times * len(numbers) for move, numbers in classes.items()
            }:
                return spec.at(spec.unit * times)
    return None


def _custom_collective(wanted: AddressDemand, chunks: int, part: CollectivePart) -> Collective:
    pre, post = (tuple(move[side] for move in wanted.moves.values()) for side in (0, 1))
    return Collective(
        name=slugify(f"msccl {part.name}")[:_MAX_NAME],
        ranks=part.nodes,
        chunks=chunks,
        num_chunks=len(pre) * chunks,
        pre=Relation(RelationKind.PAIRS, pattern=pre),
        post=Relation(RelationKind.PAIRS, pattern=post),
        combining=wanted.combining,
    )
