"""``sccl enforce``: PyTorch jobs, recorded while they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl.cli import options
from sccl.cli.report import on_a_line, out, print_output, reported
from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.tasks.enforce import enforce_output, record_job

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


@reported
def enforce(job: Job, record: Record = None, json: options.Json = False) -> None:
    """Run a PyTorch job that says init_process_group("sccl"), and record what it does.

    Nothing else of it is changed: its results are those of gloo, to the bit. Steps are told by its
    optimizers, or by what repeats; of several that are alike, times are those in the middle.
    """
    if record is None:
        raise ParameterError("it is not said what to do with the job: give --record FILE")
    options.writable(record)
    recorded = record_job(job, record, aside=json)
    if json:
        print_output(enforce_output(job, recorded, record))
        return
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
