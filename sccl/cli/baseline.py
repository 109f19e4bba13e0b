"""``sccl baseline``: the classical algorithms."""

from __future__ import annotations

from shlex import quote
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import err, on_a_line, out, print_output, reported
from sccl.cli.subject import Collective, Groups, Root, Topo, asked_of
from sccl.core.clock import AlphaModel
from sccl.core.cost import bytes_text, us_text
from sccl.core.stepping import Stepping
from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.synth.contract import Request
from sccl.tasks.baseline import (
    BaselinePart,
    Placed,
    baseline_output,
    known,
    list_output,
    placed_on,
)
from sccl.tasks.files import write_plan
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
        help="ring, direct, halving-doubling, swing, ...; list: prints a description of each.",
        autocompletion=lambda incomplete: [n for n in _names() if n.startswith(incomplete)],
    ),
]
Pieces = Annotated[
    int,
    typer.Option(help="Pieces of each chunk, for pipelining."),
]

Size = Annotated[
    str,
    typer.Option(
        help="Buffer of a rank in bytes, for its time and for the choices of nccl and pat: "
        "64KiB, 1GB."
    ),
]
Alpha = Annotated[
    AlphaModel,
    typer.Option(
        help="Alpha model: travels (chunk arrives alpha later) or occupies (link "
        "is busy during alpha)."
    ),
]
Steps = Annotated[
    Stepping,
    typer.Option(
        "--stepping",
        help="Start of a send: pipelined (data have arrived and the link is free) or "
        "barrier (previous step has ended everywhere).",
    ),
]


@reported
def baseline(
    name: Name,
    collective: Collective = None,
    topo: Topo = "",
    root: Root = None,
    groups: Groups = None,
    size: Size = "1MiB",
    pieces: Pieces = 1,
    alpha: Alpha = AlphaModel.TRAVELS,
    stepping: Steps = Stepping.PIPELINED,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """List the classical algorithms, or generate one of them for a machine.

    If all its hops are links, the result is an algorithm. Otherwise hops take shortest paths,
    share links, and the result is a schedule for the size. Both are verified. In process groups
    each group uses the links of its own ranks.
    """
    if name == LIST:
        if collective or topo or output:
            raise ParameterError(
                "list takes no collective, no topo, and no file: leave them out, or give the name "
                "of an algorithm instead of list"
            )
        if json:
            print_output(list_output())
        else:
            _print_list(known())
        return
    known((name,))
    if not topo:
        raise ParameterError(f"{name}: give --collective and --topo")
    machine = resolve(topo)
    subject = subject_of(machine, *asked_of(machine, collective, root, None, groups))
    for note in subject.notes:
        err().print(f"{subject.topology.name}: {note}", markup=False, soft_wrap=True)
    options.writable(output)
    request = Request(subject.topology, subject.spec, size_in_bytes(size))
    made = placed_on(name, request, pieces, alpha, stepping)
    if output is not None:
        write_plan(output, made.plan)
    file = str(output) if output is not None else None
    if json:
        print_output(baseline_output(name, request, made, stepping, file))
    else:
        _print(name, request, made, stepping, file)


def _print_list(algorithms: tuple[BaselinePart, ...]) -> None:
    table = Table("name", "description", "collectives", "source")
    for one in algorithms:
        row = (one.name, one.about, ", ".join(one.collectives), one.source)
        table.add_row(*map(escape, row))
    out().print(table)


def _print(name: str, request: Request, made: Placed, stepping: Stepping, file: str | None) -> None:
    console, a = out(), made.algorithm
    c, us = made.schedule.collective, float(made.finish_us)
    cost = f"R={a.rounds}, R/C = {a.bandwidth_cost}" if a else "over shortest paths of links"
    console.print(
        f"{escape(f'{name}: {c.name} on {on_a_line(request.topology.name)}')}, C={c.chunks} "
        f"S={made.steps} {cost}, {counted(made.sends, 'send')}, verified"
    )
    console.print(
        f"{bytes_text(request.size_bytes)} a rank: [bold]{us_text(us)}[/], "
        f"{request.size_bytes / us / 1000 if us else 0:.4g} GB/s (size / time), {stepping}, "
        f"alpha {made.schedule.model}"
    )
    if made.least_us is not None:
        above = "" if made.gap is None else f", gap {float(made.gap):.2%}"
        console.print(f"lower bound {us_text(float(made.least_us))} for any chunks{above}")
    kept = f"written to {on_a_line(file)}; see it with: sccl show {on_a_line(quote(file or ''))}"
    if file and not a:
        kept = f"written to {on_a_line(file)}; verify it with: sccl check {on_a_line(quote(file))}"
    console.print(kept if file else "not kept: add -o FILE to write it", markup=False)
