"""Compute bounds, single instances (solve), and frontiers (pareto, limits)."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_arguments, describe_arguments
from sccl.api.frontier import Frontier, LimitFrontier
from sccl.api.inputs import (
    CollectiveLike,
    Machine,
    Root,
    core_collective,
    core_topology,
    note_changes,
)
from sccl.api.progress import Progress, progress_lines, progress_notes
from sccl.core.answer import Sat, Unsat, verdict
from sccl.core.instance import SweepRange
from sccl.synth.allreduce.limit_search import find_limits
from sccl.synth.allreduce.pareto_search import find_frontier
from sccl.synth.common.problem import CollectiveProblem, build_problem
from sccl.synth.common.settings import DEFAULT_TIMEOUT_S
from sccl.synth.syncoll import solve as syncoll_solve
from sccl.synth.syncoll.question_search import find_algorithm
from sccl.synth.syncoll.search_options import (
    SearchOptions,
    StoreOptions,
    WorkerOptions,
    build_settings,
)
from sccl.transform import build_question
from sccl.view.completeness import BoundSummary
from sccl.view.text.markup import heading, paragraph
from sccl.view.text.problem_bounds import compute_bounds
from sccl.view.text.progress_notes import limit_note
from sccl.view.text.reasons import answer_reason

_STORE_HELP = "Whether verdicts are stored in the user's cache folder, or a file for them."

Store = bool | str | PathLike[str]
"""Location of the verdict store: the user's cache folder (True), none (False), or a file."""


