"""Options of searches: the solver, the store of verdicts, and the processes that answer queries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from sccl.errors import ParameterError
from sccl.synth.common.settings import Settings, build_effort
from sccl.synth.syncoll import solve


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The solver and its parameters."""

    solver: Annotated[
        str,
        Meta(extra={"choices": solve.names()}),
        f"Solver: {', '.join(solve.names())}.",
    ] = solve.DEFAULT_SOLVER
    seed: Annotated[int, "Seed of the solver."] = 0
    symmetry: Annotated[
        str,
        Meta(extra={"choices": ("auto", "none", "translations")}),
        "Symmetry of the search: auto (from 12 ranks on), none, translations, or a .json file "
        "('sccl doctor schema symmetry').",
    ] = "auto"


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The store of verdicts."""

    store: Annotated[
        Path | None, "File that stores answers, to resume a sweep.", "in the user's cache folder"
    ] = None
    no_store: Annotated[bool, "Neither read nor write the store."] = False
    trust_store: Annotated[
        bool, "Accept an 'unsat' of a store file, or of another sccl version, unverified."
    ] = False


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The processes or machines that answer queries."""

    jobs: Annotated[int, "Number of queries solved at once, each in its own process."] = 1
    cluster: Annotated[
        str | None, "Address of a Dask scheduler that solves queries: tcp://host:8786."
    ] = None
    trust_cluster: Annotated[
        bool, "Accept an 'unsat' of a cluster worker without verification."
    ] = False
    tls_ca: Annotated[Path | None, "Certificate authority of the cluster (PEM)."] = None
    tls_cert: Annotated[Path | None, "Certificate for the cluster (PEM)."] = None
    tls_key: Annotated[Path | None, "Key of the certificate (PEM)."] = None


def build_settings(
    search: SearchOptions,
    timeout_s: float | None,
    store: StoreOptions | None = None,
    workers: WorkerOptions | None = None,
) -> Settings:
    """Return the settings of a search.

    Args:
        search: Options of the solver.
        timeout_s: Seconds per query. None: no limit.
        store: Options of the store. None: defaults.
        workers: Options of workers. None: defaults.

    Raises:
        InputError: The solver does not exist, a number is out of range, or options contradict each
            other.
    """
    store, workers = store or StoreOptions(), workers or WorkerOptions()
    if store.trust_store and store.no_store:
        raise ParameterError("--trust-store and --no-store are both given: leave one out")
    cluster, tls = None, (workers.tls_ca, workers.tls_cert, workers.tls_key)
    if any(tls) and not workers.cluster:
        raise ParameterError("TLS files are given without --cluster")
    if workers.cluster:
        from sccl.synth.common.cluster import Cluster  # noqa: PLC0415 - few searches ask a cluster

        cluster = Cluster(workers.cluster, *tls)
    return Settings(
        solve.check_name(search.solver),
        build_effort(timeout_s, search.seed),
        search.symmetry,
        workers.jobs,
        cluster,
        store.store,
        store.no_store,
        store.trust_store,
        workers.trust_cluster,
    )
