"""Compute schedules (tacos, teccl, taccl) and classical algorithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_arguments
from sccl.api.given import BandwidthLike, CollectiveLike, Machine, Root, parse_bandwidth
from sccl.api.machine import Topology
from sccl.api.progress import Progress, progress_lines
from sccl.api.schedule import Schedule
from sccl.api.simulation import parse_choice
from sccl.collectives import Spec
from sccl.core import schedule as core_schedule
from sccl.core import topology as core
from sccl.core.algorithm import KSynchronousPlan
from sccl.core.clock import AlphaModel, StepAlignment
from sccl.core.outcome import best_plan
from sccl.core.packed_schedule import PackedSchedule
from sccl.core.schedule_filter import ScheduleFilter
from sccl.errors import TooLargeError
from sccl.synth.common.contract import Request
from sccl.synth.common.settings import build_effort
from sccl.tasks.baseline import place_baseline
from sccl.tasks.planned import (
    load_sketch_chunks,
    no_result_reason,
    parse_options,
    unmodified_problem,
)
from sccl.tasks.sizes import check_divides, parse_size
from sccl.tasks.subject import build_problem
from sccl.tasks.taccl import EFFORT_UNITS as TACCL_UNITS
from sccl.tasks.taccl import NAME as TACCL
from sccl.tasks.taccl import optional_sketch_wire, run_taccl
from sccl.tasks.tacos import NAME, run_tacos
from sccl.tasks.teccl import EFFORT_UNITS, Switching, run_teccl, with_switching
from sccl.tasks.teccl import NAME as TECCL
from sccl.topo import resolve_topology

Size = int | str
"""Size of a rank's buffer: bytes, or text such as ``"64KiB"`` or ``"1GB"``."""


@check_arguments
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
    """Return a verified TACOS schedule, for machines of up to thousands of ranks.

    Ctrl-C, or interrupting the kernel, returns the best schedule so far.

    Args:
        collective: Name, file, or result of :func:`collective`.
        topology: Name, file, or topology.
        size: Size of a rank's buffer.
        chunks: Chunks per part that a rank sends or receives. None: the sketch's number, or one.
        sketch: File of a sketch, TACCL's or sccl's. Only the links that it permits are used, and
            :attr:`Schedule.bound_us` refers to them. Its symmetries are not imposed.
        root: Root of broadcast, reduce, gather, and scatter, by number or label. None: rank 0.
        alpha: ``"occupies"``: the link is busy during alpha. ``"travels"``: a chunk arrives alpha
            later.
        seed: First seed.
        restarts: Number of seeds. The search ends early if a schedule attains the lower bound.
        improve: Budget to improve each schedule above the bound. 1 takes some seconds.
        jobs: Number of seeds at a time. The result does not depend on it.
        switch_degree: Number of links that replace a rank's port of a switch. 0: the machine's.
        timeout_s: Seconds after which the best schedule so far is returned. None: no limit.
        progress: Whether to show progress, or a function that receives each line of it.

    Raises:
        InputError: The collective, the size, the sketch, or a setting does not fit the machine, or
            there is no schedule in time.

    Source: Won et al., TACOS, MICRO 2024, section IV.

    Examples:
        >>> import sccl
        >>> sccl.tacos("allgather", "mesh:8x8", size="16MiB").proved
        True
    """
    kept, cut = load_sketch_chunks(sketch, chunks)
    machine = _core_topology(topology)
    spec = collective if isinstance(collective, Spec) else str(collective)
    subject = unmodified_problem(machine, spec, root)
    request = Request(subject.topology, subject.spec, parse_size(str(size)))
    options = parse_options(
        NAME,
        chunks=cut,
        restarts=restarts,
        alpha=alpha,
        improve=improve,
        jobs=jobs,
        switch_degree=switch_degree,
    )
    check_divides(request.size_bytes, request.spec.unit * cut)
    with progress_lines(progress, f"{request.spec.name} on {request.topology.name}") as tell:
        outcome, _ = run_tacos(
            request, options, _transfer_progress(tell), timeout_s=timeout_s, seed=seed, sketch=kept
        )
    best, ended = best_plan(outcome)
    if best is None:
        raise TooLargeError(no_result_reason(ended))
    assert not isinstance(best.plan, KSynchronousPlan)
    plan = (
        best.plan.partial_schedule(ScheduleFilter())
        if isinstance(best.plan, PackedSchedule)
        else best.plan
    )
    return Schedule(plan, float(best.bound.value), str(ended))


