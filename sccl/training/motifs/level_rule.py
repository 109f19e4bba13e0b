"""Split a collective into a phase inside groups of ranks and a phase across them.

If all groups have one size, ranks at equal places communicate across groups. Otherwise each element
has one holder in every group. Reductions run among its holders, and distributions reach them first.
The moved elements are divided evenly among the ranks of each group. Cuts of one group therefore
fall between those of another, and a rank may communicate with several ranks of another group. An
alltoall cannot be divided like this, so its cells stay whole and are dealt out in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from typing import TypeVar

from sccl.core.motif import FULL_CELL, Motif, MotifShare
from sccl.errors import ParameterError
from sccl.training.motifs.collective_motif import even_offsets
from sccl.training.motifs.motif_judge import check_work
from sccl.training.motifs.motif_rule import MotifRule, Motifs, Number

T = TypeVar("T")

_Phases = tuple[Sequence[MotifShare], Sequence[MotifShare]]
"""Shares inside groups, and shares across them."""


def select_places(values: Sequence[T], places: Iterable[int]) -> tuple[T, ...]:
    """Return the values at some places."""
    return tuple(values[place] for place in places)


def groups_of(rule: str, sizes: Number, places: int) -> list[range]:
    """Return places of consecutive ranks, group by group.

    Args:
        sizes: of all groups, or of each but the last, which may be smaller, as one number.

    Raises:
        ParameterError: these are no groups of so many ranks.
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
    """Return phases of an allreduce: each rank of a group reduces a part, and then with others."""
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
    """Return the place of a group whose part an element lies in, given where parts end."""
    low, high = 0, len(group)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ends[middle] <= element else (low, middle)
    return group[low]


@dataclass(frozen=True, slots=True)
class _OwnedSpan:
    """Elements that have one holder in each group: that of their owner is the owner itself."""

    start: int
    stop: int
    owner: int
    holders: tuple[int, ...]


def _owned_phases(motif: Motif, share: MotifShare, groups: Sequence[range]) -> _Phases:
    """Return phases of an allgather or a reducescatter, of groups of different sizes."""
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
    """Yield all that moves, cut where it has other holders."""
    for owner in groups:
        spans = [(place, motif.span(share, cell)) for place in owner for cell in share.owns[place]]
        size = sum(stop - start for _, (start, stop) in spans)
        others = [(group, even_offsets(0, size, len(group))) for group in groups]
        cuts = sorted({end for group, ends in others if group != owner for end in ends})
        done = 0  # elements of the group's data so far, in one row
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
    """Return phases of an allgather or a reducescatter: across by equal places."""
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
    """Return phases of an alltoall: inside to who has the place of the target, and then there."""
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
    """Return phases of an alltoall of groups of different sizes.

    Targets outside of a group are dealt out among its ranks. Each rank collects the data of all
    ranks of the group for its targets.
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
