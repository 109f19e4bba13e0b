"""The judge of plans of a step: it shares nothing with those that make them."""

from __future__ import annotations

from sccl.training.scheduling.step_problem import FULL_SHARE, StepPlan, StepProblem

_ResourceUse = tuple[int, int, int, str]
"""When it starts and ends, its share, and whose it is."""


def find_step_plan_fault(problem: StepProblem, plan: StepPlan) -> str:
    """Return a violation of a plan. Empty: none."""
    if len(plan.options) != len(problem.ops) or len(plan.starts) != len(problem.ops):
        return f"it has {len(plan.options)} operations, and the step has {len(problem.ops)}"
    ends: list[int] = []
    busy: dict[int, list[_ResourceUse]] = {}
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
        if wrong := _find_overuse(rows, problem.resources[resource]):
            return wrong
    return ""


def _find_overuse(rows: list[_ResourceUse], name: str) -> str:
    """Return a violation of a resource's capacity, with its tick."""
    running: list[_ResourceUse] = []
    for row in sorted(row for row in rows if row[1] > row[0]):
        running = [*(use for use in running if use[1] > row[0]), row]
        shares = sum(use[2] for use in running)
        if shares > FULL_SHARE:
            names = " and ".join(use[3] for use in reversed(running))
            if all(use[2] == FULL_SHARE for use in running):
                return f"{names} both have {name!r} at tick {row[0]}"
            return f"{names} have {shares} of {FULL_SHARE} shares of {name!r} at tick {row[0]}"
    return ""
