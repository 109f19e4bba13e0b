"""``sccl check``: the judge on files."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, named, out, print_output, reported
from sccl.collectives import misnamed
from sccl.core.collective import Collective
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.words import counted
from sccl.judge import Violation, violations
from sccl.tasks.answers import CheckedFilePart, CheckOutput, ViolationPart
from sccl.tasks.files import load_algorithms
from sccl.tasks.outputs import algorithm_digests


@reported
def check(
    files: options.Algorithms,
    json: options.Json = False,
) -> None:
    """Re-execute algorithms and list every violation. Exit code 1 if there is one."""
    loaded = load_algorithms(files)  # all are read before any verdict
    found = [
        (x.file, x.algorithm, x.intact, _misnamed(x.algorithm.collective) + violations(x.algorithm))
        for x in loaded
    ]
    if json:
        inputs = algorithm_digests({str(x.file): x.algorithm for x in loaded})
        parts = tuple(_part(*row) for row in found)
        print_output(CheckOutput(inputs=inputs, files=parts))
    else:
        console = out()
        for file, algorithm, intact, wrong in found:
            a = algorithm
            verdict = (
                "[green]valid[/]" if not wrong else f"[red]{counted(len(wrong), 'violation')}[/]"
            )
            title = escape(named(f"{file}: {a.collective.name} on {a.topology.name}"))
            console.print(f"{title}, C={a.collective.chunks} S={a.steps} R={a.rounds}: {verdict}")
            if not intact:
                console.print("  note: edited since sccl wrote it (its digest does not match)")
            for violation in wrong:
                console.print(f"  {violation.kind}: {violation.message}", markup=False)
    raise typer.Exit(ExitCode.NO if any(wrong for *_, wrong in found) else ExitCode.OK)


def _misnamed(collective: Collective) -> list[Violation]:
    text = misnamed(collective)
    return [Violation("collective", text)] if text else []


def _part(
    file: Path, algorithm: AnyAlgorithm, intact: bool, wrong: list[Violation]
) -> CheckedFilePart:
    return CheckedFilePart(
        file=str(file),
        valid=not wrong,
        digest_matches=intact,
        collective=algorithm.collective.name,
        topology=algorithm.topology.name,
        violations=tuple(
            ViolationPart(kind=v.kind, message=v.message, step=v.step, chunk=v.chunk, rank=v.rank)
            for v in wrong
        ),
    )
