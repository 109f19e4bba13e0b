"""Connect to a Dask cluster, watch it, and report its failures."""

from __future__ import annotations

import importlib
import logging
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sccl.errors import InputError, ScclError, ScclWarning, SolverError, ToolError

_CONNECT_TIMEOUT = "10s"
_MAX_WORKERLESS_S = 60.0
"""For workers that were lost to come back, as those with a nanny do in a few seconds."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The address of a Dask scheduler, with optional TLS files."""

    address: str
    ca_file: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    @property
    def is_encrypted(self) -> bool:
        """Return whether the connection uses TLS."""
        return bool(self.ca_file or self.cert or self.key) or self.address.startswith("tls://")


class Connection:
    """A cluster that answers queries.

    Attributes:
        address: Address of its scheduler.
        executor: Executor for queries.
        cores: Number of concurrent queries.
    """

    def __init__(self, client: Any, address: str) -> None:
        self._client, self.address = client, address
        self.cores = sum(client.nthreads().values())
        if not self.cores:
            raise ToolError(
                f"the scheduler at {address} has no workers; start some with "
                f"'dask worker {address}'"
            )
        self.executor = client.get_executor(pure=False, retries=2)
        self._last_check_s = self._last_workers_s = time.monotonic()

    def check_alive(self) -> None:
        """Check that the cluster can still answer.

        Raises:
            ToolError: The scheduler is gone, or all workers have been gone for a minute.
        """
        if self._client.status != "running":
            raise self._lost_error()
        now = time.monotonic()
        if now - self._last_check_s < 2.0:  # seconds
            return
        self._last_check_s = now
        if self._client.nthreads():
            self._last_workers_s = now
        elif now - self._last_workers_s > _MAX_WORKERLESS_S:
            raise ToolError(
                f"the scheduler at {self.address} has lost all its workers; start some, and run "
                "the command again: it continues from the stored verdicts"
            )

    def failure_error(self, error: Exception) -> ScclError:
        """Return the error to raise for an error of a query, or of Dask itself."""
        if isinstance(error, ScclError):
            return error
        if isinstance(error, CancelledError) or self._client.status != "running":  # not by sccl
            return self._lost_error()
        return SolverError(f"a worker of the cluster broke ({type(error).__name__}: {error})")

    def _lost_error(self) -> ToolError:
        return ToolError(
            f"the Dask scheduler at {self.address} no longer answers; start it, and run the "
            "command again: it continues from the stored verdicts"
        )


@contextmanager
def open_connection(cluster: Cluster) -> Iterator[Connection]:
    """Provide a connection to a cluster.

    Raises:
        InputError: The address or the TLS files cannot be used.
        ToolError: Dask is not installed, no scheduler answers, or it has no workers.
    """
    try:
        dask: Any = importlib.import_module("distributed")  # an optional package without types
    except ImportError as error:
        raise ToolError(
            "--cluster needs Dask, which is not installed: pip install 'sccl[cluster]'"
        ) from error
    for name in ("client", "comm", "core", "batched"):  # sccl reports their problems itself
        logging.getLogger(f"distributed.{name}").setLevel(logging.CRITICAL)
    if not cluster.is_encrypted:
        warnings.warn(
            f"the cluster at {cluster.address} is used without TLS: anyone who reaches its "
            "scheduler can run code on the workers and in this process; give --tls-ca, --tls-cert "
            "and --tls-key, or use a private network",
            ScclWarning,
            stacklevel=2,
        )
    with _connect_client(dask, cluster) as client:
        yield Connection(client, cluster.address)


def _connect_client(dask: Any, cluster: Cluster) -> Any:
    import ssl  # noqa: PLC0415 - slow to load, and Dask has loaded it

    try:
        # A client with an invalid address takes 20 s to close, and prints a traceback.
        importlib.import_module("distributed.comm").resolve_address(cluster.address)
        return dask.Client(
            cluster.address,
            security=_tls_security(dask, cluster),
            timeout=_CONNECT_TIMEOUT,
            set_as_default=False,
        )
    except (ValueError, TypeError, FileNotFoundError, PermissionError, ssl.SSLError) as error:
        raise InputError(
            f"no Dask scheduler can be reached at {cluster.address} ({error}); check the address "
            "and the TLS files"
        ) from error
    except OSError as error:
        raise ToolError(
            f"no Dask scheduler answers at {cluster.address} ({error}); start one with "
            "'dask scheduler', or check the address"
        ) from error


def _tls_security(dask: Any, cluster: Cluster) -> Any:
    if not (cluster.ca_file or cluster.cert or cluster.key):
        return None
    files = {"tls_ca_file": cluster.ca_file, "tls_client_cert": cluster.cert}
    files["tls_client_key"] = cluster.key
    paths = {name: str(file) for name, file in files.items() if file}
    return dask.Security(require_encryption=True, **paths)
