"""Options for planning training steps: the search, and the choices for collectives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sccl.cli import options
from sccl.core.sizes import parse_size
from sccl.training.plan_files import load_cost_table

if TYPE_CHECKING:
    from sccl.training.planner import PlanSettings

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Workload of 'sccl workload import' or 'sccl workload make'.",
        show_default=False,
        autocompletion=options.complete_file,
    ),
]
FabricName = Annotated[
    str,
    typer.Option(
        "--fabric",
        help="Fabric: a name of 'sccl fabric list' or a .json file ('sccl schema fabric').",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed; the same seed gives the same plan.")]
Memory = Annotated[
    str | None,
    typer.Option(help="Memory limit of gathered results, such as 3GB.", show_default="any"),
]
Search = Annotated[
    str,
    typer.Option(
        help="Search: sgs (options and order together), exact (small steps), mcmc (as "
        "published), or a framework's: fifo, lifo, p3, tictac, ho, s-exec, s-sched."
    ),
]
Seconds = Annotated[
    float,
    typer.Option(
        min=0,
        help="Budget of bounds and search, in approximate seconds. Counted in steps, so "
        "load does not change the result.",
    ),
]
MaxMotifs = Annotated[int, typer.Option(min=1, help="Largest number of motifs of a collective.")]
Bitwise = Annotated[
    bool,
    typer.Option("--bitwise", help="Keep each collective's order of reduction."),
]
Merge = Annotated[
    str | None,
    typer.Option(
        help="Largest size of merged collectives, such as 25MB.",
        show_default="none are",
    ),
]
Costs = Annotated[
    Path | None,
    typer.Option(
        help="Measured times as CSV: collective,option,ranks,bytes,us; an option is a "
        "channel and a carrier, such as 'gpu ring'.",
        show_default="reckoned",
        autocompletion=options.complete_file,
    ),
]
OptionsOnly = Annotated[
    bool,
    typer.Option(
        "--options-only",
        help="Write the options of each collective and the refused recipes ('sccl schema "
        "option'), without a plan.",
    ),
]


@dataclass(frozen=True, slots=True)
class PlanSearchOptions:
    """The search method, and its effort."""

    search: Search = "sgs"
    seconds: Seconds = 10.0
    seed: Seed = 0


@dataclass(frozen=True, slots=True)
class PlanContentOptions:
    """The choices that plans may use."""

    max_motifs: MaxMotifs = 16
    memory: Memory = None
    bitwise: Bitwise = False
    merge: Merge = None
    costs: Costs = None


def build_plan_settings(searched: PlanSearchOptions, choices: PlanContentOptions) -> PlanSettings:
    """Return how a plan is looked for.

    Raises:
        InputError: there is no such search, or a number or the table of costs makes no sense.
    """
    from sccl.training.options.motif_planner import build_motif_planner  # noqa: PLC0415 - loads NumPy and Numba
    from sccl.training.planner import PlanSettings  # noqa: PLC0415

    return PlanSettings(
        search=searched.search,
        seconds=searched.seconds,
        seed=searched.seed,
        max_motifs=choices.max_motifs,
        memory_bytes=0 if choices.memory is None else parse_size(choices.memory, "memory"),
        bitwise=choices.bitwise,
        measured=None if choices.costs is None else load_cost_table(choices.costs),
        planner=build_motif_planner(seed=searched.seed),
        merge_bytes=0 if choices.merge is None else parse_size(choices.merge, "merge"),
    )
