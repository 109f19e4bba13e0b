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

from sccl.formats.mscclpp_plans.thread_sync import PACKET
from sccl.formats.program_check import completed_before, topological_order
from sccl.formats.program_graph import GraphFault, GraphStep, Place


def find_early_packets(
    steps: Sequence[GraphStep], blocks: Sequence[int], *, halves: bool
) -> list[GraphFault]:
    """Return the packets that may arrive too early. Empty for steps with cyclic waits.

    Args:
        steps: Steps. Those before the first of any thread block begin the call, one for each rank.
        blocks: Number of thread blocks of each rank. A higher number is a port.
        halves: Whether calls alternate between two halves of scratch.
    """
    readers = _packet_readers(steps)
    order, faults = topological_order(steps)
    if not readers or faults:
        return []
    before = completed_before(steps)
    entered, left = _entry_sets(steps, order, before)
    done = [completed_by_end(steps, before, rank, many) for rank, many in enumerate(blocks)]
    early: dict[tuple[int, int], GraphFault] = {}
    for number, step in enumerate(steps):
        entered_bits = left[step.rank] if halves else entered[number]
        for place in (m.dst for m in step.moves if m.dst[1] == PACKET and m.dst[0] != step.rank):
            reader = place[0]
            safe = entered_bits >> reader & 1 or readers[place] <= done[step.rank]
            if safe or (step.rank, reader) in early:
                continue
            last = "last call but one" if halves else "last call"
            hint = "" if halves else ": use_double_scratch_buffer"
            text = (
                f"{step.name} may overwrite data at rank {reader} that it has not read yet, from "
                f"the {last}{hint}"
            )
            at = (step.rank, step.block, step.index, step.chunk)
            early[step.rank, reader] = GraphFault("overlap", text, *at)
    return list(early.values())


def completed_by_end(
    steps: Sequence[GraphStep], before: Sequence[Sequence[int]], rank: int, blocks: int
) -> set[int]:
    """Return which steps are certainly done when a rank's thread blocks are."""
    rank_steps = ((n, step) for n, step in enumerate(steps) if step.rank == rank)
    last = {step.block: n for n, step in rank_steps if step.block < blocks}
    left = list(last.values())
    done = set(left)
    while left:
        fresh = set(before[left.pop()]) - done
        done |= fresh
        left += fresh
    return done


def _packet_readers(steps: Sequence[GraphStep]) -> dict[Place, set[int]]:
    readers: dict[Place, set[int]] = defaultdict(set)
    for number, step in enumerate(steps):
        for move in step.moves:
            for place in move.srcs:
                if place[1] == PACKET:
                    readers[place].add(number)
    return readers


def _entry_sets(
    steps: Sequence[GraphStep], order: Sequence[int], before: Sequence[Sequence[int]]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return, as bits, who is known to have entered: by each step, and by each rank's end."""
    entered: dict[int, int] = {}
    left: dict[int, int] = defaultdict(int)
    for number in order:
        step = steps[number]
        bits = 1 << step.rank
        for source in before[number]:
            bits |= entered[source]
        entered[number] = bits
        left[step.rank] |= bits
    return entered, left
