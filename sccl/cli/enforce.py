"""``sccl enforce``: PyTorch jobs, recorded while they run, or kept to a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl.cli import options
from sccl.cli.report import on_a_line, out, print_output, reported
from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.tasks.enforce import enforce_output, enforced
from sccl.tasks.workload import ImportedWorkload

Job = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMAND",
        help="What starts the job, after --: torchrun and its words, on this machine.",
        show_default=False,
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write what the job calls, waits for and computes in a step as a workload here.",
    ),
]


Plan = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Split and order what the job calls as this training plan says ('sccl plan').",
    ),
]


@reported
def enforce(job: Job, plan: Plan = None, record: Record = None, json: options.Json = False) -> None:
    """Run a PyTorch job that says init_process_group("sccl"), and record it, or keep it to a plan.

    Nothing else of it is changed. Steps are told by its optimizers, or by what repeats; of several
    that are alike, a piece of computation takes what it took the slowest rank, in the middle of
    them. Where the job calls what the plan does not expect, it goes on without the plan until a
    step is as planned again.

    Calls that the plan covers go over gloo, and all others as they go without 'sccl enforce', so a
    plan pays where ranks are on several networks or machines. Bundles are often faster on one
    machine. Ctrl-C of a recording writes the steps until then.

    Results are those of the job without a plan, but for collectives that the plan covers: these may
    add up in another order. SCCL_CHANNELS=fast=eth0,slow=eth1 says over which network
    interface each channel of the plan's fabric goes.
    """
    if record is None and plan is None:
        raise ParameterError(
            "it is not said what to do with the job: give --record FILE, or --plan FILE"
        )
    options.writable(record)
    recorded = enforced(job, plan, record, aside=json)
    if json:
        print_output(enforce_output(job, plan, recorded, record))
    elif recorded is not None and record is not None:
        _print_recorded(recorded, record)


def _print_recorded(recorded: ImportedWorkload, record: Path) -> None:
    console = out()
    for prefix, lines in (("", recorded.read.understood), ("assumed: ", recorded.read.assumed)):
        for line in lines:
            console.print(f"{prefix}{on_a_line(line)}", markup=False, soft_wrap=True)
    workload = recorded.read.workload
    number = counted(len(list(workload.collectives())), "collective")
    console.print(
        f"written to {on_a_line(record)}: {number} of {counted(workload.ranks, 'rank')}",
        markup=False,
        soft_wrap=True,
    )
    console.print(f"next: sccl plan {on_a_line(record)} --fabric NAME -o plan.json", markup=False)
