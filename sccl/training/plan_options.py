"""Options of users for plans of training steps: the search, and the choices for collectives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from sccl.core.sizes import parse_size
from sccl.training.plan_files import load_cost_table

if TYPE_CHECKING:
    from sccl.training.planner import PlanSettings


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The search, its budget, and the choices that plans may use."""

    search: Annotated[
        str,
        Meta(
            description="Search: sgs (options and order together), exact (small steps), mcmc (as "
            "published), or a framework's: fifo, lifo, p3, tictac, ho, s-exec, s-sched."
        ),
    ] = "sgs"
    budget: Annotated[
        float,
        Meta(
            ge=0,
            description="Budget of bounds and search, in approximate seconds. Counted in steps, so "
            "load does not change the result.",
        ),
    ] = 10.0
    seed: Annotated[int, Meta(ge=0, description="Seed; the same seed gives the same plan.")] = 0
    max_motifs: Annotated[
        int, Meta(ge=1, description="Largest number of motifs of a collective.")
    ] = 16
    memory: Annotated[
        str | None,
        Meta(
            description="Memory limit of gathered results, such as 3GB.", extra={"default": "any"}
        ),
    ] = None
    bitwise: Annotated[bool, Meta(description="Keep each collective's order of reduction.")] = False
    merge: Annotated[
        str | None,
        Meta(
            description="Largest size of merged collectives, such as 25MB.",
            extra={"default": "none are"},
        ),
    ] = None
    costs: Annotated[
        Path | None,
        Meta(
            description="Measured times as CSV: collective,option,ranks,bytes,us; an option is a "
            "channel and a carrier, such as 'gpu ring'.",
            extra={"default": "reckoned"},
        ),
    ] = None


def build_plan_settings(options: PlanOptions) -> PlanSettings:
    """Return the settings of a plan's search.

    Raises:
        InputError: There is no such search, or a number or the table of costs is invalid.
    """
    from sccl.training.options.motif_planner import build_motif_planner  # noqa: PLC0415 - loads NumPy
    from sccl.training.planner import PlanSettings  # noqa: PLC0415 - likewise

    return PlanSettings(
        search=options.search,
        seconds=options.budget,
        seed=options.seed,
        max_motifs=options.max_motifs,
        memory_bytes=parse_size(options.memory, "memory") if options.memory else 0,
        bitwise=options.bitwise,
        measured=load_cost_table(options.costs) if options.costs else None,
        planner=build_motif_planner(seed=options.seed),
        merge_bytes=parse_size(options.merge, "merge") if options.merge else 0,
    )
