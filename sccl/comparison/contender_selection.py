"""Select the contenders of a comparison: synthesizers and classical algorithms, all or by name."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sccl.collectives import named_spec
from sccl.comparison.contenders import (
    AlgorithmContender,
    ClassicalContender,
    ComparisonProblem,
    Contender,
    GatherContender,
    ScheduleContender,
    SynthesizerContender,
    cost_text,
)
from sccl.comparison.plan_simulation import build_source
from sccl.core.algorithm import Algorithm, KSynchronousPlan
from sccl.core.frontier import Frontier
from sccl.core.instance import SweepRange
from sccl.core.schedule import Schedule
from sccl.errors import InputError, ParameterError, TooLargeError, unknown_name
from sccl.formats.files.plans import LoadedPlan, load_plans
from sccl.solvers.effort import Effort
from sccl.synth import baselines
from sccl.synth.allreduce.limit_search import find_limits
from sccl.synth.allreduce.pareto_search import find_frontier
from sccl.synth.baselines.pattern.placement import describe_baselines
from sccl.synth.common import registry
from sccl.synth.common.contract import check_request
from sccl.synth.common.settings import Settings
from sccl.synth.common.sweep_events import LimitStarted, QueryStarted
from sccl.synth.syncoll import solve
from sccl.topo.symmetry.expansion import expand_algorithm

FilePlan = Algorithm | Schedule
"""The plan in a file, with all its sends."""

EFFORT_UNITS = 3.0
"""Budget of each query of a sweep, in units that do not depend on the load."""

MAX_LIMIT_RANKS = 10
"""Maximum number of ranks for which limits of R/C are computed without a timeout."""

LIMITS_PER_TIMEOUT = 4
"""Number of limits of R/C among which a timeout is divided: S from the fewest to three more."""


GATHERED = "gathered"
"""Contender: allreduce by an allgather of whole buffers, which suits small buffers best."""


def contender_names() -> tuple[str, ...]:
    """Return the names of all contenders, synthesizers first."""
    return (*registry.names(), GATHERED, *baselines.names())


def select_names(only: Iterable[str], without: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the contenders.

    Args:
        only: Names to include. Empty: all.
        without: Names to exclude.

    Raises:
        UnknownNameError: A name is unknown.
        ParameterError: No contender remains.
    """
    all_names, included, excluded = contender_names(), set(only), set(without)
    for name in sorted(included | excluded):
        if name not in all_names:
            raise unknown_name("method", name, all_names, f"there are {', '.join(all_names)}")
    names = tuple(n for n in all_names if n not in excluded and (n in included or not included))
    if not names:
        raise ParameterError(
            "no method is left: --only and --without name the same ones; name others"
        )
    return names


def build_contenders(
    problem: ComparisonProblem,
    names: Iterable[str],
    files: Mapping[str, FilePlan],
    on_progress: Callable[[str], None],
) -> list[Contender]:
    """Return the contenders in the order of ``names``, then those of files.

    Args:
        problem: Problem of the comparison.
        names: Names of synthesizers and classical algorithms.
        files: Plan of each file.
        on_progress: Progress callback: description of the current search.
    """
    synthesizers, contenders = registry.names(), list[Contender]()
    for name in names:
        if name in synthesizers:
            contenders.append(_synthesizer_contender(problem, name, on_progress))
        else:
            contenders.append(
                _gather_contender(problem)
                if name == GATHERED
                else _classical_contender(problem, name)
            )
    return [*contenders, *(_file_contender(problem, name, plan) for name, plan in files.items())]


def _synthesizer_contender(
    problem: ComparisonProblem, name: str, on_progress: Callable[[str], None]
) -> Contender:
    synthesizer = registry.load(name)
    about = synthesizer.SOURCE
    finders: dict[str, Callable[[ComparisonProblem], Sequence[Algorithm]]] = {
        "pareto": partial(sweep_algorithms, on_progress=on_progress),
        "limits": limit_algorithms,
    }
    if name not in finders:
        return SynthesizerContender(problem, name, "synthesiser", about, synthesizer)

    def find() -> Sequence[Algorithm]:
        """Return algorithms that serve all sizes."""
        check_request(synthesizer, problem.request_for(1))
        return finders[name](problem)

    return AlgorithmContender(problem, name, "synthesiser", about, find)


def _gather_contender(problem: ComparisonProblem) -> Contender:
    """Return the contender that gathers all buffers, by TACOS, which supports every machine."""
    gather_problem = replace(problem, spec=named_spec("allgather", problem.topology.ranks))
    synthesizer = registry.load("tacos")
    gather = SynthesizerContender(
        gather_problem, "tacos", "synthesiser", synthesizer.SOURCE, synthesizer
    )
    about = "tacos gathers all buffers everywhere, and every rank adds them up"
    return GatherContender(problem, GATHERED, "synthesiser", about, gather)


