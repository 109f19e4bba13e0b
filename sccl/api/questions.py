"""What one asks: names and numbers in, values that show themselves out."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import checked
from sccl.api.frontier import Frontier, LimitFrontier, SavedFrontier
from sccl.api.given import CollectiveLike, Machine, Root
from sccl.api.html import heading, paragraph
from sccl.api.machine import Topology
from sccl.api.progress import Progress, notes, told
from sccl.api.schedule import Schedule
from sccl.collectives import Spec
from sccl.core.answer import Sat, Unsat, verdict
from sccl.core.candidate import Range
from sccl.core.files.disk import read_text
from sccl.core.files.kinds import ALGORITHMS, FRONTIER, SCHEDULE, TOPOLOGY
from sccl.synth.cluster import Cluster
from sccl.synth.ksync import backends
from sccl.synth.settings import DEFAULT_TIMEOUT_S, Settings, checked_effort
from sccl.tasks.bounds import bounds_of
from sccl.tasks.files import kind_among
from sccl.tasks.frontiers import read_frontiers
from sccl.tasks.limits import find_limits
from sccl.tasks.pareto import find_frontier
from sccl.tasks.solve import find_algorithm
from sccl.tasks.subject import Subject, subject_of
from sccl.topo import resolve as resolve_topology
from sccl.transform import pose
from sccl.view.shown import Bounds
from sccl.view.text.notes import limit_note
from sccl.view.text.reasons import reason_of

Store = bool | str | PathLike[str]
"""Where verdicts are kept, to go on from: in the user's cache folder, nowhere, or in a file."""


@checked
def bounds(collective: CollectiveLike, topology: Machine, *, root: Root | None = None) -> Bounds:
    """Return what no algorithm can beat: ``steps``, ``bandwidth`` (R/C), and ``reasons``.

    Args:
        collective: a name, a file, or what :func:`collective` returns.
        topology: a name, a file, or a topology.
        root: of broadcast, reduce, gather and scatter, by number or label; None: rank 0.

    Raises:
        InputError: the collective does not fit the machine, or some rank cannot be reached.

    >>> import sccl
    >>> found = sccl.bounds("allgather", "dgx1")
    >>> found.steps, found.bandwidth
    (2, Fraction(7, 6))
    >>> print(found.reasons[1])
    R/C ≥ 7/6: with C=1, 7 chunks must enter ranks {0}, at most 6 can in a round.
    """
    subject = _subject(collective, topology, root)
    return bounds_of(subject.topology, subject.spec)


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """Whether there is an algorithm.

    Attributes:
        verdict: ``"sat"``, ``"unsat"``, or ``"unknown"``: a solver gave up, which proves nothing.
        algorithm: if there is one; the independent judge has accepted it.
        reason: why, in words.
        seconds: what it took.
        origin: where an ``"unsat"`` came from: ``"here"``, ``"stored"`` (the user's own store), or
            ``"store-file"`` and the like if that was trusted; else empty.
    """

    verdict: str
    algorithm: Algorithm | None
    reason: str
    seconds: float
    origin: str = ""

    def __repr__(self) -> str:
        return f"Answer({self.verdict}: {self.reason})"

    def _repr_html_(self) -> str:
        found = self.algorithm._repr_html_() if self.algorithm else ""
        return heading(self.verdict) + paragraph(self.reason) + found


@checked
def solve(  # noqa: PLR0913 - a question, and what decides how it is answered
    collective: CollectiveLike,
    topology: Machine,
    *,
    chunks: int,
    steps: int,
    rounds: int,
    root: Root | None = None,
    solver: str = backends.DEFAULT,
    timeout_s: float | None = None,
    seed: int = 0,
    symmetry: str = "auto",
    store: Store = True,
    trust_store: bool = False,
) -> Answer:
    """Return whether there is an algorithm of C chunks, S steps and R rounds.

    Args:
        collective: a name, a file, or what :func:`collective` returns.
        topology: a name, a file, or a topology.
        chunks: C, those of each rank.
        steps: S.
        rounds: R, of all steps together.
        root: of broadcast, reduce, gather and scatter, by number or label; None: rank 0.
        solver: ``"cpsat"`` (the default), ``"cadical"``, ``"z3"`` or ``"portfolio"``.
        seed: of the solver's random choices.
        timeout_s: seconds, after which the answer is unknown; None: no end.
        symmetry: ``"auto"``, ``"none"``, ``"translations"`` or a file with generators.
        store: whether verdicts are kept in the user's cache folder; or the file for them.
        trust_store: whether an unsat of a store file, or of another version, is accepted without
            verification.

    Raises:
        InputError: the numbers, the collective or the settings do not fit the machine.

    >>> import sccl
    >>> sccl.solve("allgather", "ring:4", chunks=2, steps=2, rounds=3).verdict
    'sat'
    >>> sccl.solve("allgather", "ring:4", chunks=2, steps=2, rounds=2).verdict
    'unsat'
    """
    subject = _subject(collective, topology, root)
    posed = pose(subject.topology, subject.spec, chunks, steps, rounds)
    settings = _settings(solver, timeout_s, seed, symmetry, store, trust_store=trust_store)
    answer = find_algorithm(subject.spec, posed, settings)
    found = Algorithm(answer.algorithm) if isinstance(answer, Sat) else None
    origin = answer.origin.value if isinstance(answer, Unsat) else ""
    return Answer(verdict(answer), found, reason_of(answer), answer.seconds, origin)