@check_arguments
@describe_arguments()
def bounds(
    collective: CollectiveLike, topology: Machine, *, root: Root | None = None
) -> BoundSummary:
    """Return lower bounds: ``steps``, ``bandwidth`` (R/C), and ``reasons``.

    Raises:
        InputError: The collective does not fit the machine, or some rank cannot be reached.

    Examples:
        >>> import sccl
        >>> bounds = sccl.bounds("allgather", "dgx1")
        >>> bounds.steps, bounds.bandwidth
        (2, Fraction(7, 6))
        >>> print(bounds.reasons[1])
        R/C ≥ 7/6: with C=1, 7 chunks must enter ranks {0}, at most 6 per round.
    """
    subject = note_changes(_steps_problem(collective, topology, root))
    return compute_bounds(subject.topology, subject.spec)


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The answer to :func:`solve`.

    Attributes:
        verdict: ``"sat"``, ``"unsat"``, or ``"unknown"``. Unknown proves nothing.
        algorithm: Verified algorithm for ``"sat"``. None otherwise.
        reason: Reason of the verdict, as a sentence.
        seconds: Seconds that the answer took.
        origin: Origin of an ``"unsat"``: ``"here"``, ``"stored"`` (the user's store), or, if
            trusted, ``"store-file"`` and similar. Otherwise empty.

    Examples:
        >>> import sccl
        >>> answer = sccl.solve("allgather", "ring:4", chunks=2, steps=2, rounds=2)
        >>> answer.verdict, answer.algorithm
        ('unsat', None)
    """

    verdict: str
    algorithm: Algorithm | None
    reason: str
    seconds: float
    origin: str = ""

    def __repr__(self) -> str:
        return f"Answer({self.verdict}: {self.reason})"

    def _repr_html_(self) -> str:
        body = self.algorithm._repr_html_() if self.algorithm else ""
        return heading(self.verdict) + paragraph(self.reason) + body


@check_arguments
@describe_arguments(
    SearchOptions,
    StoreOptions,
    store=_STORE_HELP,
    chunks="C, the number of chunks of each rank.",
    steps="S, the number of steps.",
    rounds="R, the sum of the rounds of all steps.",
    timeout_s='Seconds after which the answer is ``"unknown"``. None: no limit.',
)
def solve(  # noqa: PLR0913 - the problem and the settings
    collective: CollectiveLike,
    topology: Machine,
    *,
    chunks: int,
    steps: int,
    rounds: int,
    root: Root | None = None,
    solver: str = syncoll_solve.DEFAULT_SOLVER,
    timeout_s: float | None = None,
    seed: int = 0,
    symmetry: str = "auto",
    store: Store = True,
    trust_store: bool = False,
) -> Answer:
    """Return whether an algorithm with C chunks, S steps, and R rounds exists.

    Raises:
        InputError: The numbers, the collective, or the settings do not fit the machine.

    Examples:
        >>> import sccl
        >>> sccl.solve("allgather", "ring:4", chunks=2, steps=2, rounds=3).verdict
        'sat'
        >>> sccl.solve("allgather", "ring:4", chunks=2, steps=2, rounds=2).verdict
        'unsat'
    """
    subject = note_changes(_steps_problem(collective, topology, root))
    problem = build_question(subject.topology, subject.spec, chunks, steps, rounds)
    search = SearchOptions(solver=solver, seed=seed, symmetry=symmetry)
    settings = build_settings(search, timeout_s, _store_options(store, trusted=trust_store))
    answer = find_algorithm(subject.spec, problem, settings)
    algorithm = Algorithm(answer.algorithm) if isinstance(answer, Sat) else None
    origin = answer.origin.value if isinstance(answer, Unsat) else ""
    return Answer(verdict(answer), algorithm, answer_reason(answer), answer.seconds, origin)


@check_arguments
@describe_arguments(
    SweepRange,
    SearchOptions,
    StoreOptions,
    WorkerOptions,
    store=_STORE_HELP,
    timeout_s="Seconds per query, after which a candidate stays open.",
)
def pareto(  # noqa: PLR0913 - the problem and the settings
    collective: CollectiveLike,
    topology: Machine,
    *,
    root: Root | None = None,
    k: int | None = None,
    max_steps: int | None = None,
    max_chunks: int | None = None,
    solver: str = syncoll_solve.DEFAULT_SOLVER,
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
    seed: int = 0,
    symmetry: str = "auto",
    jobs: int = 1,
    cluster: str | None = None,
    store: Store = True,
    trust_store: bool = False,
    trust_cluster: bool = False,
    progress: Progress = True,
) -> Frontier:
    """Return the Pareto frontier between latency (S) and bandwidth (R/C).

    Ctrl-C, or interrupting the kernel, returns the part that is known by then.

    Raises:
        InputError: The collective or a setting does not fit the machine.

    Examples:
        >>> import sccl
        >>> [(p.chunks, p.steps, p.rounds) for p in sccl.pareto("allgather", "dgx1").points]
        [(2, 2, 3), (6, 3, 7)]
    """
    subject = note_changes(_steps_problem(collective, topology, root))
    settings = build_settings(
        SearchOptions(solver=solver, seed=seed, symmetry=symmetry),
        timeout_s,
        _store_options(store, trusted=trust_store),
        WorkerOptions(jobs=jobs, cluster=cluster, trust_cluster=trust_cluster),
    )
    covered = SweepRange(k, max_steps, max_chunks)
    with progress_notes(progress) as notify:
        machine, spec = subject.topology, subject.spec
        return Frontier(find_frontier(machine, spec, covered, settings, notify=notify), subject)


@check_arguments
@describe_arguments(
    SweepRange,
    SearchOptions,
    timeout_s="Seconds for each S. None: a fixed budget, which does not depend on the load.",
)
def limits(  # noqa: PLR0913 - the problem and the settings
    collective: CollectiveLike,
    topology: Machine,
    *,
    root: Root | None = None,
    max_steps: int | None = None,
    solver: str = syncoll_solve.DEFAULT_SOLVER,
    timeout_s: float | None = None,
    seed: int = 0,
    progress: Progress = True,
) -> LimitFrontier:
    """Return the infimum of R/C over all k and C for every S, with algorithms that attain it.

    Raises:
        InputError: The collective does not fit the machine, or some rank cannot be reached.

    Examples:
        >>> import sccl
        >>> [str(p.bandwidth_cost) for p in sccl.limits("broadcast", "dgx1", max_steps=3).points]
        ['1', '9/22']
    """
    subject = note_changes(_steps_problem(collective, topology, root))
    machine, spec = subject.topology, subject.spec
    settings = build_settings(SearchOptions(solver=solver, seed=seed), timeout_s)
    with progress_lines(progress, f"limits of {spec.name} on {machine.name}") as print_line:
        frontier = find_limits(
            machine, spec, max_steps, settings, notify=lambda event: print_line(limit_note(event))
        )
    return LimitFrontier(frontier, subject)


def _steps_problem(
    collective: CollectiveLike, topology: Machine, root: Root | None
) -> CollectiveProblem:
    problem = build_problem(core_topology(topology), core_collective(collective), root)
    return problem.require_steps()


def _store_options(store: Store, *, trusted: bool) -> StoreOptions:
    file = None if isinstance(store, bool) else Path(store)
    return StoreOptions(store=file, no_store=store is False, trust_store=trusted)
