"""Select the contenders of a comparison: synthesizers and classical algorithms, all or by name."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sccl.collectives import named
from sccl.core.algorithm import Algorithm, KSynchronous
from sccl.core.candidate import Range
from sccl.core.events import Asking, Limiting
from sccl.core.frontier import Frontier
from sccl.core.schedule import Schedule
from sccl.errors import InputError, ParameterError, TooLargeError, unknown_name
from sccl.solvers.effort import Effort
from sccl.synth import baselines, registry
from sccl.synth.contract import check_request
from sccl.synth.ksync import backends
from sccl.synth.settings import Settings
from sccl.tasks.baseline import known
from sccl.tasks.entrants import (
    ClassicalEntrant,
    Contest,
    Entrant,
    GatheredEntrant,
    ScheduleEntrant,
    SteppedEntrant,
    SynthesisedEntrant,
    costs_of,
)
from sccl.tasks.files import LoadedPlan, load_plans
from sccl.tasks.limits import find_limits
from sccl.tasks.pareto import find_frontier
from sccl.tasks.simulate import source_of
from sccl.topo.symmetry.expand import expand

GivenPlan = Algorithm | Schedule
"""The plan in a file, with all its sends."""

UNITS = 3.0
"""Budget of each query of a sweep. The result does not depend on the load."""

MOST_LIMIT_RANKS = 10
"""Whose limits are looked for where no timeout is given."""

LIMITS = 4
"""Numbers of steps whose limits are looked for: three more than the fewest."""


GATHERED = "gathered"
"""Allreduce by gathering all buffers everywhere, as the smallest are done best."""


def known_names() -> tuple[str, ...]:
    """Return the names of all who may take part, synthesisers first."""
    return (*registry.names(), GATHERED, *baselines.names())


def chosen(only: Iterable[str], without: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the contenders.

    Args:
        only: Names to include. Empty: all.
        without: Names to exclude.

    Raises:
        UnknownNameError: A name is unknown.
        ParameterError: No contender remains.
    """
    every, wanted, unwanted = known_names(), set(only), set(without)
    for name in sorted(wanted | unwanted):
        if name not in every:
            raise unknown_name("system", name, every, f"there are {', '.join(every)}")
    found = tuple(n for n in every if n not in unwanted and (n in wanted or not wanted))
    if not found:
        raise ParameterError(
            "nobody is left to be compared: --only and --without name the same; name others"
        )
    return found


def entrants_of(
    contest: Contest,
    names: Iterable[str],
    files: Mapping[str, GivenPlan],
    told: Callable[[str], None],
) -> list[Entrant]:
    """Return the contenders in this order, with files last.

    Args:
        told: Function that receives progress.
    """
    synthesisers, found = registry.names(), list[Entrant]()
    for name in names:
        if name in synthesisers:
            found.append(_synthesiser(contest, name, told))
        else:
            found.append(_gathered(contest) if name == GATHERED else _baseline(contest, name))
    return [*found, *(_file(contest, name, plan) for name, plan in files.items())]


def _synthesiser(contest: Contest, name: str, told: Callable[[str], None]) -> Entrant:
    synthesizer = registry.load(name)
    about = synthesizer.SOURCE
    finders: dict[str, Callable[[Contest], Sequence[Algorithm]]] = {
        "ksync": partial(swept, told=told),
        "limit": limiting,
    }
    if name not in finders:
        return SynthesisedEntrant(contest, name, "synthesiser", about, synthesizer)

    def find() -> Sequence[Algorithm]:
        """Return algorithms that are computed once for all sizes."""
        check_request(synthesizer, contest.at(1))
        return finders[name](contest)

    return SteppedEntrant(contest, name, "synthesiser", about, find)


def _gathered(contest: Contest) -> Entrant:
    """Return who gathers all buffers, by the synthesiser that serves every machine."""
    there = replace(contest, spec=named("allgather", contest.topology.ranks))
    synthesizer = registry.load("tacos")
    gather = SynthesisedEntrant(there, "tacos", "synthesiser", synthesizer.SOURCE, synthesizer)
    about = "tacos gathers all buffers everywhere, and every rank adds them up"
    return GatheredEntrant(contest, GATHERED, "synthesiser", about, gather)


def _baseline(contest: Contest, name: str) -> Entrant:
    return ClassicalEntrant(contest, name, "baseline", known((name,))[0].about)


