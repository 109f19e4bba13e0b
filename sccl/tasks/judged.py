"""Return plans that pass verification. Only these are lowered, simulated, or shown on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sccl.core.algorithm import Algorithm, KSynchronous
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.words import counted
from sccl.errors import InputError, ParameterError, TooLargeError
from sccl.judge import violations
from sccl.topo.symmetry.expand import expand

if TYPE_CHECKING:
    from sccl.core.outcome import Plan
    from sccl.core.packed import AnySchedule
    from sccl.core.schedule import Schedule
    from sccl.transform.levels import Levelled


def judged(algorithm: AnyAlgorithm, where: str) -> Algorithm:
    """Return an algorithm with all its sends.

    Args:
        where: Its file name, for messages.

    Raises:
        InputError: It fails verification.
    """
    whole = expand(algorithm)
    if found := violations(whole):
        raise InputError(
            f"{where}: this algorithm fails verification ({counted(len(found), 'violation')}, the "
            f"first: {found[0].message}); see all with 'sccl check'"
        )
    return whole


def judged_schedule(schedule: AnySchedule, where: str) -> Schedule:
    """Return a schedule. A packed schedule is unpacked.

    Args:
        where: Its file name, for messages.

    Raises:
        InputError: It fails verification, or it has too many transfers to unpack.
    """
    from sccl.core import packed  # noqa: PLC0415 - NumPy is slow to load
    from sccl.core.excerpt import Excerpt  # noqa: PLC0415 - likewise

    if isinstance(schedule, packed.PackedSchedule) and schedule.num_sends > packed.MAX_PART:
        raise TooLargeError(
            f"{where}: it has {schedule.num_sends} transfers, and this verb unpacks up to "
            f"{packed.MAX_PART}: verify it with 'sccl check', or take those of a chunk, a rank, "
            "or a time with 'sccl part'"
        )
    if found := violations(schedule):
        raise InputError(
            f"{where}: this schedule fails verification ({counted(len(found), 'violation')}, the "
            f"first: {found[0].message}); see all with 'sccl check'"
        )
    if isinstance(schedule, packed.PackedSchedule):
        return schedule.part(Excerpt())
    return schedule


def judged_steps(plan: Plan, where: str) -> Levelled:
    """Return a plan in steps, and the sends that form one transfer.

    Args:
        where: Its file name, for messages.

    Raises:
        InputError: It fails verification, or steps cannot express its times.
    """
    from sccl.transform.levels import Levelled, levelled  # noqa: PLC0415 - NumPy is slow to load

    if isinstance(plan, KSynchronous):
        return Levelled(judged(plan, where), {})
    schedule = judged_schedule(plan, where)
    try:
        return levelled(schedule)
    except ParameterError as error:
        raise ParameterError(f"{where}: {str(error).removeprefix('schedule: ')}") from error
