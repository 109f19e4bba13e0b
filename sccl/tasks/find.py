"""Finding: an algorithm, a frontier, or the limits, with settings as users say them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from sccl.collectives import Spec
from sccl.core.answer import Answer, Unknown
from sccl.core.candidate import Range
from sccl.core.instance import Instance
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.prove.bounds import lower_bounds, require_reachable
from sccl.solvers.effort import UNIT_S, Effort
from sccl.synth.ahead import Expect
from sccl.synth.allreduce.every_class import (
    AllreduceFrontier,
    has_classes,
    limit_allreduce,
    sweep_allreduce,
)
from sccl.synth.answering import How, answer, answering, settled_symmetry
from sccl.synth.ask import Solve, ask
from sccl.synth.folder import Folder
from sccl.synth.frontier import Frontier
from sccl.synth.ksync import backends
from sccl.synth.ksync.sweep import LIMIT_EFFORT, Event, sweep
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint, limit_frontier
from sccl.synth.settings import Settings, keeping
from sccl.topo.symmetry.groups import groups
from sccl.transform import Question

_ATTAIN_SIZE, _SYMMETRIC_SIZE = 20_000, 200_000  # chunks times links times steps
_FIRST_EFFORT, _ATTAIN_EFFORT = 1.0, 2.0
"""For solvers to find an algorithm of few chunks at a limit; else packings are multiplied out.

Effort and not seconds, one solver after the other and no race: what is written must not depend on
how busy the machine is. Broadcast (19, 5, 5) on DGX-1 takes CP-SAT 6.6 and CaDiCaL less than 1; the
other limits of the README that are attained by few chunks take CP-SAT up to 0.4.
"""
_SYMMETRIC_EFFORT = 0.7
"""What is found under symmetry takes 0.15; beyond 0.8 the workers go on by a unit each."""


def _units(settings: Settings, most: float) -> float:
    """Return what may be spent on a part of a question, in units of effort."""
    return min(most, (settings.effort.timeout_s or math.inf) / UNIT_S)


def _how(topology: Topology, spec: Spec, settings: Settings, effort: Effort) -> How:
    symmetry = settled_symmetry(topology, spec, settings.symmetry)
    return How(backends.solve, backends.check_name(settings.solver), symmetry, effort)


@contextmanager
def _asked(topology: Topology, spec: Spec, settings: Settings) -> Iterator[tuple[Solve, Expect]]:
    how = _how(topology, spec, settings, settings.effort)
    with (
        keeping(settings.store, no_store=settings.no_store) as store,
        answering(how, settings.jobs, settings.cluster, store) as found,
    ):
        yield found


def _few_chunks(topology: Topology, spec: Spec, settings: Settings) -> Solve:
    """Return what looks for algorithms at a limit, with little effort."""
    quick = Effort(None, settings.effort.seed, _units(settings, _ATTAIN_EFFORT))
    return partial(_attain, _how(topology, spec, settings, quick))


def find_algorithm(spec: Spec, question: Question, settings: Settings) -> Answer:
    """Return whether a question has an algorithm.

    Raises:
        InputError: some rank cannot be reached, or the settings do not fit the question.
    """
    require_reachable(question.instances)
    chunks, symmetry = question.collective.chunks, settings.symmetry
    with _asked(question.topology, spec, settings) as (solve, _):
        for instance in question.instances if symmetry.endswith(".json") else ():
            if not groups(instance.topology, instance.collective, symmetry):
                raise ParameterError(
                    f"{symmetry} turns chunks with a period that does not divide those of a class "
                    f"at C={chunks}: give a multiple of the period as the number of chunks"
                )
        return ask(question, solve)


def find_frontier(  # noqa: PLR0913 - a question, how to answer it, and where results go
    topology: Topology,
    spec: Spec,
    covered: Range,
    settings: Settings,
    *,
    folder: Folder | None = None,
    notify: Callable[[Event], None] = lambda _: None,
) -> Frontier | AllreduceFrontier:
    """Return the frontier of a collective on a topology, as far as it was found.

    That of allreduce is over several classes of algorithms.

    Args:
        covered: k, last S, largest C.
        folder: where to keep the algorithms; None: nowhere.
        notify: called with every event, for progress.

    Raises:
        InputError: the settings or the collective do not fit the topology.
    """
    with _asked(topology, spec, settings) as (solve, expect):
        return (sweep_allreduce if has_classes(spec) else sweep)(
            topology,
            spec,
            solve,
            solver=settings.solver,
            covered=covered,
            expect=expect,
            folder=folder,
            limit_effort=_units(settings, LIMIT_EFFORT),
            notify=notify,
        )


def find_limits(  # noqa: PLR0913 - a question, how to answer it, and where results go
    topology: Topology,
    spec: Spec,
    max_steps: int | None,
    settings: Settings,
    *,
    folder: Folder | None = None,
    notify: Callable[[StepLimit | LimitPoint], None] = lambda _: None,
) -> LimitFrontier | AllreduceFrontier:
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
    given: dict[str, Any] = {
        "max_steps": max_steps, "seconds": seconds, "folder": folder, "notify": notify
    }  # fmt: skip
    if has_classes(spec):
        return limit_allreduce(topology, spec, solve, **given)
    return limit_frontier(topology, spec, solve, **given)


def require_certifiable(topology: Topology, spec: Spec, max_steps: int | None) -> None:
    """Check that a sweep will find something to certify, before any work is done.

    Raises:
        ParameterError: of allreduce compositions are certified, and they take more steps than are
            asked for.
    """
    if not has_classes(spec) or max_steps is None:
        return
    least = lower_bounds(topology, spec).steps
    if max_steps < least:
        raise ParameterError(
            f"max-steps is {max_steps}, but what is certified of {spec.name} are compositions of a "
            f"reducescatter and an allgather, which take at least {least} steps here: give at "
            "least that many, or leave --certify out"
        )


def equal_halves(found: AllreduceFrontier, settings: Settings) -> Frontier:
    """Return the sweep of the compositions of equal halves: what a certificate is about.

    Raises:
        InputError: compositions take more steps than were asked for.
    """
    covered = found.covered or Range()
    with _asked(found.topology, found.spec, settings) as (solve, _):
        return sweep(
            found.topology, found.spec, solve, solver=settings.solver, covered=covered,
            limit_effort=_units(settings, LIMIT_EFFORT),
        )  # fmt: skip


def limits_of_equal_halves(
    found: AllreduceFrontier, max_steps: int | None, settings: Settings
) -> LimitFrontier:
    """Return the limits of the compositions of equal halves: what a certificate is about.

    Raises:
        InputError: compositions take more steps than were asked for.
    """
    return limit_frontier(
        found.topology,
        found.spec,
        _few_chunks(found.topology, found.spec, settings),
        max_steps=max_steps,
        seconds=settings.effort.timeout_s or math.inf,
    )


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
