"""``sccl show``: an algorithm as SCCL's artifact prints it (appendix A.5.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl.cli.report import out, reported
from sccl.core.codec import load_algorithm
from sccl.tasks.show import print_algorithm
from sccl.transform import expand


@reported
def show(file: Annotated[Path, typer.Argument(help="Algorithm file.")]) -> None:
    """Print the sends, the topology matrix and the link utilisation of an algorithm."""
    loaded, intact = load_algorithm(file)
    print_algorithm(out(), expand(loaded), intact=intact)
