"""Collectives as users name them: one, one in process groups, or several at once.

``alltoall@0-3/4-7`` is an alltoall in each of two groups of ranks, ``alltoall@16x8`` one in each of
16 groups of 8 ranks that follow one another, ``alltoall@16x8.strided`` in each of 16 groups of 8
ranks that are 16 apart. A ``+`` puts several together: ``allgather@0-7+alltoall@8-15``. Each part
is a name, or the file of a collective of one's own, which has no groups. Parts combine, or none
does; and allreduces are put together with allreduces alone, as the others that combine are reduced
for one rank each. ``64*allgather@0-7+alltoall@8-15``: chunks of the first part are 64 times as
large.

The chunks of all parts make up one pattern, so that a size is that of each of its chunks, as in
collectives of one's own: of an alltoall what a rank has for one other, and of an allreduce what
each rank of a group reduces for it, one by its size of what they have.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from sccl.collectives.spec import Spec, custom, named, names
from sccl.core.collective import Relation, RelationKind
from sccl.core.files.collectives import load_custom_collective
from sccl.core.ids import Rank
from sccl.core.topology import as_ranks
from sccl.errors import CollectiveError, FormatError, ParameterError, unknown_name

MOST_PATTERN = 2**20
"""Chunks of all parts together."""

_TIMES = re.compile(r"(\d{1,12})\*(.*)", re.DOTALL)
_GRID = re.compile(r"(\d{1,6})x(\d{1,6})(\.strided)?")
_SPAN = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class _Part:
    """Chunks of a part: who holds each before, who wants it after, how many elements it has."""

    pre: tuple[frozenset[Rank], ...]
    post: tuple[frozenset[Rank], ...]
    combining: bool
    counts: tuple[int, ...]


def resolve(text: str, ranks: int, root: int | None = None) -> Spec:
    """Return a collective by name, from the file of one's own (``.json``), or several together.

    Raises:
        InputError: no such name or file, groups that do not fit the ranks, parts that do not fit
            one another, or it does not fit a machine of ``ranks`` ranks.
    """
    if text.endswith(".json") and (not {"+", "*"} & set(text) or Path(text).exists()):
        if root is not None:
            raise ParameterError("root is given, but a custom collective has none: leave it out")
        return _own(text, ranks)
    if not {"@", "+", "*"} & set(text):
        return named(text, ranks, root)
    if root is not None:
        raise ParameterError(
            f"root is {root}, but {text} is of several collectives, each rooted at the first rank "
            "of its group: leave it out"
        )
    return _together(text, ranks)


def _own(text: str, ranks: int) -> Spec:
    wire = load_custom_collective(Path(text))
    if wire.ranks != ranks:
        raise FormatError(
            f"{text}, $.ranks: the collective is for {wire.ranks} ranks, the topology has {ranks}"
        )
    return custom(wire, text)


def _together(text: str, ranks: int) -> Spec:
    names_of = text.split("+")
    parts = [_part(part, ranks) for part in names_of]
    if len({part.combining for part in parts}) > 1:
        raise CollectiveError(
            f"collective {text!r}: some of its parts combine, and others do not; such are planned "
            "one after the other"
        )
    counts = tuple(count for part in parts for count in part.counts)
    pre = tuple(held for part in parts for held in part.pre)
    post = tuple(wanted for part in parts for wanted in part.post)
    combining = parts[0].combining
    if combining and len({len(wanted) > 1 for wanted in post}) > 1:
        raise CollectiveError(
            f"collective {text!r}: some of its parts are reduced for all ranks of a group, others "
            "for one rank each; such are planned one after the other: ask for allreduces alone, "
            "or for the others"
        )
    spec = Spec(
        text,
        ranks,
        unit=1,
        pattern_chunks=len(pre),
        pre=Relation(RelationKind.PAIRS, pattern=pre),
        post=Relation(RelationKind.PAIRS, pattern=post),
        combining=combining,
        counts=() if set(counts) == {1} else counts,
        parts=tuple((name, len(part.pre)) for name, part in zip(names_of, parts, strict=True)),
    )
    spec.at(1)
    return spec


def _part(text: str, ranks: int) -> _Part:
    if times := _TIMES.fullmatch(text):
        if not int(times[1]):
            raise ParameterError(
                f"collective {text!r}: chunks 0 times as large are none; leave that part out"
            )
        part = _part(times[2], ranks)
        return replace(part, counts=tuple(int(times[1]) * count for count in part.counts))
    name, at, where = text.partition("@")
    if not at and name.endswith(".json"):
        return _on(_own(name, ranks), list(range(ranks)))
    if name not in names():
        hint = f"the collectives are {', '.join(names())}, or a .json file of your own without '@'"
        raise unknown_name("collective", name, names(), hint)
    groups = _groups(where, ranks, text) if at else [list(range(ranks))]
    found = [_on(named(name, len(group)), group) for group in groups]
    return _Part(
        tuple(held for part in found for held in part.pre),
        tuple(wanted for part in found for wanted in part.post),
        found[0].combining,
        tuple(count for part in found for count in part.counts),
    )


def _on(spec: Spec, group: list[int]) -> _Part:
    """Return the chunks of a collective, its ranks those of a group."""
    if spec.pattern_chunks > MOST_PATTERN:
        raise CollectiveError(
            f"collective {spec.name!r} of {spec.ranks} ranks has {spec.pattern_chunks} chunks; "
            f"several together may have {MOST_PATTERN} each: give smaller groups"
        )
    chunks = range(spec.pattern_chunks)
    pre, post = (
        tuple(as_ranks(group[r] for r in relation.of(c, spec.ranks)) for c in chunks)
        for relation in (spec.pre, spec.post)
    )
    return _Part(pre, post, spec.combining, spec.counts or (1,) * len(pre))


def _groups(where: str, ranks: int, text: str) -> list[list[int]]:
    """Return the ranks of each group.

    Raises:
        ParameterError: the text says no groups of ranks of the machine.
    """
    if grid := _GRID.fullmatch(where):
        count, size = int(grid[1]), int(grid[2])
        if count * size != ranks or size < 2 or count < 1:
            raise ParameterError(
                f"collective {text!r}: {count} groups of {size} ranks, and the machine has {ranks} "
                "ranks: give numbers that make them up, of 2 ranks or more"
            )
        if grid[3]:
            return [list(range(first, ranks, count)) for first in range(count)]
        return [list(range(first, first + size)) for first in range(0, ranks, size)]
    groups = [_ranks(group, ranks, text) for group in where.split("/")]
    seen = Counter(rank for group in groups for rank in group)
    if twice := sorted(rank for rank, times in seen.items() if times > 1):
        raise ParameterError(
            f"collective {text!r}: rank {twice[0]} stands twice; a rank is in one group, and what "
            "it does beside that is put to it with '+'"
        )
    return groups


def _ranks(group: str, ranks: int, text: str) -> list[int]:
    found: list[int] = []
    for span in group.split(","):
        told = _SPAN.fullmatch(span)
        if told is None:
            raise ParameterError(
                f"collective {text!r}: {span!r} names no ranks, expected groups as 0-3/4-7, "
                "0,2,4/1,3,5, 2x4 or 2x4.strided"
            )
        first, last = int(told[1]), int(told[2] or told[1])
        if not first <= last < ranks:
            raise ParameterError(
                f"collective {text!r}: ranks {span}, expected ascending ones from 0 to {ranks - 1}"
            )
        found += range(first, last + 1)
    if len(found) < 2:
        raise ParameterError(f"collective {text!r}: group {group!r} has one rank, expected more")
    return found
