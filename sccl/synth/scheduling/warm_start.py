"""Warm starts: list schedules of TACOS, which matches links with chunks step by step in time."""

from __future__ import annotations

from sccl.core.outcome import best_plan
from sccl.core.schedule import Schedule
from sccl.core.stop import StopReason
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem


class NoScheduleError(Exception):
    """No first schedule was found."""

    def __init__(self, reason: StopReason) -> None:
        """Store the reason."""
        super().__init__(str(reason))
        self.reason = reason


def warm_start_from_tacos(
    request: Request, chunks: int, alpha: str, effort: Effort, improve: float = 1.0
) -> tuple[Schedule, StopReason]:
    """Return the schedule of TACOS, and why the search ended before its budget was spent.

    Args:
        request: Machine, collective, and size.
        chunks: Chunks per part.
        alpha: Alpha model.
        effort: The budget.
        improve: Effort of improvements, relative to the effort of the schedule.

    Raises:
        InputError: TACOS does not support the request.
        NoScheduleError: Time ran out before there was a schedule.
    """
    listed = registry.load("tacos")
    options = listed.Options(chunks=chunks, alpha=alpha, improve=improve)
    outcome = registry.plan(listed, request, options, Effort(effort.timeout_s, effort.seed))
    result, reason = best_plan(outcome)
    if result is None:
        raise NoScheduleError(reason)
    assert isinstance(result.plan, Schedule)
    return result.plan, reason


def schedule_to_sends(problem: SchedulingProblem, schedule: Schedule) -> tuple[ChunkSend, ...]:
    """Return the transfers of a schedule as sends over routes."""
    starts, chunks, links = (
        column.tolist() for column in (schedule.start, schedule.chunk, schedule.link)
    )
    if schedule.message is None:
        rows = zip(starts, chunks, links, strict=True)
        return tuple(ChunkSend(start // problem.unit, *where) for start, *where in rows)
    number = {path: index for index, path in enumerate(problem.route_links)}
    hops: dict[int, list[int]] = {}
    for row, message in enumerate(schedule.message.tolist()):
        hops.setdefault(message, []).append(row)
    return tuple(
        ChunkSend(
            starts[rows[0]] // problem.unit, chunks[rows[0]], number[tuple(links[r] for r in rows)]
        )
        for rows in hops.values()
    )
