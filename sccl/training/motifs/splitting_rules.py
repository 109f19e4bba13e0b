"""Define rules of recipes, which split one motif into several with the same effect.

A rule splits one group at a time, and its results for several groups run in parallel. Each rule
names the collectives that it splits. If it does not apply, it raises
:class:`~sccl.errors.ParameterError` with its requirement. The results are verified by
:mod:`sccl.training.motifs.motif_judge`.

The rule ``levels`` makes a phase inside groups of ranks and a phase across groups. If all groups
have one size, ranks at equal places communicate across groups. Otherwise each element has one
holder in every group. Holders reduce an element among themselves, or receive it before it is
distributed inside groups. The moved elements are divided evenly among the ranks of each group, so
groups of different sizes are divided at different elements, and a rank may communicate with several
ranks of another group. The cells of an alltoall are not divided, but dealt out round-robin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, chain, pairwise
from typing import TypeVar

from sccl.errors import ParameterError
from sccl.training.motifs.collective_motif import NAMES, even_offsets
from sccl.training.motifs.motif_judge import check_work
from sccl.training.types.motif import FULL_CELL, Motif, MotifShare

Motifs = tuple[Motif, ...]
"""Motifs. The predecessors of a motif are indices in the tuple."""

Number = tuple[int, ...]
"""Parameter of a rule: one number, or the sizes of all groups, such as (3, 5)."""


@dataclass(frozen=True, slots=True)
class MotifRule:
    """A rule of recipes.

    Attributes:
        name: Name in recipes.
        collectives: Collectives that the rule splits.
        split: Function from a motif of one group, and the rule's parameters, to motifs.
        parameters: Description of the parameters, for messages and documents. Empty: none.
        description: Description of the result, for documents.
        source: Source of the rule.
    """

    name: str
    collectives: tuple[str, ...]
    split: Callable[[Motif, Sequence[Number]], Motifs]
    parameters: str
    description: str
    source: str

    def apply(self, motif: Motif, numbers: Sequence[Number]) -> Motifs:
        """Split a motif with any number of groups.

        Raises:
            ParameterError: The rule does not apply. The message states its requirement.
        """
        if motif.collective not in self.collectives:
            raise ParameterError(
                f"{self.name} applies to {', '.join(self.collectives)}, not to {motif.collective}"
            )
        each = [self.split(replace(motif, shares=(s,), after=()), numbers) for s in motif.shares]
        shapes = {tuple(replace(part, shares=()) for part in made) for made in each}
        if len(shapes) > 1:
            raise ParameterError(
                f"{self.name} splits the groups of a {motif.collective} into different motifs, "
                "because group sizes differ: expected groups of one size"
            )
        return tuple(
            replace(alike[0], shares=tuple(chain.from_iterable(part.shares for part in alike)))
            for alike in zip(*each, strict=True)
        )


T = TypeVar("T")

_Phases = tuple[Sequence[MotifShare], Sequence[MotifShare]]
"""Shares inside groups, and shares across them."""


def select_places(values: Sequence[T], places: Iterable[int]) -> tuple[T, ...]:
    """Return the values at some places."""
    return tuple(values[place] for place in places)


def groups_of(rule: str, sizes: Number, places: int) -> list[range]:
    """Return the places of each group of consecutive ranks.

    Args:
        rule: Name of the rule, for messages.
        sizes: Sizes of all groups, or one size. Then the last group may be smaller.
        places: Number of ranks.

    Raises:
        ParameterError: The sizes do not divide the ranks into groups.
    """
    said = f"{rule}({'+'.join(map(str, sizes))}) splits {places} ranks into groups"
    if len(sizes) == 1:
        (size,) = sizes
        if not 2 <= size < places:
            raise ParameterError(f"{said} of {size}: expected 2 to {places - 1}")
        return [range(k, min(k + size, places)) for k in range(0, places, size)]
    if sum(sizes) != places or max(sizes) < 2 or not min(sizes):
        raise ParameterError(
            f"{said} with {sum(sizes)} ranks in all: expected sizes with the sum {places}, one of "
            "them 2 or more"
        )
    return [range(*ends) for ends in pairwise(accumulate(sizes, initial=0))]


def _split_in_levels(motif: Motif, numbers: Sequence[Number]) -> Motifs:
    (sizes, *more), (share,) = numbers, motif.shares
    groups = groups_of("levels", sizes, len(share.group))
    if motif.offsets:
        raise ParameterError(
            "levels cannot split a spline of an alltoall: apply levels before spline"
        )
    inside, across = _level_phases(motif, share, groups)
    beyond = LEVELS.apply(across, more) if more else (across,)
    first, last = (0, len(beyond) - 1)
    if motif.collective == "allgather":
        after = replace(inside, after=(last,))
        return (*beyond, after)
    shifted = tuple(
        replace(phase, after=tuple(k + 1 for k in phase.after) if phase.after else (first,))
        for phase in beyond
    )
    if motif.collective == "allreduce":
        back = replace(inside, collective="allgather", after=(last + 1,))
        return (inside, *shifted, back)
    return (inside, *shifted)


def _level_phases(motif: Motif, share: MotifShare, groups: Sequence[range]) -> tuple[Motif, Motif]:
    """Return the phase inside groups of ranks, and the phase across them."""
    alike, part = len({len(group) for group in groups}) == 1, motif.part
    if motif.collective == "alltoall":
        inner, outer = (_uniform_exchange_phases if alike else _exchange_phases)(share, groups)
    elif motif.collective == "allreduce":
        inner, outer = _allreduce_phases(motif, share, groups)
        part = FULL_CELL
    elif alike:
        inner, outer = _uniform_owned_phases(share, groups)
    else:
        inner, outer = _owned_phases(motif, share, groups)
        part = FULL_CELL
    name = "reducescatter" if motif.collective == "allreduce" else motif.collective
    several = tuple(inner_share for inner_share in inner if len(inner_share.group) > 1)
    inside = replace(motif, collective=name, shares=several, part=part)
    return inside, replace(motif, shares=tuple(outer), part=part)


def _allreduce_phases(motif: Motif, share: MotifShare, groups: Sequence[range]) -> _Phases:
    """Return the phases of an allreduce: reduce a part per rank of a group, then across groups."""
    start, stop = motif.span(share, 0)
    cells = [even_offsets(start, stop, len(group)) for group in groups]
    inner = [
        MotifShare(select_places(share.group, group), ends, tuple((k,) for k in range(len(group))))
        for group, ends in zip(groups, cells, strict=True)
    ]
    outer = []
    for span in list(pairwise(sorted(set(chain.from_iterable(cells))))) or [(start, stop)]:
        holders = [
            _part_index(ends, span[0], group) for group, ends in zip(groups, cells, strict=True)
        ]
        outer.append(MotifShare(select_places(share.group, holders), span))
    return inner, outer


def _part_index(ends: Sequence[int], element: int, group: range) -> int:
    """Return the place in a group whose part contains an element, given the offsets of parts."""
    low, high = 0, len(group)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ends[middle] <= element else (low, middle)
    return group[low]


@dataclass(frozen=True, slots=True)
class _OwnedSpan:
    """Elements with the same holder in each group. The owner is the holder in its own group."""

    start: int
    stop: int
    owner: int
    holders: tuple[int, ...]


def _owned_phases(motif: Motif, share: MotifShare, groups: Sequence[range]) -> _Phases:
    """Return the phases of an allgather or a reducescatter for groups of different sizes."""
    check_work(len(share.group) * len(groups) ** 2)
    pieces = list(_owned_spans(motif, share, groups))
    if not pieces:
        raise ParameterError(f"levels cannot split an {motif.collective} without elements")
    cells = tuple(sorted({end for piece in pieces for end in (piece.start, piece.stop)}))
    number = {start: k for k, start in enumerate(cells)}
    held: list[list[int]] = [[] for _ in share.group]
    outer: dict[tuple[int, ...], list[list[int]]] = {}
    for piece in pieces:
        group = outer.setdefault(piece.holders, [[] for _ in groups])
        group[piece.holders.index(piece.owner)].append(number[piece.start])
        for place in piece.holders:
            held[place].append(number[piece.start])
    inner = [
        MotifShare(select_places(share.group, group), cells, tuple(tuple(held[k]) for k in group))
        for group in groups
    ]
    return inner, [
        MotifShare(select_places(share.group, holders), cells, tuple(map(tuple, owns)))
        for holders, owns in outer.items()
    ]


def _owned_spans(motif: Motif, share: MotifShare, groups: Sequence[range]) -> Iterator[_OwnedSpan]:
    """Yield all moved elements, divided where holders change."""
    for owner in groups:
        spans = [(place, motif.span(share, cell)) for place in owner for cell in share.owns[place]]
        size = sum(stop - start for _, (start, stop) in spans)
        others = [(group, even_offsets(0, size, len(group))) for group in groups]
        cuts = sorted({end for group, ends in others if group != owner for end in ends})
        done = 0  # offset in the concatenated data of the group
        for place, (start, stop) in spans:
            inner = [cut for cut in cuts if done < cut < done + stop - start]
            for low, high in pairwise((done, *inner, done + stop - start)):
                if low < high:
                    holders = tuple(
                        place if group == owner else _part_index(ends, low, group)
                        for group, ends in others
                    )
                    yield _OwnedSpan(start + low - done, start + high - done, place, holders)
            done += stop - start


def _uniform_owned_phases(share: MotifShare, groups: Sequence[range]) -> _Phases:
    """Return the phases of an allgather or a reducescatter for groups of one size."""
    lanes = list(zip(*groups, strict=True))
    together = tuple(tuple(chain.from_iterable(select_places(share.owns, a))) for a in lanes)
    inner = [
        replace(share, group=select_places(share.group, group), owns=together) for group in groups
    ]
    return inner, [
        replace(share, group=select_places(share.group, a), owns=select_places(share.owns, a))
        for a in lanes
    ]


def _uniform_exchange_phases(share: MotifShare, groups: Sequence[range]) -> _Phases:
    """Return the phases of an alltoall for groups of one size.

    Data first go to the rank of the group with the target's place, and then across groups.
    """
    group, lanes = share.group, list(zip(*groups, strict=True))
    wanted = tuple(tuple(chain.from_iterable(select_places(share.wants, a))) for a in lanes)
    owned = tuple(
        tuple(chain.from_iterable(select_places(share.owns, places))) for places in groups
    )
    inner = [
        replace(
            share,
            group=select_places(group, places),
            owns=select_places(share.owns, places),
            wants=wanted,
        )
        for places in groups
    ]
    return inner, [
        replace(
            share, group=select_places(group, a), owns=owned, wants=select_places(share.wants, a)
        )
        for a in lanes
    ]


def _exchange_phases(share: MotifShare, groups: Sequence[range]) -> _Phases:
    """Return the phases of an alltoall for groups of different sizes.

    Targets outside a group are assigned to its ranks round-robin. Each rank collects the data of
    all ranks of the group for its targets.
    """
    if not all(share.owns) or not all(share.wants):
        raise ParameterError(
            "levels cannot split an alltoall in which a rank sends or receives nothing"
        )
    inner, outer = [], []
    for group in groups:
        others = [place for place in range(len(share.group)) if place not in group]
        owned = tuple(chain.from_iterable(select_places(share.owns, group)))
        dealt = [others[k :: len(group)] for k in range(len(group))]
        wanted = [
            tuple(chain.from_iterable(select_places(share.wants, (place, *targets))))
            for place, targets in zip(group, dealt, strict=True)
        ]
        inner.append(
            replace(
                share,
                group=select_places(share.group, group),
                owns=select_places(share.owns, group),
                wants=tuple(wanted),
            )
        )
        for place, targets in zip(group, dealt, strict=True):
            if targets:
                outer.append(
                    replace(
                        share,
                        group=select_places(share.group, (place, *targets)),
                        owns=(owned, *[()] * len(targets)),
                        wants=((), *select_places(share.wants, targets)),
                    )
                )
    return inner, outer


LEVELS = MotifRule(
    "levels",
    ("allgather", "allreduce", "alltoall", "reducescatter"),
    _split_in_levels,
    "group size, or the size of each group: 3+5; then sizes of groups of groups, ..",
    "a phase inside groups of consecutive ranks, then one across groups, between ranks with the "
    "same place in their groups (or by parts, if sizes differ); for an allreduce a third phase "
    "inside groups. An allgather starts across groups",
    "sccl",
)


MAX_SEGMENTS = 4096


def split_by_weights(motif: Motif, weights: Sequence[int]) -> Motifs:
    """Return parallel motifs over parts of every cell, with sizes in proportion to weights."""
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

    Offset 0 belongs to the first part, as in SYNDICATE. It is a rank's data for itself, which do
    not move.
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
    """Return the share of a group, with elements divided evenly among the ranks as owners."""
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
    """Return all rules except ``lanes``, whose parameters are channels, and ``merge``."""
    return RULES
