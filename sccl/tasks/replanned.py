"""A training step planned anew in a process of its own, at a low priority: the job comes first."""

from __future__ import annotations

import os
from pathlib import Path

from sccl.core.files.disk import write_bytes_atomically
from sccl.errors import ParameterError
from sccl.tasks.controlling import COSTS, FOUND, GIVEN, content_of, plan_in
from sccl.tasks.motif_planning import motif_planner
from sccl.tasks.planning import plan_training
from sccl.tasks.training_files import load_cost_table
from sccl.train.planner import PlanSettings
from sccl.train.tables import CostTable

_POLITE = 10


def main(folder: str, seconds: float) -> None:
    """Plan what a plan is of anew, by what was measured.

    What was measured is of the sizes that the active plan has. Where a table of these alone does
    not reach what else is looked at, times are reckoned as they were.
    """
    os.nice(_POLITE)
    place = Path(folder)
    plan = plan_in((place / GIVEN).read_bytes(), GIVEN)
    table = load_cost_table(place / COSTS) if (place / COSTS).exists() else None

    def settings(measured: CostTable | None) -> PlanSettings:
        """Return those of the plan that is active, and the table."""
        return PlanSettings(
            search="sgs",
            seconds=seconds,
            seed=plan.seed,
            max_motifs=plan.max_motifs,
            memory_bytes=plan.memory_bytes,
            bitwise=plan.bitwise,
            measured=measured,
            planner=motif_planner(seed=plan.seed),
            merge_bytes=plan.merge_bytes,
        )

    def find(measured: CostTable | None) -> None:
        """Plan, and write what was found."""
        found = plan_training(
            plan.given, plan.fabric, settings(measured), lambda *_: None, lambda: None
        )
        write_bytes_atomically(place / FOUND, content_of(found.plan))

    try:
        find(table)
    except ParameterError:
        if table is None:
            raise
        find(None)
