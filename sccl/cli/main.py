"""The ``sccl`` command."""

from __future__ import annotations

from typing import Annotated

import typer

import sccl
from sccl.cli.bounds import bounds
from sccl.cli.certificate import verify_certificate
from sccl.cli.check import check
from sccl.cli.codegen import codegen
from sccl.cli.explore import explore
from sccl.cli.pareto import pareto
from sccl.cli.plot import plot
from sccl.cli.run import bench, run, tune
from sccl.cli.show import show
from sccl.cli.smt2 import smt2
from sccl.cli.solve import solve
from sccl.cli.store import store
from sccl.cli.topo import topo

app = typer.Typer(
    name="sccl",
    no_args_is_help=True,
    help="Find and prove optimal collective-communication algorithms for any machine.",
    epilog="Start with: sccl pareto --collective allgather --topo dgx1",
    pretty_exceptions_enable=False,
)
app.command()(pareto)
app.command()(solve)
app.command()(bounds)
app.command()(show)
app.command()(plot)
app.command()(explore)
app.command()(check)
app.command()(verify_certificate)
app.command()(smt2)
app.command()(codegen)
app.command()(run)
app.command()(bench)
app.command()(tune)
app.add_typer(topo)
app.add_typer(store)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sccl {sccl.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Find and prove optimal collective-communication algorithms for any machine."""
