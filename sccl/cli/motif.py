"""``sccl motif``: what a recipe makes of a collective."""

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
            help="What is split, such as allreduce.",
            autocompletion=complete.collective,
        ),
    ],
    *,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Rules with points between them, such as 'levels(8).seg(4)': each is done to all "
            "that those before it made.",
            show_default="the rules are listed",
        ),
    ] = None,
    ranks: Annotated[int, typer.Option(help="Of the group.")] = 8,
    size: Annotated[
        str,
        typer.Option(
            help="Of the largest buffer of a rank, such as 64KiB or 1MB: all of an allreduce, a "
            "broadcast or a reduce; what a rank gets of an allgather; what it gives in a "
            "reducescatter or an alltoall, to itself, too; what the root has of a gather or a "
            "scatter. Several, as 1MB,2MB, are of as many collectives, which the rule merge makes "
            "one."
        ),
    ] = "1MiB",
    item_bytes: Annotated[int, typer.Option(min=1, max=64, help="Of an element.")] = 4,
    root: Annotated[
        int | None, typer.Option(help="Of broadcast, reduce, gather, scatter.", show_default="0")
    ] = None,
    json: options.Json = False,
) -> None:
    """Split a collective into motifs, which are scheduled one by one, by a recipe.

    They are executed on symbols, in whatever order they allow: together they do what the collective
    does, every contribution once, or the recipe is refused. Bytes of a motif are those of the
    largest buffer that a rank has of it, counted as --size is.
    """
    if recipe is None and not json:
        table = Table("Rule", "What it makes", "Of", title=f"Rules for {escape(collective)}")
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
    line = f"{counted(len(made.motifs), 'motif')} {does} what {says} is to do, in any order allowed"
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
