"""Compute schedules (fastest, tacos, teccl, taccl) and classical algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_arguments, describe_arguments, parse_choice
from sccl.api.inputs import CollectiveLike, Machine, Root, core_collective, core_topology
from sccl.api.progress import Progress, progress_lines
from sccl.api.schedule import Schedule
from sccl.core.clock import AlphaModel, StepAlignment
from sccl.core.packed_schedule import PackedSchedule
from sccl.core.schedule import ScheduleFilter
from sccl.core.sizes import parse_size
from sccl.errors import TooLargeError
from sccl.synth.common.claims import check_can_certify
from sccl.synth.common.contract import MatchingProgress, Request, SearchProgress
from sccl.synth.common.problem import build_problem, build_spec
from sccl.synth.common.synthesis import (
    BandwidthLike,
    build_synthesis_problem,
    no_result_reason,
    synthesize,
    unmodified_problem,
)
from sccl.synth.taccl.options import Options as TacclOptions
from sccl.synth.tacos.options import Options as TacosOptions
from sccl.synth.teccl.options import Options as TecclOptions

Size = int | str
"""Size of a rank's buffer: bytes, or text such as ``"64KiB"`` or ``"1GB"``."""


@check_arguments
def fastest(  # noqa: PLR0913 - the problem and its options
    collective: CollectiveLike,
    topology: Machine,
    *,
    size: Size,
    root: Root | None = None,
    gap: float = 0.01,
    timeout_s: float | None = None,
    certificate: str | Path | None = None,
    progress: Progress = True,
) -> Schedule:
    """Return a fast verified schedule, whose lower bound holds for every schedule of any chunks.

    It is the fastest of a packing of trees, TACOS, TE-CCL, and constructions. Ctrl-C, or
    interrupting the kernel, returns the best schedule so far.

    Args:
        collective: Name, file, or result of :func:`collective`.
        topology: Name, file, or topology.
        size: Size of a rank's buffer: bytes, or text such as ``"1MB"``.
        root: Root of broadcast, reduce, gather, and scatter, by number or label. None: rank 0.
        gap: Relative gap to the lower bound at which the search stops (0.01 = 1 %).
        timeout_s: Seconds of the search. None: only a fixed budget.
        certificate: Folder for a certificate of the lower bound. None: none is written.
        progress: Whether to show progress, or a function that receives each line of it.

    Raises:
        InputError: The collective or the size does not fit the machine, the folder cannot be
            written, or there is no schedule in time.

    Examples:
        >>> import sccl
        >>> schedule = sccl.fastest("allgather", "ring:4", size="1MB")
        >>> schedule.finish_us <= 1.01 * schedule.bound_us
        True
    """
    from sccl.synth.allreduce.certify import certify_times  # noqa: PLC0415 - few ask for a certificate
    from sccl.synth.packing.by_time.time_limits import compute_time_limits  # noqa: PLC0415 - loads NumPy

    problem = unmodified_problem(core_topology(topology), core_collective(collective), root)
    folder = None if certificate is None else Path(certificate)
    if folder:
        check_can_certify(folder, problem.topology, problem.spec)
    title = f"{problem.spec.name} on {problem.topology.name}"
    sizes = [parse_size(str(size))]
    with progress_lines(progress, title) as on_progress:
        (point,) = compute_time_limits(problem, sizes, gap, timeout_s, on_progress)
    if point.plan is None:
        raise TooLargeError(no_result_reason(point.end_reason))
    if folder:
        certify_times(problem, {point.size_bytes: point.plan}, folder)
    bound_us = float(point.plan.bound.value)
    return Schedule(_whole_schedule(point.plan.plan), bound_us, str(point.end_reason))


@check_arguments
@describe_arguments(TacosOptions)
def tacos(  # noqa: PLR0913 - the problem and its options
    collective: CollectiveLike,
    topology: Machine,
    *,
    size: Size,
    chunks: int | None = None,
    sketch: str | Path | None = None,
    root: Root | None = None,
    alpha: Literal["travels", "occupies"] = "occupies",
    restarts: int = 1,
    improve: float = 0.2,
    jobs: int = 1,
    switch_degree: int = 0,
    seed: int = 0,
    timeout_s: float | None = None,
    progress: Progress = True,
) -> Schedule:
    """Return a verified TACOS schedule, for machines of up to thousands of ranks.

    Ctrl-C, or interrupting the kernel, returns the best schedule so far.

    Raises:
        InputError: The collective, the size, the sketch, or a setting does not fit the machine, or
            there is no schedule in time.

    Source: Won et al., TACOS, MICRO 2024, section IV.

    Examples:
        >>> import sccl
        >>> sccl.tacos("allgather", "mesh:8x8", size="16MiB").proved
        True
    """
    return _schedule("tacos", **locals())


