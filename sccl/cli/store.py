"""``sccl doctor cache``: the stored results of sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import out, print_output, report_errors
from sccl.core.answer import Sat
from sccl.core.files.algorithms import algorithm_to_wire, answer_to_wire, instance_to_wire
from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import digest as digest_of
from sccl.core.files.json_text import to_text
from sccl.core.files.outputs import plan_digests
from sccl.core.formatting import format_count, single_line
from sccl.errors import ParameterError
from sccl.synth.common.settings import open_store
from sccl.synth.common.store_outputs import (
    StoreExportOutput,
    StoreGcOutput,
    StoreShowOutput,
    ls_output,
)

StoreFile = Annotated[
    Path | None,
    typer.Option(
        "--store", help="File that stores answers.", show_default="in the user's cache folder"
    ),
]

Digest = Annotated[
    str,
    typer.Argument(
        metavar="DIGEST", help="Start of an instance's digest ('sccl doctor cache list')."
    ),
]


@report_errors
def ls(file: StoreFile = None, json: options.Json = False) -> None:
    """List the stored answers of solvers."""
    with open_store(file) as opened:
        rows = list(opened.rows())
    if json:
        print_output(ls_output(str(opened.path), rows))
        return
    table = Table("Digest", "Collective", "Topology", "C", "S", "R", "Solver", "Answer", "Seconds",
                  "When (UTC)")  # fmt: skip
    for r in rows:
        table.add_row(
            r.instance[:12],
            escape(r.collective),
            escape(r.topology),
            *(str(n) for n in (r.chunks, r.steps, r.rounds)),
            escape(r.solver),
            r.answer,
            f"{r.seconds:.2f}",
            r.at,
        )
    console = out()
    console.print(table)
    console.print(
        f"{format_count(len(rows), 'verdict')} in {opened.path}", markup=False, soft_wrap=True
    )


@report_errors
def show(
    digest: Digest,
    file: StoreFile = None,
    json: options.Json = False,  # noqa: ARG001 - for its errors
) -> None:
    """Print an instance and its stored answers, always as JSON."""
    with open_store(file) as opened:
        rows = opened.find(digest)
    instance = instance_to_wire(rows[0][0])
    print_output(
        StoreShowOutput(
            inputs={"instance": digest_of(instance)},
            instance=instance,
            answers={solver: answer_to_wire(answer) for _, solver, answer in rows},
        )
    )


@report_errors
def export(
    digest: Digest,
    output: Annotated[Path, typer.Option("-o", "--output", help="File for the algorithm.")],
    file: StoreFile = None,
    json: options.Json = False,
) -> None:
    """Write the algorithm of an instance to a file.

    For a reduction it is the algorithm of the dual, as the solver found it.
    """
    options.check_writable(output)
    with open_store(file) as opened:
        answers = [answer for _, _, answer in opened.find(digest)]
    sat = [answer for answer in answers if isinstance(answer, Sat)]
    if not sat:
        raise ParameterError(f"the store has no algorithm for the instance {digest}")
    write_atomically(output, to_text(algorithm_to_wire(sat[0].algorithm)))
    if json:
        inputs = plan_digests({"algorithm": sat[0].algorithm})
        print_output(StoreExportOutput(inputs=inputs, file=str(output)))
        return
    out().print(f"written to {single_line(output)}", markup=False, soft_wrap=True)


@report_errors
def gc(
    older_than_days: Annotated[
        float | None, typer.Option(help="Delete answers older than this.", min=0)
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Delete answers without a verdict (unknown).")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Delete all answers.")] = False,
    file: StoreFile = None,
    json: options.Json = False,
) -> None:
    """Delete stored answers and free their space."""
    if not (everything or unknown or older_than_days is not None):
        raise ParameterError("select the rows to delete: --older-than-days, --unknown, or --all")
    with open_store(file) as opened:
        gone = opened.discard(older_than_days=older_than_days, unknown=unknown)
    if json:
        print_output(StoreGcOutput(inputs={}, store=str(opened.path), deleted=gone))
        return
    out().print(
        f"{format_count(gone, 'verdict')} deleted from {opened.path}", markup=False, soft_wrap=True
    )
