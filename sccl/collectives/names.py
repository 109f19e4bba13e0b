"""The collectives of SCCL Table 2, their duals of section 3.5, and custom collectives.

A :class:`Spec` is a collective for any number of chunks: a repeating pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sccl.core.collective import (
    ALL,
    SCATTERED,
    TRANSPOSE,
    Collective,
    Relation,
    RelationKind,
    root_relation,
)
from sccl.core.files.collectives import pattern_from_pairs
from sccl.core.files.shapes import COUNTED_COLLECTIVES, CustomCollectiveWire
from sccl.errors import CollectiveError, FormatError, ParameterError, unknown_name


@dataclass(frozen=True, slots=True)
class Spec:
    """A collective on a number of ranks, for any number of chunks.

    Attributes:
        unit: Number that divides C (P if C counts all chunks that leave one rank).
        pattern_chunks: G at C = unit.
        counts: Number of elements of each chunk of the pattern. Empty: all chunks have one size.
        parts: Name and number of pattern chunks of each concurrent collective.
    """

    name: str
    ranks: int
    unit: int
    pattern_chunks: int
    pre: Relation
    post: Relation
    combining: bool = False
    root: int | None = None
    counts: tuple[int, ...] = ()
    parts: tuple[tuple[str, int], ...] = ()

    def single_specs(self) -> tuple[Spec, ...]:
        """Return each concurrent collective separately, or only this one."""
        specs, first = [], 0
        for name, count in self.parts:
            chunks = slice(first, first + count)
            pre, post = (replace(r, pattern=r.pattern[chunks]) for r in (self.pre, self.post))
            spec = replace(self, name=name, pattern_chunks=count, pre=pre, post=post, parts=())
            specs.append(replace(spec, counts=self.counts[chunks]))
            first += count
        return tuple(specs) or (self,)

    def at(self, chunks: int) -> Collective:
        """Return the collective with C = ``chunks``.

        Raises:
            ParameterError: C is below 1 or not a multiple of ``unit``.
        """
        if chunks < 1:
            raise ParameterError(f"chunks is {chunks}, expected at least 1")
        if chunks % self.unit:
            below = chunks // self.unit * self.unit
            nearest = f"{below} or {below + self.unit}" if below else f"{self.unit}"
            raise ParameterError(
                f"chunks is {chunks}: {self.name} divides each rank's buffer into {self.unit} "
                f"parts, so give a multiple of {self.unit} such as {nearest}"
            )
        return Collective(
            name=self.name,
            ranks=self.ranks,
            chunks=chunks,
            num_chunks=self.pattern_chunks * (chunks // self.unit),
            pre=self.pre,
            post=self.post,
            combining=self.combining,
            root=self.root,
            counts=self.counts,
        )


def _rootless_builder(
    name: str, pre: Relation, post: Relation, *, combining: bool = False
) -> Callable[[int, int], Spec]:
    def make(ranks: int, _root: int) -> Spec:
        """Return the collective on a number of ranks."""
        per_rank = name == "allgather"  # C counts chunks per source, otherwise leaving chunks
        return Spec(
            name,
            ranks,
            unit=1 if per_rank else ranks,
            pattern_chunks=ranks * ranks if post is TRANSPOSE else ranks,
            pre=pre,
            post=post,
            combining=combining,
        )

    return make


def _broadcast(ranks: int, root: int) -> Spec:
    return Spec("broadcast", ranks, 1, 1, root_relation(root), ALL, root=root)


def _reduce(ranks: int, root: int) -> Spec:
    return Spec("reduce", ranks, 1, 1, ALL, root_relation(root), combining=True, root=root)


def _gather(ranks: int, root: int) -> Spec:
    return Spec("gather", ranks, 1, ranks, SCATTERED, root_relation(root), root=root)


def _scatter(ranks: int, root: int) -> Spec:
    return Spec("scatter", ranks, ranks, ranks, root_relation(root), SCATTERED, root=root)


_ROOTED = {
    "broadcast": _broadcast,
    "gather": _gather,
    "reduce": _reduce,
    "scatter": _scatter,
}
_ROOTLESS = {
    "allgather": _rootless_builder("allgather", SCATTERED, ALL),
    "allreduce": _rootless_builder("allreduce", ALL, ALL, combining=True),
    "alltoall": _rootless_builder("alltoall", SCATTERED, TRANSPOSE),
    "reducescatter": _rootless_builder("reducescatter", ALL, SCATTERED, combining=True),
}
ROOTED = tuple(_ROOTED)
"""Names of the rooted collectives."""

_BUILDERS: dict[str, Callable[[int, int], Spec]] = {**_ROOTED, **_ROOTLESS}


def collective_names() -> tuple[str, ...]:
    """Return the names of the built-in collectives."""
    return tuple(sorted(_BUILDERS))


def named_spec(name: str, ranks: int, root: int | None = None) -> Spec:
    """Return a collective of :func:`collective_names` on ``ranks`` ranks.

    Args:
        root: Root of broadcast, reduce, gather and scatter, 0 by default.

    Raises:
        UnknownNameError: there is no such collective.
        ParameterError: the root is out of range, or the collective has none.
    """
    if name not in _BUILDERS:
        hint = f"the collectives are {', '.join(collective_names())}, or a .json file of your own"
        raise unknown_name("collective", name, _BUILDERS, hint)
    if ranks < 2:
        raise ParameterError(f"ranks is {ranks}, expected at least 2")
    if root is not None and name in _ROOTLESS:
        raise ParameterError(
            f"root is {root}, but {name} has no root: leave it out "
            f"(collectives with a root: {', '.join(ROOTED)})"
        )
    if root is not None and not 0 <= root < ranks:
        raise ParameterError(f"root is {root}, expected a rank from 0 to {ranks - 1}")
    return _BUILDERS[name](ranks, root or 0)


def custom_spec(wire: CustomCollectiveWire, where: str) -> Spec:
    """Return the collective of a custom file, whose chunks are each divided into C pieces.

    Chunks are numbered from 0 without gaps. A chunk may have several sources and any number of
    destinations. Counts are the numbers of elements of chunks, as in MPI's allgatherv and
    alltoallv.

    Raises:
        FormatError: A chunk number is missing or has no source, a pair is repeated or out of range,
            no chunk has to move, a combining chunk has several destinations, or counts do not
            match.
    """
    from sccl.collectives.counts import expand_collective  # noqa: PLC0415 - few come from files

    contents = expand_collective(wire, where)
    if wire.name in _BUILDERS:
        raise FormatError(
            f"{where}, $.name: {wire.name!r} is one of sccl's own collectives; give yours another"
        )
    for field, pairs in (("pre", contents.pre), ("post", contents.post)):
        if not pairs:
            raise FormatError(
                f"{where}, $.{field}: no [chunk, rank] pair, expected at least one; or give counts "
                f"as one of {', '.join(COUNTED_COLLECTIVES)}"
            )
    chunks = 1 + max(chunk for chunk, _ in (*contents.pre, *contents.post))
    if chunks > len(contents.pre):
        have = {chunk for chunk, _ in contents.pre}
        missing = next(c for c in range(chunks) if c not in have)
        raise FormatError(
            f"{where}: chunk {missing} has no source, expected at least one [chunk, rank] pair for "
            "each chunk from 0 to the highest in $.pre"
        )
    pre = pattern_from_pairs(contents.pre, chunks, f"{where}, $.pre")
    post = pattern_from_pairs(contents.post, chunks, f"{where}, $.post")
    moves = zip(post, pre, strict=True) if contents.combining else zip(pre, post, strict=True)
    if all(wanted <= holders for holders, wanted in moves):
        raise FormatError(f"{where}: every chunk is already at its destinations in $.post")
    if contents.combining and (bad := [c for c, after in enumerate(post) if len(after) != 1]):
        raise FormatError(
            f"{where}, $.post: chunk {bad[0]} has {len(post[bad[0]])} destinations; a reduction "
            "is synthesized as the inverse of its dual, which needs exactly one"
        )
    spec = Spec(
        wire.name,
        wire.ranks,
        unit=1,
        pattern_chunks=chunks,
        pre=Relation(RelationKind.PAIRS, pattern=pre),
        post=Relation(RelationKind.PAIRS, pattern=post),
        combining=contents.combining,
        counts=contents.counts,
    )
    try:
        spec.at(1)
    except CollectiveError as error:
        raise FormatError(f"{where}: {error}") from error
    return spec


def recover_spec(collective: Collective) -> Spec:
    """Return the spec of a collective: a built-in one, or one from its pattern."""
    c = collective
    if c.name in _BUILDERS and not misnaming_reason(c):
        return named_spec(c.name, c.ranks, c.root)
    period = max(len(c.pre.pattern), len(c.post.pattern)) or c.num_chunks // c.chunks
    unit = c.chunks * period // c.num_chunks or 1
    return Spec(c.name, c.ranks, unit, period, c.pre, c.post, c.combining, c.root, c.counts)


def misnaming_reason(collective: Collective) -> str:
    """Return why a collective differs from the built-in collective of its name, empty if not."""
    if collective.name not in _BUILDERS:
        return ""
    try:
        expected = named_spec(collective.name, collective.ranks, collective.root).at(
            collective.chunks
        )
    except ParameterError as error:
        return f"it is called {collective.name}, but is none: {error}"
    if collective == expected:
        return ""
    return f"it is called {collective.name}, but has other chunks, pre or post"
