"""Shared options of verbs that search: the solver, and the processes that run it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sccl.cli import options
from sccl.errors import ParameterError
from sccl.synth.common.settings import Settings, build_effort
from sccl.synth.syncoll import solve

if TYPE_CHECKING:
    from sccl.synth.common.cluster import Cluster

Solver = Annotated[
    str,
    typer.Option(
        help=f"Solver: {', '.join(solve.names())}. The portfolio runs the other three at the same "
        "time and takes the first answer, so its algorithms may differ from run to run.",
        autocompletion=options.complete_words(solve.names(), "a solver"),
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the solver.")]
Symmetry = Annotated[
    str,
    typer.Option(
        help="Symmetry of the search: auto (from 12 ranks on), none, translations, or a "
        ".json file ('sccl schema symmetry').",
        autocompletion=options.complete_words(("auto", "none", "translations"), "symmetries"),
    ),
]
NoStore = Annotated[bool, typer.Option("--no-store", help="Neither read nor write the store.")]
TrustStore = Annotated[
    bool,
    typer.Option(
        "--trust-store",
        help="Accept an 'unsat' of a store file, or of another sccl version, unverified.",
    ),
]
TrustCluster = Annotated[
    bool,
    typer.Option(
        "--trust-cluster", help="Accept an 'unsat' of a cluster worker without verification."
    ),
]
Jobs = Annotated[
    int,
    typer.Option("--jobs", help="Number of queries solved at once, each in its own process."),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster", help="Address of a Dask scheduler that solves queries: tcp://host:8786."
    ),
]
TlsCa = Annotated[Path | None, typer.Option(help="Certificate authority of the cluster (PEM).")]
TlsCert = Annotated[Path | None, typer.Option(help="Certificate for the cluster (PEM).")]
TlsKey = Annotated[Path | None, typer.Option(help="Key of the certificate (PEM).")]


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The solver and its parameters."""

    solver: Solver = solve.DEFAULT_SOLVER
    seed: Seed = 0
    symmetry: Symmetry = "auto"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The store of verdicts."""

    store: options.Store = None
    no_store: NoStore = False
    trust_store: TrustStore = False


@dataclass(frozen=True, slots=True)
class WorkersOptions:
    """The processes or machines that answer queries."""

    jobs: Jobs = 1
    cluster: ClusterAddress = None
    trust_cluster: TrustCluster = False
    tls_ca: TlsCa = None
    tls_cert: TlsCert = None
    tls_key: TlsKey = None


def solver_settings(
    search: SearchOptions,
    timeout: float | None,
    kept: StoreOptions | None = None,
    workers: WorkersOptions | None = None,
) -> Settings:
    """Return how a question is answered.

    Raises:
        InputError: there is no such solver, or a number makes no sense.
    """
    kept, workers = kept or StoreOptions(), workers or WorkersOptions()
    if kept.trust_store and kept.no_store:
        raise ParameterError("--trust-store and --no-store are both given: leave one out")
    return Settings(
        solve.check_name(search.solver),
        build_effort(timeout, search.seed),
        search.symmetry,
        workers.jobs,
        _parse_cluster(workers.cluster, workers.tls_ca, workers.tls_cert, workers.tls_key),
        kept.store,
        kept.no_store,
        kept.trust_store,
        workers.trust_cluster,
    )


def _parse_cluster(address: str | None, *tls: Path | None) -> Cluster | None:
    if any(tls) and not address:
        raise ParameterError("TLS files are given without --cluster")
    if not address:
        return None
    from sccl.synth.common.cluster import Cluster  # noqa: PLC0415 - few searches ask a cluster

    return Cluster(address, *tls)
