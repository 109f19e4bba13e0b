"""``sccl synth list`` and ``sccl synth NAME``: the classical algorithms."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import err, out, print_output, report_errors
from sccl.cli.subject import Collective, Groups, Root, Topo, parse_collective
from sccl.core.clock import AlphaModel, StepAlignment
from sccl.core.cost import format_bytes, format_us
from sccl.core.formatting import format_count, single_line
from sccl.core.sizes import parse_size
from sccl.errors import unknown_name
from sccl.formats.files.plans import write_plan
from sccl.synth.common.contract import Request
from sccl.synth.common.problem import build_problem
from sccl.topo import resolve_topology

if TYPE_CHECKING:
    from sccl.synth.baselines.pattern.placement import BaselinePart, PlacedBaseline


_SYNTHESIZERS = ("fastest", "taccl", "tacos", "teccl")


def _baseline_names() -> list[str]:
    from sccl.synth.baselines import names  # noqa: PLC0415 - loads NumPy

    return list(names())


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="ring, direct, halving-doubling, swing, ... (see 'sccl synth list').",
        autocompletion=lambda incomplete: [
            n for n in _baseline_names() if n.startswith(incomplete)
        ],
    ),
]
Pieces = Annotated[int, "Pieces of each chunk, for pipelining."]

Size = Annotated[
    str, "Buffer of a rank in bytes, for its time and for the choices of nccl and pat: 64KiB, 1GB."
]
Alpha = Annotated[
    AlphaModel,
    "Alpha model: travels or occupies. With travels a chunk arrives alpha later, with occupies the "
    "link is busy during alpha.",
]
Steps = Annotated[
    StepAlignment,
    typer.Option(
        "--stepping",
        help="Start of a send: pipelined (data have arrived and the link is free) or "
        "barrier (previous step has ended everywhere).",
    ),
]


@report_errors
def list_methods(json: options.Json = False) -> None:
    """List the classical algorithms, each of which is a method: 'sccl synth ring ...'."""
    from sccl.synth.baselines.pattern.placement import (  # noqa: PLC0415 - loads NumPy
        describe_baselines,
        list_output,
    )

    if json:
        print_output(list_output())
    else:
        _print_list(describe_baselines())


@report_errors
def classical(
    name: Name,
    topo: Topo,
    collective: Collective = None,
    root: Root = None,
    groups: Groups = None,
    size: Size = "1MiB",
    pieces: Pieces = 1,
    alpha: Alpha = AlphaModel.TRAVELS,
    stepping: Steps = StepAlignment.PIPELINED,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Generate a classical algorithm for a machine: ring, swing, ... (see 'sccl synth list').

    If all its hops are links, the result is an algorithm. Otherwise hops take shortest paths,
    share links, and the result is a schedule for the size. Both are verified. In process groups
    each group uses the links of its own ranks.
    """
    from sccl.synth.baselines.pattern.placement import (  # noqa: PLC0415 - loads NumPy
        baseline_output,
        place_baseline,
    )

    names = _baseline_names()
    if name not in names:
        choices = (*names, *_SYNTHESIZERS)
        raise unknown_name(
            "method", name, choices, "'sccl synth list' and 'sccl synth --help' list all"
        )
    machine = resolve_topology(topo)
    subject = build_problem(machine, *parse_collective(machine, collective, root, None, groups))
    for note in subject.notes:
        err().print(f"{subject.topology.name}: {note}", markup=False, soft_wrap=True)
    options.check_writable(output)
    request = Request(subject.topology, subject.spec, parse_size(size))
    placed = place_baseline(name, request, pieces, alpha, stepping)
    if output is not None:
        write_plan(output, placed.plan)
    file = str(output) if output is not None else None
    if json:
        print_output(baseline_output(name, request, placed, stepping, file))
    else:
        _print(name, request, placed, stepping, file)


def _print_list(algorithms: tuple[BaselinePart, ...]) -> None:
    table = Table("name", "description", "collectives", "source")
    for algorithm in algorithms:
        row = (algorithm.name, algorithm.about, ", ".join(algorithm.collectives), algorithm.source)
        table.add_row(*map(escape, row))
    out().print(table)


def _print(
    name: str, request: Request, placed: PlacedBaseline, stepping: StepAlignment, file: str | None
) -> None:
    console, a = out(), placed.algorithm
    c, us = placed.schedule.collective, float(placed.finish_us)
    cost = f"R={a.rounds}, R/C = {a.bandwidth_cost}" if a else "over shortest paths of links"
    console.print(
        f"{escape(f'{name}: {c.name} on {single_line(request.topology.name)}')}, C={c.chunks} "
        f"S={placed.steps} {cost}, {format_count(placed.sends, 'send')}, verified"
    )
    console.print(
        f"{format_bytes(request.size_bytes)} per rank: [bold]{format_us(us)}[/], "
        f"{request.size_bytes / us / 1000 if us else 0:.4g} GB/s (size / time), {stepping}, "
        f"alpha {placed.schedule.model}"
    )
    if placed.lower_bound_us is not None:
        above = "" if placed.gap is None else f", gap {float(placed.gap):.2%}"
        console.print(
            f"lower bound {format_us(float(placed.lower_bound_us))} for any chunks{above}"
        )
    file_note = (
        f"written to {single_line(file)}; see it with: sccl show {single_line(quote(file or ''))}"
    )
    if file and not a:
        file_note = (
            f"written to {single_line(file)}; verify it with: sccl check {single_line(quote(file))}"
        )
    console.print(file_note if file else "not written: add -o FILE", markup=False)
