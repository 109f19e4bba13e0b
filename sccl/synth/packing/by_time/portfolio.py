"""Schedules of other synthesizers near the bound, for problems where packings are weak.

An allreduce can be better than two consecutive phases (TE-CCL, and limits by steps in process
groups). On machines of many ranks without structure, the cheapest trees cannot be computed, and
list scheduling (TACOS) comes near the bound as soon as chunks are small.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction

from sccl.core.algorithm import Algorithm
from sccl.core.bound import Bound, Measure
from sccl.core.outcome import Inconclusive, Outcome, Solution
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopKind, StopReason
from sccl.errors import TooLargeError
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.limits import MAX_REFINED_SENDS, MAX_SMALL_RANKS, QUICK_EFFORT, TRIAL_EFFORT

CHUNK_COUNTS = (1, 4, 16, 64)
"""Per part, as long as there are not too many sends."""

FINE_CHUNK_COUNTS = (64, 256, 1024)
"""Numbers of chunks of one rank's data for all, if all ranks forward: finer is nearer to the
bound.
"""

NO_SCHEDULE = StopReason(StopKind.BUDGET, "no schedule")

_TREE_STEPS = 3
"""Numbers of steps for which an allreduce in groups is also searched by trees. For one group of all
ranks, two phases have the same gap."""


def plan_overlapping(request: Request, effort: Effort, units: float, seconds: float) -> Outcome:
    """Return an allreduce with overlapping phases, and the lower bound over all chunkings.

    For few bytes this takes half the time: all ranks receive all contributions and reduce them
    themselves.

    Args:
        seconds: Remaining seconds if time is limited.

    Raises:
        InputError: The machine is too large.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    teccl = registry.load("teccl")
    outcome = registry.plan(
        teccl, request, teccl.Options(alpha="travels"), _partial_effort(effort, units, seconds)
    )
    result = _best_solution(outcome)
    if result is not None:
        floor = completion_time_bound(request.topology, request.spec).us(request.size_bytes)
        result = _with_bound(result, floor, teccl.NAME)
    if isinstance(outcome, Inconclusive):
        return Inconclusive(_stop_reason(outcome, effort), result)
    return result or outcome


def improve_two_phases(
    request: Request, phases: Solution, effort: Effort, deadline: float
) -> Solution:
    """Return the best of two phases, a schedule with overlapping phases, and trees.

    Args:
        deadline: Deadline on the clock of ``time.perf_counter()``.
    """
    seconds = deadline - time.perf_counter()
    if seconds <= 0:
        return phases
    try:
        outcome = plan_overlapping(request, effort, TRIAL_EFFORT, seconds)
    except (TooLargeError, KeyboardInterrupt):
        return phases
    best = _best_solution(outcome)
    grouped = bool(request.spec.post.pattern) and not request.spec.counts
    candidates = [phases, *([best] if best else [])]
    if grouped and request.topology.ranks <= MAX_SMALL_RANKS and not request.topology.switches:
        candidates += _tree_schedules(request, effort, deadline)
    return min(candidates, key=lambda candidate: candidate.objective)


