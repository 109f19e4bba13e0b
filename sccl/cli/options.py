"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl import backends
from sccl.core.files import check_can_write
from sccl.core.topology import Topology
from sccl.errors import ParameterError

Collective = Annotated[
    str,
    typer.Option(
        help="allgather, allreduce, alltoall, broadcast, gather, reduce, reducescatter, scatter, "
        "or the .json file of your own."
    ),
]
Topo = Annotated[
    str,
    typer.Option(help="dgx1, z52, torus:4x4, ... (see 'sccl topo list') or a .json file."),
]
Root = Annotated[
    int | None,
    typer.Option(help="Root of broadcast, reduce, gather, scatter.", show_default="0"),
]
Chunks = Annotated[int, typer.Option(help="C, the chunks of each rank (the paper's count).")]
Steps = Annotated[int, typer.Option(help="S, the steps.")]
Rounds = Annotated[int, typer.Option(help="R, the rounds of all steps together.")]
Solver = Annotated[str, typer.Option(help=f"{', '.join(backends.names())}.")]
Timeout = Annotated[
    float | None,
    typer.Option(help="Seconds per query, after which the answer is 'unknown'."),
]
Seed = Annotated[int, typer.Option(help="Seed of the solver's random choices.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, for scripts.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write the result here.")]


def limits(timeout: float | None, seed: int) -> backends.Limits:
    """Return the limits of a solver.

    Raises:
        ParameterError: the timeout is not positive, or the seed is negative or too large.
    """
    if not 0 <= seed < 2**31:
        raise ParameterError(f"seed is {seed}, expected 0 to {2**31 - 1}")
    return backends.Limits(timeout, seed)


def writable(path: Path | None) -> Path | None:
    """Return ``path`` if a file can be written there, so that no work is lost for want of a folder.

    Raises:
        InputError: its folder does not exist, or it is a folder itself.
    """
    if path is not None:
        check_can_write(path)
    return path


def size_text(topology: Topology) -> str:
    """Return the first line about a machine."""
    return f"{topology.name}: {topology.ranks} ranks, {len(topology.links)} links"
