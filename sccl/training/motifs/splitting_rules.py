"""Define rules that split one motif into several with the same effect.

A rule handles one group at a time, and its results for several groups run side by side. Each rule
names its collectives. It raises :class:`~sccl.errors.ParameterError` with its requirement if it
does not apply. :mod:`sccl.training.motifs.motif_judge` verifies the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from sccl.core.motif import FULL_CELL, Motif, MotifShare
from sccl.errors import ParameterError
from sccl.training.motifs.collective_motif import NAMES, even_offsets
from sccl.training.motifs.level_rule import LEVELS, groups_of, select_places
from sccl.training.motifs.motif_rule import MotifRule, Motifs, Number

MAX_SEGMENTS = 4096


def split_by_weights(motif: Motif, weights: Sequence[int]) -> Motifs:
    """Return parallel motifs over parts of every cell, as large as some weights say."""
    (low, high), total = motif.part, sum(weights)
    ends = [low + (high - low) * Fraction(sum(weights[:k]), total) for k in range(len(weights) + 1)]
    return tuple(replace(motif, part=pair) for pair in pairwise(ends))


def _split_in_segments(motif: Motif, numbers: Sequence[Number]) -> Motifs:
    ((count,),) = numbers
    if not 2 <= count <= MAX_SEGMENTS:
        raise ParameterError(f"seg({count}): expected 2 to {MAX_SEGMENTS} segments")
    return split_by_weights(motif, [1] * count)


def _split_by_offsets(motif: Motif, num_parts: int) -> Motifs:
    """Return parallel all-to-alls of consecutive offsets.

    SYNDICATE's slice 0 also has offset 0: a rank's data for itself, which do not move.
    """
    offsets = motif.offsets or tuple(range(motif.max_group_size))
    _check_range("spline", num_parts, "offsets", len(offsets))
    each = -(-len(offsets) // num_parts)
    slices = [offsets[k : k + each] for k in range(0, len(offsets), each)]
    return tuple(replace(motif, offsets=part) for part in slices if any(part))


def _split_in_splines(motif: Motif, numbers: Sequence[Number]) -> Motifs:
    ((num_parts,),), (share,) = numbers, motif.shares
    if motif.collective == "alltoall":
        return _split_by_offsets(motif, num_parts)
    root = share.root
    assert root is not None
    others = [place for place in range(len(share.group)) if place != root]
    _check_range("spline", num_parts, "ranks around the root", len(others))
    motifs = []
    for first, end in pairwise(even_offsets(0, len(others), num_parts)):
        places = (root, *others[first:end])
        owns = ((), *select_places(share.owns, places[1:])) if share.owns else ()
        part = replace(share, group=select_places(share.group, places), owns=owns, root=0)
        motifs.append(replace(motif, shares=(part,)))
    return tuple(motifs)


def _split_in_ring(motif: Motif, _numbers: Sequence[Number]) -> Motifs:
    parted = _even_ownership(motif)
    first = replace(motif, collective="reducescatter", shares=(parted,), part=FULL_CELL)
    return first, replace(first, collective="allgather", after=(0,))


def _split_in_tree(motif: Motif, numbers: Sequence[Number]) -> Motifs:
    (sizes,), (share,) = numbers, motif.shares
    groups = [
        select_places(share.group, places) for places in groups_of("tree", sizes, len(share.group))
    ]
    several = tuple(replace(share, group=group, root=0) for group in groups if len(group) > 1)
    leaders = replace(share, group=tuple(group[0] for group in groups))
    return (
        replace(motif, collective="reduce", shares=several),
        replace(motif, shares=(leaders,), after=(0,)),
        replace(motif, collective="broadcast", shares=several, after=(1,)),
    )


def _split_by_scatter(motif: Motif, _numbers: Sequence[Number]) -> Motifs:
    shares = (_even_ownership(motif),)
    plain = (replace(shares[0], root=None),)
    of = replace(motif, part=FULL_CELL)
    if motif.collective == "broadcast":
        then = replace(of, collective="allgather", shares=plain, after=(0,))
        return replace(of, collective="scatter", shares=shares), then
    then = replace(of, collective="gather", shares=shares, after=(0,))
    return replace(of, collective="reducescatter", shares=plain), then


def _split_by_sources(motif: Motif, numbers: Sequence[Number]) -> Motifs:
    ((num_parts,),), (share,) = numbers, motif.shares
    _check_range("sources", num_parts, "ranks", len(share.group))
    motifs = []
    for first, end in pairwise(even_offsets(0, len(share.group), num_parts)):
        owns = tuple(cells if first <= k < end else () for k, cells in enumerate(share.owns))
        motifs.append(replace(motif, shares=(replace(share, owns=owns),)))
    return tuple(motifs)


def _even_ownership(motif: Motif) -> MotifShare:
    """Return the share of a group, in which each rank owns a part of the elements."""
    (share,) = motif.shares
    places = len(share.group)
    cells = even_offsets(*motif.span(share, 0), places)
    return replace(share, cells=cells, owns=tuple((place,) for place in range(places)))


def _check_range(rule: str, num_parts: int, kind: str, limit: int) -> None:
    if not 2 <= num_parts <= limit:
        raise ParameterError(
            f"{rule}({num_parts}) splits {limit} {kind} into {num_parts} parts: expected 2 to "
            f"{limit}"
        )


_PAPER, _OURS = "SYNDICATE sections 4.2.1 and A.1", "sccl"

RULES = (
    MotifRule(
        "seg",
        NAMES,
        _split_in_segments,
        "number of segments, or bytes of a segment",
        "parallel parts, each with a segment of every block",
        _PAPER,
    ),
    MotifRule(
        "spline",
        ("alltoall", "broadcast", "gather", "scatter"),
        _split_in_splines,
        "parts",
        "parallel parts by rank offsets (alltoall) or by the ranks around the root",
        _PAPER,
    ),
    MotifRule(
        "ring", ("allreduce",), _split_in_ring, "", "a reducescatter, then an allgather", _PAPER
    ),
    MotifRule(
        "tree",
        ("allreduce",),
        _split_in_tree,
        "group size, or the size of each group: 3+5",
        "a reduce to the first rank of each group, an allreduce of these ranks, a broadcast in "
        "each group",
        _PAPER,
    ),
    LEVELS,
    MotifRule(
        "sag",
        ("broadcast", "reduce"),
        _split_by_scatter,
        "",
        "for broadcast: a scatter, then an allgather; for reduce: a reducescatter, then a gather",
        _OURS,
    ),
    MotifRule(
        "sources",
        ("allgather", "reducescatter"),
        _split_by_sources,
        "parts",
        "parallel parts, each with the elements of some ranks",
        _OURS,
    ),
)


def recipe_rules() -> tuple[MotifRule, ...]:
    """Return all that recipes have, but lanes, which name channels."""
    return RULES
