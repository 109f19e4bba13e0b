"""``sccl train motif``: the motifs that a recipe makes from a collective."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import out, print_output, print_text, report_errors
from sccl.core.cost import format_bytes
from sccl.core.formatting import format_count
from sccl.training.motif_output import MotifOutput, MotifPart, motif_output, rule_rows


@report_errors
def motif(
    collective: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTIVE",
            help="Collective, such as allreduce.",
            autocompletion=options.complete_collective,
        ),
    ],
    *,
    recipe: Annotated[
        str | None,
        "Rules joined by dots, such as 'levels(8).seg(4)'; each applies to the result of the "
        "previous ones.",
        "the rules are listed",
    ] = None,
    ranks: Annotated[int, "Number of ranks of the group."] = 8,
    size: Annotated[
        str,
        "Largest buffer of a rank, such as 64KiB. This is the whole buffer of an allreduce, "
        "broadcast, or reduce, the output of an allgather, the input of a reducescatter or "
        "alltoall, and the root's buffer of a gather or scatter. A list (1MB,2MB) makes one "
        "collective per size, for the rule merge.",
    ] = "1MiB",
    item_bytes: Annotated[
        int, typer.Option(min=1, max=64, help="Size of an element in bytes.")
    ] = 4,
    root: Annotated[int | None, "Root of broadcast, reduce, gather, or scatter.", "0"] = None,
    json: options.Json = False,
) -> None:
    """Split a collective into motifs (separately scheduled parts) by a recipe.

    The motifs are executed symbolically in every order that they allow. Together they must perform
    the collective, with each contribution once, or the recipe is refused. The size of a motif is
    its largest buffer of a rank, counted like --size.
    """
    if recipe is None and not json:
        table = Table("Rule", "Result", "Source", title=f"Rules for {escape(collective)}")
        for row in rule_rows(collective):
            table.add_row(*map(escape, row))
        out().print(table)
        return
    recipe_text = recipe or "whole"
    output = motif_output(
        collective, recipe_text, ranks, size=size, item_bytes=item_bytes, root=root
    )
    if json:
        print_output(output)
        return
    out().print(_motif_table(output))
    print_text(
        f"{output.recipe} splits {output.collective} among {output.ranks} ranks into "
        f"{format_count(len(output.motifs), 'motif')}, verified in every order that their "
        "dependencies allow"
    )


def _groups_text(part: MotifPart) -> str:
    """Return the sizes of groups, with consecutive equal sizes combined."""
    runs = [(size, len(list(alike))) for size, alike in groupby(part.group_ranks)]
    texts = (f"{count} x {size}" if count > 1 else str(size) for size, count in runs)
    return f"{' + '.join(texts)} ranks"


def _motif_table(output: MotifOutput) -> Table:
    channels = any(part.channel for part in output.motifs)
    table = Table("Motif", "Collective", "Groups", "Bytes of a rank", "After")
    if channels:
        table.add_column("Channel")
    for part in output.motifs:
        row = [str(part.number), part.collective, _groups_text(part), format_bytes(part.rank_bytes)]
        row.append(", ".join(map(str, part.after)) or "-")
        table.add_row(*row, *([escape(part.channel)] if channels else []))
    return table
