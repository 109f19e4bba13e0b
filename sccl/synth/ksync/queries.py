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
from sccl.synth.ahead import Expect
from sccl.synth.answering import How, answer, answering, settled_symmetry
from sccl.synth.ask import Solve
from sccl.synth.ksync import backends
from sccl.synth.settings import Settings, keeping
from sccl.topo.symmetry.groups import groups

_SIZE, _SYMMETRIC_SIZE = 20_000, 200_000  # chunks times links times steps
_FIRST_EFFORT, _EFFORT = 1.0, 2.0
"""Effort for solvers to find an algorithm of few chunks at a limit. If it is not enough, packings
are multiplied out.

It is effort and not seconds, one solver after the other and no race: the written files must not
depend on the load of the machine. Broadcast (19, 5, 5) on DGX-1 takes CP-SAT 6.6 and CaDiCaL less
than 1. The other limits of the README that are attained by few chunks take CP-SAT up to 0.4.
"""
_SYMMETRIC_EFFORT = 0.7
"""Effort under symmetry: successful searches take 0.15; beyond 0.8 workers continue by a unit
each.
"""


@contextmanager
def queries(topology: Topology, spec: Spec, settings: Settings) -> Iterator[tuple[Solve, Expect]]:
    """Answer queries about a collective, and hear of those to come, as long as the context lasts.

    Raises:
        InputError: the settings do not fit the collective and the topology.
    """
    how = _how(topology, spec, settings, settings.effort)
    with (
        keeping(settings.store, no_store=settings.no_store) as store,
        answering(
            how,
            settings.jobs,
            settings.cluster,
            store,
            backends.refute_by_bounds,
            settings.trusted,
        ) as found,
    ):
        yield found


def few_chunks(topology: Topology, spec: Spec, settings: Settings) -> Solve:
    """Return a function that searches algorithms of few chunks at a limit, with little effort.

    Raises:
        InputError: the settings do not fit the collective and the topology.
    """
    little = Effort(None, settings.effort.seed, settings.units(_EFFORT))
    return partial(_few_chunks, _how(topology, spec, settings, little))


def _how(topology: Topology, spec: Spec, settings: Settings, effort: Effort) -> How:
    symmetry = settled_symmetry(topology, spec, settings.symmetry)
    return How(backends.solve, backends.check_name(settings.solver), symmetry, effort)


def _few_chunks(how: How, instance: Instance) -> Answer:
    """Ask the solver. If it is the default one, then another, which is good at other instances.

    Instances that are too large for that are asked for under symmetry alone.
    """
    size = instance.collective.num_chunks * len(instance.topology.links) * instance.steps
    units = how.effort.units or _EFFORT
    if size > _SIZE:
        chosen = groups(instance.topology, instance.collective, how.symmetry)
        if size > _SYMMETRIC_SIZE or not chosen:
            return Unknown("too large to ask for", how.solver, 0.0)
        little = replace(how.effort, units=min(_SYMMETRIC_EFFORT, units))
        return backends.solve_symmetric(instance, chosen, little)
    if how.solver != backends.DEFAULT:
        return answer(how, instance)
    little = replace(how.effort, units=min(_FIRST_EFFORT, units))
    found = answer(replace(how, effort=little), instance)
    if isinstance(found, Unknown):
        return answer(replace(how, solver="cadical", symmetry="none"), instance)
    return found