@check_arguments
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
    effort: float = EFFORT_UNITS,
    seed: int = 0,
    timeout_s: float | None = None,
    progress: Progress = True,
) -> Schedule:
    """Return the best verified schedule of equal chunks from optimization models.

    Ctrl-C, or interrupting the kernel, returns the best schedule so far.

    Args:
        collective: Name, file, or result of :func:`collective`.
        topology: Name, file, or topology.
        size: Size of a rank's buffer.
        chunks: Chunks per part that a rank sends or receives. None: the sketch's number, or one.
        sketch: File of a sketch, TACCL's or sccl's. Only the links that it permits are used, and
            :attr:`Schedule.bound_us` refers to them. Its symmetries are not imposed.
        model: ``"continuous"``: intervals in continuous time (the choice of ``"auto"``).
            ``"milp"``: epochs in one model. ``"astar"``: epochs in rounds of A*. ``"lp"``: rates
            for data that are not copied, with chunks of any size.
        solver: Solver of the model. ``"auto"``: GLOP for lp, otherwise CP-SAT.
        switch: ``"machine"``: switches copy if the machine says so. ``"copy"``: all copy.
            ``"nocopy"``: none copies. ``"hyperedge"``: none copies, and each link at a switch takes
            at most one chunk per epoch.
        epoch: ``"fastest"`` or ``"slowest"``: time of a chunk on that link. A number: microseconds.
            ``"auto"``: the fastest link's, and in model lp shorter and shorter epochs.
        multiplier: Epoch length as a multiple of the base epoch (TE-CCL's EM).
        epochs: Number of epochs of the horizon, or of a round. 0: the fewest that suffice.
        buffers: Chunks of other ranks that a rank can store to forward them later, in model milp.
            None: any number.
        combine: For reductions. ``"reversal"``: the reversed schedule of the dual. ``"direct"``:
            each contribution is sent separately to the rank that reduces it. ``"auto"``: the faster
            one.
        root: Root of broadcast, reduce, gather, and scatter, by number or label. None: rank 0.
        alpha: ``"occupies"``: the link is busy during alpha. ``"travels"``: a chunk arrives alpha
            later.
        priorities: Weights of concurrent collectives. The weighted mean completion time is
            minimized instead of the last one, and :attr:`Schedule.bound_us` is None.
        bandwidth: Reduced bandwidth of links over time: a file, or its intervals. For models auto,
            milp, and astar.
        gap: Relative optimality gap at which the search stops.
        effort: Search budget. 1 takes some seconds.
        seed: Seed. The same seed and budget give the same schedule.
        timeout_s: Seconds after which the best schedule so far is returned. None: no limit.
        progress: Whether to show progress, or a function that receives each line of it.

    Raises:
        InputError: The collective, the size, the sketch, or a setting does not fit the machine, or
            there is no schedule in time.

    Source: Liu et al., TE-CCL, SIGCOMM 2024, sections 3 and 4.

    Examples:
        >>> import sccl
        >>> sccl.teccl("allgather", "teccl-ndv2x2", size=62_500)
        Schedule(allgather on teccl-ndv2x2, 61 KiB per rank in C=1: 46.45 us; lower bound attained)
        >>> slow = [{"from_us": 10, "to_us": 30, "fraction": 0.5}]  # all links
        >>> sccl.teccl("scatter", "ring:4@10GB+1us", size=400_000, bandwidth=slow).finish_us
        31.5
    """
    kept, cut = load_sketch_chunks(sketch, chunks)
    spec = collective if isinstance(collective, Spec) else str(collective)
    taken = Switching(switch)
    subject = unmodified_problem(with_switching(_core_topology(topology), taken), spec, root)
    request = Request(subject.topology, subject.spec, parse_size(str(size)))
    options = parse_options(
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
        bandwidth=parse_bandwidth(bandwidth),
        combine=combine,
    )
    if model != "lp" and not request.spec.counts:  # its chunks have sizes of their own
        check_divides(request.size_bytes, request.spec.unit * cut)
    within = build_effort(timeout_s, seed, effort)
    with progress_lines(progress, f"{request.spec.name} on {request.topology.name}") as tell:
        by = run_teccl(
            request,
            options,
            within,
            lambda us, least_us: tell(f"schedule {us:.6g} us, lower bound {least_us:.6g} us"),
            sketch=kept,
        )
    best, ended = best_plan(by.outcome)
    if best is None:
        raise TooLargeError(no_result_reason(ended))
    assert isinstance(best.plan, core_schedule.Schedule)
    return Schedule(best.plan, None if priorities else float(best.bound.value), str(ended))


