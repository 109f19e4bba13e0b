"""Whether a call's packets may come before the last call has been read.

Nobody waits before packets are sent, and calls overlap: a rank may be in one while another has not
left the last, or, where calls take turns with two halves of scratch, the last but one. That is
right where the one knows by then that the other has entered a later call; and right or wrong
whatever the speed, since it follows from what certainly is before what.
Source: ``launchKernelHelper`` in ``executor.cc`` of microsoft/mscclpp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sccl.formats.mscclpp_threads import PACKET
from sccl.lower.step_graph import GraphFault, GraphStep, Place
from sccl.lower.step_graph_run import done_before, in_order


def too_early(steps: Sequence[GraphStep], *, halves: bool) -> list[GraphFault]:
    """Return which packets may come too early; of steps that wait in a circle none.

    Args:
        steps: those before any thread block's first begin the call, one of each rank.
        halves: whether calls take turns with two halves of scratch.
    """
    sends = {
        (number, place[0])
        for number, step in enumerate(steps)
        for place in _packets(step)
        if place[0] != step.rank
    }
    if not sends:
        return []
    entered, left = _entered(steps)
    faults: dict[tuple[int, int], GraphFault] = {}
    for number, reader in sorted(sends):
        step = steps[number]
        known = left.get(step.rank, 0) if halves else entered.get(number, 0)
        if not known >> reader & 1 and entered and (step.rank, reader) not in faults:
            last = "last call but one" if halves else "last call"
            hint = "" if halves else ": use_double_scratch_buffer"
            text = f"{step.name} may come to rank {reader} before it has read the {last}{hint}"
            place = (step.rank, step.block, step.index, step.chunk)
            faults[step.rank, reader] = GraphFault("overlap", text, *place)
    return list(faults.values())


def _packets(step: GraphStep) -> list[Place]:
    return [move.dst for move in step.moves if move.dst[1] == PACKET]


def _entered(steps: Sequence[GraphStep]) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Return, as bits, of whom it is known that they have entered: by step, and by rank at the end.

    Both are empty where steps wait in a circle.
    """
    order, faults = in_order(steps)
    if faults:
        return {}, {}
    before = done_before(steps)
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
