"""Plan a training step again, in a separate process of low priority, so the job is not slowed."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from sccl.core.files.disk import write_bytes_atomically
from sccl.core.files.outputs import copy_fields
from sccl.torch_backend.jobs.controller import (
    COSTS_FILE,
    PLAN_FILE,
    RESULT_FILE,
    decode_plan,
    encode_plan,
)
from sccl.torch_backend.script import PlanScript, parse_script
from sccl.training.options.measured_costs import CostTable
from sccl.training.options.motif_costs import build_motif_planner
from sccl.training.plan_files import load_cost_table
from sccl.training.plan_step import plan_training
from sccl.training.planner import PlanSettings
from sccl.training.types.fabric import Channel, Fabric
from sccl.training.types.training_plan import TrainingPlan

_NICENESS = 10

MIN_DEVIATION = 0.1
"""Relative deviation up to which a channel's rate counts as unchanged, because measured times
include the skew of ranks."""


def main(folder: str, seconds: float) -> None:
    """Plan a workload again, on the fabric with measured rates."""
    os.nice(_NICENESS)
    place = Path(folder)
    content = (place / PLAN_FILE).read_bytes()
    plan, fabric = decode_plan(content, PLAN_FILE), None
    if (place / COSTS_FILE).exists():
        table = load_cost_table(place / COSTS_FILE)
        fabric = measured_fabric(plan, parse_script(content, PLAN_FILE), table)
    planner = build_motif_planner(seed=plan.seed)
    settings = copy_fields(PlanSettings, plan, search="sgs", seconds=seconds, planner=planner)
    planned = plan_training(
        plan.input_workload, fabric or plan.fabric, settings, lambda *_: None, lambda: None
    )
    write_bytes_atomically(place / RESULT_FILE, encode_plan(planned.plan))


def measured_fabric(plan: TrainingPlan, script: PlanScript, table: CostTable) -> Fabric:
    """Return a plan's fabric with rates of its channels from measured times of motifs.

    The measurements are of the plan's carriers and sizes only, but a slow channel is slow for all
    of them. A channel without measurements keeps its rate.

    Args:
        plan: Plan.
        script: Script of the plan.
        table: Measured times of its motifs.
    """
    if plan.costs:  # its times come from a table, not from the fabric
        return plan.fabric
    options = dict(plan.options)
    claimed: dict[str, float] = defaultdict(float)
    took: dict[str, float] = defaultdict(float)
    for op in script.ops:
        for motif, planned_motif in zip(op.motifs, options[op.id].motifs, strict=True):
            if motif.timed is None:
                continue
            collective, by, ranks, size = motif.timed
            us = dict(table.rows.get((collective, by, ranks), ())).get(size)
            if us is not None:
                launch_us = plan.fabric.channel(planned_motif.channel).launch_us
                claimed[planned_motif.channel] += max(0.0, planned_motif.ns / 1000 - launch_us)
                took[planned_motif.channel] += max(0.0, us - launch_us)
    slower = {name: took[name] / us for name, us in claimed.items() if us and took[name]}
    off = {name: times for name, times in slower.items() if abs(times - 1) > MIN_DEVIATION}
    if not off:
        return plan.fabric
    channels = tuple(
        _slow_channel(channel, off.get(channel.name, 1.0)) for channel in plan.fabric.channels
    )
    rates = ", ".join(f"{name} at {1 / times:.3g} of its rate" for name, times in off.items())
    source = f"{plan.fabric.source}; as a job met it: {rates}"
    return replace(plan.fabric, channels=channels, source=source)


def _slow_channel(channel: Channel, times: float) -> Channel:
    machine = channel.topology
    links = tuple(replace(part, gb_per_s=part.gb_per_s / times) for part in machine.links)
    budgets = tuple(
        part if part.gb_per_s is None else replace(part, gb_per_s=part.gb_per_s / times)
        for part in machine.budgets
    )
    met = replace(machine, gb_per_s=machine.gb_per_s / times, links=links, budgets=budgets)
    return replace(channel, topology=met)
