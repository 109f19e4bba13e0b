"""Build the motif of an unsplit collective, or of several merged collectives.

Rules of recipes split this motif. Merging is the inverse of splitting into segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise

from sccl.errors import ParameterError, unknown_name
from sccl.training.types.motif import FULL_CELL, Motif, MotifShare

ROOTED = frozenset({"broadcast", "gather", "reduce", "scatter"})
OWNED = frozenset({"allgather", "gather", "reducescatter", "scatter"})
"""Collectives in which each rank owns a cell of its own, before or after."""

NAMES = tuple(sorted(ROOTED | OWNED | {"allreduce", "alltoall"}))

MAX_ELEMENTS = 2**50
MAX_CELLS = 2**22


def build_collective_motif(
    collective: str,
    group: Sequence[int],
    count: int,
    root: int | None = None,
    splits: Sequence[Sequence[int]] = (),
) -> Motif:
    """Return a collective as one motif.

    Args:
        collective: Name of the collective.
        group: Ranks of the group, in order.
        count: Elements of a rank's largest buffer: the whole buffer for allreduce, broadcast, and
            reduce; the output for allgather; the input for reducescatter and alltoall; the root's
            buffer for gather and scatter. Cells of ranks are as even as possible.
        root: Root rank. None: the first rank of the group, if the collective has a root.
        splits: For alltoall: elements from each place to each place. Empty: even splits.

    Raises:
        ParameterError: The arguments contradict one another.
        UnknownNameError: There is no such collective.
    """
    if collective not in NAMES:
        raise unknown_name("collective", collective, NAMES, f"they are {', '.join(NAMES)}")
    places = len(group)
    if places < 2 or len(set(group)) != places:
        raise ParameterError(
            f"{collective} has ranks {list(group)!s:.60}, expected two or more different ranks"
        )
    if not 1 <= count <= MAX_ELEMENTS:
        raise ParameterError(f"{collective} has {count} elements, expected 1 to {MAX_ELEMENTS}")
    if (root is not None) > (collective in ROOTED):
        raise ParameterError(f"root is {root}, but {collective} has none: leave it out")
    if root is not None and root not in group:
        raise ParameterError(f"root is {root}, expected a rank of the group {list(group)!s:.60}")
    top = None
    if collective in ROOTED:
        top = 0 if root is None else list(group).index(root)
    each = tuple((place,) for place in range(places))
    if collective == "alltoall":
        share = MotifShare(tuple(group), _alltoall_cells(places, count, splits), each, each)
    elif collective in OWNED:
        share = MotifShare(tuple(group), even_offsets(0, count, places), each, root=top)
    else:
        share = MotifShare(tuple(group), (0, count), root=top)
    return Motif(collective, (share,))


def even_offsets(start: int, stop: int, parts: int) -> tuple[int, ...]:
    """Return the offsets of parts of a range, as even as possible, and the end of the last one."""
    size = stop - start
    return tuple(start + size * k // parts for k in range(parts + 1))


def _alltoall_cells(places: int, count: int, splits: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the offsets of the cells of an alltoall: all cells of the first source rank first.

    Raises:
        ParameterError: The splits are not a square matrix, or there are too many cells.
    """
    if places**2 > MAX_CELLS:
        raise ParameterError(
            f"alltoall of {places} ranks has {places**2} cells, expected {MAX_CELLS} at the most"
        )
    if not splits:
        split = [end - start for start, end in pairwise(even_offsets(0, count, places))]
        splits = [split] * places
    if len(splits) != places or any(len(row) != places for row in splits):
        raise ParameterError(
            f"splits are {len(splits)} rows, expected {places} of {places} numbers: a row for each "
            "rank of the group, of elements to each"
        )
    sizes = [size for row in splits for size in row]
    if min(sizes) < 0 or not 1 <= sum(sizes) <= MAX_ELEMENTS:
        raise ParameterError(
            f"splits have a minimum of {min(sizes)} elements and {sum(sizes)} in all, expected 0 "
            f"or more, and 1 to {MAX_ELEMENTS} in all"
        )
    return tuple(accumulate(sizes, initial=0))


def merge_collectives(wholes: Sequence[Motif]) -> Motif:
    """Return several collectives as one motif with concatenated elements.

    Raises:
        ParameterError: The collectives differ in kind, ranks, or root, or have too many cells.
    """
    kinds = {(motif.collective, *((s.group, s.root) for s in motif.shares)) for motif in wholes}
    if len(kinds) != 1 or any(motif.part != FULL_CELL or motif.offsets for motif in wholes):
        raise ParameterError(
            "merge needs collectives of one kind with the same ranks and root, and must be the "
            "first rule"
        )
    make = _merge_exchanges if wholes[0].collective == "alltoall" else _merge_shares
    several = zip(*(motif.shares for motif in wholes), strict=True)
    return Motif(wholes[0].collective, tuple(make(shares) for shares in several))


def _merge_shares(shares: Sequence[MotifShare]) -> MotifShare:
    """Return the share of merged collectives. Cells of ranks stay separate, others become one."""
    group, root = shares[0].group, shares[0].root
    if not shares[0].owns:
        return MotifShare(group, (0, sum(share.cells[-1] for share in shares)), root=root)
    sizes = [stop - start for share in shares for start, stop in pairwise(share.cells)]
    owns: list[list[int]] = [[] for _ in group]
    first = 0
    for share in shares:
        for place, cells in enumerate(share.owns):
            owns[place] += [first + cell for cell in cells]
        first += len(share.cells) - 1
    return MotifShare(
        group, tuple(accumulate(sizes, initial=0)), tuple(map(tuple, owns)), root=root
    )


def _merge_exchanges(shares: Sequence[MotifShare]) -> MotifShare:
    """Return the share of merged alltoalls, as an alltoall over pairs of an alltoall and a rank.

    Cells between pairs of different alltoalls are empty.
    """
    group, places = shares[0].group, len(shares[0].group)
    everyone = places * len(shares)
    if everyone**2 > MAX_CELLS:
        raise ParameterError(
            f"{len(shares)} alltoalls of {places} ranks have {everyone**2} cells as one, expected "
            f"{MAX_CELLS} at the most"
        )
    sizes: list[int] = []
    for number, share in enumerate(shares):
        before, after = [0] * (number * places), [0] * ((len(shares) - number - 1) * places)
        share_sizes = [stop - start for start, stop in pairwise(share.cells)]
        for source in range(places):
            sizes += [*before, *share_sizes[source * places : (source + 1) * places], *after]
    numbers = tuple(tuple(range(place, everyone, places)) for place in range(places))
    return MotifShare(group, tuple(accumulate(sizes, initial=0)), numbers, numbers)


def total_elements(motif: Motif) -> int:
    """Return the total number of elements of a collective."""
    return max(chain.from_iterable(share.cells for share in motif.shares))