def _tree_schedules(request: Request, effort: Effort, deadline: float) -> Iterator[Solution]:
    """Yield allreduces by trees of a few steps, with each send as soon as possible.

    Args:
        deadline: Deadline on the clock of ``time.perf_counter()``.
    """
    from sccl.transform.retime import schedule_algorithm  # noqa: PLC0415 - NumPy is slow to load

    limit, steps = registry.load("limits"), 1
    floor = completion_time_bound(request.topology, request.spec).us(request.size_bytes)
    for _ in range(_TREE_STEPS):
        seconds = deadline - time.perf_counter()
        if seconds <= 0:
            return
        options = limit.Options(trees=True, steps=None if steps == 1 else steps)
        try:
            outcome = registry.plan(
                limit, request, options, _partial_effort(effort, QUICK_EFFORT, seconds)
            )
        except (TooLargeError, KeyboardInterrupt):
            return
        best = _best_solution(outcome)
        if best is None or not isinstance(best.plan, Algorithm):
            return
        chunks, steps = best.plan.collective.chunks, best.plan.steps + 1
        made = schedule_algorithm(best.plan, -(-request.size_bytes // chunks))
        yield Solution(made, made.finish_us, Bound(Measure.TIME_US, floor, ()), "limit by steps")


def refine_chunks(
    request: Request, packed: Solution, target_us: Fraction, effort: Effort, left: float
) -> Solution:
    """Return the better of a packing and of list schedules with many chunks of one rank's data.

    With several chassis, packed trees enter each chassis once, one chassis after another. A list
    schedule may enter a chassis anywhere. It takes tenths of a second.

    Args:
        target_us: Time at which the search ends, in microseconds.
        left: Remaining seconds.
    """
    tacos, best, deadline = registry.load("tacos"), packed, time.perf_counter() + left
    for chunks in FINE_CHUNK_COUNTS:
        seconds = deadline - time.perf_counter()
        many = chunks * request.topology.ranks
        if best.objective <= target_us or seconds <= 0 or many > MAX_REFINED_SENDS:
            break
        options = tacos.Options(chunks=chunks, alpha="travels", improve=0.0)
        try:
            outcome = registry.plan(tacos, request, options, _partial_effort(effort, None, seconds))
        except (TooLargeError, KeyboardInterrupt):
            break
        candidate = _best_solution(outcome)
        if candidate is not None and candidate.objective < best.objective:
            best = _with_bound(candidate, packed.bound.value, tacos.NAME)
    return best


def plan_by_list_scheduling(
    request: Request, floor: Fraction, gap: float, effort: Effort, deadline: float
) -> Outcome:
    """Return the best list schedule for some numbers of chunks.

    Args:
        floor: Lower bound in microseconds.
        gap: Allowed relative gap to the bound.
        deadline: Deadline on the clock of ``time.perf_counter()``.

    Raises:
        InputError: The machine or the collective is not supported.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    tacos, best, ended = registry.load("tacos"), None, NOT_STOPPED
    classes = request.spec.at(request.spec.unit).chunk_classes().items()
    each = sum(len(class_chunks) * len(post - pre) for (pre, post), class_chunks in classes)
    for chunks in CHUNK_COUNTS:
        seconds = deadline - time.perf_counter()
        if best is not None and (each * chunks > MAX_REFINED_SENDS or seconds <= 0):
            ended = effort.timeout_reason if seconds <= 0 else NOT_STOPPED
            break
        options = tacos.Options(chunks=chunks, alpha="travels", improve=1.0)
        try:
            outcome = registry.plan(
                tacos, request, options, _partial_effort(effort, None, max(seconds, 1e-3))
            )
        except KeyboardInterrupt:
            if best is None:
                raise
            ended = INTERRUPTED
            break
        candidate = _best_solution(outcome)
        ended = _stop_reason(outcome, effort) if isinstance(outcome, Inconclusive) else NOT_STOPPED
        if candidate is not None and (best is None or candidate.objective < best.objective):
            best = _with_bound(candidate, floor, tacos.NAME)
        if ended or (best is not None and best.objective <= floor * (1 + Fraction(gap))):
            break
    if ended or best is None:
        return Inconclusive(ended or NO_SCHEDULE, best)
    return best


def _best_solution(outcome: Outcome) -> Solution | None:
    best = outcome.best if isinstance(outcome, Inconclusive) else outcome
    return best if isinstance(best, Solution) else None


def _partial_effort(effort: Effort, units: float | None, seconds: float) -> Effort:
    return Effort(None if effort.timeout_s is None else seconds, effort.seed, units)


def _stop_reason(outcome: Inconclusive, effort: Effort) -> StopReason:
    """Return the stop reason, with the user's time limit instead of the remaining time."""
    is_late = outcome.reason.kind is StopKind.TIMEOUT
    return effort.timeout_reason if is_late else outcome.reason


def _with_bound(result: Solution, floor: Fraction, synthesizer: str) -> Solution:
    """Return a synthesizer's schedule with the bound over all chunkings instead of its own."""
    return Solution(result.plan, result.objective, Bound(Measure.TIME_US, floor, ()), synthesizer)
