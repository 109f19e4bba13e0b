"""Define carriers: patterns of transfers between ranks that implement a motif in steps.

Each carrier is a pattern known from frameworks, such as a ring. It is applied to all groups of a
motif at once. A step sends only data that exist before the step. In reductions, targets add the
transfers they receive, except in steps that distribute results. A ring follows links of the machine
if these join the ranks of the group in a ring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.topology import Topology
from sccl.training.motifs.collective_motif import NAMES, even_offsets
from sccl.training.motifs.extents import cells_of, floor_part, list_exchanges
from sccl.training.types.motif import Motif, MotifShare

_MAX_RANKS = 16
"""Largest number of ranks of a group for which a ring along links is searched."""

_MAX_TRIES = 20_000
"""Largest number of links that the search for a ring visits."""


def rank_order(group: IntArray) -> IntArray:
    """Return the places of a group in the order of ranks, so ranks of a node are adjacent."""
    return np.argsort(group, kind="stable")


class LinkedRings:
    """Searches rings along the links of a machine, and prefers links with more bandwidth."""

    def __init__(self, topology: Topology) -> None:
        self._next: dict[int, list[int]] = {}
        for link in sorted(topology.links, key=lambda k: (-k.lanes * k.gb_per_s, k.edge)):
            if max(link.edge) < topology.ranks:
                self._next.setdefault(link.src, []).append(link.dst)
        self._ring_cache: dict[tuple[int, ...], list[int] | None] = {}

    def __call__(self, group: IntArray) -> IntArray:
        """Return the places of a group along a ring of links, or by rank if there is no ring."""
        ranks = tuple(sorted(group.tolist()))
        if ranks not in self._ring_cache:
            few = 2 < len(ranks) <= _MAX_RANKS and self._next
            self._ring_cache[ranks] = self._find_ring(ranks) if few else None
        ring = self._ring_cache[ranks]
        if ring is None:
            return rank_order(group)
        place = {rank: k for k, rank in enumerate(group.tolist())}
        return np.array([place[rank] for rank in ring], np.int64)

    def _find_ring(self, ranks: tuple[int, ...]) -> list[int] | None:
        """Return a cycle of links through all ranks, by depth-first search. None: none found."""
        wanted, path = set(ranks), [ranks[0]]
        left = [iter(self._next.get(ranks[0], ()))]
        for _ in range(_MAX_TRIES):
            rank = next(left[-1], None)
            if rank is None:
                left.pop()
                path.pop()
                if not path:
                    return None
            elif rank in wanted and rank not in path:
                path.append(rank)
                if len(path) == len(ranks) and ranks[0] in self._next.get(rank, ()):
                    return path
                left.append(iter(self._next.get(rank, ())))
        return None


class Transfers(NamedTuple):
    """Transfers in the order of steps. All attributes have shape (transfers,).

    Attributes:
        step: Step of each transfer, from 0 on, without gaps.
        start: First element of each transfer.
        stop: End of the elements (exclusive). Each transfer has at least one element.
        source: Source rank of each transfer.
        target: Target rank of each transfer.
        reduces: Whether the target reduces the transfer into its own value.
    """

    step: IntArray
    start: IntArray
    stop: IntArray
    source: IntArray
    target: IntArray
    reduces: NDArray[np.bool_]


RingOrder = Callable[[IntArray], IntArray]
"""Function from the ranks of a group to the places of the group in the order of a ring."""


@dataclass(frozen=True, slots=True)
class MotifCarrier:
    """A pattern that carries motifs.

    Attributes:
        collectives: Collectives that it carries.
        build_transfers: Function from a motif, and the order of ranks in a ring, to its transfers.
        description: Description, for documents.
    """

    name: str
    collectives: tuple[str, ...]
    build_transfers: Callable[[Motif, RingOrder], Transfers]
    description: str


_Block = tuple[IntArray, ...]


def _concatenate_blocks(blocks: Iterable[_Block]) -> Transfers:
    """Return the transfers of blocks with six columns, sorted by step, without empty transfers."""
    all_blocks = list(blocks)
    if not all_blocks:
        empty = np.empty(0, np.int64)
        return Transfers(empty, empty, empty, empty, empty, empty.astype(np.bool_))
    columns = [np.concatenate(pieces) for pieces in zip(*all_blocks, strict=True)]
    kept = columns[1] < columns[2]
    columns = [column[kept] for column in columns]
    few = columns[0].max(initial=0) < 2**16  # sorting then takes a tenth of the time
    order = np.argsort(columns[0].astype(np.uint16) if few else columns[0], kind="stable")
    step = columns[0][order]
    step = np.cumsum(np.concatenate([[False], step[1:] != step[:-1]])[: len(step)])
    start, stop, source, target, adds = (column[order] for column in columns[1:])
    return Transfers(step, start, stop, source, target, adds.astype(np.bool_))


def _build_block(
    step: IntArray, span: IntArray, source: IntArray, target: IntArray, adds: int
) -> _Block:
    """Return the columns of transfers. ``span`` has shape (transfers, 2): start and end."""
    return (step, span[:, 0], span[:, 1], source, target, np.full(len(step), adds))


def _cell_spans(motif: Motif, share: MotifShare) -> tuple[IntArray, IntArray]:
    """Return the spans of the cells that a group moves, and the owner's place. -1: no owner."""
    owns = share.owns or ((*range(len(share.cells) - 1),),)
    place = np.repeat(np.arange(len(owns)) if share.owns else -1, [len(cells) for cells in owns])
    number = np.array([cell for cells in owns for cell in cells], np.int64)
    begin = cells_of(share.cells)
    size = np.diff(begin)[number]
    spans = np.stack([begin[number] + floor_part(size, part) for part in motif.part], axis=1)
    return spans, place


