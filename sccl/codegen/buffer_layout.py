"""Define the placement of a collective's chunks in the caller's buffers.

A buffer is a sequence of *blocks* of ``count`` elements each, in MPI's layout. Each block is
divided into the same number of *parts*. A chunk is one part of one block.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from sccl.core.collective import Collective, RelationKind

ALIGNMENT_BYTES = 64
"""Alignment of parts within their block, so that copies consist of whole cache lines."""


@dataclass(frozen=True, slots=True)
class BufferLayout:
    """Blocks and parts of the input and output buffers of every rank.

    Chunk ``i * period + p`` is part i of pattern chunk p. A rank's blocks are its pattern chunks in
    ascending order, which for MPI's collectives is MPI's own order.

    Attributes:
        period: Number of pattern chunks.
        inputs: Pattern chunks in the input buffer of each rank, in order.
        outputs: Pattern chunks in the output buffer of each rank, in order.
        aliases: Pairs (input block, output block) of each rank that share memory in an in-place
            call.
    """

    parts: int
    period: int
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    aliases: tuple[tuple[tuple[int, int], ...], ...]

    def part(self, chunk: int) -> int:
        """Return the number of the part that a chunk occupies in its block."""
        return chunk // self.period

    def input_index(self, rank: int, chunk: int) -> int:
        """Return ``block * parts + part`` of a chunk in the input buffer of ``rank``."""
        return self.inputs[rank].index(chunk % self.period) * self.parts + self.part(chunk)

    def output_index(self, rank: int, chunk: int) -> int:
        """Return ``block * parts + part`` of a chunk in the output buffer of ``rank``."""
        return self.outputs[rank].index(chunk % self.period) * self.parts + self.part(chunk)

    def chunk_of_input(self, rank: int, index: int) -> int:
        """Return the chunk at an index of the input buffer."""
        return self.inputs[rank][index // self.parts] + index % self.parts * self.period

    def chunk_of_output(self, rank: int, index: int) -> int:
        """Return the chunk at an index of the output buffer."""
        return self.outputs[rank][index // self.parts] + index % self.parts * self.period

    def aliased(self, rank: int) -> dict[int, int]:
        """Return the output index that shares memory with each input index of an in-place call.

        Empty for a rank without input, or with an input buffer that no output overlaps.
        """
        return {
            source * self.parts + part: target * self.parts + part
            for source, target in self.aliases[rank]
            for part in range(self.parts)
        }

    def unmoved_in_place(self, rank: int) -> dict[int, int]:
        """Return the entries of :meth:`aliased` with the same chunk in input and output."""
        return {
            source: target
            for source, target in self.aliased(rank).items()
            if self.chunk_of_input(rank, source) == self.chunk_of_output(rank, target)
        }


def build_layout(collective: Collective) -> BufferLayout:
    """Build the buffer layout of a collective, equal to MPI's layout for MPI's collectives."""
    period, ranks = chunk_period(collective), range(collective.ranks)
    inputs: list[list[int]] = [[] for _ in ranks]
    outputs: list[list[int]] = [[] for _ in ranks]
    for p in range(period):
        for rank in collective.holders(p):
            inputs[rank].append(p)
        for rank in collective.destinations(p):
            outputs[rank].append(p)
    aliases = tuple(_aliases(collective, rank) for rank in ranks)
    return BufferLayout(
        collective.num_chunks // period,
        period,
        tuple(map(tuple, inputs)),
        tuple(map(tuple, outputs)),
        aliases,
    )


def chunk_period(collective: Collective) -> int:
    """Return the number of pattern chunks, after which sources and destinations repeat."""
    lengths = {
        RelationKind.SCATTERED: collective.ranks,
        RelationKind.TRANSPOSE: collective.ranks**2,
    }
    return max(
        len(relation.pattern)
        if relation.kind is RelationKind.PAIRS
        else lengths.get(relation.kind, 1)
        for relation in (collective.pre, collective.post)
    )


def _aliases(collective: Collective, rank: int) -> tuple[tuple[int, int], ...]:
    # Meaning of MPI_IN_PLACE: MPI 4.1, chapter 6.
    at_root: dict[str, tuple[int, int]] = {
        "gather": (0, rank),
        "scatter": (rank, 0),
        "broadcast": (0, 0),
        "reduce": (0, 0),
    }
    if collective.root == rank and collective.name in at_root:
        return (at_root[collective.name],)
    everywhere: dict[str, tuple[tuple[int, int], ...]] = {
        "allgather": ((0, rank),),
        "allreduce": ((0, 0),),
        "alltoall": tuple((b, b) for b in range(collective.ranks)),
        "reducescatter": ((0, 0),),
    }
    return everywhere.get(collective.name, ())


def part_ranges(elements: int, parts: int, element_bytes: int) -> tuple[tuple[int, int], ...]:
    """Return (first, end) of every part of a block, in elements.

    Parts begin at multiples of :data:`ALIGNMENT_BYTES`. If a block has fewer such units than parts,
    some parts are empty and send nothing.
    """
    unit = max(1, ALIGNMENT_BYTES // element_bytes)
    units = -(-elements // unit)
    edges = [min(elements, units * part // parts * unit) for part in range(parts)] + [elements]
    return tuple(pairwise(edges))
