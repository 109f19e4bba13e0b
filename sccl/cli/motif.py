"""``sccl motif``: the motifs that a recipe makes from a collective."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import complete, options
from sccl.cli.report import out, print_output, reported
from sccl.core.cost import bytes_text
from sccl.core.words import counted
from sccl.tasks.motif import MotifOutput, MotifPart, motif_output, rule_rows


@reported
def motif(
    collective: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTIVE",
            help="Collective, such as allreduce.",
            autocompletion=complete.collective,
        ),
    ],
    *,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Rules joined by dots, such as 'levels(8).seg(4)'; each applies to the "
            "result of those before it.",
            show_default="the rules are listed",
        ),
    ] = None,
    ranks: Annotated[int, typer.Option(help="Number of ranks of the group.")] = 8,
    size: Annotated[
        str,
        typer.Option(
            help="Largest buffer of a rank, such as 64KiB: the whole buffer of an "
            "allreduce, broadcast, or reduce; the output of an allgather; the input "
            "of a reducescatter or alltoall; the root's buffer of a gather or "
            "scatter. Several sizes (1MB,2MB) are as many collectives, for the rule "
            "merge."
        ),
    ] = "1MiB",
    item_bytes: Annotated[
        int, typer.Option(min=1, max=64, help="Size of an element in bytes.")
    ] = 4,
    root: Annotated[
        int | None,
        typer.Option(help="Root of broadcast, reduce, gather, or scatter.", show_default="0"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Split a collective into motifs (separately scheduled parts) by a recipe.

    The motifs are executed symbolically in every order that they allow. Together they must perform
    the collective, with each contribution once, or the recipe is refused. The size of a motif is
    its largest buffer of a rank, counted like --size.
    """
    if recipe is None and not json:
        table = Table("Rule", "Result", "Of", title=f"Rules for {escape(collective)}")
        for row in rule_rows(collective):
            table.add_row(*map(escape, row))
        out().print(table)
        return
    asked = recipe or "whole"
    made = motif_output(collective, asked, ranks, size=size, item_bytes=item_bytes, root=root)
    if json:
        print_output(made)
        return
    out().print(_table(made))
    says = f"{made.recipe} of {made.collective} among {made.ranks} ranks"
    does = "does" if len(made.motifs) == 1 else "do"
    line = f"{counted(len(made.motifs), 'motif')} {does} the work of {says}, in any order allowed"
    out().print(line, markup=False, soft_wrap=True)


def _groups(one: MotifPart) -> str:
    """Return how many ranks groups have, those of one size that follow one another at once."""
    runs = [(size, len(list(alike))) for size, alike in groupby(one.group_ranks)]
    told = (f"{count} x {size}" if count > 1 else str(size) for size, count in runs)
    return f"{' + '.join(told)} ranks"


def _table(made: MotifOutput) -> Table:
    channels = any(one.channel for one in made.motifs)
    table = Table("Motif", "Collective", "Groups", "Bytes of a rank", "After")
    if channels:
        table.add_column("Channel")
    for one in made.motifs:
        row = [str(one.number), one.collective, _groups(one), bytes_text(one.rank_bytes)]
        row.append(", ".join(map(str, one.after)) or "-")
        table.add_row(*row, *([escape(one.channel)] if channels else []))
    return table