def _part_spans(motif: Motif, share: MotifShare, count: int) -> IntArray:
    """Divide each cell of a group into ``count`` parts. Shape of spans: (cells, count, 2)."""
    spans, _ = _cell_spans(motif, share)
    rows = [even_offsets(start, stop, count) for start, stop in spans.tolist()]
    ends = np.array(rows, np.int64).reshape(len(spans), -1)
    return np.stack([ends[:, :-1], ends[:, 1:]], axis=2)


def _direct_transfers(motif: Motif, _order: RingOrder = rank_order) -> Transfers:
    """Return direct transfers from every rank to every destination, in one step.

    An allreduce takes two steps: a reducescatter, then an allgather.
    """
    if motif.collective == "alltoall":
        start, stop, source, target = list_exchanges(motif)
        zero = np.zeros(len(start), np.int64)
        return _concatenate_blocks([(zero, start, stop, source, target, zero)])
    blocks: list[_Block] = []
    for share in motif.shares:
        group = np.array(share.group, np.int64)
        if motif.collective == "allreduce":
            parts = _part_spans(motif, share, len(group)).transpose(1, 0, 2)
            for step in range(2):
                blocks += _owner_blocks(group, list(parts), step, reduces=not step)
            continue
        spans, place = _cell_spans(motif, share)
        if share.root is not None:
            blocks.append(_root_block(motif, group, share.root, spans, place))
            continue
        owned = [spans[place == k] for k in range(len(group))]
        blocks += _owner_blocks(group, owned, 0, reduces=motif.is_combining)
    return _concatenate_blocks(blocks)


def _owner_blocks(
    group: IntArray, parts: Sequence[IntArray], step: int, *, reduces: bool
) -> list[_Block]:
    """Return the transfers between each place and all others for the parts that it owns."""
    blocks = []
    for place, spans in enumerate(parts):
        others = np.delete(group, place)
        if not len(spans) or not len(others):
            continue
        span = np.repeat(spans, len(others), axis=0)
        owner, far = np.full(len(span), group[place]), np.tile(others, len(spans))
        source, target = (far, owner) if reduces else (owner, far)
        blocks.append(_build_block(np.full(len(span), step), span, source, target, reduces))
    return blocks


def _root_block(
    motif: Motif, group: IntArray, root: int, spans: IntArray, place: IntArray
) -> _Block:
    """Return the direct transfers between a root and all others."""
    others = np.delete(group, root)
    if place.min(initial=0) < 0:  # each rank receives or sends all elements
        span, far = np.repeat(spans, len(others), axis=0), np.tile(others, len(spans))
    else:
        away = place != root
        span, far = spans[away], group[place[away]]
    roots = np.full(len(far), group[root])
    outwards = motif.collective in {"broadcast", "scatter"}
    source, target = (roots, far) if outwards else (far, roots)
    return _build_block(np.zeros(len(far), np.int64), span, source, target, motif.is_combining)


