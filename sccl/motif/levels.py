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

from sccl.core.motif import WHOLE, Motif, MotifShare
from sccl.errors import ParameterError
from sccl.motif.judge import check_work
from sccl.motif.rule import MotifRule, Motifs, Number
from sccl.motif.whole import even

T = TypeVar("T")

_Phases = tuple[Sequence[MotifShare], Sequence[MotifShare]]
"""Shares inside groups, and shares across them."""


def of_places(values: Sequence[T], places: Iterable[int]) -> tuple[T, ...]:
    """Return the values at some places."""
    return tuple(values[place] for place in places)


def groups_of(rule: str, sizes: Number, places: int) -> list[range]:
    """Return places of consecutive ranks, group by group.

    Args:
        sizes: of all groups, or of each but the last, which may be smaller, as one number.

    Raises:
        ParameterError: these are no groups of so many ranks.
    """
    said = f"{rule}({'+'.join(map(str, sizes))}) of {places} ranks makes groups"
    if len(sizes) == 1:
        (size,) = sizes
        if not 2 <= size < places:
            raise ParameterError(f"{said} of as many: expected 2 to {places - 1}")
        return [range(k, min(k + size, places)) for k in range(0, places, size)]
    if sum(sizes) != places or max(sizes) < 2 or not min(sizes):
        raise ParameterError(
            f"{said} of {sum(sizes)} ranks together: expected sizes that come to {places}, one of "
            "them 2 or more"
        )
    return [range(*ends) for ends in pairwise(accumulate(sizes, initial=0))]


def _in_levels(motif: Motif, numbers: Sequence[Number]) -> Motifs:
    (sizes, *more), (share,) = numbers, motif.shares
    groups = groups_of("levels", sizes, len(share.group))
    if motif.offsets:
        raise ParameterError("levels are of an alltoall to all ranks, and not of its splines")
    inside, across = _phases(motif, share, groups)
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


def _phases(motif: Motif, share: MotifShare, groups: Sequence[range]) -> tuple[Motif, Motif]:
    """Return the phase inside groups of ranks, and the phase across them."""
    alike, part = len({len(own) for own in groups}) == 1, motif.part
    if motif.collective == "alltoall":
        inner, outer = (_exchanged_alike if alike else _exchanged)(share, groups)
    elif motif.collective == "allreduce":
        inner, outer = _reduced(motif, share, groups)
        part = WHOLE
    elif alike:
        inner, outer = _owned_alike(share, groups)
    else:
        inner, outer = _owned(motif, share, groups)
        part = WHOLE
    name = "reducescatter" if motif.collective == "allreduce" else motif.collective
    several = tuple(one for one in inner if len(one.group) > 1)
    inside = replace(motif, collective=name, shares=several, part=part)
    return inside, replace(motif, shares=tuple(outer), part=part)


def _reduced(motif: Motif, share: MotifShare, groups: Sequence[range]) -> _Phases:
    """Return phases of an allreduce: each rank of a group reduces a part, and then with others."""
    start, stop = motif.span(share, 0)
    cells = [even(start, stop, len(own)) for own in groups]
    inner = [
        MotifShare(of_places(share.group, own), ends, tuple((k,) for k in range(len(own))))
        for own, ends in zip(groups, cells, strict=True)
    ]
    outer = []
    for one in list(pairwise(sorted(set(chain.from_iterable(cells))))) or [(start, stop)]:
        holders = [_part_of(ends, one[0], own) for own, ends in zip(groups, cells, strict=True)]
        outer.append(MotifShare(of_places(share.group, holders), one))
    return inner, outer


