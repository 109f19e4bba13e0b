"""``sccl baseline``: the classical algorithms."""

from __future__ import annotations

from shlex import quote
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import err, on_a_line, out, print_output, reported
from sccl.cli.subject import Collective, Root, Topo
from sccl.core.algorithm import Algorithm
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.disk import write_atomically
from sccl.core.files.text import text_of
from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.synth.contract import Request
from sccl.tasks.baseline import BaselinePart, baseline_on, baseline_output, known, list_output
from sccl.tasks.sizes import size_in_bytes
from sccl.tasks.subject import subject_of
from sccl.topo import resolve

LIST = "list"


def _names() -> list[str]:
    return [LIST, *(one.name for one in known())]


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME|list",
        help="ring, direct, halving-doubling, swing, ...; list: says what each is.",
        autocompletion=lambda incomplete: [n for n in _names() if n.startswith(incomplete)],
    ),
]
Pieces = Annotated[
    int,
    typer.Option(help="Pieces of what is sent as one: more for those that pipeline or choose."),
]

Size = Annotated[
    str, typer.Option(help="Bytes of a rank's buffer, by which nccl and pat choose: 64KiB, 1GB.")
]


@reported
def baseline(
    name: Name,
    collective: Collective = "",
    topo: Topo = "",
    root: Root = None,
    size: Size = "1MiB",
    pieces: Pieces = 1,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """List the classical algorithms, or make one of them for a machine.

    Each is judged, as everything is; its hops have to be links of the machine.
    """
    if name == LIST:
        if collective or topo or output:
            raise ParameterError(
                "list takes no collective, no topo and no file: leave them out, or give the name "
                "of an algorithm in place of list"
            )
        if json:
            print_output(list_output())
        else:
            _print_list(known())
        return
    known((name,))
    if not (collective and topo):
        raise ParameterError(f"{name}: give --collective and --topo")
    subject = subject_of(resolve(topo), collective, root)
    for note in subject.notes:
        err().print(f"{subject.topology.name}: {note}", markup=False, soft_wrap=True)
    options.writable(output)
    request = Request(subject.topology, subject.spec, size_in_bytes(size))
    made = baseline_on(name, request, pieces)
    if output is not None:
        write_atomically(output, text_of(algorithm_to_wire(made)))
    file = str(output) if output is not None else None
    if json:
        print_output(baseline_output(name, subject.spec, made, file))
    else:
        _print(name, made, file)


def _print_list(algorithms: tuple[BaselinePart, ...]) -> None:
    table = Table("name", "what it is", "collectives", "source")
    for one in algorithms:
        row = (one.name, one.about, ", ".join(one.collectives), one.source)
        table.add_row(*map(escape, row))
    out().print(table)


def _print(name: str, made: Algorithm, file: str | None) -> None:
    console, c = out(), made.collective
    console.print(
        f"{escape(f'{name}: {c.name} on {on_a_line(made.topology.name)}')}, C={c.chunks} "
        f"S={made.steps} R={made.rounds}, R/C = {made.bandwidth_cost}, "
        f"{counted(made.num_sends, 'send')}, judged"
    )
    kept = f"written to {on_a_line(file)}; see it with: sccl show {on_a_line(quote(file or ''))}"
    console.print(kept if file else "not kept: add -o FILE to write it", markup=False)
