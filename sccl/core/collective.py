"""Collective: initial holders and destinations of each chunk (SCCL section 3.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from math import gcd

from sccl.core.ids import Rank
from sccl.core.topology import to_ranks
from sccl.errors import CollectiveError, TooLargeError

MAX_CHUNKS = 2**27
"""Maximum number of chunks: a guard against typing errors. The methods have no such limit."""

MAX_COUNT = 2**40
"""Maximum number of elements of a chunk, so that the bytes of all chunks fit in 64 bits."""

MAX_CLASSIFIED = 2**22
"""Maximum number of chunks to group into classes, due to memory. An alltoall of 2,048 ranks has as
many.
"""


class RelationKind(StrEnum):
    """The relations of SCCL Table 1, and an explicit list for everything else."""

    ALL = "all"
    ROOT = "root"
    SCATTERED = "scattered"
    TRANSPOSE = "transpose"
    PAIRS = "pairs"


@lru_cache(maxsize=16)
def _all_ranks(ranks: int) -> frozenset[Rank]:
    return to_ranks(range(ranks))


@lru_cache(maxsize=2**16)
def _single_rank(rank: int) -> frozenset[Rank]:
    return to_ranks((rank,))


@dataclass(frozen=True, slots=True)
class Relation:
    """A set of (chunk, rank) pairs, in the compact form of SCCL Table 1.

    Every relation is periodic in the chunk number, so one pattern describes a collective with any
    number of chunks.

    Attributes:
        root: Rank of ``ROOT``, else None.
        pattern: Ranks of chunk 0, 1, ... for ``PAIRS``. Chunk c has those of ``pattern[c %
            len(pattern)]``.
    """

    kind: RelationKind
    root: int | None = None
    pattern: tuple[frozenset[Rank], ...] = ()

    def ranks_of(self, chunk: int, ranks: int) -> frozenset[Rank]:
        """Return the ranks related to ``chunk`` on a machine of ``ranks`` ranks."""
        match self.kind:
            case RelationKind.ALL:
                return _all_ranks(ranks)
            case RelationKind.SCATTERED:
                return _single_rank(chunk % ranks)
            case RelationKind.TRANSPOSE:
                return _single_rank((chunk // ranks) % ranks)
            case RelationKind.ROOT:
                assert self.root is not None
                return _single_rank(self.root)
            case RelationKind.PAIRS:
                return self.pattern[chunk % len(self.pattern)]

    def pair_count(self, chunks: int, ranks: int) -> int:
        """Return the number of (chunk, rank) pairs for a number of chunks and ranks."""
        match self.kind:
            case RelationKind.ALL:
                return chunks * ranks
            case RelationKind.PAIRS:
                return sum(map(len, self.pattern)) * chunks // len(self.pattern)
        return chunks


ALL = Relation(RelationKind.ALL)
SCATTERED = Relation(RelationKind.SCATTERED)
TRANSPOSE = Relation(RelationKind.TRANSPOSE)


def root_relation(root: int) -> Relation:
    """Return the relation of every chunk to ``root``."""
    return Relation(RelationKind.ROOT, root=root)


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective at a given number of chunks: the data to be moved.

    Attributes:
        name: ``allgather``, ``reduce``, ... or the name of a custom collective.
        ranks: Number of ranks, P.
        chunks: Chunks per rank, C, the divisor of R/C.
        num_chunks: Number of all chunks, G. They are numbered ``0 .. G-1``.
        pre: Ranks that hold a chunk at the start. In a combining collective they contribute to it.
        post: Ranks that must hold a chunk at the end. In a combining collective it is reduced over
            all contributors.
        combining: Whether transfers reduce (reduce, reducescatter, allreduce).
        root: Root, for collectives that have one.
        counts: Numbers of elements of chunk 0, 1, ... of the pattern, as in MPI's allgatherv and
            alltoallv. C then divides each of these. Empty: all chunks have one size.
    """

    name: str
    ranks: int
    chunks: int
    num_chunks: int
    pre: Relation
    post: Relation
    combining: bool = False
    root: int | None = None
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        where = f"collective {self.name!r}"
        for name, value in (("ranks", self.ranks), ("chunks", self.chunks)):
            if value < 1:
                raise CollectiveError(f"{where}: {name} is {value}, expected at least 1")
        if not 1 <= self.num_chunks <= MAX_CHUNKS:
            raise CollectiveError(
                f"{where} has {self.num_chunks} chunks in all, expected 1 to {MAX_CHUNKS}"
            )
        for relation in (self.pre, self.post):
            if relation.kind is RelationKind.ROOT and (
                relation.root is None or not 0 <= relation.root < self.ranks
            ):
                raise CollectiveError(
                    f"{where}: root is {relation.root}, expected a rank from 0 to {self.ranks - 1}"
                )
            if relation.kind is RelationKind.PAIRS:
                self._check_period(len(relation.pattern), where)
        if self.chunks > self.num_chunks:
            raise CollectiveError(
                f"{where}: chunks is {self.chunks}, expected at most the total of {self.num_chunks}"
            )
        self._check_counts(where)
        periods = {len(self.pre.pattern), len(self.post.pattern), len(self.counts)} - {0}
        if len(periods) > 1:
            lengths = " and ".join(map(str, sorted(periods)))
            raise CollectiveError(
                f"{where}: pre, post and counts are patterns of {lengths} chunks; give all of them "
                "for the same chunks"
            )
        for chunk in self._pattern_chunks():
            for name, ranks in (("pre", self.holders(chunk)), ("post", self.destinations(chunk))):
                if outside := sorted(r for r in ranks if not 0 <= r < self.ranks):
                    raise CollectiveError(
                        f"{where}, {name}: chunk {chunk} is paired with rank {outside[0]}, "
                        f"expected a rank from 0 to {self.ranks - 1}"
                    )
            if not self.holders(chunk):
                raise CollectiveError(
                    f"{where}: chunk {chunk} has no source, expected at least one (chunk, rank) "
                    "pair for it in 'pre'"
                )

    def _check_period(self, period: int, where: str) -> None:
        """Check that the period of a pattern divides the chunks, and the repetitions divide C."""
        times, left = divmod(self.num_chunks, max(period, 1))
        if not period or left or self.chunks % times:
            raise CollectiveError(
                f"{where}: a pattern of {period} chunks does not divide the total of "
                f"{self.num_chunks} for {self.chunks} chunks per rank"
            )

    def _check_counts(self, where: str) -> None:
        if self.counts and len(self.counts) * self.chunks != self.num_chunks:
            raise CollectiveError(
                f"{where}: {len(self.counts)} counts for {self.num_chunks // self.chunks} chunks, "
                "expected one for each"
            )
        for chunk, count in enumerate(self.counts):
            if not 1 <= count <= MAX_COUNT:
                raise CollectiveError(
                    f"{where}: chunk {chunk} has {count} elements, expected 1 to {MAX_COUNT}"
                )

    def _pattern_chunks(self) -> range:
        longest = max(len(self.pre.pattern), len(self.post.pattern))
        return range(min(self.num_chunks, longest))

    @property
    def pair_count(self) -> int:
        """Return the total number of (chunk, rank) pairs of pre and post."""
        return sum(r.pair_count(self.num_chunks, self.ranks) for r in (self.pre, self.post))

    def holders(self, chunk: int) -> frozenset[Rank]:
        """Return the ranks that initially hold (or contribute to) ``chunk``."""
        return self.pre.ranks_of(chunk, self.ranks)

    def destinations(self, chunk: int) -> frozenset[Rank]:
        """Return the destinations of ``chunk``."""
        return self.post.ranks_of(chunk, self.ranks)

    def amount(self, chunks: Sequence[int]) -> int:
        """Return the number of elements of chunks, or the number of chunks if all have one size.

        An element that is divided into C parts counts C times. So an amount divided by C is a
        number of elements, or of buffers of C chunks.
        """
        if not self.counts:
            return len(chunks)
        return sum(self.counts[chunk % len(self.counts)] for chunk in chunks)

    @property
    def has_equal_classes(self) -> bool:
        """Return whether the relations imply that all classes have equally many equal chunks."""
        kinds = {self.pre.kind, self.post.kind}
        if self.counts or RelationKind.PAIRS in kinds:
            return False
        scattered = self.ranks if RelationKind.SCATTERED in kinds else 1
        period = self.ranks**2 if RelationKind.TRANSPOSE in kinds else scattered
        return self.num_chunks % period == 0

    @property
    def class_size_divisor(self) -> int:
        """Return the greatest common divisor of the class sizes."""
        if not self.has_equal_classes:
            return gcd(*(len(chunks) for chunks in self.chunk_classes().values()))
        kinds, classes = (self.pre.kind, self.post.kind), 1
        for kind in (RelationKind.SCATTERED, RelationKind.TRANSPOSE):
            classes *= self.ranks if kind in kinds else 1
        return self.num_chunks // classes

    @property
    def is_unicast(self) -> bool:
        """Return whether each chunk has at most one destination that does not hold it."""
        if not self.has_equal_classes:
            return all(
                len(destinations - holders) <= 1 for holders, destinations in self.chunk_classes()
            )
        to_all = self.post.kind is RelationKind.ALL and self.pre.kind is not RelationKind.ALL
        return not to_all or self.ranks == 2

    @property
    def is_alltoall(self) -> bool:
        """Return whether each rank has the same number of equal chunks for each rank (alltoall)."""
        kinds = (self.pre.kind, self.post.kind)
        return kinds == (RelationKind.SCATTERED, RelationKind.TRANSPOSE) and self.has_equal_classes

    @property
    def is_allgather(self) -> bool:
        """Return whether every rank receives the same number of chunks of each rank (allgather)."""
        kinds = (self.pre.kind, self.post.kind)
        return kinds == (RelationKind.SCATTERED, RelationKind.ALL) and self.has_equal_classes

    def amount_entering(self, inside: AbstractSet[int]) -> int:
        """Return the number of chunks, or elements, that must enter a set of ranks."""
        if not self.has_equal_classes:
            return sum(
                self.amount(chunks)
                for (holders, destinations), chunks in self.chunk_classes().items()
                if inside.isdisjoint(holders) and not inside.isdisjoint(destinations)
            )
        if self.pre == self.post or not inside:
            return 0
        within, outside = len(inside), self.ranks - len(inside)
        starts = {RelationKind.ALL: 0, RelationKind.ROOT: int(self.pre.root not in inside)}
        ends = {RelationKind.ALL: 1, RelationKind.ROOT: int(self.post.root in inside)}
        return (
            starts.get(self.pre.kind, outside)
            * ends.get(self.post.kind, within)
            * self.class_size_divisor
        )

    def served_bytes(self, chunk_bytes: int | Sequence[int]) -> Fraction:
        """Return the bytes per C chunks, or per element, for which chunks of these sizes suffice.

        Chunks of a class are interchangeable, so only the sum of their bytes matters.

        Args:
            chunk_bytes: Bytes of every chunk, or a sequence with the bytes of each chunk.

        Raises:
            TooLargeError: there are more than :data:`MAX_CLASSIFIED` chunks of different sizes.
        """
        if isinstance(chunk_bytes, int) and not self.counts:
            return Fraction(chunk_bytes * self.chunks)
        sizes = [chunk_bytes] * self.num_chunks if isinstance(chunk_bytes, int) else chunk_bytes
        classes = self.chunk_classes().values()
        bytes_per_element = (
            Fraction(sum(sizes[chunk] for chunk in members), self.amount(members))
            for members in classes
        )
        return self.chunks * min(bytes_per_element)

    def check_equal_chunks(self) -> None:
        """Check that chunks have one size, as steps and rounds require.

        Raises:
            CollectiveError: The collective has counts.
        """
        if self.counts:
            raise CollectiveError(
                f"collective {self.name!r} has parts of {min(self.counts)} to {max(self.counts)} "
                "elements, and steps and rounds count chunks of one size: use 'sccl synth teccl' "
                "or 'sccl synth fastest'"
            )

    def with_chunks(self, chunks: int) -> Collective:
        """Return the collective with another C, whose chunks repeat the same pattern."""
        number = self.num_chunks * chunks // self.chunks
        return replace(self, chunks=chunks, num_chunks=number)

    def chunk_classes(self) -> dict[tuple[frozenset[Rank], frozenset[Rank]], list[int]]:
        """Return the chunks by (holders, destinations). Chunks of a class are interchangeable.

        The result is shared: do not change it.

        Raises:
            TooLargeError: there are more than :data:`MAX_CLASSIFIED` chunks.
        """
        if self.num_chunks > MAX_CLASSIFIED:
            raise TooLargeError(
                f"{self.name} of {self.ranks} ranks with C={self.chunks} has {self.num_chunks} "
                f"chunks in all; this version works with up to {MAX_CLASSIFIED}: give fewer ranks "
                "or chunks"
            )
        return _chunk_classes(self)


