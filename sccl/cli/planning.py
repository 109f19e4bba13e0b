"""How training steps are planned, as options: what is searched, and which options there may be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sccl.cli import complete
from sccl.tasks.sizes import size_in_bytes
from sccl.tasks.training_files import load_cost_table

if TYPE_CHECKING:
    from sccl.train.planner import PlanSettings

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A workload, as 'sccl workload import' or 'sccl workload make' writes it.",
        show_default=False,
        autocompletion=complete.file,
    ),
]
FabricName = Annotated[
    str,
    typer.Option(
        "--fabric",
        help="What it runs on ('sccl fabric list'), or a .json file ('sccl schema fabric').",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed, the same plan.")]
Memory = Annotated[
    str | None,
    typer.Option(help="What gathered results may take at once, such as 3GB.", show_default="any"),
]
Search = Annotated[
    str,
    typer.Option(
        help="sgs (options and order together), exact (small steps), mcmc (as published), or "
        "what frameworks do: fifo, lifo, p3, tictac, ho, s-exec, s-sched."
    ),
]
Seconds = Annotated[
    float,
    typer.Option(
        min=0,
        help="How much is done in all, about: options are found, then a quarter at the most is for "
        "bounds, and the search gets what is left, a quarter at the least. It is counted in steps, "
        "not by the clock: the same on any machine, however busy.",
    ),
]
MaxMotifs = Annotated[
    int, typer.Option(min=1, help="Into how many motifs a collective is split at the most.")
]
Bitwise = Annotated[
    bool,
    typer.Option("--bitwise", help="Keep the order in which collectives reduce as they are."),
]
Merge = Annotated[
    str | None,
    typer.Option(
        help="Collectives that are alike may be one, up to so many bytes, such as 25MB: those "
        "for which a step is faster with it are.",
        show_default="none are",
    ),
]
Costs = Annotated[
    Path | None,
    typer.Option(
        help="Times that were measured, as CSV: collective,option,ranks,bytes,us; an option is "
        "a channel and what carries it, such as 'gpu ring'.",
        show_default="reckoned",
        autocompletion=complete.file,
    ),
]
OptionsOnly = Annotated[
    bool,
    typer.Option(
        "--options-only",
        help="Find what each collective is offered, and why recipes are refused ('sccl schema "
        "option'), and plan nothing.",
    ),
]


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """What is searched, and how much."""

    search: Search = "sgs"
    seconds: Seconds = 10.0
    seed: Seed = 0


@dataclass(frozen=True, slots=True)
class PlanChoices:
    """What plans may be of."""

    max_motifs: MaxMotifs = 16
    memory: Memory = None
    bitwise: Bitwise = False
    merge: Merge = None
    costs: Costs = None


def plan_settings(searched: PlanSearch, choices: PlanChoices) -> PlanSettings:
    """Return how a plan is looked for.

    Raises:
        InputError: there is no such search, or a number or the table of costs makes no sense.
    """
    from sccl.tasks.motif_planning import motif_planner  # noqa: PLC0415 - loads NumPy and Numba
    from sccl.train.planner import PlanSettings  # noqa: PLC0415

    return PlanSettings(
        search=searched.search,
        seconds=searched.seconds,
        seed=searched.seed,
        max_motifs=choices.max_motifs,
        memory_bytes=0 if choices.memory is None else size_in_bytes(choices.memory, "memory"),
        bitwise=choices.bitwise,
        measured=None if choices.costs is None else load_cost_table(choices.costs),
        planner=motif_planner(seed=searched.seed),
        merge_bytes=0 if choices.merge is None else size_in_bytes(choices.merge, "merge"),
    )
