"""``sccl lab``: ranks on this machine behind networks of known rates."""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path
from typing import Annotated

import typer

from sccl.cli import options
from sccl.cli.report import err, print_output, reported
from sccl.core.words import counted
from sccl.runtime.lab import Heard, Lab, LabEnd, Limiter, channels_of, check_lab, run_lab, ways_of
from sccl.tasks.lab import lab_output, write_fabric

_LAST_LINES = 15

Command = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMAND...",
        help="What every rank runs, after --.",
        show_default=False,
    ),
]
Channels = Annotated[
    str,
    typer.Option(
        help="Names and rates, bits per second in kb, Mb or Gb: each is a network of its own, in "
        "which every rank has an interface.",
    ),
]
Ranks = Annotated[int, typer.Option(help="How many times COMMAND is started.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        help="Print what rank 0 says, as it is, and of a rank that fails its last lines.",
    ),
]
FabricFile = Annotated[
    Path | None,
    typer.Option(
        "--fabric",
        metavar="FILE",
        help="Write the channels as a fabric here, for 'sccl plan', before COMMAND is run.",
    ),
]
By = Annotated[
    Limiter | None,
    typer.Option(
        help="What keeps the rates: namespaces; or a bucket, to which the backend 'sccl' alone "
        "keeps.",
        show_default="namespaces where this system allows them",
    ),
]


class _Printer:
    """What ranks say, on the streams on which they say it."""

    def __init__(self, *, quiet: bool, aside: bool) -> None:
        self.quiet, self.aside = quiet, aside
        self.last: dict[int, deque[str]] = {}

    def hear(self, heard: Heard) -> None:
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
            typer.echo(line, err=self.aside or heard.stream == "err")
            sys.stdout.flush()


@reported
def lab(
    command: Command,
    channels: Channels = "fast=100Mb,slow=50Mb",
    ranks: Ranks = 4,
    quiet: Quiet = False,
    by: By = None,
    fabric: FabricFile = None,
    json: options.Json = False,
) -> None:
    """Run a command on ranks that have a network of a known rate for every channel.

    Ranks are network namespaces on this machine; as root or without, by user namespaces. COMMAND
    finds RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment, as torchrun sets them,
    and in SCCL_CHANNELS the interface of each channel. The exit code is that of the rank that
    failed first; with it all others end. Nothing is left behind, whatever is killed.
    """
    wanted = channels_of(channels)
    check_lab(command, ranks)
    ways = ways_of(by)
    if fabric is not None:
        options.writable(fabric)
        write_fabric(wanted, ranks, fabric)
    rates = ", ".join(f"{one.name} {one.bits_per_s / 1e6:g} Mb/s" for one in wanted)
    told = f"{counted(ranks, 'rank')}, {rates}, by {ways.told}"
    err().print(told, markup=False, soft_wrap=True)
    made = Lab(tuple(command), wanted, ranks, ways)
    end = run_lab(made, _Printer(quiet=quiet, aside=json).hear)
    if json:
        print_output(lab_output(made, end))
    _tell_end(end)
    raise typer.Exit(end.code)


def _tell_end(end: LabEnd) -> None:
    if end.first is not None:
        others = "" if len(end.codes) == 1 else ", with which the others were ended"
        text = f"rank {end.first} ended with exit code {end.code}{others}"
        err().print(text, markup=False, soft_wrap=True)
