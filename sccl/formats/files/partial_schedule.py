"""Extract parts of schedules: selected transfers as a separate schedule."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from sccl.core.algorithm import KSynchronousPlan
from sccl.core.files.outputs import Output, build_output, plan_digests
from sccl.core.files.shapes import FileText, NonNegative
from sccl.core.progress import ProgressCallback
from sccl.errors import FormatError, ParameterError
from sccl.formats.files.plans import load_plan, write_plan

if TYPE_CHECKING:
    from sccl.core.packed_schedule import AnySchedule
    from sccl.core.schedule import Schedule


class PartOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl show'."""

    kind: Literal["part"] = "part"
    collective: str
    topology: str
    sends: Annotated[NonNegative, "Number of transfers of the part."]
    of: Annotated[NonNegative, "Number of transfers of the whole schedule."]
    file: FileText | None


def extract_part(
    file: Path,
    chunk: int | None,
    rank: int | None,
    span_us: tuple[float, float | None],
    on_progress: ProgressCallback,
) -> tuple[Schedule, AnySchedule]:
    """Return selected transfers of a schedule's file, and the whole schedule.

    Args:
        chunk: Chunk of the transfers. None: any.
        rank: Source or destination of the transfers. None: any.
        span_us: First start, and time before which transfers start (None: no limit), microseconds.
        on_progress: Callback with the amount of work done, and the total.

    Raises:
        InputError: The file contains no schedule, or there is no such chunk, rank or time.
    """
    from sccl.core.packed_schedule import PackedSchedule  # noqa: PLC0415 - NumPy is slow to load
    from sccl.core.schedule import ScheduleFilter  # noqa: PLC0415 - NumPy is slow to load

    schedule, _ = load_plan(file, on_progress)
    if isinstance(schedule, KSynchronousPlan):
        raise FormatError(f"{file}: it holds an algorithm, expected a schedule")
    begin, until = (None if us is None else _first_tick(us, schedule.tick_ps) for us in span_us)
    chosen = ScheduleFilter(chunk, rank, begin or 0, until)
    if isinstance(schedule, PackedSchedule):
        return schedule.partial_schedule(chosen, on_progress), schedule
    return chosen.apply(schedule), schedule


def _first_tick(us: float, tick_ps: int) -> int:
    """Return the first tick that is not before a time.

    Raises:
        ParameterError: The time is not finite.
    """
    if not math.isfinite(us):
        raise ParameterError(f"a time is {us} us, expected a finite number")
    return math.ceil(us * 1e6 / tick_ps)


def part_output(file: Path, part: Schedule, source: AnySchedule, output: Path | None) -> PartOutput:
    """Return the JSON output of a part, and write the part if requested.

    Raises:
        InputError: It cannot be written.
    """
    if output is not None:
        write_plan(output, part)
    return build_output(
        PartOutput,
        part,
        inputs=plan_digests({str(file): source}),
        sends=part.num_sends,
        of=source.num_sends,
        file=output,
    )
