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
        help="Files of algorithms and schedules, folders of them (a sweep's --out), or patterns "
        "such as 'found/*.json'.",
        show_default=False,
    ),
]
Chunks = Annotated[int, typer.Option(help="C, the chunks of each rank (the paper's count).")]
Steps = Annotated[int, typer.Option(help="S, the steps.")]
Rounds = Annotated[int, typer.Option(help="R, the rounds of all steps together.")]
MaxSteps = Annotated[
    int | None,
    typer.Option(
        help="Last S to try.",
        show_default="3 above the latency bound; of allreduce, 3 above that of each half",
    ),
]
BySketch = Annotated[
    Path | None,
    typer.Option(
        "--sketch",
        help="A communication sketch to keep to ('sccl schema sketch', or one of TACCL's): the "
        "links that it leaves.",
        show_default=False,
    ),
]
SketchedChunks = Annotated[
    int | None,
    typer.Option(
        "--chunks",
        help="Chunks per part that a rank sends or is to get.",
        show_default="the sketch's, else 1",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(help="Seconds per query, after which the answer is 'unknown'."),
]
SweepTimeout = Annotated[
    float | None,
    typer.Option(help="Seconds per query, after which the answer is 'unknown'.", show_default="60"),
]
LimitTimeout = Annotated[
    float | None,
    typer.Option(
        help="Seconds for the limit of each S.",
        show_default="none: it ends by effort, which no load changes",
    ),
]
Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="File in which verdicts are kept, to go on from.",
        show_default="in the user's cache folder",
    ),
]
AlphaUs = Annotated[
    float | None,
    typer.Option(help="Latency of a step, microseconds.", show_default="the topology's"),
]
GbPerS = Annotated[
    float | None,
    typer.Option(help="Bandwidth of a lane, 10^9 bytes/s.", show_default="the topology's"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, for scripts.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write the result here.")]


def writable(path: Path | None) -> Path | None:
    """Return ``path`` if a file can be written there, so that no work is lost for want of a folder.

    Raises:
        InputError: its folder does not exist, or it is a folder itself.
    """
    if path is not None:
        check_can_write(path)
    return path


def refuse(told: Mapping[str, object], why: str) -> None:
    """Refuse options of measuring where nothing is measured.

    Args:
        told: what was given, by the option's name; None: nothing.
        why: the option that measures nothing, and what it does.

    Raises:
        ParameterError: one was given.
    """
    given = [f"--{name}" for name, value in told.items() if value is not None]
    if given:
        raise ParameterError(f"{given[0]} is about measuring, and {why}: leave one of both out")