@check_arguments
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
    """Return the best verified schedule within a communication sketch.

    Ctrl-C, or interrupting the kernel, returns the best schedule so far.

    Args:
        collective: Name, file, or result of :func:`collective`.
        topology: Name, file, or topology.
        size: Size of a rank's buffer.
        sketch: File of a sketch, TACCL's or sccl's. ``"auto"``: the best of several generated ones.
        chunks: Chunks per part that a rank sends or receives. 0: the sketch's number, or the best
            of several.
        paths: ``"shortest"``: ranks forward chunks on shortest paths only. ``"any"``: on any path.
            ``"auto"``: shortest paths for chunks that only one rank needs.
        order: Priority of chunks on a link, and whether links are filled from the start or the end.
            ``"best"``: the best of all four.
        steps: ``"three"``: routes, orders, then exact times. ``"joined"``: a joint model then
            improves all of them. ``"auto"``: joined on small instances.
        together: Whether chunks are sent together with one alpha if alpha occupies links.
        root: Root of broadcast, reduce, gather, and scatter, by number or label. None: rank 0.
        alpha: ``"occupies"``: the link is busy during alpha. ``"travels"``: a chunk arrives alpha
            later.
        gap: Relative optimality gap at which the search stops.
        effort: Search budget of all steps. 1 takes some seconds.
        seed: Seed. The same seed and budget give the same schedule.
        timeout_s: Seconds after which the best schedule so far is returned. None: no limit.
        progress: Whether to show progress, or a function that receives each line of it.

    Raises:
        InputError: The sketch, the collective, the size, or a setting does not fit the machine, or
            there is no schedule in time.

    Source: Shah et al., TACCL, NSDI 2023, section 5 and appendix B.

    Examples:
        >>> import sccl
        >>> sccl.taccl("alltoall", "ndv2x2", size="1MB", chunks=1)
        Schedule(alltoall on ndv2x2, 1 MB per rank in C=16: 321.7 us; lower bound attained)
    """
    wire = optional_sketch_wire(str(sketch))
    spec = collective if isinstance(collective, Spec) else str(collective)
    subject = unmodified_problem(_core_topology(topology), spec, root)
    request = Request(subject.topology, subject.spec, parse_size(str(size)))
    options = parse_options(
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
    within = build_effort(timeout_s, seed, effort)
    with progress_lines(progress, f"{request.spec.name} on {request.topology.name}") as tell:
        by = run_taccl(
            request,
            options,
            within,
            lambda us, least_us, _: tell(f"schedule {us:.6g} us, lower bound {least_us:.6g} us"),
        )
    best, ended = best_plan(by.outcome)
    if best is None:
        raise TooLargeError(no_result_reason(ended))
    assert isinstance(best.plan, core_schedule.Schedule)
    return Schedule(best.plan, float(best.bound.value), str(ended))


@check_arguments
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
    """Return a verified classical algorithm on a machine.

    If each hop is a link, the result is an algorithm in steps. Otherwise hops take shortest paths
    of links, which they share with others, and the result is a schedule for the size.

    Args:
        name: ``"ring"``, ``"swing"``, ... (``sccl baseline list`` describes each).
        collective: Name, or result of :func:`collective`.
        topology: Name, file, or topology.
        size: Size of a rank's buffer, for schedules and for algorithms that depend on it.
        pieces: Number of pieces of each message.
        root: Root of broadcast, reduce, gather, and scatter, by number or label. None: rank 0.
        alpha: Model of alpha in a schedule: ``"occupies"`` or ``"travels"``.

    Raises:
        InputError: There is no such algorithm, or it does not support the machine or the
            collective.

    Examples:
        >>> import sccl
        >>> sccl.baseline("ring", "allgather", "ring:4").bandwidth_cost
        Fraction(3, 1)
        >>> sccl.baseline("direct", "allgather", "ring:4")
        Schedule(allgather on ring:4, 1 MiB per rank in C=1: 127.229 us)
    """
    spec = collective if isinstance(collective, Spec) else str(collective)
    subject = build_problem(_core_topology(topology), spec, root)
    request = Request(subject.topology, subject.spec, parse_size(str(size)))
    model = parse_choice("alpha", alpha, AlphaModel) or AlphaModel.TRAVELS
    made = place_baseline(name, request, pieces, model, StepAlignment.PIPELINED)
    return Algorithm(made.algorithm) if made.algorithm else Schedule(made.schedule)


def _core_topology(machine: Machine) -> core.Topology:
    return machine.value if isinstance(machine, Topology) else resolve_topology(str(machine))


def _transfer_progress(tell: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return a function that receives the number of finished transfers and of all transfers."""
    return lambda done, of: tell(f"{done:,} of {of:,} transfers")