def _classical_contender(problem: ComparisonProblem, name: str) -> Contender:
    return ClassicalContender(problem, name, "baseline", describe_baselines((name,))[0].about)


def _file_contender(problem: ComparisonProblem, name: str, plan: FilePlan) -> Contender:
    if isinstance(plan, Schedule):
        about = f"a schedule, alpha {plan.model}"
        return ScheduleContender(problem, name, "file", about, plan)
    return AlgorithmContender(problem, name, "file", cost_text(plan), lambda: (plan,))


def load_file_plans(problem: ComparisonProblem, files: Sequence[Path]) -> dict[str, FilePlan]:
    """Return the verified plans of files, by file name.

    Raises:
        InputError: A file contains no plan, a plan for another machine, collective or alpha model,
            or a plan that fails verification.
    """
    if not files:
        return {}
    loaded = load_plans(files)
    for item in loaded:
        _check_file(item, problem)
    plans: dict[str, FilePlan] = {}
    for item in loaded:
        plan = build_source(str(item.file), item.plan).plan
        assert isinstance(plan, Algorithm | Schedule)
        plans[str(item.file)] = plan
    return plans


def _check_file(item: LoadedPlan, problem: ComparisonProblem) -> None:
    plan, spec = item.plan, problem.spec
    c = plan.collective
    if plan.topology != problem.topology:
        raise InputError(
            f"{item.file}: its machine {plan.topology.name!r} differs from the compared machine "
            f"{problem.topology.name!r}: give a file for the same links"
        )
    if c.name != spec.name or c.chunks % spec.unit or c != spec.at(c.chunks):
        root = "" if c.root is None else f" (root {c.root})"
        raise InputError(
            f"{item.file}: its collective is {c.name}{root}, expected {spec.name}"
            f"{'' if spec.root is None else f' (root {spec.root})'}: give another file"
        )
    if not isinstance(plan, KSynchronousPlan) and plan.model is not problem.model:
        raise InputError(
            f"{item.file}: its times assume that alpha {plan.model}, and the comparison that alpha "
            f"{problem.model}: give --alpha {plan.model}, or another file"
        )


def sweep_algorithms(
    problem: ComparisonProblem, on_progress: Callable[[str], None]
) -> list[Algorithm]:
    """Return the algorithms that a sweep over k finds within the time limit.

    Raises:
        InputError: The sweep does not support the machine or the collective.
        KeyboardInterrupt: The user interrupted.
    """
    began, has_timed_out = time.perf_counter(), False
    seconds = math.inf if problem.timeout_s is None else problem.timeout_s

    def notify(event: object) -> None:
        """Report progress, and interrupt the sweep after its time limit."""
        nonlocal has_timed_out
        if isinstance(event, QueryStarted | LimitStarted):
            steps = event.candidate.steps if isinstance(event, QueryStarted) else event.steps
            on_progress(f"pareto: algorithms with {steps} steps")
            if time.perf_counter() - began > seconds:
                has_timed_out = True
                raise KeyboardInterrupt

    settings = _settings(problem, problem.timeout_s)
    covered = SweepRange(None, None, None)
    frontier = find_frontier(problem.topology, problem.spec, covered, settings, notify=notify)
    if frontier.is_interrupted and not has_timed_out:
        raise KeyboardInterrupt
    return frontier_algorithms(frontier)


def limit_algorithms(problem: ComparisonProblem) -> list[Algorithm]:
    """Return the algorithms at the limits of R/C that are found within the time limit.

    Raises:
        InputError: The machine or the collective is not supported, or the machine is too large.
        KeyboardInterrupt: The user interrupted.
    """
    if problem.timeout_s is None and problem.topology.ranks > MAX_LIMIT_RANKS:
        raise TooLargeError(
            f"limits of more than {MAX_LIMIT_RANKS} ranks take minutes, and there are "
            f"{problem.topology.ranks}: give --timeout to search for them"
        )
    seconds_per_limit = (
        None if problem.timeout_s is None else problem.timeout_s / LIMITS_PER_TIMEOUT
    )
    settings = _settings(problem, seconds_per_limit)
    frontier = find_limits(problem.topology, problem.spec, None, settings, few_chunks=False)
    if frontier.is_interrupted:
        raise KeyboardInterrupt
    return frontier_algorithms(frontier)


def _settings(problem: ComparisonProblem, timeout_s: float | None) -> Settings:
    effort = Effort(timeout_s, problem.seed, EFFORT_UNITS)
    return Settings(solve.DEFAULT_SOLVER, effort, no_store=True)


def frontier_algorithms(frontier: Frontier) -> list[Algorithm]:
    """Return the algorithms of all families of a frontier for its own collective.

    The gathered family of an allreduce is excluded, because its plan is an allgather.
    """
    points = [point for part in frontier.classes for point in part.points]
    algorithms = [point.algorithm for point in points if point.algorithm is not None]
    return [expand_algorithm(a) for a in algorithms if a.collective.name == frontier.collective]
