"""Define rules that split one motif into several with the same effect.

A rule handles one group at a time, and its results for several groups run side by side. Each rule
names its collectives. It raises :class:`~sccl.errors.ParameterError` with its requirement if it
does not apply. :mod:`sccl.motif.judge` verifies the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from sccl.core.motif import WHOLE, Motif, MotifShare
from sccl.errors import ParameterError
from sccl.motif.levels import LEVELS, groups_of, of_places
from sccl.motif.rule import MotifRule, Motifs, Number
from sccl.motif.whole import NAMES, even

MOST_SEGMENTS = 4096


def weighed(motif: Motif, weights: Sequence[int]) -> Motifs:
    """Return parallel motifs over parts of every cell, as large as some weights say."""
    (low, high), total = motif.part, sum(weights)
    ends = [low + (high - low) * Fraction(sum(weights[:k]), total) for k in range(len(weights) + 1)]
    return tuple(replace(motif, part=pair) for pair in pairwise(ends))


def _segments(motif: Motif, numbers: Sequence[Number]) -> Motifs:
    ((count,),) = numbers
    if not 2 <= count <= MOST_SEGMENTS:
        raise ParameterError(f"seg({count}): expected 2 to {MOST_SEGMENTS} segments")
    return weighed(motif, [1] * count)


def _by_offsets(motif: Motif, ways: int) -> Motifs:
    """Return parallel all-to-alls of consecutive offsets.

    SYNDICATE's slice 0 also has offset 0: a rank's data for itself, which do not move.
    """
    offsets = motif.offsets or tuple(range(motif.places))
    _check_within("spline", ways, "offsets", len(offsets))
    each = -(-len(offsets) // ways)
    slices = [offsets[k : k + each] for k in range(0, len(offsets), each)]
    return tuple(replace(motif, offsets=own) for own in slices if any(own))


def _splined(motif: Motif, numbers: Sequence[Number]) -> Motifs:
    ((ways,),), (share,) = numbers, motif.shares
    if motif.collective == "alltoall":
        return _by_offsets(motif, ways)
    root = share.root
    assert root is not None
    others = [place for place in range(len(share.group)) if place != root]
    _check_within("spline", ways, "ranks around the root", len(others))
    found = []
    for first, end in pairwise(even(0, len(others), ways)):
        places = (root, *others[first:end])
        owns = ((), *of_places(share.owns, places[1:])) if share.owns else ()
        part = replace(share, group=of_places(share.group, places), owns=owns, root=0)
        found.append(replace(motif, shares=(part,)))
    return tuple(found)


def _ring(motif: Motif, _numbers: Sequence[Number]) -> Motifs:
    parted = _parted(motif)
    first = replace(motif, collective="reducescatter", shares=(parted,), part=WHOLE)
    return first, replace(first, collective="allgather", after=(0,))


def _tree(motif: Motif, numbers: Sequence[Number]) -> Motifs:
    (sizes,), (share,) = numbers, motif.shares
    groups = [of_places(share.group, own) for own in groups_of("tree", sizes, len(share.group))]
    several = tuple(replace(share, group=group, root=0) for group in groups if len(group) > 1)
    leaders = replace(share, group=tuple(group[0] for group in groups))
    return (
        replace(motif, collective="reduce", shares=several),
        replace(motif, shares=(leaders,), after=(0,)),
        replace(motif, collective="broadcast", shares=several, after=(1,)),
    )


def _scattered(motif: Motif, _numbers: Sequence[Number]) -> Motifs:
    shares = (_parted(motif),)
    plain = (replace(shares[0], root=None),)
    of = replace(motif, part=WHOLE)
    if motif.collective == "broadcast":
        then = replace(of, collective="allgather", shares=plain, after=(0,))
        return replace(of, collective="scatter", shares=shares), then
    then = replace(of, collective="gather", shares=shares, after=(0,))
    return replace(of, collective="reducescatter", shares=plain), then


def _by_sources(motif: Motif, numbers: Sequence[Number]) -> Motifs:
    ((ways,),), (share,) = numbers, motif.shares
    _check_within("sources", ways, "ranks", len(share.group))
    found = []
    for first, end in pairwise(even(0, len(share.group), ways)):
        owns = tuple(own if first <= k < end else () for k, own in enumerate(share.owns))
        found.append(replace(motif, shares=(replace(share, owns=owns),)))
    return tuple(found)


def _parted(motif: Motif) -> MotifShare:
    """Return the share of a group, in which each rank owns a part of the elements."""
    (share,) = motif.shares
    places = len(share.group)
    cells = even(*motif.span(share, 0), places)
    return replace(share, cells=cells, owns=tuple((place,) for place in range(places)))


def _check_within(rule: str, ways: int, what: str, most: int) -> None:
    if not 2 <= ways <= most:
        raise ParameterError(f"{rule}({ways}) parts {most} {what}: expected 2 to {most}")


_PAPER, _OURS = "SYNDICATE sections 4.2.1 and A.1", "sccl"

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
        "ranks of a group, or of each: 3+5",
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
