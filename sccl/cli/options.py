"""Options that several verbs share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sccl.cli import complete
from sccl.core.files.disk import check_can_write

Collective = Annotated[
    str,
    typer.Option(
        help="allgather, allreduce, alltoall, broadcast, gather, reduce, reducescatter, scatter, "
        "or the .json file of your own.",
        autocompletion=complete.collective,
    ),
]
Topo = Annotated[
    str,
    typer.Option(
        help="dgx1, z52, torus:4x4, ... (see 'sccl topo list') or a .json file.",
        autocompletion=complete.topology,
    ),
]
Root = Annotated[
    str | None,
    typer.Option(
        metavar="RANK",
        help="Root of broadcast, reduce, gather, scatter: a rank's number, or its label.",
        show_default="0",
    ),
]
Algorithms = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Algorithm files, folders of them (a sweep's --out), or patterns such as "
        "'found/*.json'.",
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
NoStore = Annotated[bool, typer.Option("--no-store", help="Neither look into the store nor write.")]
Jobs = Annotated[int, typer.Option("--jobs", help="Queries at a time, each in a process.")]
ClusterAddress = Annotated[
    str | None,
    typer.Option("--cluster", help="Dask scheduler to answer queries: tcp://host:8786."),
]
TlsCa = Annotated[Path | None, typer.Option(help="The cluster's certificate authority (PEM).")]
TlsCert = Annotated[Path | None, typer.Option(help="Our certificate for the cluster (PEM).")]
TlsKey = Annotated[Path | None, typer.Option(help="Its key (PEM).")]
AlphaUs = Annotated[
    float | None,
    typer.Option(help="Latency of a step, microseconds.", show_default="the topology's"),
]
GbPerS = Annotated[
    float | None,
    typer.Option(help="Bandwidth of a lane, 10^9 bytes/s.", show_default="the topology's"),
]
OutDir = Annotated[Path | None, typer.Option("--out", help="Folder for the algorithms found.")]
CertifyDir = Annotated[
    Path | None,
    typer.Option(
        "--certify",
        help="Folder for proofs of all claims, for 'sccl verify-certificate'; of allreduce, of "
        "those about compositions, and of limits those about trees, too.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        help="Picture of the frontier and of the times by buffer size: .html, .svg, .png, .pdf "
        "(more charts: 'sccl plot')."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, for scripts.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write the result here.")]


@dataclass(frozen=True, slots=True)
class QuestionOptions:
    """What is asked for."""

    collective: Collective
    topo: Topo
    root: Root = None


@dataclass(frozen=True, slots=True)
class KeptOptions:
    """Where verdicts are kept."""

    store: Store = None
    no_store: NoStore = False


@dataclass(frozen=True, slots=True)
class WorkersOptions:
    """Where queries are answered."""

    jobs: Jobs = 1
    cluster: ClusterAddress = None
    tls_ca: TlsCa = None
    tls_cert: TlsCert = None
    tls_key: TlsKey = None


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """Where a frontier goes, and by what its points are compared."""

    out_dir: OutDir = None
    certify_dir: CertifyDir = None
    plot: Plot = None
    alpha_us: AlphaUs = None
    gb_per_s: GbPerS = None


def writable(path: Path | None) -> Path | None:
    """Return ``path`` if a file can be written there, so that no work is lost for want of a folder.

    Raises:
        InputError: its folder does not exist, or it is a folder itself.
    """
    if path is not None:
        check_can_write(path)
    return path