@lru_cache(maxsize=16)
def _chunk_classes(
    collective: Collective,
) -> dict[tuple[frozenset[Rank], frozenset[Rank]], list[int]]:
    classes: dict[tuple[frozenset[Rank], frozenset[Rank]], list[int]] = {}
    for chunk in range(collective.num_chunks):
        key = (collective.holders(chunk), collective.destinations(chunk))
        classes.setdefault(key, []).append(chunk)
    return classes


# --- one flow ------------------------------------------------------------------------------------


_SINGLE_END_KINDS = {RelationKind.ROOT, RelationKind.PAIRS}  # kinds with a single source or sink


@dataclass(frozen=True, slots=True)
class FlowEnds:
    """The sources and sinks of one flow.

    Attributes:
        sources: (holders, amount) of each part.
        sinks: (rank, amount) of each destination.
    """

    sources: tuple[tuple[frozenset[int], int], ...]
    sinks: tuple[tuple[int, int], ...]

    @property
    def amount(self) -> int:
        """Return the total amount at the sinks."""
        return sum(amount for _, amount in self.sinks)


def single_flow_ends(collective: Collective) -> FlowEnds | None:
    """Return one flow of all chunks, if all start at one rank or all end at one rank, else None.

    Scatter and gather have such flows. Chunks can realize any such flow.
    """
    if {collective.pre.kind, collective.post.kind}.isdisjoint(_SINGLE_END_KINDS):
        return None
    classes = [
        (frozenset(map(int, holders)), sorted(map(int, destinations - holders)), len(chunks))
        for (holders, destinations), chunks in collective.chunk_classes().items()
        if destinations - holders
    ]
    if not classes or any(len(destinations) > 1 for _, destinations, _ in classes):
        return None
    if len({holders for holders, _, _ in classes}) == 1:
        amount = sum(chunks for _, _, chunks in classes)
        sinks = tuple((rank, chunks) for _, (rank,), chunks in classes)
        return FlowEnds(((classes[0][0], amount),), sinks)
    if len({rank for _, (rank,), _ in classes}) == 1:
        amount = sum(chunks for _, _, chunks in classes)
        sources = tuple((holders, chunks) for holders, _, chunks in classes)
        return FlowEnds(sources, ((classes[0][1][0], amount),))
    return None
