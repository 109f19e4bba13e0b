"""What one asks about times: schedules, and the classical algorithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import checked
from sccl.api.given import BandwidthLike, CollectiveLike, Machine, Root, bandwidth_of
from sccl.api.machine import Topology
from sccl.api.progress import Progress, told
from sccl.api.schedule import Schedule
from sccl.api.simulation import one_of
from sccl.collectives import Spec
from sccl.core import schedule as core_schedule
from sccl.core import topology as core
from sccl.core.algorithm import KSynchronous
from sccl.core.clock import AlphaModel
from sccl.core.excerpt import Excerpt
from sccl.core.packed import PackedSchedule
from sccl.core.stepping import Stepping
from sccl.errors import TooLargeError
from sccl.synth.contract import Request
from sccl.synth.settings import checked_effort
from sccl.tasks.baseline import placed_on
from sccl.tasks.planned import best_of, nothing_by_then, options_of, plain_subject, sketch_for
from sccl.tasks.sizes import check_divides, size_in_bytes
from sccl.tasks.subject import subject_of
from sccl.tasks.taccl import NAME as TACCL
from sccl.tasks.taccl import UNITS as TACCL_UNITS
from sccl.tasks.taccl import sketched, wire_of_sketch
from sccl.tasks.tacos import NAME, synthesise
from sccl.tasks.teccl import NAME as TECCL
from sccl.tasks.teccl import UNITS, Switching, scheduled, switched
from sccl.topo import resolve

Size = int | str
"""Bytes of a rank's buffer: a number, or as people write it (``"64KiB"``, ``"1GB"``)."""


@checked
def tacos(  # noqa: PLR0913 - a question, and what decides how it is answered
    collective: CollectiveLike,
    topology: Machine,
    *,
    size: Size,
    chunks: int | None = None,
    sketch: str | Path | None = None,
    root: Root | None = None,
    alpha: Literal["occupies", "travels"] = "occupies",
    seed: int = 0,
    restarts: int = 1,
    improve: float = 0.2,
    jobs: int = 1,
    switch_degree: int = 0,
    timeout_s: float | None = None,
    progress: Progress = True,
) -> Schedule:
    """Return a schedule that TACOS finds, for machines of up to thousands of ranks, judged.

    Ctrl-C, or interrupting the kernel, gives the best that was found by then.

    Args:
        collective: a name, a file, or what :func:`collective` returns.
        topology: a name, a file, or a topology.
        size: of a rank's buffer.
        chunks: per part that a rank sends or is to get; None: as many as the sketch says, or one.
        sketch: a file, one of TACCL's or of ours: what it leaves of the links is used alone, and
            :attr:`Schedule.bound_us` is about that; symmetries are not imposed.
        root: of broadcast, reduce, gather and scatter, by number or label; None: rank 0.
        alpha: what links do during alpha: it keeps them busy, or a chunk arrives so much later.
        seed: the first of the seeds that are tried.
        restarts: how many seeds; it ends where the bound is met.
        improve: effort to better each schedule above the bound; 1 takes some seconds.
        jobs: seeds that are tried at a time, to the same result.
        switch_degree: links that stand for a rank's port of a switch; 0: as it is.
        timeout_s: seconds, after which the best by then is taken; None: no end.
        progress: whether to show what is going on; or a function that is told, line by line.

    Raises:
        InputError: the collective, the size, the sketch or a setting does not fit the machine, or
            nothing was found in time.

    Source: Won et al., TACOS, MICRO 2024, section IV.

    >>> import sccl
    >>> sccl.tacos("allgather", "mesh:8x8", size="16MiB").proved
    True
    """
    kept, cut = sketch_for(sketch, chunks)
    machine = _machine(topology)
    spec = collective if isinstance(collective, Spec) else str(collective)
    subject = plain_subject(machine, spec, root)
    request = Request(subject.topology, subject.spec, size_in_bytes(str(size)))
    options = options_of(
        NAME,
        chunks=cut,
        restarts=restarts,
        alpha=alpha,
        improve=improve,
        jobs=jobs,
        switch_degree=switch_degree,
    )
    check_divides(request.size_bytes, request.spec.unit * cut)
    with told(progress, f"{request.spec.name} on {request.topology.name}") as tell:
        outcome, _ = synthesise(
            request, options, _parts(tell), timeout_s=timeout_s, seed=seed, sketch=kept
        )
    found, ended = best_of(outcome)
    if found is None:
        raise TooLargeError(nothing_by_then(ended))
    assert not isinstance(found.plan, KSynchronous)
    assert found.bound.least is not None
    plan = found.plan.part(Excerpt()) if isinstance(found.plan, PackedSchedule) else found.plan
    return Schedule(plan, float(found.bound.least), ended)


