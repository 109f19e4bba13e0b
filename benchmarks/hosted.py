"""Compare bundles that serve PyTorch jobs through shared memory with gloo, in one run."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

import msgspec
from rich.table import Table

from benchmarks.record import begin
from sccl.core.cost import format_bytes
from sccl.runtime.command_sessions import iterate_lines
from sccl.view.charts import measured_chart

if TYPE_CHECKING:
    from sccl.view.charts import ChartType

ROOT = Path(__file__).parent.parent
PART = "bundles"
SIZES = tuple(4**k for k in range(1, 13))
"""Bytes that a rank contributes: 4 bytes to 16 MiB."""

RANKS = (2, 4)
_ROUNDS = 9


@dataclass(frozen=True, slots=True)
class BundleResult:
    """Time of a call, the median of the rounds.

    Attributes:
        size_bytes: Bytes that a rank contributes.
        us: Time under the backend ``sccl``, without a plan.
        gloo_us: Time under gloo, in turns with ``sccl``.
        load: Load of the machine at the end.
    """

    part: str
    collective: str
    ranks: int
    size_bytes: int
    us: float
    gloo_us: float
    load: float


class _Row(msgspec.Struct):
    collective: str
    size_bytes: int
    us: float
    gloo_us: float


def run(python: Path, *, smoke: bool) -> Iterator[BundleResult]:
    """Yield the times of calls of 2 and 4 processes.

    Args:
        python: Python interpreter with torch.
        smoke: Whether to run two sizes on two processes, once.

    Raises:
        ToolError: A job failed.
    """
    sizes, rounds = ((4, 65536), 1) if smoke else (SIZES, _ROUNDS)
    for ranks in RANKS[:1] if smoke else RANKS:
        start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        program = str(ROOT / "benchmarks" / "hosted_rank.py")
        words = [str(python), *start, program, str(rounds), ",".join(map(str, sizes))]
        paths = os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])
        settings = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONPATH": paths}
        failed = partial("the job of {} ranks ended with exit code {}".format, ranks)
        output = iterate_lines(words, ROOT, {**os.environ, **settings}, failed, begin="{")
        with closing(output) as lines:
            for line in lines:
                row = msgspec.json.decode(line, type=_Row)
                fields = (row.collective, ranks, row.size_bytes, row.us, row.gloo_us)
                yield BundleResult(PART, *fields, os.getloadavg()[0])


def measure(python: Path, output: Path | None, *, smoke: bool) -> list[BundleResult]:
    """Measure all sizes, and write the results if there is an output file.

    Raises:
        ToolError: A job failed.
    """
    record = begin("bundles", output, {"smoke": smoke}, {})
    results: list[BundleResult] = []
    for result in run(python, smoke=smoke):
        results.append(result)
        record.write(results, len(results) + 1, times_as_fast(results))
    record.write(results, len(results), times_as_fast(results))
    return results


def times_as_fast(results: Sequence[BundleResult]) -> dict[str, float]:
    """Return the mean speedup over gloo for each collective and number of ranks."""
    speedups: dict[str, list[float]] = {}
    for result in results:
        name = f"{result.collective} of {result.ranks}: times gloo"
        speedups.setdefault(name, []).append(result.gloo_us / result.us)
    return {name: geometric_mean(ratios) for name, ratios in speedups.items()}


def hosted_table(results: Sequence[BundleResult]) -> Table:
    """Return a table with a row for each size."""
    table = Table("Bytes", title="Bundles in PyTorch jobs, and gloo (\u00b5s of a call)")
    cells = {(r.collective, r.ranks, r.size_bytes): r for r in results}
    columns = list(dict.fromkeys((name, ranks) for name, ranks, _ in cells))
    for name, ranks in columns:
        table.add_column(f"{name} of {ranks}", justify="right")
    for size in sorted({size for *_, size in cells}):
        row = [cells.get((*column, size)) for column in columns]
        texts = ("" if r is None else f"{r.us:.0f} {r.gloo_us:.0f} x{r.gloo_us / r.us:.2f}"
                for r in row)  # fmt: skip
        table.add_row(format_bytes(size), *texts)
    return table


def charts(results: Sequence[Mapping[str, Any]]) -> list[ChartType]:
    """Return a chart of the speedup of bundles by size."""
    rows = [
        {
            "bytes": r["size_bytes"],
            "times": r["gloo_us"] / r["us"],
            "series": f"{r['collective']} of {r['ranks']}",
        }
        for r in results
    ]
    return [
        measured_chart(rows, "bytes", "times", "series", title="Bundles in PyTorch jobs",
                       x_title="Bytes that a rank gives", y_title="Times as fast as gloo",
                       x_bytes=True, log_y=True)
    ]  # fmt: skip
