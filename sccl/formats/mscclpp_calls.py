"""Check whether a call's packets may arrive before the previous call has been read.

No rank waits before it sends packets, and calls overlap: a rank may be in one call while another
has not left the previous one, or, if calls alternate between two halves of scratch, the one before
that. This is valid if the sender knows by then that the receiver has entered a later call. It
follows from the happens-before relation, so it does not depend on speeds. Source:
``launchKernelHelper`` in ``executor.cc`` of microsoft/mscclpp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sccl.formats.mscclpp_threads import PACKET
from sccl.lower.step_graph import GraphFault, GraphStep, Place
from sccl.lower.step_graph_run import done_before, in_order


def too_early(
    steps: Sequence[GraphStep], blocks: Sequence[int], *, halves: bool
) -> list[GraphFault]:
    """Return the packets that may arrive too early. Empty for steps with cyclic waits.

    Args:
        steps: Steps. Those before the first of any thread block begin the call, one for each rank.
        blocks: Number of thread blocks of each rank. A higher number is a port.
        halves: Whether calls alternate between two halves of scratch.
    """
    readers = _readers(steps)
    order, faults = in_order(steps)
    if not readers or faults:
        return []
    before = done_before(steps)
    entered, left = _entered(steps, order, before)
    done = [done_by_end(steps, before, rank, many) for rank, many in enumerate(blocks)]
    found: dict[tuple[int, int], GraphFault] = {}
    for number, step in enumerate(steps):
        known = left[step.rank] if halves else entered[number]
        for place in (m.dst for m in step.moves if m.dst[1] == PACKET and m.dst[0] != step.rank):
            reader = place[0]
            safe = known >> reader & 1 or readers[place] <= done[step.rank]
            if safe or (step.rank, reader) in found:
                continue
            last = "last call but one" if halves else "last call"
            hint = "" if halves else ": use_double_scratch_buffer"
            text = f"{step.name} may come to rank {reader} before it has read the {last}{hint}"
            at = (step.rank, step.block, step.index, step.chunk)
            found[step.rank, reader] = GraphFault("overlap", text, *at)
    return list(found.values())


def done_by_end(
    steps: Sequence[GraphStep], before: Sequence[Sequence[int]], rank: int, blocks: int
) -> set[int]:
    """Return which steps are certainly done when a rank's thread blocks are."""
    own = ((n, step) for n, step in enumerate(steps) if step.rank == rank)
    last = {step.block: n for n, step in own if step.block < blocks}
    left = list(last.values())
    done = set(left)
    while left:
        fresh = set(before[left.pop()]) - done
        done |= fresh
        left += fresh
    return done


def _readers(steps: Sequence[GraphStep]) -> dict[Place, set[int]]:
    """Return which steps read each packet."""
    found: dict[Place, set[int]] = defaultdict(set)
    for number, step in enumerate(steps):
        for move in step.moves:
            for place in move.srcs:
                if place[1] == PACKET:
                    found[place].add(number)
    return found


def _entered(
    steps: Sequence[GraphStep], order: Sequence[int], before: Sequence[Sequence[int]]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return, as bits, who is known to have entered: by each step, and by each rank's end."""
    known: dict[int, int] = {}
    left: dict[int, int] = defaultdict(int)
    for number in order:
        step = steps[number]
        bits = 1 << step.rank
        for source in before[number]:
            bits |= known[source]
        known[number] = bits
        left[step.rank] |= bits
    return known, left