def _file(contest: Contest, name: str, plan: GivenPlan) -> Entrant:
    if isinstance(plan, Schedule):
        about = f"a schedule, alpha {plan.model}"
        return ScheduleEntrant(contest, name, "file", about, plan)
    return SteppedEntrant(contest, name, "file", costs_of(plan), lambda: (plan,))


def files_for(contest: Contest, files: Sequence[Path]) -> dict[str, GivenPlan]:
    """Return the plans of files by their names, judged.

    Raises:
        InputError: a file holds no plan, one for another machine, collective or alpha, or one that
            the judge rejects.
    """
    if not files:
        return {}
    loaded = load_plans(files)
    for one in loaded:
        _check_file(one, contest)
    found: dict[str, GivenPlan] = {}
    for one in loaded:
        plan = source_of(str(one.file), one.plan).plan
        assert isinstance(plan, Algorithm | Schedule)
        found[str(one.file)] = plan
    return found


def _check_file(one: LoadedPlan, contest: Contest) -> None:
    plan, spec = one.plan, contest.spec
    c = plan.collective
    if plan.topology != contest.topology:
        raise InputError(
            f"{one.file}: it is for machine {plan.topology.name!r} as it was when it was written, "
            f"and {contest.topology.name!r} is compared: give a file that is for the same links"
        )
    if c.name != spec.name or c.chunks % spec.unit or c != spec.at(c.chunks):
        root = "" if c.root is None else f" (root {c.root})"
        raise InputError(
            f"{one.file}: it is of {c.name}{root}, and {spec.name}"
            f"{'' if spec.root is None else f' (root {spec.root})'} is compared: give another file"
        )
    if not isinstance(plan, KSynchronous) and plan.model is not contest.model:
        raise InputError(
            f"{one.file}: its times are for links where alpha {plan.model}, and alpha "
            f"{contest.model} is compared: give --alpha {plan.model}, or another file"
        )


def swept(contest: Contest, told: Callable[[str], None]) -> list[Algorithm]:
    """Return the algorithms of a sweep over k, as far as it comes in the time it has.

    Raises:
        InputError: the machine or the collective is none that is swept.
        KeyboardInterrupt: the user interrupted.
    """
    began, late = time.perf_counter(), False
    seconds = math.inf if contest.timeout_s is None else contest.timeout_s

    def notify(event: object) -> None:
        """End the sweep as a user would, where its time has run out."""
        nonlocal late
        if isinstance(event, Asking | Limiting):
            steps = event.candidate.steps if isinstance(event, Asking) else event.steps
            told(f"ksync: algorithms of {steps} steps")
            if time.perf_counter() - began > seconds:
                late = True
                raise KeyboardInterrupt

    settings = _settings(contest, contest.timeout_s)
    covered = Range(None, None, None)
    found = find_frontier(contest.topology, contest.spec, covered, settings, notify=notify)
    if found.stopped == "interrupted" and not late:
        raise KeyboardInterrupt
    return algorithms_of(found)


def limiting(contest: Contest) -> list[Algorithm]:
    """Return the algorithms at the limits of R/C, as far as they come in the time there is.

    Raises:
        InputError: the machine or the collective is none that has limits, or is too large.
        KeyboardInterrupt: the user interrupted.
    """
    if contest.timeout_s is None and contest.topology.ranks > MOST_LIMIT_RANKS:
        raise TooLargeError(
            f"limits of more than {MOST_LIMIT_RANKS} ranks take minutes, and there are "
            f"{contest.topology.ranks}: give --timeout to have them looked for"
        )
    each = None if contest.timeout_s is None else contest.timeout_s / LIMITS
    found = find_limits(contest.topology, contest.spec, None, _settings(contest, each))
    if found.stopped == "interrupted":
        raise KeyboardInterrupt
    return algorithms_of(found)


def _settings(contest: Contest, timeout_s: float | None) -> Settings:
    effort = Effort(timeout_s, contest.seed, UNITS)
    return Settings(backends.DEFAULT, effort, no_store=True)


def algorithms_of(frontier: Frontier) -> list[Algorithm]:
    """Return the algorithms of all families of a frontier for its own collective.

    The gathered family of an allreduce is excluded, because its plan is an allgather.
    """
    points = [point for part in frontier.classes for point in part.points]
    found = [point.algorithm for point in points if point.algorithm is not None]
    return [expand(a) for a in found if a.collective.name == frontier.collective]
