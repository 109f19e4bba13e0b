"""Shared options of verbs that plan training steps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl.cli import options

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Workload of 'sccl train import' or 'sccl train make'.",
        show_default=False,
        autocompletion=options.complete_file,
    ),
]
FabricName = Annotated[
    str,
    typer.Option(
        "--fabric",
        help="Fabric: a name of 'sccl train show', a machine ('sccl topo list'), or the .json "
        "file of either.",
        show_default=False,
    ),
]
