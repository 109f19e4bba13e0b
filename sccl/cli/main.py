"""The ``sccl`` command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import sccl
from sccl.cli.bounds import bounds
from sccl.cli.certificate import verify_certificate
from sccl.cli.check import check
from sccl.cli.codegen import codegen
from sccl.cli.doctor import doctor
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
FIND, LOOK, RUN, PROVE, MANAGE = "Find", "Look", "Run", "Prove", "Manage"

_VERBS: tuple[tuple[str, Callable[..., None], str], ...] = (
    (FIND, pareto, "sccl pareto --collective allgather --topo dgx1 --out found"),
    (
        *(FIND, solve),
        "sccl solve --collective allgather --topo dgx1 --chunks 6 --steps 3 --rounds 7 -o a.json",
    ),
    (FIND, bounds, "sccl bounds --collective alltoall --topo torus:4x4"),
    (LOOK, show, "sccl show found/allgather-dgx1-c2-s2-r3.json"),
    (
        *(LOOK, plot),
        "sccl plot found/allgather-dgx1-c6-s3-r7.json --what arrival -o arrival.pdf",
    ),
    (LOOK, explore, "sccl explore found -o found.html"),
    (RUN, codegen, "sccl codegen found/allgather-dgx1-c2-s2-r3.json -o project"),
    (RUN, run, "sccl run project"),
    (RUN, bench, "sccl bench project --against mpi --sizes 1..64K"),
    (RUN, tune, "sccl tune project --sizes 1..4K"),
    (PROVE, check, "sccl check found/allgather-dgx1-c2-s2-r3.json"),
    (PROVE, verify_certificate, "sccl verify-certificate proofs"),
    (
        *(PROVE, smt2),
        "sccl smt2 --collective allgather --topo ring:4 --chunks 1 --steps 2 --rounds 2 -o p.smt2",
    ),
    (MANAGE, doctor, "sccl doctor"),
)
for panel, verb, example in _VERBS:
    app.command(rich_help_panel=panel, epilog=f"Example: {example}")(verb)
app.add_typer(topo, rich_help_panel=MANAGE, epilog="Example: sccl topo show dgx1")
app.add_typer(store, rich_help_panel=MANAGE, epilog="Example: sccl store ls")


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