def _ring_transfers(motif: Motif, ring_of: RingOrder = rank_order) -> Transfers:
    """Return the transfers around a ring of the ranks of each group.

    A broadcast or reduce uses a chain that starts or ends at the root, with one piece per rank.
    """
    blocks: list[_Block] = []
    for share in motif.shares:
        group = np.array(share.group, np.int64)
        order = ring_of(group)  # places
        if motif.collective in {"broadcast", "reduce"}:
            assert share.root is not None
            blocks.append(
                _chain_block(motif, share, np.roll(order, -int(np.argmax(order == share.root))))
            )
            continue
        ring, count = group[order], len(group)
        if motif.collective == "allreduce":
            parts = _part_spans(motif, share, count).transpose(1, 0, 2)
            owned = [(parts[k], k) for k in range(count)]
        else:
            spans, place = _cell_spans(motif, share)
            at = np.argsort(order, kind="stable")  # position of each place in the ring
            owned = [(spans[place == k], int(at[k])) for k in range(count)]
        steps = count - 1
        gathers = motif.collective != "reducescatter"
        for span, owner in owned:
            if motif.is_combining:  # the reduced part ends at its owner
                blocks += [_ring_block(ring, span, owner + 1, 0, adds=1)]
            if gathers:  # the part starts at its owner
                blocks += [
                    _ring_block(ring, span, owner, steps if motif.is_combining else 0, adds=0)
                ]
    return _concatenate_blocks(blocks)


def _ring_block(ring: IntArray, span: IntArray, begin: int, first_step: int, adds: int) -> _Block:
    """Return the transfers of a part around a ring, from position ``begin`` over P - 1 hops."""
    hops = np.arange(len(ring) - 1)
    source, target = (begin + hops) % len(ring), (begin + hops + 1) % len(ring)
    many = len(span)
    return _build_block(
        np.tile(first_step + hops, many),
        np.repeat(span, len(hops), axis=0),
        np.tile(ring[source], many),
        np.tile(ring[target], many),
        adds,
    )


def _chain_block(motif: Motif, share: MotifShare, order: IntArray) -> _Block:
    """Return the pipelined transfers along a chain of places, from or to the first one."""
    ranks = np.array(share.group, np.int64)[order]
    pieces = _part_spans(motif, share, len(ranks)).reshape(-1, 2)
    hops = np.arange(len(ranks) - 1)
    inwards = motif.collective == "reduce"
    ranks = ranks[::-1] if inwards else ranks
    step = (np.arange(len(pieces))[:, None] + hops[None, :]).ravel()
    span = np.repeat(pieces, len(hops), axis=0)
    source, target = (np.tile(end, len(pieces)) for end in (ranks[:-1], ranks[1:]))
    return _build_block(step, span, source, target, inwards)


def _tree_transfers(motif: Motif, _order: RingOrder = rank_order) -> Transfers:
    """Return the transfers of whole buffers along a binomial tree of the ranks of each group.

    Towards the leaves the longest hops come first, so a buffer enters each node once.
    """
    blocks: list[_Block] = []
    for share in motif.shares:
        group = np.array(share.group, np.int64)
        order = rank_order(group)
        root = 0 if share.root is None else int(np.argmax(order == share.root))
        ranks = group[np.roll(order, -root)]
        spans, _ = _cell_spans(motif, share)
        steps = (len(ranks) - 1).bit_length()
        for step in range(steps):
            if motif.collective != "broadcast":
                blocks.append(_tree_level_block(ranks, spans, step, 2**step, inwards=True))
            if motif.collective != "reduce":
                then = step + (steps if motif.is_combining else 0)
                blocks.append(
                    _tree_level_block(ranks, spans, then, 2 ** (steps - 1 - step), inwards=False)
                )
    return _concatenate_blocks(blocks)


def _tree_level_block(
    ranks: IntArray, spans: IntArray, step: int, far: int, *, inwards: bool
) -> _Block:
    """Return a level of a binomial tree, with hops between ranks at the distance ``far``."""
    near = np.arange(0, len(ranks) - far, 2 * far)
    ends = (ranks[near], ranks[near + far])
    source, target = (np.tile(end, len(spans)) for end in (ends[::-1] if inwards else ends))
    span = np.repeat(spans, len(near), axis=0)
    return _build_block(np.full(len(span), step), span, source, target, inwards)


CARRIERS = (
    MotifCarrier(
        "direct",
        NAMES,
        _direct_transfers,
        "from each rank to each destination at once; an allreduce in two steps",
    ),
    MotifCarrier(
        "ring",
        ("allgather", "allreduce", "broadcast", "reduce", "reducescatter"),
        _ring_transfers,
        "around a ring of the ranks: along links, or by number; to or from a root in pieces",
    ),
    MotifCarrier(
        "tree",
        ("allreduce", "broadcast", "reduce"),
        _tree_transfers,
        "along a binomial tree of the ranks by number, whole",
    ),
)

CARRIER_BY_NAME = {carrier.name: carrier for carrier in CARRIERS}
