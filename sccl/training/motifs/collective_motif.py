"""A collective as one motif, from which rules begin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from sccl.core.motif import Motif, MotifShare
from sccl.errors import ParameterError, unknown_name

ROOTED = frozenset({"broadcast", "gather", "reduce", "scatter"})
OWNED = frozenset({"allgather", "gather", "reducescatter", "scatter"})
"""Collectives in which each rank has a cell of its own, before or after."""

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
        group: Ranks, in their order.
        count: Elements of a rank's largest buffer: the whole buffer of an allreduce, broadcast, or
            reduce. The output of an allgather. The input of a reducescatter or alltoall. The root's
            buffer of a gather or scatter. Cells of ranks are as even as possible.
        root: Root rank. None: the first rank of the group, if the collective has a root.
        splits: For alltoall: elements from each place to each. Empty: even ones.

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
    """Return where parts of some elements begin, as even as can be, and where the last ends."""
    size = stop - start
    return tuple(start + size * k // parts for k in range(parts + 1))


def _alltoall_cells(places: int, count: int, splits: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the cells of an alltoall: those of the first rank to all, then of the second.

    Raises:
        ParameterError: the splits are not of all places to all, or there are too many cells.
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
