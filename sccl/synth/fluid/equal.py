"""Schedules of equal chunks, compared with the bound for any chunking, where packings are weak.

An allreduce is more than two phases, one after the other, and on machines of many ranks without
structure the cheapest trees cannot be computed. List scheduling comes near the bound there as soon
as chunks are small.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction

from sccl.core.algorithm import Algorithm
from sccl.core.outcome import Bound, Found, GaveUp, Measure, Outcome
from sccl.errors import TooLargeError
from sccl.prove.bounds import least_time
from sccl.solvers.effort import LATE, Effort
from sccl.synth import registry
from sccl.synth.contract import Request

_PS_PER_US = 10**6

CHUNKS = (1, 4, 16, 64)
"""Per part, as long as there are not too many sends."""

FINE = (64, 256, 1024)
"""Numbers of chunks of one rank's data for all, if all ranks forward: finer is nearer to the
bound.
"""

_MOST_SENDS = 200_000

_OVERLAPPING = 0.2
"""Effort for an allreduce with overlapping phases, if there is one with two phases."""

_TREE_RANKS, _TREE_STEPS, _TREE_UNITS = 16, 3, 1.0
"""Ranks up to which an allreduce in groups is also looked for by trees, of how many numbers of
steps, and effort for each. (Of all ranks two phases are as near. In groups trees take less.)"""


def overlapping(request: Request, effort: Effort, units: float, seconds: float) -> Outcome:
    """Return a schedule of which no phase waits for the other, and the bound of any chunks.

    An allreduce of few bytes takes half as long then: all ranks get all contributions, and reduce
    by themselves.

    Args:
        seconds: that are left, where time is limited.

    Raises:
        InputError: the machine is too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    teccl = registry.load("teccl")
    outcome = registry.plan(
        teccl, request, teccl.Options(alpha="travels"), _some(effort, units, seconds)
    )
    best = outcome.best if isinstance(outcome, GaveUp) else outcome
    if not isinstance(best, Found):
        return GaveUp(_why(outcome, effort)) if isinstance(outcome, GaveUp) else outcome
    found = _bounded(best, least_time(request.topology, request.spec).us(request.size_bytes))
    return GaveUp(_why(outcome, effort), found) if isinstance(outcome, GaveUp) else found


def better(request: Request, phases: Found, effort: Effort, deadline: float) -> Found:
    """Return the best of two phases, a schedule of which no phase waits for the other, and trees.

    Args:
        deadline: of ``time.perf_counter()``.
    """
    seconds = deadline - time.perf_counter()
    if seconds <= 0:
        return phases
    try:
        outcome = overlapping(request, effort, _OVERLAPPING, seconds)
    except (TooLargeError, KeyboardInterrupt):
        return phases
    best = outcome.best if isinstance(outcome, GaveUp) else outcome
    grouped = bool(request.spec.post.pattern) and not request.spec.counts
    found = [phases, *([best] if isinstance(best, Found) else [])]
    if grouped and request.topology.ranks <= _TREE_RANKS and not request.topology.switches:
        found += _by_trees(request, effort, deadline)
    return min(found, key=lambda one: one.bound.attained)


