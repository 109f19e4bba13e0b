"""The judge of plans of a step: it shares nothing with those that make them."""

from __future__ import annotations

from sccl.train.problem import StepPlan, StepProblem


def wrong_in_plan(problem: StepProblem, plan: StepPlan) -> str:
    """Return what is wrong with a plan; empty: nothing."""
    if len(plan.options) != len(problem.ops) or len(plan.starts) != len(problem.ops):
        return f"it is of {len(plan.options)} ops, and the step has {len(problem.ops)}"
    ends: list[int] = []
    busy: dict[int, list[tuple[int, int, str]]] = {}
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
            for resource in motif.uses:
                row = (start, start + motif.ticks, f"{where}, motif {k}")
                busy.setdefault(resource, []).append(row)
        ends.append(max(s + m.ticks for s, m in zip(starts, motifs, strict=True)))
    for resource, rows in busy.items():
        last = (0, 0, "")
        for row in sorted(rows):
            if row[0] < last[1] and row[1] > row[0]:
                name = problem.resources[resource]
                return f"{row[2]} and {last[2]} both have {name!r} at tick {row[0]}"
            last = max(last, row, key=lambda r: r[1])
    return ""
