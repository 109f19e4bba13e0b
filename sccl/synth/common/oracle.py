"""Answer queries here, in several processes, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from sccl.collectives import Spec, dual_of
from sccl.core.answer import Answer, Origin, Sat, Unknown, Unsat
from sccl.core.files.answers import answer_to_wire, instance_from_wire
from sccl.core.files.json_text import parse
from sccl.core.files.shapes import InstanceWire
from sccl.core.instance import Instance
from sccl.core.topology import Topology
from sccl.errors import ParameterError, SolverError
from sccl.solvers.effort import Effort
from sccl.synth.common.cluster import Cluster, open_connection
from sccl.synth.common.prefetch import JsonWorker, Prefetch, Prefetcher
from sccl.synth.common.reduction import InstanceSolver
from sccl.synth.common.store import Store, UnsatPolicy, cache_lookup, cached_solver, is_valid_answer
from sccl.topo.symmetry.group import Group
from sccl.topo.symmetry.group_choice import candidate_groups

MAX_JOBS = 1024
_MIN_SYMMETRIC_RANKS = 12  # below, the solvers need no help, and symmetric searches cost time


SolveFunction = Callable[[Instance, str, Effort, Sequence[Group]], Answer]
"""A function that answers an instance, by a named solver, perhaps under symmetry. Importable."""


RefuteFunction = Callable[[Instance], Unsat | None]
"""Refutes an instance by bounds, without a search. None: they do not."""


@dataclass(frozen=True, slots=True)
class QueryConfig:
    """All that decides an answer; plain values, to be sent to workers."""

    solve_function: SolveFunction
    solver: str
    symmetry: str
    effort: Effort


def answer_instance(how: QueryConfig, instance: Instance) -> Answer:
    """Return the answer of an instance."""
    chosen = candidate_groups(instance.topology, instance.collective, how.symmetry)
    return how.solve_function(instance, how.solver, how.effort, chosen)


def answer_json(how: QueryConfig, text: str) -> str:
    """Return the answer of an instance, both as JSON, in a worker."""
    instance = instance_from_wire(parse(text, InstanceWire, "instance"), "instance")
    try:
        result = answer_instance(how, instance)
    except SolverError as error:
        result = Unknown(f"the solver broke: {error}", how.solver, 0.0)
    return msgspec.json.encode(answer_to_wire(result)).decode()


def resolve_symmetry(topology: Topology, spec: Spec, symmetry: str) -> str:
    """Return the symmetry to use; small machines need none unless one is asked for.

    Raises:
        InputError: there is no such symmetry, or those given are none of the machine and the
            collective.
    """
    if symmetry not in {"auto", "none"}:
        dual = dual_of(spec)
        for phase in dual.phases_on(topology):
            candidate_groups(
                phase.topology, dual.spec.at(dual.spec.unit), symmetry
            )  # complains, if they are none
    return "none" if symmetry == "auto" and topology.ranks < _MIN_SYMMETRIC_RANKS else symmetry


@contextmanager
def open_oracle(  # noqa: PLR0913, PLR0917 - how, where, and on whose word
    how: QueryConfig,
    jobs: int,
    cluster: Cluster | None,
    store: Store | None,
    refute: RefuteFunction = lambda _: None,
    trusted: frozenset[Origin] = frozenset(),
) -> Iterator[tuple[InstanceSolver, Prefetch]]:
    """Provide a function that answers instances, and one that receives likely next queries.

    Args:
        store: store for looking up and keeping answers. None: none.
        refute: derives an unsat of others again by bounds, if they suffice.
        trusted: the origins whose unsat the user accepts without verification.

    Raises:
        InputError: the number of jobs is invalid, or the cluster's address or TLS files are.
        ToolError: Dask is not installed, or the cluster does not answer.
    """
    key = f"{how.solver}, symmetry {how.symmetry}, seed {how.effort.seed}"

    def settle(unsat: Unsat, instance: Instance) -> Unsat | None:
        """Verify an unsat by bounds, accept it, or mark it. None: solve the instance again."""
        if unsat.origin.is_verified:
            return unsat
        if (derived := refute(instance)) is not None:
            return derived
        if unsat.origin in trusted:
            return replace(unsat, trusted=True)
        # The user's own store is to have answers of this version and these solvers again. A solver
        # of a cluster would not verify what a cluster said.
        is_outdated = unsat.origin is Origin.OTHER_VERSION
        is_solved_here = unsat.origin is Origin.CLUSTER and cluster is None
        return None if is_outdated or is_solved_here else unsat

    with _open_solver(how, jobs, cluster, settle) as (solve, expect):
        if store is None:
            yield solve, expect
            return
        recall = cache_lookup(store, key, how.effort.timeout_s, settle)

        def unknown_yet(instances: Iterable[Instance]) -> None:
            """Expect the instances that the store has no answer to."""
            expect(i for i in instances if recall(i) is None)

        yield cached_solver(solve, store, key, how.effort.timeout_s, settle), unknown_yet


@contextmanager
def _open_solver(
    how: QueryConfig, jobs: int, cluster: Cluster | None, settle: UnsatPolicy
) -> Iterator[tuple[InstanceSolver, Prefetch]]:
    if not 1 <= jobs <= MAX_JOBS:
        raise ParameterError(f"jobs is {jobs}, expected 1 to {MAX_JOBS}")
    if cluster is None and jobs == 1:
        yield partial(answer_instance, how), lambda _: None
        return
    work = partial(answer_json, how)
    if cluster is not None:
        with _open_cluster_solver(cluster, work, jobs, settle) as callbacks:
            yield callbacks
        return
    from sccl.solvers.workers import WorkerPool  # noqa: PLC0415 - loads what only processes need

    with WorkerPool(jobs) as workers:
        ahead = Prefetcher(workers, work, jobs)
        try:
            yield ahead.solve, ahead.prefetch
        finally:
            ahead.close()


@contextmanager
def _open_cluster_solver(
    cluster: Cluster, work: JsonWorker, jobs: int, settle: UnsatPolicy
) -> Iterator[tuple[InstanceSolver, Prefetch]]:
    with open_connection(cluster) as connection:
        ahead = Prefetcher(
            connection.executor, work, max(jobs, connection.cores), connection.check_alive
        )

        def solve(instance: Instance) -> Answer:
            """Ask the cluster, verify its answer, and complain if it is gone."""
            try:
                answer = ahead.solve(instance)
            except Exception as error:
                raise connection.failure_error(error) from error
            if isinstance(answer, Sat) and not is_valid_answer(answer, instance):
                raise SolverError(
                    f"a worker of the cluster at {cluster.address} answered with an algorithm that "
                    "is not valid for the instance"
                )
            if isinstance(answer, Unsat):
                of_cluster = replace(answer, origin=Origin.CLUSTER)
                return settle(of_cluster, instance) or of_cluster
            return answer

        def expect(instances: Iterable[Instance]) -> None:
            """Have instances answered ahead, and say so if the cluster is gone."""
            try:
                ahead.prefetch(instances)
            except Exception as error:
                raise connection.failure_error(error) from error

        try:
            yield solve, expect
        finally:
            ahead.close()
