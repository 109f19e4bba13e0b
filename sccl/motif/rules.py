"""Rules: each makes of one motif several, which together do the same.

A rule is told of one group at a time; what it makes of several groups goes side by side. Each says
what it is of, and raises :class:`~sccl.errors.ParameterError` with what it would need where it is
not. That a result is right is judged (:mod:`sccl.motif.judge`), and not believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, pairwise
from typing import TypeVar

from sccl.core.motif import WHOLE, Motif, MotifShare
from sccl.errors import ParameterError
from sccl.motif.whole import NAMES, even

T = TypeVar("T")

MOST_SEGMENTS = 4096

Motifs = tuple[Motif, ...]
"""Of which each names those that it waits for by their numbers in here."""


@dataclass(frozen=True, slots=True)
class MotifRule:
    """A rule, as recipes name it.

    Attributes:
        of: the collectives that it splits.
        makes: what it makes of a motif of one group, and of the numbers that a recipe tells.
        told: what these are, for messages and documents; empty: there are none.
        says: what it makes, for documents.
        source: whose rule it is.
    """

    name: str
    of: tuple[str, ...]
    makes: Callable[[Motif, Sequence[int]], Motifs]
    told: str
    says: str
    source: str

    def applied(self, motif: Motif, numbers: Sequence[int]) -> Motifs:
        """Return what it makes of a motif of any number of groups.

        Raises:
            ParameterError: it is not of that motif, and what it would need.
        """
        if motif.collective not in self.of:
            raise ParameterError(
                f"{self.name} is of {', '.join(self.of)}, and not of {motif.collective}"
            )
        each = [self.makes(replace(motif, shares=(s,), after=()), numbers) for s in motif.shares]
        shapes = {tuple(replace(one, shares=()) for one in made) for made in each}
        if len(shapes) > 1:
            raise ParameterError(
                f"{self.name} makes other motifs of some groups of a {motif.collective} than of "
                "others, as they are of different sizes"
            )
        return tuple(
            replace(alike[0], shares=tuple(chain.from_iterable(one.shares for one in alike)))
            for alike in zip(*each, strict=True)
        )


def weighed(motif: Motif, weights: Sequence[int]) -> Motifs:
    """Return parallel motifs over parts of every cell, as large as some weights say."""
    (low, high), total = motif.part, sum(weights)
    ends = [low + (high - low) * Fraction(sum(weights[:k]), total) for k in range(len(weights) + 1)]
    return tuple(replace(motif, part=pair) for pair in pairwise(ends))


def _segments(motif: Motif, numbers: Sequence[int]) -> Motifs:
    (count,) = numbers
    if not 2 <= count <= MOST_SEGMENTS:
        raise ParameterError(f"seg({count}): expected 2 to {MOST_SEGMENTS} segments")
    return weighed(motif, [1] * count)


def _by_offsets(motif: Motif, ways: int) -> Motifs:
    """Return parallel all-to-alls of consecutive offsets.

    SYNDICATE's slice 0 has offset 0, too: what a rank has for itself, which does not move.
    """
    offsets = motif.offsets or tuple(range(motif.places))
    _check_within("spline", ways, "offsets", len(offsets))
    each = -(-len(offsets) // ways)
    slices = [offsets[k : k + each] for k in range(0, len(offsets), each)]
    return tuple(replace(motif, offsets=own) for own in slices if any(own))


def _splined(motif: Motif, numbers: Sequence[int]) -> Motifs:
    (ways,), (share,) = numbers, motif.shares
    if motif.collective == "alltoall":
        return _by_offsets(motif, ways)
    root = share.root
    assert root is not None
    others = [place for place in range(len(share.group)) if place != root]
    _check_within("spline", ways, "ranks around the root", len(others))
    found = []
    for first, end in pairwise(even(0, len(others), ways)):
        places = (root, *others[first:end])
        owns = ((), *_of(share.owns, places[1:])) if share.owns else ()
        part = replace(share, group=_of(share.group, places), owns=owns, root=0)
        found.append(replace(motif, shares=(part,)))
    return tuple(found)


def _ring(motif: Motif, _numbers: Sequence[int]) -> Motifs:
    parted = _parted(motif)
    first = replace(motif, collective="reducescatter", shares=(parted,), part=WHOLE)
    return first, replace(first, collective="allgather", after=(0,))


def _tree(motif: Motif, numbers: Sequence[int]) -> Motifs:
    (size,), (share,) = numbers, motif.shares
    places = len(share.group)
    if not 2 <= size < places:
        raise ParameterError(f"tree({size}) groups {places} ranks: expected 2 to {places - 1}")
    groups = [share.group[k : k + size] for k in range(0, places, size)]
    several = tuple(replace(share, group=group, root=0) for group in groups if len(group) > 1)
    leaders = replace(share, group=tuple(group[0] for group in groups))
    return (
        replace(motif, collective="reduce", shares=several),
        replace(motif, shares=(leaders,), after=(0,)),
        replace(motif, collective="broadcast", shares=several, after=(1,)),
    )


def _scattered(motif: Motif, _numbers: Sequence[int]) -> Motifs:
    shares = (_parted(motif),)
    plain = (replace(shares[0], root=None),)
    of = replace(motif, part=WHOLE)
    if motif.collective == "broadcast":
        then = replace(of, collective="allgather", shares=plain, after=(0,))
        return replace(of, collective="scatter", shares=shares), then
    then = replace(of, collective="gather", shares=shares, after=(0,))
    return replace(of, collective="reducescatter", shares=plain), then


def _by_sources(motif: Motif, numbers: Sequence[int]) -> Motifs:
    (ways,), (share,) = numbers, motif.shares
    _check_within("sources", ways, "ranks", len(share.group))
    found = []
    for first, end in pairwise(even(0, len(share.group), ways)):
        owns = tuple(own if first <= k < end else () for k, own in enumerate(share.owns))
        found.append(replace(motif, shares=(replace(share, owns=owns),)))
    return tuple(found)


def _in_levels(motif: Motif, numbers: Sequence[int]) -> Motifs:
    (size, *more), (share,) = numbers, motif.shares
    places = len(share.group)
    if not 2 <= size < places or places % size:
        raise ParameterError(
            f"levels({size}) parts {places} ranks into groups of as many: expected a divisor of "
            f"{places} from 2 to {places // 2}"
        )
    if motif.offsets:
        raise ParameterError("levels are of an alltoall to all ranks, and not of its splines")
    inside, across = _phases(motif, share, size)
    beyond = LEVELS.applied(across, more) if more else (across,)
    first, last = (0, len(beyond) - 1)
    if motif.collective == "allgather":
        after = replace(inside, after=(last,))
        return (*beyond, after)
    shifted = tuple(
        replace(one, after=tuple(k + 1 for k in one.after) if one.after else (first,))
        for one in beyond
    )
    if motif.collective == "allreduce":
        back = replace(inside, collective="allgather", after=(last + 1,))
        return (inside, *shifted, back)
    return (inside, *shifted)


def _phases(motif: Motif, share: MotifShare, size: int) -> tuple[Motif, Motif]:
    """Return what is done inside groups of ranks, and what across them: by equal places."""
    group, places = share.group, range(len(share.group))
    groups = [places[k : k + size] for k in range(0, len(group), size)]
    alike = [places[k::size] for k in range(size)]
    if motif.collective == "allreduce":
        parted = even(*motif.span(share, 0), size)
        each = tuple((k,) for k in range(size))
        inner = [MotifShare(_of(group, own), parted, each) for own in groups]
        outer = [MotifShare(_of(group, a), parted[k : k + 2]) for k, a in enumerate(alike)]
        inside = replace(motif, collective="reducescatter", shares=tuple(inner), part=WHOLE)
        return inside, replace(motif, shares=tuple(outer), part=WHOLE)
    together = [tuple(chain.from_iterable(_of(share.owns, a))) for a in alike]
    if motif.collective == "alltoall":
        wanted = tuple(tuple(chain.from_iterable(_of(share.wants, a))) for a in alike)
        given = tuple(tuple(chain.from_iterable(_of(share.owns, own))) for own in groups)
        inner = [
            replace(share, group=_of(group, o), owns=_of(share.owns, o), wants=wanted)
            for o in groups
        ]
        outer = [
            replace(share, group=_of(group, a), owns=given, wants=_of(share.wants, a))
            for a in alike
        ]
    else:
        inner = [replace(share, group=_of(group, own), owns=tuple(together)) for own in groups]
        outer = [replace(share, group=_of(group, a), owns=_of(share.owns, a)) for a in alike]
    return replace(motif, shares=tuple(inner)), replace(motif, shares=tuple(outer))


def _of(values: Sequence[T], places: Iterable[int]) -> tuple[T, ...]:
    return tuple(values[place] for place in places)


def _parted(motif: Motif) -> MotifShare:
    """Return what a group does, each of its ranks having a part of the elements as its own."""
    (share,) = motif.shares
    places = len(share.group)
    cells = even(*motif.span(share, 0), places)
    return replace(share, cells=cells, owns=tuple((place,) for place in range(places)))


def _check_within(rule: str, ways: int, what: str, most: int) -> None:
    if not 2 <= ways <= most:
        raise ParameterError(f"{rule}({ways}) parts {most} {what}: expected 2 to {most}")


_PAPER, _OURS = "SYNDICATE sections 4.2.1 and A.1", "sccl"

LEVELS = MotifRule(
    "levels",
    ("allgather", "allreduce", "alltoall", "reducescatter"),
    _in_levels,
    "ranks of a group, of a group of groups, ..",
    "a phase inside groups of consecutive ranks and one across them, by equal places; of an "
    "allreduce a third, inside. An allgather goes across first",
    _OURS,
)

RULES = (
    MotifRule(
        "seg", NAMES, _segments, "segments, or their bytes", "parallel parts of all cells", _PAPER
    ),
    MotifRule(
        "spline",
        ("alltoall", "broadcast", "gather", "scatter"),
        _splined,
        "parts",
        "parallel parts of the pattern: of an alltoall consecutive offsets, else of the ranks "
        "around the root",
        _PAPER,
    ),
    MotifRule("ring", ("allreduce",), _ring, "", "a reducescatter, then an allgather", _PAPER),
    MotifRule(
        "tree",
        ("allreduce",),
        _tree,
        "ranks of a group",
        "reduces to the first of each group, an allreduce of these, broadcasts from them",
        _PAPER,
    ),
    LEVELS,
    MotifRule(
        "sag",
        ("broadcast", "reduce"),
        _scattered,
        "",
        "a scatter, then an allgather; of a reduce a reducescatter, then a gather",
        _OURS,
    ),
    MotifRule(
        "sources",
        ("allgather", "reducescatter"),
        _by_sources,
        "parts",
        "parallel parts by the ranks whose cells they are about",
        _OURS,
    ),
)


def rules() -> tuple[MotifRule, ...]:
    """Return all that recipes have, but lanes, which name channels."""
    return RULES
