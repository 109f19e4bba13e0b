"""``sccl doctor cache``: the stored answers of solvers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import out, print_output, print_text, report_errors
from sccl.core.answer import Sat
from sccl.core.files.algorithms import algorithm_to_wire, answer_to_wire, instance_to_wire
from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import digest as digest_of
from sccl.core.files.json_text import to_text
from sccl.core.files.outputs import plan_digests
from sccl.core.formatting import format_count, single_line
from sccl.errors import ParameterError
from sccl.synth.common.settings import open_store
from sccl.synth.common.store import Store
from sccl.synth.common.store_outputs import (
    StoreExportOutput,
    StoreGcOutput,
    StoreLsOutput,
    StoreShowOutput,
)


@report_errors
def cache(
    digest: Annotated[
        str | None,
        typer.Argument(
            metavar="DIGEST",
            help="Start of a listed digest: print its instance and answers, always as JSON.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File for the algorithm of DIGEST."),
    ] = None,
    delete_older_than_days: Annotated[
        float | None, typer.Option(help="Delete answers older than this.", min=0)
    ] = None,
    delete_unknown: Annotated[bool, "Delete answers without a verdict (unknown)."] = False,
    delete_all: Annotated[bool, "Delete all answers."] = False,
    store: Annotated[Path | None, "File that stores answers.", "in the user's cache folder"] = None,
    json: options.Json = False,
) -> None:
    """List the stored answers of solvers; print, export, or delete some.

    For a reduction, the exported algorithm is that of the dual, as the solver found it.
    """
    selects = delete_unknown or delete_older_than_days is not None
    if delete_all and selects:
        raise ParameterError("--delete-all deletes every answer: leave the other options out")
    deletes = delete_all or selects
    if deletes and digest is not None:
        raise ParameterError("give DIGEST or a --delete option, not both")
    if output is not None and digest is None:
        raise ParameterError("--output needs the DIGEST of an instance: 'sccl doctor cache'")
    options.check_writable(output)
    with open_store(store) as opened:
        if deletes:
            _delete(opened, delete_older_than_days, unknown=delete_unknown, json=json)
        elif digest is None:
            _list(opened, json=json)
        elif output is None:
            _show(opened, digest)
        else:
            _export(opened, digest, output, json=json)


def _list(opened: Store, *, json: bool) -> None:
    rows = tuple(opened.rows())
    if json:
        print_output(StoreLsOutput(inputs={}, store=str(opened.path), verdicts=rows))
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
    out().print(table)
    print_text(f"{format_count(len(rows), 'verdict')} in {opened.path}")


def _show(opened: Store, digest: str) -> None:
    rows = opened.find(digest)
    instance = instance_to_wire(rows[0][0])
    print_output(
        StoreShowOutput(
            inputs={"instance": digest_of(instance)},
            instance=instance,
            answers={solver: answer_to_wire(answer) for _, solver, answer in rows},
        )
    )


def _export(opened: Store, digest: str, output: Path, *, json: bool) -> None:
    answers = [answer for _, _, answer in opened.find(digest)]
    sat = [answer for answer in answers if isinstance(answer, Sat)]
    if not sat:
        raise ParameterError(f"the store has no algorithm for the instance {digest}")
    write_atomically(output, to_text(algorithm_to_wire(sat[0].algorithm)))
    if json:
        inputs = plan_digests({"algorithm": sat[0].algorithm})
        print_output(StoreExportOutput(inputs=inputs, file=str(output)))
        return
    print_text(f"written to {single_line(output)}")


def _delete(opened: Store, older_than_days: float | None, *, unknown: bool, json: bool) -> None:
    deleted = opened.discard(older_than_days=older_than_days, unknown=unknown)
    if json:
        print_output(StoreGcOutput(inputs={}, store=str(opened.path), deleted=deleted))
        return
    print_text(f"{format_count(deleted, 'verdict')} deleted from {opened.path}")
