"""Settings of searches: effort, the store, and defaults."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

import sccl
from sccl.core.answer import Origin
from sccl.errors import InputError, ParameterError, ScclWarning
from sccl.solvers.effort import UNIT_S, Effort
from sccl.synth.common.store import Store

if TYPE_CHECKING:
    from sccl.synth.common.cluster import Cluster

DEFAULT_TIMEOUT_S = 60.0
"""Seconds per query, unless the user gives others."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a search.

    Attributes:
        solver: Name of the solver.
        effort: Effort of each query.
        symmetry: ``"auto"``, ``"none"``, ``"translations"`` or a file.
        jobs: Number of concurrent queries.
        cluster: Cluster that answers queries. None: this machine.
        store: File that stores verdicts. None: in the user's cache folder.
        no_store: Whether to store no verdicts.
        trust_store: Whether an unsat of a store counts as proved, whoever wrote it.
        trust_cluster: Whether an unsat of a cluster's workers counts as proved.
    """

    solver: str
    effort: Effort
    symmetry: str = "auto"
    jobs: int = 1
    cluster: Cluster | None = None
    store: Path | None = None
    no_store: bool = False
    trust_store: bool = False
    trust_cluster: bool = False

    @property
    def trusted_origins(self) -> frozenset[Origin]:
        """Return the origins whose unsat the user accepts without verification."""
        of_store = {Origin.OTHER_VERSION, Origin.STORE_FILE} if self.trust_store else set()
        return frozenset(of_store | ({Origin.CLUSTER} if self.trust_cluster else set()))

    def capped_units(self, limit: float) -> float:
        """Return the effort for a part of a search, in units."""
        return min(limit, self.effort.seconds / UNIT_S)


def default_store_path() -> Path:
    """Return the path of the user's default store."""
    return Path(platformdirs.user_cache_dir("sccl")) / "verdicts.sqlite"


@contextmanager
def open_store(file: Path | None) -> Iterator[Store]:
    """Open a store for reading, for the duration of the context.

    Args:
        file: File of the store. None: the user's default store.

    Raises:
        InputError: The file cannot be opened.
    """
    opened = Store(file or default_store_path(), version=sccl.__version__, writing=False)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def open_writable_store(file: Path | None, *, no_store: bool) -> Iterator[Store | None]:
    """Open a store for verdicts, for the duration of the context. None: there is no store.

    If the user's default store cannot be used, there is only a warning.

    Raises:
        InputError: The given file cannot be used, or conflicts with ``no_store``.
    """
    if no_store:
        if file:
            raise ParameterError("--store and --no-store are both given: leave one out")
        yield None
        return
    try:
        opened = Store(
            file or default_store_path(),
            version=sccl.__version__,
            is_user_store=_is_default_store(file),
        )
    except InputError as error:
        if file:
            raise
        warnings.warn(f"verdicts are not stored: {error}", ScclWarning, stacklevel=2)
        yield None
        return
    try:
        yield opened
    finally:
        opened.close()


def _is_default_store(file: Path | None) -> bool:
    """Return whether a store is the user's default store, by name or by default."""
    return file is None or file.resolve() == default_store_path().resolve()


def build_effort(timeout: float | None, seed: int, units: float | None = None) -> Effort:
    """Return the effort of a solver.

    Raises:
        ParameterError: The seed is negative or too large, or the timeout is not positive.
    """
    if not 0 <= seed < 2**31:
        raise ParameterError(f"seed is {seed}, expected 0 to {2**31 - 1}")
    return Effort(timeout, seed, units)
