"""A training step planned again in a process of its own, at a low priority: the job comes first."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from sccl.core.fabric import Channel, Fabric
from sccl.core.files.disk import write_bytes_atomically
from sccl.core.training_plan import TrainingPlan
from sccl.enforce.script import PlanScript, script_in
from sccl.tasks.controlling import COSTS, FOUND, GIVEN, content_of, plan_in
from sccl.tasks.motif_planning import motif_planner
from sccl.tasks.planning import plan_training
from sccl.tasks.training_files import load_cost_table
from sccl.train.planner import PlanSettings
from sccl.train.tables import CostTable

_POLITE = 10

LEAST_OFF = 0.1
"""Relative deviation of a channel's rate below which it counts as unchanged, because measured times
include the skew of ranks.
"""


def main(folder: str, seconds: float) -> None:
    """Plan a workload again, on the fabric with measured rates."""
    os.nice(_POLITE)
    place = Path(folder)
    given = (place / GIVEN).read_bytes()
    plan, fabric = plan_in(given, GIVEN), None
    if (place / COSTS).exists():
        table = load_cost_table(place / COSTS)
        fabric = fabric_as_met(plan, script_in(given, GIVEN), table)
    settings = PlanSettings(
        search="sgs",
        seconds=seconds,
        seed=plan.seed,
        max_motifs=plan.max_motifs,
        memory_bytes=plan.memory_bytes,
        bitwise=plan.bitwise,
        planner=motif_planner(seed=plan.seed),
        merge_bytes=plan.merge_bytes,
    )
    found = plan_training(
        plan.given, fabric or plan.fabric, settings, lambda *_: None, lambda: None
    )
    write_bytes_atomically(place / FOUND, content_of(found.plan))


def fabric_as_met(plan: TrainingPlan, script: PlanScript, table: CostTable) -> Fabric:
    """Return a plan's fabric with rates of its channels from measured times of motifs.

    The measurements are of the plan's carriers and sizes only, but a slow channel is slow for all
    of them. A channel without measurements keeps its rate.

    Args:
        script: Script of the plan.
        table: Measured times of its motifs.
    """
    if plan.costs:  # its claims are of another table, and not of the fabric
        return plan.fabric
    options = dict(plan.options)
    claimed: dict[str, float] = defaultdict(float)
    took: dict[str, float] = defaultdict(float)
    for op in script.ops:
        for motif, own in zip(op.motifs, options[op.id].motifs, strict=True):
            if motif.timed is None:
                continue
            collective, by, ranks, size = motif.timed
            us = dict(table.rows.get((collective, by, ranks), ())).get(size)
            if us is not None:
                launch_us = plan.fabric.channel(own.channel).launch_us
                claimed[own.channel] += max(0.0, own.ns / 1000 - launch_us)
                took[own.channel] += max(0.0, us - launch_us)
    slower = {name: took[name] / us for name, us in claimed.items() if us and took[name]}
    off = {name: times for name, times in slower.items() if abs(times - 1) > LEAST_OFF}
    if not off:
        return plan.fabric
    channels = tuple(_slowed(one, off.get(one.name, 1.0)) for one in plan.fabric.channels)
    told = ", ".join(f"{name} at {1 / times:.3g} of its rate" for name, times in off.items())
    source = f"{plan.fabric.source}; as a job met it: {told}"
    return replace(plan.fabric, channels=channels, source=source)


def _slowed(channel: Channel, times: float) -> Channel:
    machine = channel.topology
    links = tuple(replace(one, gb_per_s=one.gb_per_s / times) for one in machine.links)
    budgets = tuple(
        one if one.gb_per_s is None else replace(one, gb_per_s=one.gb_per_s / times)
        for one in machine.budgets
    )
    met = replace(machine, gb_per_s=machine.gb_per_s / times, links=links, budgets=budgets)
    return replace(channel, topology=met)