def _part_of(ends: Sequence[int], element: int, own: range) -> int:
    """Return the place of a group whose part an element lies in, given where parts end."""
    low, high = 0, len(own)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ends[middle] <= element else (low, middle)
    return own[low]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Elements that have one holder in each group: that of their owner is the owner itself."""

    start: int
    stop: int
    owner: int
    holders: tuple[int, ...]


def _owned(motif: Motif, share: MotifShare, groups: Sequence[range]) -> _Phases:
    """Return phases of an allgather or a reducescatter, of groups of different sizes."""
    check_work(len(share.group) * len(groups) ** 2)
    pieces = list(_pieces(motif, share, groups))
    if not pieces:
        raise ParameterError(f"levels are of an {motif.collective} that has elements")
    cells = tuple(sorted({end for one in pieces for end in (one.start, one.stop)}))
    number = {start: k for k, start in enumerate(cells)}
    held: list[list[int]] = [[] for _ in share.group]
    outer: dict[tuple[int, ...], list[list[int]]] = {}
    for one in pieces:
        own = outer.setdefault(one.holders, [[] for _ in groups])
        own[one.holders.index(one.owner)].append(number[one.start])
        for place in one.holders:
            held[place].append(number[one.start])
    inner = [
        MotifShare(of_places(share.group, own), cells, tuple(tuple(held[k]) for k in own))
        for own in groups
    ]
    return inner, [
        MotifShare(of_places(share.group, holders), cells, tuple(map(tuple, owns)))
        for holders, owns in outer.items()
    ]


def _pieces(motif: Motif, share: MotifShare, groups: Sequence[range]) -> Iterator[_Piece]:
    """Yield all that moves, cut where it has other holders."""
    for own in groups:
        spans = [(place, motif.span(share, cell)) for place in own for cell in share.owns[place]]
        size = sum(stop - start for _, (start, stop) in spans)
        others = [(group, even(0, size, len(group))) for group in groups]
        cuts = sorted({end for group, ends in others if group != own for end in ends})
        done = 0  # of what the group owns, laid out in one row
        for place, (start, stop) in spans:
            inner = [cut for cut in cuts if done < cut < done + stop - start]
            for low, high in pairwise((done, *inner, done + stop - start)):
                if low < high:
                    holders = tuple(
                        place if group == own else _part_of(ends, low, group)
                        for group, ends in others
                    )
                    yield _Piece(start + low - done, start + high - done, place, holders)
            done += stop - start


def _owned_alike(share: MotifShare, groups: Sequence[range]) -> _Phases:
    """Return phases of an allgather or a reducescatter: across by equal places."""
    lanes = list(zip(*groups, strict=True))
    together = tuple(tuple(chain.from_iterable(of_places(share.owns, a))) for a in lanes)
    inner = [replace(share, group=of_places(share.group, own), owns=together) for own in groups]
    return inner, [
        replace(share, group=of_places(share.group, a), owns=of_places(share.owns, a))
        for a in lanes
    ]


def _exchanged_alike(share: MotifShare, groups: Sequence[range]) -> _Phases:
    """Return phases of an alltoall: inside to who has the place of the target, and then there."""
    group, lanes = share.group, list(zip(*groups, strict=True))
    wanted = tuple(tuple(chain.from_iterable(of_places(share.wants, a))) for a in lanes)
    given = tuple(tuple(chain.from_iterable(of_places(share.owns, own))) for own in groups)
    inner = [
        replace(share, group=of_places(group, own), owns=of_places(share.owns, own), wants=wanted)
        for own in groups
    ]
    return inner, [
        replace(share, group=of_places(group, a), owns=given, wants=of_places(share.wants, a))
        for a in lanes
    ]


def _exchanged(share: MotifShare, groups: Sequence[range]) -> _Phases:
    """Return phases of an alltoall of groups of different sizes.

    Targets outside of a group are dealt out among its ranks. Each rank collects the data of all
    ranks of the group for its targets.
    """
    if not all(share.owns) or not all(share.wants):
        raise ParameterError("levels are of an alltoall in which all ranks give and get something")
    inner, outer = [], []
    for own in groups:
        others = [place for place in range(len(share.group)) if place not in own]
        given = tuple(chain.from_iterable(of_places(share.owns, own)))
        dealt = [others[k :: len(own)] for k in range(len(own))]
        wanted = [
            tuple(chain.from_iterable(of_places(share.wants, (place, *targets))))
            for place, targets in zip(own, dealt, strict=True)
        ]
        inner.append(
            replace(
                share,
                group=of_places(share.group, own),
                owns=of_places(share.owns, own),
                wants=tuple(wanted),
            )
        )
        for place, targets in zip(own, dealt, strict=True):
            if targets:
                outer.append(
                    replace(
                        share,
                        group=of_places(share.group, (place, *targets)),
                        owns=(given, *[()] * len(targets)),
                        wants=((), *of_places(share.wants, targets)),
                    )
                )
    return inner, outer


LEVELS = MotifRule(
    "levels",
    ("allgather", "allreduce", "alltoall", "reducescatter"),
    _in_levels,
    "ranks of a group, or of each: 3+5; of a group of groups, ..",
    "a phase inside groups of consecutive ranks and one across them, by equal places, or by parts "
    "where groups are of different sizes; of an allreduce a third, inside. An allgather goes "
    "across first",
    "sccl",
)
