"""Limits: the frontier of a collective on a machine over all k and all C."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from sccl.collectives import Spec
from sccl.core.answer import Answer, Unknown
from sccl.core.frontier import Frontier
from sccl.core.instance import Instance
from sccl.core.topology import Topology
from sccl.solvers.effort import Effort
from sccl.synth.allreduce.classes import has_classes
from sccl.synth.allreduce.limits import limit_allreduce
from sccl.synth.answering import How, answer
from sccl.synth.ask import Solve
from sccl.synth.folder import Folder
from sccl.synth.ksync import backends
from sccl.synth.limit.sweep import NotifyLimit, limit_frontier
from sccl.synth.limit.trees import tree_frontier
from sccl.synth.settings import Settings
from sccl.tasks.asking import how_of, units_of
from sccl.topo.symmetry.groups import groups

_ATTAIN_SIZE, _SYMMETRIC_SIZE = 20_000, 200_000  # chunks times links times steps
_FIRST_EFFORT, _ATTAIN_EFFORT = 1.0, 2.0
"""For solvers to find an algorithm of few chunks at a limit; else packings are multiplied out.

Effort and not seconds, one solver after the other and no race: what is written must not depend on
how busy the machine is. Broadcast (19, 5, 5) on DGX-1 takes CP-SAT 6.6 and CaDiCaL less than 1; the
other limits of the README that are attained by few chunks take CP-SAT up to 0.4.
"""
_SYMMETRIC_EFFORT = 0.7
"""What is found under symmetry takes 0.15; beyond 0.8 the workers go on by a unit each."""


def find_limits(  # noqa: PLR0913 - a question, how to answer it, and where results go
    topology: Topology,
    spec: Spec,
    max_steps: int | None,
    settings: Settings,
    *,
    folder: Folder | None = None,
    notify: NotifyLimit = lambda _: None,
) -> Frontier:
    """Return the limit frontier of a collective on a topology, as far as it was found.

    Args:
        max_steps: last S; None: a few more than the latency bound.
        settings: the solver, and the time for each S; None: what effort allows, so that the same
            is found under any load.
        folder: where to keep the algorithms; None: nowhere.
        notify: called with every limit and every point, for progress.

    Raises:
        InputError: the collective does not fit the topology, or some rank cannot be reached.
    """
    seconds = settings.effort.timeout_s or math.inf
    solve = _few_chunks(topology, spec, settings)
    of = partial(limit_frontier, topology, solve=solve, seconds=seconds, notify=notify)
    if not has_classes(spec):
        return of(spec, max_steps=max_steps, folder=folder)
    trees = partial(tree_frontier, topology, seconds=seconds, folder=folder, notify=notify)
    return limit_allreduce(topology, spec, of, trees, max_steps=max_steps, folder=folder)


def limits_of_equal_halves(
    topology: Topology, spec: Spec, max_steps: int | None, settings: Settings
) -> Frontier:
    """Return the limits of the compositions of equal halves: what a certificate is about.

    Args:
        spec: allreduce.

    Raises:
        InputError: compositions take more steps than were asked for.
    """
    return limit_frontier(
        topology,
        spec,
        _few_chunks(topology, spec, settings),
        max_steps=max_steps,
        seconds=settings.effort.timeout_s or math.inf,
    )


def _few_chunks(topology: Topology, spec: Spec, settings: Settings) -> Solve:
    """Return what looks for algorithms at a limit, with little effort."""
    quick = Effort(None, settings.effort.seed, units_of(settings, _ATTAIN_EFFORT))
    return partial(_attain, how_of(topology, spec, settings, quick))


def _attain(how: How, instance: Instance) -> Answer:
    """Ask the solver; if it is the default one, then another, which is good at other instances.

    Instances that are too large for that are asked for under symmetry alone.
    """
    size = instance.collective.num_chunks * len(instance.topology.links) * instance.steps
    units = how.effort.units or _ATTAIN_EFFORT
    if size > _ATTAIN_SIZE:
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
