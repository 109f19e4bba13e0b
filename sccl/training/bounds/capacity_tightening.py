"""Tighten shares: motifs that exclude each other on a resource get all of it.

A share above one half excludes all others above one half, although sequential shares add up to less
than the whole. Bounds add up shares, so shares are replaced by a dual feasible function, as in
bounds for bin packing: shares that fit together still do. For some p above one half, it gives the
whole for shares of p or more, nothing for shares that fit next to such a one, and the share itself
in between. If no share becomes nothing, the tightened problem has the same plans. Otherwise the
changed shares are added as another resource.
"""

from __future__ import annotations

from dataclasses import replace

from sccl.training.scheduling.step_problem import (
    FULL_SHARE,
    CyclicProblem,
    StepMotif,
    StepOption,
    StepProblem,
)

_HALF = FULL_SHARE // 2


def tighten_capacities(problem: CyclicProblem) -> CyclicProblem:
    """Return a problem with the same plans, by more shares and resources. These come last."""
    step = problem.step
    parts: list[set[int]] = [set() for _ in step.resources]
    for op in step.ops:
        for option in op.options:
            for motif in option.motifs:
                for resource, part in zip(motif.uses, motif.parts, strict=True):
                    parts[resource].add(part)
    all_from = [max(_HALF, FULL_SHARE - min(shares, default=FULL_SHARE)) + 1 for shares in parts]
    halves = [
        number
        for number, (shares, from_) in enumerate(zip(parts, all_from, strict=True))
        if any(_HALF < part < from_ for part in shares)
    ]
    more = {resource: len(step.resources) + k for k, resource in enumerate(halves)}
    cache: dict[int, tuple[StepOption, ...]] = {}
    ops = []
    for op in step.ops:
        if id(op.options) not in cache:
            cache[id(op.options)] = tuple(
                replace(
                    option, motifs=tuple(_raise_shares(m, all_from, more) for m in option.motifs)
                )
                for option in op.options
            )
        ops.append(replace(op, options=cache[id(op.options)]))
    names = (*step.resources, *(f"{step.resources[k]}, more than half" for k in halves))
    return CyclicProblem(StepProblem(names, tuple(ops)), problem.lagged_waits)


def _raise_shares(motif: StepMotif, all_from: list[int], more: dict[int, int]) -> StepMotif:
    uses, shares = list(motif.uses), list[int]()
    for resource, part in zip(motif.uses, motif.parts, strict=True):
        shares.append(FULL_SHARE if part >= all_from[resource] else part)
        if resource in more and part >= _HALF:
            uses.append(more[resource])
    shares += [
        FULL_SHARE if part > _HALF else _HALF
        for resource, part in zip(motif.uses, motif.parts, strict=True)
        if resource in more and part >= _HALF
    ]
    return replace(motif, uses=tuple(uses), shares=tuple(shares))
