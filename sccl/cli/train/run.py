"""``sccl train run``: record a PyTorch job, or run it with a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl.cli import options
from sccl.cli.report import out, print_output, print_text, report_errors
from sccl.core.formatting import format_count, single_line
from sccl.errors import ParameterError
from sccl.torch_backend.jobs.run_job import enforce_output, run_under_plan
from sccl.training.workload_outputs import ImportedWorkload

Job = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMAND",
        help="Command that starts the job, after --: torchrun and its arguments, on this machine.",
        show_default=False,
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File for the workload of a step: calls, waits, and computation.",
    ),
]


Plan = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Training plan to apply ('sccl train plan').",
    ),
]


@report_errors
def train_run(
    job: Job, plan: Plan = None, record: Record = None, json: options.Json = False
) -> None:
    """Run a PyTorch job with backend "sccl", and record it or apply a training plan.

    The job itself does not change. Steps are recognized by its optimizers or by repetition.
    Computation takes the time of the slowest rank, in the median over similar steps. If a call does
    not fit the plan, the job continues without the plan until a step fits again.

    Calls that the plan covers use gloo. All others run as without 'sccl train run'. A plan pays
    when ranks use several networks or nodes. On one node, bundles (shared memory, without a plan)
    are often faster: compare the time of a step with and without --plan. Ctrl-C of a recording
    writes the steps so far.

    Results equal those without a plan, except that covered collectives may add in another order.
    SCCL_CHANNELS=fast=eth0,slow=eth1 sets the network interface of each channel of the fabric.
    """
    if record is None and plan is None:
        raise ParameterError(
            "no action is selected for the job: give --record FILE, or --plan FILE"
        )
    options.check_writable(record)
    recorded = run_under_plan(job, plan, record, aside=json)
    if json:
        print_output(enforce_output(job, plan, recorded, record))
    elif recorded is not None and record is not None:
        _print_recorded(recorded, record)


def _print_recorded(recorded: ImportedWorkload, record: Path) -> None:
    for prefix, lines in (("", recorded.read.understood), ("assumed: ", recorded.read.assumed)):
        for line in lines:
            print_text(f"{prefix}{single_line(line)}")
    workload = recorded.read.workload
    number = format_count(len(list(workload.collectives())), "collective")
    print_text(
        f"written to {single_line(record)}: {number} of {format_count(workload.ranks, 'rank')}"
    )
    out().print(
        f"next: sccl train plan {single_line(record)} --fabric NAME -o plan.json", markup=False
    )
