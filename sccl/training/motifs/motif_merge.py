"""Merging: several collectives that are alike as one motif, the inverse of segments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise

from sccl.core.motif import FULL_CELL, Motif, MotifShare
from sccl.errors import ParameterError
from sccl.training.motifs.collective_motif import MAX_CELLS


def merge_collectives(wholes: Sequence[Motif]) -> Motif:
    """Return several collectives as one motif, the elements of each after those before.

    Raises:
        ParameterError: they are not alike, or have too many cells together.
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
    """Return a share of all elements; where ranks own cells, of as many cells as there are."""
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
    """Return a share of as many alltoalls: a rank has a number in each, and gives to those of it.

    There is nothing from a number of one of them to those of another.
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
    """Return how many elements there are of a collective in all."""
    return max(chain.from_iterable(share.cells for share in motif.shares))
