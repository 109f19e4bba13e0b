"""Convert user settings to the functions that a sweep calls for answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from sccl.collectives import Spec
from sccl.core.answer import Answer, Unknown
from sccl.core.instance import Instance
from sccl.core.topology import Topology
from sccl.solvers.effort import Effort
from sccl.synth.common.oracle import QueryConfig, answer_instance, open_oracle, resolve_symmetry
from sccl.synth.common.prefetch import Prefetch
from sccl.synth.common.reduction import InstanceSolver
from sccl.synth.common.settings import Settings, open_writable_store
from sccl.synth.syncoll import solve
from sccl.topo.symmetry.group_choice import candidate_groups

_MAX_SIZE, _MAX_SYMMETRIC_SIZE = 20_000, 200_000  # chunks times links times steps
_FIRST_UNITS, _MAX_UNITS = 1.0, 2.0
"""Effort for solvers to find an algorithm of few chunks at a limit. If it is not enough, packings
are multiplied out.

It is effort and not seconds, one solver after the other and no race: the written files must not
depend on the load of the machine. Broadcast (19, 5, 5) on DGX-1 takes CP-SAT 6.6 and CaDiCaL less
than 1. The other limits of the README that are attained by few chunks take CP-SAT up to 0.4.
"""
_SYMMETRIC_UNITS = 0.7
"""Effort under symmetry: successful searches take 0.15; beyond 0.8 workers continue by a unit
each.
"""


@contextmanager
def open_query_oracle(
    topology: Topology, spec: Spec, settings: Settings
) -> Iterator[tuple[InstanceSolver, Prefetch]]:
    """Answer queries about a collective, and hear of those to come, as long as the context lasts.

    Raises:
        InputError: the settings do not fit the collective and the topology.
    """
    how = _query_config(topology, spec, settings, settings.effort)
    with (
        open_writable_store(settings.store, no_store=settings.no_store) as store,
        open_oracle(
            how,
            settings.jobs,
            settings.cluster,
            store,
            solve.refute_by_bounds,
            settings.trusted_origins,
        ) as callbacks,
    ):
        yield callbacks


def few_chunk_solver(topology: Topology, spec: Spec, settings: Settings) -> InstanceSolver:
    """Return a function that searches algorithms of few chunks at a limit, with little effort.

    Raises:
        InputError: the settings do not fit the collective and the topology.
    """
    little = Effort(None, settings.effort.seed, settings.capped_units(_MAX_UNITS))
    return partial(_solve_few_chunks, _query_config(topology, spec, settings, little))


def _query_config(
    topology: Topology, spec: Spec, settings: Settings, effort: Effort
) -> QueryConfig:
    solve.check_symmetry(settings.solver, settings.symmetry)
    symmetry = resolve_symmetry(topology, spec, settings.symmetry)
    return QueryConfig(solve.solve, solve.check_name(settings.solver), symmetry, effort)


def _solve_few_chunks(how: QueryConfig, instance: Instance) -> Answer:
    """Ask the solver. If it is the default one, then another, which is good at other instances.

    Instances that are too large for that are asked for under symmetry alone.
    """
    size = instance.collective.num_chunks * len(instance.topology.links) * instance.steps
    units = how.effort.units or _MAX_UNITS
    if size > _MAX_SIZE:
        chosen = candidate_groups(instance.topology, instance.collective, how.symmetry)
        if size > _MAX_SYMMETRIC_SIZE or not chosen:
            return Unknown("too large to ask for", how.solver, 0.0)
        little = replace(how.effort, units=min(_SYMMETRIC_UNITS, units))
        return solve.solve_symmetric(instance, chosen, little)
    if how.solver != solve.DEFAULT_SOLVER:
        return answer_instance(how, instance)
    little = replace(how.effort, units=min(_FIRST_UNITS, units))
    result = answer_instance(replace(how, effort=little), instance)
    if isinstance(result, Unknown):
        return answer_instance(replace(how, solver="cadical", symmetry="none"), instance)
    return result