@check_arguments
@describe_arguments(TecclOptions)
def teccl(  # noqa: PLR0913 - the problem and its options
    collective: CollectiveLike,
    topology: Machine,
    *,
    size: Size,
    chunks: int | None = None,
    sketch: str | Path | None = None,
    root: Root | None = None,
    model: Literal["auto", "continuous", "milp", "astar", "lp"] = "auto",
    switch: Literal["machine", "copy", "nocopy", "hyperedge"] = "machine",
    epoch: str = "auto",
    multiplier: int = 1,
    epochs: int = 0,
    buffers: int | None = None,
    combine: Literal["auto", "reversal", "direct"] = "auto",
    alpha: Literal["travels", "occupies"] = "travels",
    solver: Literal["auto", "cp-sat", "glop", "highs", "pdlp", "scip", "gurobi"] = "auto",
    priorities: Sequence[int] = (),
    bandwidth: BandwidthLike | None = None,
    gap: float = 0.0,
    budget: float = TecclOptions.DEFAULT_BUDGET,
    seed: int = 0,
    timeout_s: float | None = None,
    progress: Progress = True,
) -> Schedule:
    """Return the best verified schedule of equal chunks from optimization models.

    Ctrl-C, or interrupting the kernel, returns the best schedule so far. With priorities,
    :attr:`Schedule.bound_us` is None.

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
    return _schedule("teccl", **locals())


@check_arguments
@describe_arguments(TacclOptions)
def taccl(  # noqa: PLR0913 - the problem and its options
    collective: CollectiveLike,
    topology: Machine,
    *,
    size: Size,
    root: Root | None = None,
    sketch: str | Path = "auto",
    chunks: int = 0,
    paths: Literal["auto", "shortest", "any"] = "auto",
    order: Literal[
        "best", "farthest-start", "farthest-end", "soonest-start", "soonest-end"
    ] = "best",
    steps: Literal["auto", "three", "joined"] = "auto",
    together: bool = True,
    alpha: Literal["travels", "occupies"] = "travels",
    gap: float = 0.0,
    budget: float = TacclOptions.DEFAULT_BUDGET,
    seed: int = 0,
    timeout_s: float | None = None,
    progress: Progress = True,
) -> Schedule:
    """Return the best verified schedule within a communication sketch.

    Ctrl-C, or interrupting the kernel, returns the best schedule so far.

    Raises:
        InputError: The sketch, the collective, the size, or a setting does not fit the machine, or
            there is no schedule in time.

    Source: Shah et al., TACCL, NSDI 2023, section 5 and appendix B.

    Examples:
        >>> import sccl
        >>> sccl.taccl("alltoall", "ndv2x2", size="1MB", chunks=1)
        Schedule(alltoall on ndv2x2, 1 MB per rank in C=16: 321.7 us; lower bound attained)
    """
    return _schedule("taccl", **locals())


def _schedule(  # noqa: PLR0913 - the arguments that all synthesizers share
    name: str,
    *,
    collective: CollectiveLike,
    topology: Machine,
    size: Size,
    sketch: str | Path | None,
    root: Root | None,
    seed: int,
    timeout_s: float | None,
    progress: Progress,
    budget: float | None = None,
    **options: Any,
) -> Schedule:
    """Return the schedule of a synthesizer.

    Args:
        options: Its options, as its public function describes them.

    Raises:
        InputError: The inputs do not fit one another, or there is no schedule in time.
    """
    problem = build_synthesis_problem(
        name,
        lambda _: core_topology(topology),
        lambda machine: build_spec(machine, core_collective(collective), root),
        size=size,
        sketch=sketch,
        options=options,
        seed=seed,
        timeout_s=timeout_s,
        budget=budget,
    )
    with progress_lines(progress, problem.title) as print_line:

        def report(event: object) -> None:
            if isinstance(event, MatchingProgress):
                print_line(f"{event.sends:,} of {event.total:,} transfers")
            elif isinstance(event, SearchProgress):
                bound = f"lower bound {event.lower_bound_us:.6g} us"
                print_line(f"schedule {event.us:.6g} us, {bound}")

        result = synthesize(problem, report)
    if result.solution is None:
        raise TooLargeError(no_result_reason(result.ended))
    bound_us = None if options.get("priorities") else float(result.best.bound.value)
    return Schedule(_whole_schedule(result.plan), bound_us, str(result.ended))


def _whole_schedule(plan: Any) -> Any:
    """Return a schedule with all transfers in memory."""
    return plan.partial_schedule(ScheduleFilter()) if isinstance(plan, PackedSchedule) else plan


@check_arguments
@describe_arguments(
    name='``"ring"``, ``"swing"``, ... (``sccl synth list`` describes each).',
    size="Size of a rank's buffer, for schedules and for algorithms that depend on it.",
    pieces="Number of pieces of each message.",
    alpha='Model of alpha in a schedule: ``"occupies"`` or ``"travels"``.',
)
def baseline(  # noqa: PLR0913 - the problem and its options
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
    from sccl.synth.baselines.pattern.placement import place_baseline  # noqa: PLC0415 - loads the simulator

    subject = build_problem(core_topology(topology), core_collective(collective), root)
    request = Request(subject.topology, subject.spec, parse_size(str(size)))
    model = parse_choice("alpha", alpha, AlphaModel) or AlphaModel.TRAVELS
    placed = place_baseline(name, request, pieces, model, StepAlignment.PIPELINED)
    return Algorithm(placed.algorithm) if placed.algorithm else Schedule(placed.schedule)
