"""Verify plans before they are exported, simulated, or displayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sccl.core.algorithm import Algorithm, KSynchronousPlan
from sccl.core.formatting import format_count
from sccl.core.symmetric import AnyAlgorithm
from sccl.errors import InputError, ParameterError, TooLargeError
from sccl.judge import violations
from sccl.topo.symmetry.expansion import expand_algorithm

if TYPE_CHECKING:
    from sccl.core.outcome import Plan
    from sccl.core.packed_schedule import AnySchedule
    from sccl.core.schedule import Schedule
    from sccl.transform.levels import SteppedSchedule


def validated_algorithm(algorithm: AnyAlgorithm, where: str) -> Algorithm:
    """Return a verified algorithm. A symmetric algorithm is expanded to all sends.

    Args:
        algorithm: Algorithm to verify.
        where: File name for error messages.

    Raises:
        InputError: The algorithm fails verification.
    """
    expanded = expand_algorithm(algorithm)
    if faults := violations(expanded):
        raise InputError(
            f"{where}: this algorithm fails verification "
            f"({format_count(len(faults), 'violation')}, the "
            f"first: {faults[0].message}); see all with 'sccl check'"
        )
    return expanded


def validated_schedule(schedule: AnySchedule, where: str) -> Schedule:
    """Return a verified schedule. A packed schedule is unpacked.

    Args:
        schedule: Schedule to verify.
        where: File name for error messages.

    Raises:
        InputError: The schedule fails verification, or has too many transfers to unpack.
    """
    from sccl.core import packed_schedule  # noqa: PLC0415 - NumPy is slow to load
    from sccl.core.schedule import ScheduleFilter  # noqa: PLC0415 - NumPy is slow to load

    if (
        isinstance(schedule, packed_schedule.PackedSchedule)
        and schedule.num_sends > packed_schedule.MAX_PART_TRANSFERS
    ):
        raise TooLargeError(
            f"{where}: it has {schedule.num_sends} transfers, and this verb reads up to "
            f"{packed_schedule.MAX_PART_TRANSFERS}: verify it with 'sccl check', or extract a "
            "chunk, a rank, or a time interval with 'sccl show'"
        )
    if faults := violations(schedule):
        raise InputError(
            f"{where}: this schedule fails verification ({format_count(len(faults), 'violation')}, "
            "the "
            f"first: {faults[0].message}); see all with 'sccl check'"
        )
    if isinstance(schedule, packed_schedule.PackedSchedule):
        return schedule.partial_schedule(ScheduleFilter())
    return schedule


def validated_steps(plan: Plan, where: str) -> SteppedSchedule:
    """Return a verified plan in steps, with the sends that share a transfer.

    Args:
        plan: Plan to verify.
        where: File name for error messages.

    Raises:
        InputError: The plan fails verification, or steps cannot express its times.
    """
    from sccl.transform.levels import SteppedSchedule, assign_steps  # noqa: PLC0415 - NumPy is slow to load

    if isinstance(plan, KSynchronousPlan):
        return SteppedSchedule(validated_algorithm(plan, where), {})
    schedule = validated_schedule(plan, where)
    try:
        return assign_steps(schedule)
    except ParameterError as error:
        raise ParameterError(f"{where}: {str(error).removeprefix('schedule: ')}") from error
