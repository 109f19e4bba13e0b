"""The oracle of a sweep: the interface between the search and solvers.

An instance whose answer is in the store is not solved again. Otherwise this process solves it, or a
worker process or a Dask cluster, perhaps ahead of the query. Then the store keeps the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from sccl.collectives import Spec, dual_of
from sccl.core.answer import Answer, Origin, Sat, Unknown, Unsat
from sccl.core.files.algorithms import answer_to_wire, instance_from_wire
from sccl.core.files.json_text import parse
from sccl.core.files.shapes import InstanceWire
from sccl.core.instance import Instance
from sccl.core.stop import StopKind, StopReason
from sccl.core.topology import Topology
from sccl.errors import ParameterError, SolverError
from sccl.solvers.effort import Effort
from sccl.synth.common.settings import Settings, open_writable_store
from sccl.synth.common.store import Store, is_valid_answer
from sccl.synth.limits import MAX_MODEL, MAX_SMALL_MODEL, QUICK_EFFORT, STEP_EFFORT
from sccl.synth.syncoll import solve
from sccl.topo.symmetry.group_choice import candidate_groups
from sccl.transform import InstanceSolver

if TYPE_CHECKING:
    from sccl.synth.common.cluster import Cluster, Connection
    from sccl.synth.common.prefetch import Prefetcher

MAX_JOBS = 1024
"""Guard against typing errors."""


@dataclass(frozen=True, slots=True)
class QueryConfig:
    """All settings that affect an answer. They are plain values, which are sent to workers."""

    solver: str
    symmetry: str
    effort: Effort

    @property
    def store_key(self) -> str:
        """Return the key in a store: the solver and all settings that affect its answers."""
        return f"{self.solver}, symmetry {self.symmetry}, seed {self.effort.seed}"


def answer_instance(config: QueryConfig, instance: Instance) -> Answer:
    """Return the answer of an instance."""
    groups = candidate_groups(instance.topology, instance.collective, config.symmetry)
    return solve.solve(instance, config.solver, config.effort, groups)


def answer_json(config: QueryConfig, text: str) -> str:
    """Return the answer of an instance, both as JSON, in a worker."""
    instance = instance_from_wire(parse(text, InstanceWire, "instance"), "instance")
    try:
        result = answer_instance(config, instance)
    except SolverError as error:
        reason = StopReason(StopKind.SOLVER_FAILED, f"the solver broke: {error}")
        result = Unknown(reason, config.solver, 0.0)
    return msgspec.json.encode(answer_to_wire(result)).decode()


@dataclass(frozen=True, slots=True)
class Oracle:
    """Answers instances, and learns the likely next ones.

    Attributes:
        config: Settings of the queries.
        store: Store of answers. None: no store.
        ahead: Worker processes or a cluster. None: this process solves.
        connection: Connection to the cluster. None: no cluster.
        trusted: Origins whose unsat the user accepts without verification.
    """

    config: QueryConfig
    store: Store | None = None
    ahead: Prefetcher | None = None
    connection: Connection | None = None
    trusted: frozenset[Origin] = field(default_factory=frozenset)

    def answer(self, instance: Instance) -> Answer:
        """Return the stored answer. Otherwise solve the instance and store the answer.

        Raises:
            SolverError: The solver, a worker, or the cluster failed.
        """
        if (stored := self._recall(instance)) is not None:
            return stored
        answer = self._solve(instance)
        if self.store is not None:
            config = self.config
            self.store.put(instance, config.store_key, config.effort.timeout_s, answer)
        return answer

    def prefetch(self, instances: Iterable[Instance]) -> None:
        """Start to solve likely next instances, unless the store has their answers.

        Raises:
            SolverError: The cluster no longer answers.
        """
        if self.ahead is None:
            return
        try:
            self.ahead.prefetch(i for i in instances if self._recall(i) is None)
        except Exception as error:
            if self.connection is None:
                raise
            raise self.connection.failure_error(error) from error

    def _recall(self, instance: Instance) -> Answer | None:
        """Return the stored answer. None: the instance must be solved."""
        if self.store is None:
            return None
        config = self.config
        answer = self.store.get(instance, config.store_key, config.effort.timeout_s)
        if answer is None:
            return None
        answer = replace(answer, from_store=True)
        return self._settle(answer, instance) if isinstance(answer, Unsat) else answer

    def _solve(self, instance: Instance) -> Answer:
        if self.ahead is None:
            return answer_instance(self.config, instance)
        if self.connection is None:
            return self.ahead.solve(instance)
        try:
            answer = self.ahead.solve(instance)
        except Exception as error:
            raise self.connection.failure_error(error) from error
        if isinstance(answer, Sat) and not is_valid_answer(answer, instance):
            raise SolverError(
                f"a worker of the cluster at {self.connection.address} answered with an algorithm "
                "that is not valid for the instance"
            )
        if not isinstance(answer, Unsat):
            return answer
        of_cluster = replace(answer, origin=Origin.CLUSTER)
        return self._settle(of_cluster, instance) or of_cluster

    def _settle(self, unsat: Unsat, instance: Instance) -> Unsat | None:
        """Verify an unsat by bounds, accept it, or mark it. None: solve the instance again."""
        if unsat.origin.is_verified:
            return unsat
        if (derived := solve.refute_by_bounds(instance)) is not None:
            return derived
        if unsat.origin in self.trusted:
            return replace(unsat, trusted=True)
        # Answers of another version in the user's own store are replaced by those of this version.
        # A solver of a cluster cannot verify a cluster's answer.
        is_outdated = unsat.origin is Origin.OTHER_VERSION
        is_solved_here = unsat.origin is Origin.CLUSTER and self.connection is None
        return None if is_outdated or is_solved_here else unsat


@contextmanager
def open_oracle(
    config: QueryConfig,
    jobs: int = 1,
    cluster: Cluster | None = None,
    store: Store | None = None,
    trusted: frozenset[Origin] = frozenset(),
) -> Iterator[Oracle]:
    """Provide an oracle, with its worker processes or cluster.

    Raises:
        InputError: The number of jobs, the cluster's address, or a TLS file is invalid.
        ToolError: Dask is not installed, or the cluster does not answer.
    """
    if not 1 <= jobs <= MAX_JOBS:
        raise ParameterError(f"jobs is {jobs}, expected 1 to {MAX_JOBS}")
    work = partial(answer_json, config)
    with ExitStack() as stack:
        ahead: Prefetcher | None = None
        connection: Connection | None = None
        if cluster is not None:
            from sccl.synth.common.cluster import open_connection  # noqa: PLC0415 - few searches ask one
            from sccl.synth.common.prefetch import Prefetcher  # noqa: PLC0415

            connection = stack.enter_context(open_connection(cluster))
            workers = max(jobs, connection.cores)
            ahead = Prefetcher(connection.executor, work, workers, connection.check_alive)
        elif jobs > 1:
            from sccl.solvers.workers import WorkerPool  # noqa: PLC0415 - loads what only processes need
            from sccl.synth.common.prefetch import Prefetcher  # noqa: PLC0415

            ahead = Prefetcher(stack.enter_context(WorkerPool(jobs)), work, jobs)
        if ahead is not None:
            stack.callback(ahead.close)
        yield Oracle(config, store, ahead, connection, trusted)


@contextmanager
def open_query_oracle(topology: Topology, spec: Spec, settings: Settings) -> Iterator[Oracle]:
    """Provide the oracle for a collective with the user's settings.

    Raises:
        InputError: The settings do not fit the collective and the topology.
        ToolError: Dask is not installed, or the cluster does not answer.
    """
    config = _query_config(topology, spec, settings, settings.effort)
    where = (settings.jobs, settings.cluster)
    with (
        open_writable_store(settings.store, no_store=settings.no_store) as store,
        open_oracle(config, *where, store, settings.trusted_origins) as oracle,
    ):
        yield oracle


def few_chunk_solver(topology: Topology, spec: Spec, settings: Settings) -> InstanceSolver:
    """Return a function that searches for algorithms with few chunks at a limit, with low effort.

    Raises:
        InputError: The settings do not fit the collective and the topology.
    """
    little = Effort(None, settings.effort.seed, settings.capped_units(STEP_EFFORT))
    return partial(_solve_few_chunks, _query_config(topology, spec, settings, little))


def resolve_symmetry(topology: Topology, spec: Spec, symmetry: str) -> str:
    """Return the symmetry to use. "auto" means none on small machines.

    Raises:
        InputError: The symmetry does not exist, or the machine or the collective lacks it.
    """
    if symmetry not in {"auto", "none"}:
        dual = dual_of(spec)
        for phase in dual.phases_on(topology):
            candidate_groups(
                phase.topology, dual.spec.at(dual.spec.unit), symmetry
            )  # raises an error if they are no symmetries
    return "none" if symmetry == "auto" and topology.ranks < solve.MIN_SYMMETRIC_RANKS else symmetry


def _query_config(
    topology: Topology, spec: Spec, settings: Settings, effort: Effort
) -> QueryConfig:
    solve.check_symmetry(settings.solver, settings.symmetry)
    symmetry = resolve_symmetry(topology, spec, settings.symmetry)
    return QueryConfig(solve.check_name(settings.solver), symmetry, effort)


def _solve_few_chunks(config: QueryConfig, instance: Instance) -> Answer:
    """Ask the solver. If the default solver finds no answer, ask CaDiCaL.

    Larger instances are only solved with symmetry.
    """
    size = instance.collective.num_chunks * len(instance.topology.links) * instance.steps
    units = config.effort.units or STEP_EFFORT
    if size > MAX_SMALL_MODEL:
        groups = candidate_groups(instance.topology, instance.collective, config.symmetry)
        if size > MAX_MODEL or not groups:
            reason = StopReason(StopKind.TOO_LARGE, "too large to ask for")
            return Unknown(reason, config.solver, 0.0)
        little = replace(config.effort, units=min(QUICK_EFFORT, units))
        return solve.solve_symmetric(instance, groups, little)
    if config.solver != solve.DEFAULT_SOLVER:
        return answer_instance(config, instance)
    little = replace(config.effort, units=min(QUICK_EFFORT, units))
    result = answer_instance(replace(config, effort=little), instance)
    if isinstance(result, Unknown):
        return answer_instance(replace(config, solver="cadical", symmetry="none"), instance)
    return result