def _by_trees(request: Request, effort: Effort, deadline: float) -> Iterator[Found]:
    """Yield allreduces by trees of a few steps, each send as soon as it can.

    Args:
        deadline: of ``time.perf_counter()``.
    """
    from sccl.transform.retime import schedule_of  # noqa: PLC0415 - NumPy is slow to load

    limit, steps = registry.load("limit"), 1
    floor = least_time(request.topology, request.spec).us(request.size_bytes)
    for _ in range(_TREE_STEPS):
        seconds = deadline - time.perf_counter()
        if seconds <= 0:
            return
        told = limit.Options(trees=True, steps=None if steps == 1 else steps)
        try:
            outcome = registry.plan(limit, request, told, _some(effort, _TREE_UNITS, seconds))
        except (TooLargeError, KeyboardInterrupt):
            return
        best = outcome.best if isinstance(outcome, GaveUp) else outcome
        if not isinstance(best, Found) or not isinstance(best.plan, Algorithm):
            return
        chunks, steps = best.plan.collective.chunks, best.plan.steps + 1
        made = schedule_of(best.plan, -(-request.size_bytes // chunks))
        took = Fraction(made.finish * made.tick_ps, _PS_PER_US)
        yield Found(made, Bound(Measure.TIME_US, took, floor))


def finer(request: Request, packed: Found, enough: Fraction, effort: Effort, left: float) -> Found:
    """Return the better of packings and of many chunks of one rank's data for all.

    If there are several chassis, the packed trees enter each once, and each after another one in
    turn. A list of chunks may enter anywhere. It takes tenths of a second.

    Args:
        enough: microseconds at which to stop.
        left: seconds.
    """
    tacos, best, deadline = registry.load("tacos"), packed, time.perf_counter() + left
    for chunks in FINE:
        seconds = deadline - time.perf_counter()
        many = chunks * request.topology.ranks
        if best.bound.attained <= enough or seconds <= 0 or many > _MOST_SENDS:
            break
        told = tacos.Options(chunks=chunks, alpha="travels", improve=0.0)
        try:
            outcome = registry.plan(tacos, request, told, _some(effort, None, seconds))
        except (TooLargeError, KeyboardInterrupt):
            break
        found = outcome.best if isinstance(outcome, GaveUp) else outcome
        if isinstance(found, Found) and found.bound.attained < best.bound.attained:
            assert packed.bound.least is not None
            best = _bounded(found, Fraction(packed.bound.least))
    return best


def listed(
    request: Request, floor: Fraction, gap: float, effort: Effort, deadline: float
) -> Outcome:
    """Return the best list schedule for some numbers of chunks.

    Args:
        floor: lower bound, microseconds.
        gap: allowed relative gap to it.
        deadline: time by ``time.perf_counter()``.

    Raises:
        InputError: the machine or the collective is not supported.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    tacos, best, ended = registry.load("tacos"), None, ""
    classes = request.spec.at(request.spec.unit).classes().items()
    each = sum(len(own) * len(post - pre) for (pre, post), own in classes)
    for chunks in CHUNKS:
        seconds = deadline - time.perf_counter()
        if best is not None and (each * chunks > _MOST_SENDS or seconds <= 0):
            ended = effort.why_late if seconds <= 0 else ""
            break
        told = tacos.Options(chunks=chunks, alpha="travels", improve=1.0)
        try:
            outcome = registry.plan(tacos, request, told, _some(effort, None, max(seconds, 1e-3)))
        except KeyboardInterrupt:
            if best is None:
                raise
            ended = "interrupted"
            break
        found = outcome.best if isinstance(outcome, GaveUp) else outcome
        ended = _why(outcome, effort) if isinstance(outcome, GaveUp) else ""
        if isinstance(found, Found) and (
            best is None or found.bound.attained < best.bound.attained
        ):
            best = _bounded(found, floor)
        if ended or (best is not None and best.bound.attained <= floor * (1 + Fraction(gap))):
            break
    if ended or best is None:
        return GaveUp(ended or "no schedule", best)
    return best


def _some(effort: Effort, units: float | None, seconds: float) -> Effort:
    return Effort(None if effort.timeout_s is None else seconds, effort.seed, units)


def _why(outcome: GaveUp, effort: Effort) -> str:
    """Return why it ended, in terms of the user's limit and not of the remaining time."""
    late = outcome.reason.startswith(LATE)
    return effort.why_late if late else outcome.reason


def _bounded(found: Found, floor: Fraction) -> Found:
    """Return a schedule with the bound of any chunks instead of its own."""
    return Found(found.plan, Bound(Measure.TIME_US, found.bound.attained, floor))
