"""``sccl train control``: propose plans to a running job."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import ExitCode, out, print_output, print_text, report_errors
from sccl.core.cost import format_duration
from sccl.core.files.disk import check_can_write
from sccl.core.formatting import single_line
from sccl.errors import ParameterError
from sccl.torch_backend.control.job_stores import connect_store
from sccl.torch_backend.control.ledger import current_ledger, read_key
from sccl.torch_backend.jobs.controller import (
    POLL_S,
    Controller,
    ControlSettings,
    OptimizerOutput,
    ReplanProcess,
    encode_plan,
    load_plan_to_commit,
    optimizer_output,
    wait_for_decision,
)

_DEADLINE_S = 60.0

StoreAddress = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="HOST:PORT",
        help="Address of the job's store: its MASTER_ADDR and MASTER_PORT.",
    ),
]
Commit = Annotated[
    Path | None,
    typer.Option(
        "--commit",
        metavar="FILE",
        help="Plan to propose to all ranks; waits for the decision.",
        autocompletion=options.complete_file,
    ),
]
Serve = Annotated[
    bool,
    "Keep running: decide open proposals, plan again when ranks wait, and revert plans that are "
    "not faster.",
]
Status = Annotated[bool, "Print the state of the job's plans."]
Deadline = Annotated[float, "Seconds for all ranks to vote; after that the plan is aborted."]
Budget = Annotated[float, "Seconds for the search of a plan."]
Log = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File to which each decision is appended as JSON before it is published.",
    ),
]


@report_errors
def train_control(
    store: StoreAddress,
    commit: Commit = None,
    serve: Serve = False,
    status: Status = False,
    deadline: Deadline = _DEADLINE_S,
    budget: Budget = 60.0,
    log: Log = None,
    json: options.Json = False,
) -> None:
    """Monitor a running job, and propose a plan that is faster.

    The job never waits for this command and does not end with it. Another one can take over. With
    SCCL_PLAN_KEY in the environment, plans, votes, and decisions are signed, and ranks with the key
    accept no others.

    Exit code 0: done, 1: the plan was aborted, 4: the job's store cannot be reached.
    """
    _check_options(commit, deadline, budget, log, serve=serve, status=status, json=json)
    proposal = load_plan_to_commit(commit) if commit is not None else None
    key = read_key(os.environ)
    shared = connect_store(store)
    if proposal is None and not serve:
        _print_status(optimizer_output(current_ledger(shared, key)), json=json)
        return
    settings = ControlSettings(deadline, log, key)

    def planner(plan: bytes, costs: str) -> ReplanProcess:
        return ReplanProcess(plan, costs, budget)

    quiet = (lambda _: None) if json else lambda text: print_text(single_line(text))
    plans_anew = planner if serve else None
    with Controller(shared, settings, time.monotonic, plans_anew, quiet) as controller:
        decision = None
        if proposal is not None:
            decision = wait_for_decision(controller, controller.propose(encode_plan(proposal[0])))
        while serve:
            controller.step()
            time.sleep(POLL_S)
    if json and proposal is not None:
        print_output(optimizer_output(controller.ledger, decision, proposal[1]))
    if decision is not None and not decision.committed:
        raise typer.Exit(ExitCode.NO)


def _check_options(
    commit: Path | None,
    deadline: float,
    budget: float,
    log: Path | None,
    *,
    serve: bool,
    status: bool,
    json: bool,
) -> None:
    if status and (serve or commit is not None):
        raise ParameterError("--status changes nothing: leave --commit and --serve out with it")
    if not (status or serve or commit is not None):
        raise ParameterError("no action is selected: give --commit, --serve or --status")
    if serve and json:
        raise ParameterError(
            "--serve runs until it is interrupted, and --json prints one document: leave one out"
        )
    for name, value in (("deadline", deadline), ("budget", budget)):
        if not 0 < value <= 86_400:
            raise ParameterError(f"{name} is {value:g}, expected seconds, more than 0, to a day")
    if log is not None:
        check_can_write(log)


def _print_status(state: OptimizerOutput, *, json: bool) -> None:
    if json:
        print_output(state)
        return
    console = out()
    console.print(
        f"run {state.run}, generation {state.generation}, {state.ranks} ranks", markup=False
    )
    table = Table("Plan", "Decision", "Yes", "No", "Why")
    for plan in state.plans:
        row = (plan.version, plan.decision, plan.yes, plan.no, single_line(plan.why))
        table.add_row(*(escape(str(cell)) for cell in row))
    console.print(table)
    last = state.last
    console.print(
        "no iteration was reported"
        if last is None
        else f"iteration {last.iteration}, plan {last.version}: {format_duration(last.period_us)}, "
        f"{last.waited:.1%} of it waited",
        markup=False,
    )
