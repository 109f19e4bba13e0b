"""The best schedule of a tiny problem, of all orders in which its chunks can be sent."""

from __future__ import annotations

from itertools import product

from sccl.synth.scheduling.problem import SchedulingProblem


def best_objective(posed: SchedulingProblem) -> int:
    """Return the optimum over all orders in which all chunks can be sent.

    Each send begins as soon as possible after its predecessors, so some order is optimal.
    """
    links = len(posed.topology.links)
    best = sum(posed.costs[-1]) * posed.chunks * posed.ranks * sum(posed.priorities)

    def on(have: dict[tuple[int, int], int], ends: tuple[int, ...], last: int) -> None:
        nonlocal best
        finishes = [0] * len(posed.priorities)
        for (chunk, _), at in have.items():
            finishes[posed.collective_index[chunk]] = max(
                finishes[posed.collective_index[chunk]], at
            )
        latest = sum(p * at for p, at in zip(posed.priorities, finishes, strict=True))
        if latest >= best:
            return
        wanted = [(c, r) for c in range(posed.chunks) for r in posed.wanted[c]]
        if all(pair in have for pair in wanted):
            best = latest
            return
        for chunk, way in product(range(posed.chunks), range(len(posed.src))):
            here, there = (chunk, posed.src[way]), (chunk, posed.dst[way])
            if here not in have or there in have:
                continue
            start = max(
                have[here],
                *(
                    ends[h.resource] - h.offset
                    for h in posed.uses_of_chunk(chunk)[way]
                    if h.resource < links
                ),
            )
            if start < last:  # the same sends in another order
                continue
            after = list(ends)
            for hop in posed.uses_of_chunk(chunk)[way]:
                after[hop.resource] = start + hop.offset + hop.busy
            on({**have, there: start + posed.costs_of_chunk(chunk)[way]}, tuple(after), start)

    held = {(c, r): 0 for c in range(posed.chunks) for r in posed.holders[c]}
    on(held, (0,) * links, 0)
    return best