@checked
def teccl(  # noqa: PLR0913 - a question, and what decides how it is answered
    collective: CollectiveLike,
    topology: Machine,
    *,
    size: Size,
    chunks: int | None = None,
    sketch: str | Path | None = None,
    model: Literal["auto", "continuous", "milp", "astar", "lp"] = "auto",
    solver: Literal["auto", "cp-sat", "glop", "highs", "pdlp", "scip", "gurobi"] = "auto",
    switch: Literal["machine", "copy", "nocopy", "hyperedge"] = "machine",
    epoch: str = "auto",
    multiplier: int = 1,
    epochs: int = 0,
    buffers: int | None = None,
    combine: Literal["auto", "reversal", "direct"] = "auto",
    root: Root | None = None,
    alpha: Literal["occupies", "travels"] = "travels",
    priorities: Sequence[int] = (),
    bandwidth: BandwidthLike | None = None,
    gap: float = 0.0,
    effort: float = UNITS,
    seed: int = 0,
    timeout_s: float | None = None,
    progress: Progress = True,
) -> Schedule:
    """Return the best schedule of equal chunks that models of few ranks find, judged.

    Ctrl-C, or interrupting the kernel, gives the best that was found by then.

    Args:
        collective: a name, a file, or what :func:`collective` returns.
        topology: a name, a file, or a topology.
        size: of a rank's buffer.
        chunks: per part that a rank sends or is to get; None: as many as the sketch says, or one.
        sketch: a file, one of TACCL's or of ours: what it leaves of the links is used alone, and
            :attr:`Schedule.bound_us` is about that; symmetries are not imposed.
        model: intervals in continuous time (auto takes that); or epochs, all in one model, in
            rounds of A*, or, of what is not copied, by rates and chunks of their own sizes (lp).
        solver: of the model; auto: GLOP for lp, else CP-SAT.
        switch: whether switches copy: as the machine has it, all, none; or none, and in an epoch
            each link at a switch takes one chunk.
        epoch: as long as a chunk takes the fastest, or the slowest link; or microseconds; auto: the
            fastest, and in model lp ever shorter ones.
        multiplier: so many times as long is an epoch.
        epochs: of the horizon, or of a round; 0: the fewest that do.
        buffers: chunks of others that a rank keeps to send on later, in model milp; None: any
            number.
        combine: what combines: by reversal: chunk by chunk into a root, and of allreduce from
            there; or each contribution by itself to where it is reduced; auto: what takes less.
        root: of broadcast, reduce, gather and scatter, by number or label; None: rank 0.
        alpha: what links do during alpha: it keeps them busy, or a chunk arrives so much later.
        priorities: of several collectives together: what it is worth that each finishes soon, in
            place of when the last one does; :attr:`Schedule.bound_us` is then not known.
        bandwidth: what links have less than the machine says, and when: a file, or its intervals;
            in models auto, milp and astar.
        gap: part of the bound by which it may be above it.
        effort: for bettering it; 1 takes some seconds.
        seed: the same seed and effort, the same schedule.
        timeout_s: seconds, after which the best by then is taken; None: no end.
        progress: whether to show what is going on; or a function that is told, line by line.

    Raises:
        InputError: the collective, the size, the sketch or a setting does not fit the machine, or
            nothing was found in time.

    Source: Liu et al., TE-CCL, SIGCOMM 2024, sections 3 and 4.

    >>> import sccl
    >>> sccl.teccl("allgather", "teccl-ndv2x2", size=62_500)
    Schedule(allgather on teccl-ndv2x2, 61 KiB a rank in C=1: 46.45 us; the bound is met)
    >>> slow = [{"from_us": 10, "to_us": 30, "fraction": 0.5}]  # all links
    >>> sccl.teccl("scatter", "ring:4@10GB+1us", size=400_000, bandwidth=slow).finish_us
    31.5
    """
    kept, cut = sketch_for(sketch, chunks)
    spec = collective if isinstance(collective, Spec) else str(collective)
    taken = Switching(switch)
    subject = plain_subject(switched(_machine(topology), taken), spec, root)
    request = Request(subject.topology, subject.spec, size_in_bytes(str(size)))
    options = options_of(
        TECCL,
        chunks=cut,
        gap=gap,
        alpha=alpha,
        model=model,
        solver=solver,
        ports=taken is Switching.HYPEREDGE,
        epoch=epoch,
        multiplier=multiplier,
        epochs=epochs,
        buffers=buffers,
        priorities=list(priorities),
        bandwidth=bandwidth_of(bandwidth),
        combine=combine,
    )
    if model != "lp" and not request.spec.counts:  # its chunks have sizes of their own
        check_divides(request.size_bytes, request.spec.unit * cut)
    within = checked_effort(timeout_s, seed, effort)
    with told(progress, f"{request.spec.name} on {request.topology.name}") as tell:
        by = scheduled(
            request,
            options,
            within,
            lambda us, least_us: tell(f"found {us:.6g} us, at least {least_us:.6g} us"),
            sketch=kept,
        )
    found, ended = best_of(by.outcome)
    if found is None:
        raise TooLargeError(nothing_by_then(ended))
    assert isinstance(found.plan, core_schedule.Schedule)
    assert found.bound.least is not None
    return Schedule(found.plan, None if priorities else float(found.bound.least), ended)


