"""The judge of plans of a step: it shares nothing with those that make them."""

from __future__ import annotations

from sccl.train.problem import WHOLE, StepPlan, StepProblem

_Use = tuple[int, int, int, str]
"""When it starts and ends, its share, and whose it is."""


def wrong_in_plan(problem: StepProblem, plan: StepPlan) -> str:
    """Return a violation of a plan. Empty: none."""
    if len(plan.options) != len(problem.ops) or len(plan.starts) != len(problem.ops):
        return f"it is of {len(plan.options)} ops, and the step has {len(problem.ops)}"
    ends: list[int] = []
    busy: dict[int, list[_Use]] = {}
    for number, op in enumerate(problem.ops):
        where, choice = f"op {op.name!r}", plan.options[number]
        if not 0 <= choice < len(op.options):
            return f"{where} takes option {choice}, and has {len(op.options)}"
        motifs, starts = op.options[choice].motifs, plan.starts[number]
        if len(starts) != len(motifs):
            return f"{where} starts {len(starts)} motifs, and its option has {len(motifs)}"
        ready = max((ends[k] for k in op.after), default=0)
        for k, (motif, start) in enumerate(zip(motifs, starts, strict=True)):
            waits = max((starts[j] + motifs[j].ticks for j in motif.after), default=0)
            if start < max(ready, waits):
                return f"{where}: motif {k} starts at {start}, and waits until {max(ready, waits)}"
            for resource, part in zip(motif.uses, motif.parts, strict=True):
                row = (start, start + motif.ticks, part, f"{where}, motif {k}")
                busy.setdefault(resource, []).append(row)
        ends.append(max(s + m.ticks for s, m in zip(starts, motifs, strict=True)))
    for resource, rows in busy.items():
        if wrong := _shared(rows, problem.resources[resource]):
            return wrong
    return ""


def _shared(rows: list[_Use], name: str) -> str:
    """Return a violation of a resource's capacity, with its tick."""
    running: list[_Use] = []
    for row in sorted(row for row in rows if row[1] > row[0]):
        running = [*(other for other in running if other[1] > row[0]), row]
        shares = sum(other[2] for other in running)
        if shares > WHOLE:
            names = " and ".join(other[3] for other in reversed(running))
            if all(other[2] == WHOLE for other in running):
                return f"{names} both have {name!r} at tick {row[0]}"
            return f"{names} have {shares} of {WHOLE} shares of {name!r} at tick {row[0]}"
    return ""
