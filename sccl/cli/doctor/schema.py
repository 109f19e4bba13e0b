"""``sccl doctor schema``: JSON schemas of outputs and files, for scripts."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from sccl.api.schemas import OUTPUTS, KindPart, SchemaOutput, output_type
from sccl.cli import options
from sccl.cli.report import out, print_json, print_output, report_errors
from sccl.core.files.kinds import SHAPE_NAMES, json_schema, published_shapes
from sccl.core.files.outputs import output_schema
from sccl.errors import unknown_name


@report_errors
def schema(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="Value of 'kind' in an output or a file.",
            show_default="list all kinds",
            autocompletion=options.complete_words([*OUTPUTS, *SHAPE_NAMES], "a kind"),
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Print the JSON Schema (2020-12) of a verb's --json output or of a file.

    Within schema 1 fields are only added. None is removed or changes its meaning.
    """
    if kind is None:
        _print_kinds(json=json)
    else:
        print_json(schema_of_kind(kind))


def schema_of_kind(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of output or of file.

    Raises:
        UnknownNameError: there is no such kind.
    """
    older = {name.replace("-", ""): name for name in SHAPE_NAMES}
    kind = older.get(kind, kind)
    if kind in OUTPUTS:
        return output_schema(output_type(kind))
    if kind in SHAPE_NAMES:
        return json_schema(published_shapes()[kind])
    raise unknown_name("kind", kind, [*OUTPUTS, *SHAPE_NAMES], "'sccl doctor schema' lists all")


def _print_kinds(*, json: bool) -> None:
    kinds = [KindPart(kind=k, of="output", about=output_type(k).__doc__ or "") for k in OUTPUTS]
    kinds += [
        KindPart(kind=k, of="file", about=x.__doc__ or "") for k, x in published_shapes().items()
    ]
    if json:
        print_output(SchemaOutput(inputs={}, kinds=tuple(kinds)))
        return
    table = Table("Kind", "Type", "Description")
    for part in kinds:
        table.add_row(part.kind, part.of, part.about.split("\n")[0])
    out().print(table)
