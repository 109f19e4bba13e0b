"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from sccl.core.files.disk import check_can_write
from sccl.errors import ParameterError

Plans = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Algorithm and schedule files, folders of them, or patterns such as 'found/*.json'.",
        show_default=False,
    ),
]
Chunks = Annotated[int, typer.Option(help="C, number of chunks of each rank (the paper's count).")]
Steps = Annotated[int, typer.Option(help="S, number of steps.")]
Rounds = Annotated[int, typer.Option(help="R, number of rounds of all steps.")]
MaxSteps = Annotated[
    int | None,
    typer.Option(
        help="Largest S.",
        show_default="3 above the latency bound; for allreduce, 3 above that of each half",
    ),
]
BySketch = Annotated[
    Path | None,
    typer.Option(
        "--sketch",
        help="Communication sketch that restricts the links ('sccl schema sketch', or one "
        "of TACCL's).",
        show_default=False,
    ),
]
SketchedChunks = Annotated[
    int | None,
    typer.Option(
        "--chunks",
        help="Chunks per part that a rank sends or receives.",
        show_default="the sketch's, else 1",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(help="Seconds per query; a timeout means 'unknown'."),
]
SweepTimeout = Annotated[
    float | None,
    typer.Option(help="Seconds per query; a timeout means 'unknown'.", show_default="60"),
]
LimitTimeout = Annotated[
    float | None,
    typer.Option(
        help="Seconds for each S.",
        show_default="none: a fixed budget of deterministic work",
    ),
]
Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="File that stores answers, to resume a sweep.",
        show_default="in the user's cache folder",
    ),
]
AlphaUs = Annotated[
    float | None,
    typer.Option(
        help="Latency of a step in microseconds.",
        show_default="the machine's",
    ),
]
GbPerS = Annotated[
    float | None,
    typer.Option(
        help="Bandwidth of a lane in 10^9 bytes/s.",
        show_default="the machine's",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, for scripts.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="File for the result.")]


def check_writable(path: Path | None) -> Path | None:
    """Return ``path`` if a file can be written there, so that no work is lost for want of a folder.

    Raises:
        InputError: its folder does not exist, or it is a folder itself.
    """
    if path is not None:
        check_can_write(path)
    return path


def reject_options(values: Mapping[str, object], why: str) -> None:
    """Reject measurement options where nothing is measured.

    Args:
        values: option values by name. None: not given.
        why: the option that prevents a measurement, and its effect.

    Raises:
        ParameterError: one was given.
    """
    flags = [f"--{name}" for name, value in values.items() if value is not None]
    if flags:
        raise ParameterError(f"{flags[0]} is about measuring, and {why}: leave one of both out")