@checked
def taccl(  # noqa: PLR0913 - a question, and what decides how it is answered
    collective: CollectiveLike,
    topology: Machine,
    *,
    size: Size,
    sketch: str | Path = "auto",
    chunks: int = 0,
    paths: Literal["auto", "shortest", "any"] = "auto",
    order: Literal[
        "best", "farthest-start", "farthest-end", "soonest-start", "soonest-end"
    ] = "best",
    steps: Literal["auto", "three", "joined"] = "auto",
    together: bool = True,
    root: Root | None = None,
    alpha: Literal["occupies", "travels"] = "travels",
    gap: float = 0.0,
    effort: float = TACCL_UNITS,
    seed: int = 0,
    timeout_s: float | None = None,
    progress: Progress = True,
) -> Schedule:
    """Return the best schedule within a communication sketch that is found, judged.

    Ctrl-C, or interrupting the kernel, gives the best that was found by then.

    Args:
        collective: a name, a file, or what :func:`collective` returns.
        topology: a name, a file, or a topology.
        size: of a rank's buffer.
        sketch: a file, one of TACCL's or of ours; auto: the best of those that the machine
            suggests.
        chunks: per part that a rank sends or is to get; 0: as the sketch says, or as many as help.
        paths: whether chunks go through ranks on shortest paths alone; auto: those that
            one rank alone wants.
        order: which chunk goes first on a link, and whether links are filled from the start or
            from the end; best: all four.
        steps: three: routes, orders, exact times; joined: all are bettered together after that.
        together: whether chunks go together and pay one alpha, where alpha occupies links.
        root: of broadcast, reduce, gather and scatter, by number or label; None: rank 0.
        alpha: what links do during alpha: it keeps them busy, or a chunk arrives so much later.
        gap: part of the bound by which it may be above it.
        effort: for all steps; 1 takes some seconds.
        seed: the same seed and effort, the same schedule.
        timeout_s: seconds, after which the best by then is taken; None: no end.
        progress: whether to show what is going on; or a function that is told, line by line.

    Raises:
        InputError: the sketch, the collective, the size or a setting does not fit the machine, or
            nothing was found in time.

    Source: Shah et al., TACCL, NSDI 2023, section 5 and appendix B.

    >>> import sccl
    >>> sccl.taccl("alltoall", "ndv2x2", size="1MB", chunks=1)
    Schedule(alltoall on ndv2x2, 1 MB a rank in C=16: 321.7 us; the bound is met)
    """
    wire = wire_of_sketch(str(sketch))
    spec = collective if isinstance(collective, Spec) else str(collective)
    subject = plain_subject(_machine(topology), spec, root)
    request = Request(subject.topology, subject.spec, size_in_bytes(str(size)))
    options = options_of(
        TACCL,
        sketch=wire,
        chunks=chunks,
        paths=paths,
        order=order,
        steps=steps,
        together=together,
        gap=gap,
        alpha=alpha,
    )
    cut = chunks or (wire.hyperparameters.input_chunkup if wire else 1)
    check_divides(request.size_bytes, request.spec.unit * cut)
    within = checked_effort(timeout_s, seed, effort)
    with told(progress, f"{request.spec.name} on {request.topology.name}") as tell:
        by = sketched(
            request,
            options,
            within,
            lambda us, least_us, _: tell(f"found {us:.6g} us, at least {least_us:.6g} us"),
        )
    found, ended = best_of(by.outcome)
    if found is None:
        raise TooLargeError(nothing_by_then(ended))
    assert isinstance(found.plan, core_schedule.Schedule)
    assert found.bound.least is not None
    return Schedule(found.plan, float(found.bound.least), ended)


