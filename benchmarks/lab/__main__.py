"""``python -m benchmarks.lab``: ranks on this machine behind networks of known rates."""

from __future__ import annotations

import os
import sys
from collections import deque
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.lab import (
    LabEnd,
    LabRun,
    Limiter,
    RankLine,
    check_lab,
    choose_method,
    parse_channels,
    run_lab,
)
from benchmarks.lab.fabric import write_fabric
from sccl.cli import options
from sccl.cli.report import err, report_errors
from sccl.cli.signals import exit_code, install_handlers
from sccl.core.formatting import format_count

_LAST_LINES = 15

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Command = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMAND...",
        help="Command of every rank, after --.",
        show_default=False,
    ),
]
Channels = Annotated[
    str,
    typer.Option(
        help="Names and rates of channels, in bits per second (kb, Mb, Gb); each is a "
        "network with one interface per rank.",
    ),
]
Ranks = Annotated[int, typer.Option(help="Number of ranks.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        help="Print only the output of rank 0, and the last lines of a rank that fails.",
    ),
]
FabricFile = Annotated[
    Path | None,
    typer.Option(
        "--fabric",
        metavar="FILE",
        help="File for the channels as a fabric ('sccl train plan'), written before COMMAND runs.",
    ),
]
By = Annotated[
    Limiter | None,
    typer.Option(
        help="Rate limit: network namespaces, or a token bucket that programs must respect.",
        show_default="namespaces where this system allows them",
    ),
]


class _Printer:
    """Print the output of ranks on the same streams."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.last: dict[int, deque[str]] = {}

    def print_line(self, heard: RankLine) -> None:
        """Print a line, or keep it for later."""
        if not heard.stream:
            if heard.code and self.quiet:
                for line in self.last.pop(heard.rank, ()):
                    typer.echo(line, err=True)
            return
        line = heard.text if self.quiet and not heard.rank else f"[{heard.rank}] {heard.text}"
        if self.quiet and heard.rank:
            self.last.setdefault(heard.rank, deque(maxlen=_LAST_LINES)).append(line)
        else:
            typer.echo(line, err=heard.stream == "err")
            sys.stdout.flush()


@app.command()
@report_errors
def lab(  # noqa: PLR0913, PLR0917 - one parameter per option
    command: Command,
    channels: Channels = "fast=100Mb,slow=50Mb",
    ranks: Ranks = 4,
    quiet: Quiet = False,
    by: By = None,
    fabric: FabricFile = None,
) -> None:
    """Run a command on several ranks with an emulated network of the rates you set.

    Ranks are network namespaces on this machine, as root or through user namespaces. COMMAND gets
    RANK, WORLD_SIZE, MASTER_ADDR, and MASTER_PORT as from torchrun, and in SCCL_CHANNELS the
    interface of each channel. The exit code is that of the first rank that failed. All others then
    end. Nothing is left behind, whichever process is killed.
    """
    wanted = parse_channels(channels)
    check_lab(command, ranks)
    method = choose_method(by)
    if fabric is not None:
        options.check_writable(fabric)
        write_fabric(wanted, ranks, fabric)
    rates = ", ".join(f"{channel.name} {channel.bits_per_s / 1e6:g} Mb/s" for channel in wanted)
    summary = f"{format_count(ranks, 'rank')}, {rates}, by {method.description}"
    err().print(summary, markup=False, soft_wrap=True)
    end = run_lab(LabRun(tuple(command), wanted, ranks, method), _Printer(quiet=quiet).print_line)
    _print_end(end)
    raise typer.Exit(end.code)


def _print_end(end: LabEnd) -> None:
    if end.first is not None:
        others = "" if len(end.codes) == 1 else ", with which the others were ended"
        text = f"rank {end.first} ended with exit code {end.code}{others}"
        err().print(text, markup=False, soft_wrap=True)


def main() -> None:
    """Run the command line. Signals end all ranks."""
    install_handlers()
    try:
        app(prog_name="python -m benchmarks.lab")
    finally:
        if code := exit_code():
            os._exit(code)


if __name__ == "__main__":
    main()