@checked
def pareto(  # noqa: PLR0913 - a question, and what decides how it is answered
    collective: CollectiveLike,
    topology: Machine,
    *,
    root: Root | None = None,
    k: int | None = None,
    max_steps: int | None = None,
    max_chunks: int | None = None,
    solver: str = backends.DEFAULT,
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
    """Return the Pareto frontier between latency (S) and bandwidth (R/C), as far as it is found.

    Ctrl-C, or interrupting the kernel, gives the part that was found by then.

    Args:
        collective: a name, a file, or what :func:`collective` returns.
        topology: a name, a file, or a topology.
        root: of broadcast, reduce, gather and scatter, by number or label; None: rank 0.
        k: R <= S + k is searched; None: 5, or what the bandwidth bound takes.
        max_steps: last S; None: 3 above the latency bound; of allreduce, 3 above that of each half.
        max_chunks: largest C; None: all that R and the bound allow. Of allreduce only compositions
            are looked at, if it is given.
        solver: ``"cpsat"`` (the default), ``"cadical"``, ``"z3"`` or ``"portfolio"``.
        seed: of the solver's random choices.
        timeout_s: seconds per query (60), after which a candidate is left open.
        symmetry: ``"auto"``, ``"none"``, ``"translations"`` or a file with generators.
        jobs: queries at a time, each in a process of its own.
        cluster: address of a Dask scheduler.
        store: whether verdicts are kept in the user's cache folder; or the file for them.
        trust_store: whether an unsat of a store file, or of another version, is accepted without
            verification.
        trust_cluster: whether an unsat of a cluster worker is accepted without verification.
        progress: whether to show what is going on; or a function that is told, line by line.

    Raises:
        InputError: the collective or a setting does not fit the machine.

    >>> import sccl
    >>> [(p.chunks, p.steps, p.rounds) for p in sccl.pareto("allgather", "dgx1").points]
    [(2, 2, 3), (6, 3, 7)]
    """
    subject = _subject(collective, topology, root)
    where = Cluster(cluster) if cluster else None
    settings = _settings(
        solver,
        timeout_s,
        seed,
        symmetry,
        store,
        jobs,
        where,
        trust_store=trust_store,
        trust_cluster=trust_cluster,
    )
    covered = Range(k, max_steps, max_chunks)
    with notes(progress) as notify:
        machine, spec = subject.topology, subject.spec
        return Frontier(find_frontier(machine, spec, covered, settings, notify=notify), subject)


@checked
def limits(  # noqa: PLR0913 - a question, and what decides how it is answered
    collective: CollectiveLike,
    topology: Machine,
    *,
    root: Root | None = None,
    max_steps: int | None = None,
    solver: str = backends.DEFAULT,
    timeout_s: float | None = None,
    seed: int = 0,
    progress: Progress = True,
) -> LimitFrontier:
    """Return for every S the infimum of R/C over all k and all C, and what attains it.

    Args:
        collective: a name, a file, or what :func:`collective` returns.
        topology: a name, a file, or a topology.
        root: of broadcast, reduce, gather and scatter, by number or label; None: rank 0.
        max_steps: last S; None: a few above the latency bound.
        seed: of the solver's random choices.
        solver: asked for algorithms of few chunks at a limit, as in :func:`pareto`.
        timeout_s: seconds for each S; None: each ends by effort, which no load changes.
        progress: whether to show what is going on; or a function that is told, line by line.

    Raises:
        InputError: the collective does not fit the machine, or some rank cannot be reached.

    >>> import sccl
    >>> [str(p.bandwidth_cost) for p in sccl.limits("broadcast", "dgx1", max_steps=3).points]
    ['1', '9/22']
    """
    subject = _subject(collective, topology, root)
    machine, spec = subject.topology, subject.spec
    settings = _settings(solver, timeout_s, seed)
    with told(progress, f"limits of {spec.name} on {machine.name}") as tell:
        found = find_limits(
            machine, spec, max_steps, settings, notify=lambda event: tell(limit_note(event))
        )
    return LimitFrontier(found, subject)


@checked
def load(path: str | PathLike[str]) -> Algorithm | Schedule | SavedFrontier | Topology:
    """Return what a JSON file holds: an algorithm, a schedule, a frontier, or a topology.

    Args:
        path: of the file.

    Raises:
        InputError: the file cannot be read, or is none of these.
    """
    file = Path(path)
    kind = kind_among(file, (*ALGORITHMS, SCHEDULE, FRONTIER, TOPOLOGY))
    if kind in ALGORITHMS:
        return Algorithm.load(file)
    if kind == SCHEDULE:
        return Schedule.load(file)
    if kind == FRONTIER:
        read_frontiers(file)  # complains, if it is of another shape
        return SavedFrontier(file, json.loads(read_text(file)))
    return Topology.load(file)


def _subject(collective: CollectiveLike, topology: Machine, root: Root | None) -> Subject:
    """Return the machine as it is modelled, and the collective; warn of what was done to it."""
    stated = topology.value if isinstance(topology, Topology) else resolve_topology(str(topology))
    asked = collective if isinstance(collective, Spec) else str(collective)
    made = subject_of(stated, asked, root).in_steps()
    for note in made.notes:
        warnings.warn(f"{stated.name}: {note}", stacklevel=4)  # of the call of the public function
    return made


def _settings(  # noqa: PLR0913, PLR0917 - they are what it is made of
    solver: str,
    timeout_s: float | None,
    seed: int,
    symmetry: str = "auto",
    store: Store = True,
    jobs: int = 1,
    cluster: Cluster | None = None,
    *,
    trust_store: bool = False,
    trust_cluster: bool = False,
) -> Settings:
    return Settings(
        backends.check_name(solver),
        checked_effort(timeout_s, seed),
        symmetry,
        jobs,
        cluster,
        None if isinstance(store, bool) else Path(store),
        no_store=store is False,
        trust_store=trust_store,
        trust_cluster=trust_cluster,
    )