@checked
def baseline(  # noqa: PLR0913 - a question, and what decides how it is answered
    name: str,
    collective: CollectiveLike,
    topology: Machine,
    *,
    size: Size = "1MiB",
    pieces: int = 1,
    root: Root | None = None,
    alpha: Literal["travels", "occupies"] = "travels",
) -> Algorithm | Schedule:
    """Return a classical algorithm on a machine, judged.

    Where all its hops are links it is an algorithm by steps; else hops take shortest paths, on
    which they meet others, and it is a schedule for the size.

    Args:
        name: ``"ring"``, ``"swing"``, ...: ``sccl baseline list`` says what each is.
        collective: a name, or what :func:`collective` returns.
        topology: a name, a file, or a topology.
        size: of a rank's buffer, by which some choose, and that of a schedule.
        pieces: into how many pieces everything is cut that it sends as one.
        root: of broadcast, reduce, gather and scatter, by number or label; None: rank 0.
        alpha: what links do during alpha, in a schedule.

    Raises:
        InputError: there is none of that name, or it serves no such machine or collective.

    >>> import sccl
    >>> sccl.baseline("ring", "allgather", "ring:4").bandwidth_cost
    Fraction(3, 1)
    >>> sccl.baseline("direct", "allgather", "ring:4")
    Schedule(allgather on ring:4, 1 MiB a rank in C=1: 127.229 us)
    """
    spec = collective if isinstance(collective, Spec) else str(collective)
    subject = subject_of(_machine(topology), spec, root)
    request = Request(subject.topology, subject.spec, size_in_bytes(str(size)))
    model = one_of("alpha", alpha, AlphaModel) or AlphaModel.TRAVELS
    made = placed_on(name, request, pieces, model, Stepping.PIPELINED)
    return Algorithm(made.algorithm) if made.algorithm else Schedule(made.schedule)


def _machine(given: Machine) -> core.Topology:
    return given.value if isinstance(given, Topology) else resolve(str(given))


def _parts(tell: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return what is told how many transfers there are, and of how many."""
    return lambda done, of: tell(f"{done:,} of {of:,} transfers")
