"""Write tables with a row for each send or transfer, for spreadsheets and pandas.

Source: RFC 4180, with a head line. All cells are numbers, so none can be a formula. An algorithm
has ``step, chunk, src, dst, reduce``. A schedule has ``start_us, end_us, arrive_us, chunk, src,
dst, bytes, reduce``, in order of start. Switches are numbered after ranks. Rows of one link with
equal times form one transfer. The format is only written, because a table contains neither machine
nor demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sccl.core.algorithm import Algorithm
from sccl.core.packed_schedule import transfer_rows
from sccl.core.schedule import Schedule
from sccl.formats.common.contract import FormatOptions, SizedPlan, WrittenFiles, write_only

NAME = "csv"
ABOUT = "a table of all sends, or of all transfers with their times"
SOURCE = "RFC 4180"
TAKES = (Algorithm, Schedule)
BY_SIZE = False
MIXES = False

Options = FormatOptions
"""The format has no options."""


def write(plans: Sequence[SizedPlan], options: FormatOptions) -> WrittenFiles:  # noqa: ARG001
    """Return a table for each plan."""
    files = {f"{plan.name}.csv": "".join(_rows(plan.plan)).encode() for plan in plans}
    file = "{path}" if len(plans) == 1 else "{path}/" + f"{plans[0].name}.csv"
    return WrittenFiles(files, f"libreoffice --calc {file}")


sniff, read = write_only("a table of sends contains neither machine nor collective")


def _rows(plan: Algorithm | Schedule) -> Iterator[str]:
    if isinstance(plan, Algorithm):
        yield "step,chunk,src,dst,reduce\r\n"
        for s in sorted(plan.sends):
            yield f"{s.step},{s.chunk},{s.src},{s.dst},{int(s.reduce)}\r\n"
        return
    yield "start_us,end_us,arrive_us,chunk,src,dst,bytes,reduce\r\n"
    sizes = plan.chunk_bytes
    for *times, chunk, src, dst, reduces in transfer_rows(plan):
        size = sizes if isinstance(sizes, int) else sizes[chunk]
        time_fields = ",".join(f"{us:.6f}" for us in times)
        yield f"{time_fields},{chunk},{src},{dst},{size},{int(reduces)}\r\n"
