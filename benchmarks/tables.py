"""A table of the paper from end to end: contenders, their order, and the printed results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks import peer, report, rows
from benchmarks.paper import PaperRow, PaperTable, load_table
from benchmarks.record import begin
from benchmarks.summary import Ratio, Total, paper_total, ratio, total
from benchmarks.timing import Raced, race
from sccl.cli.report import err, out
from sccl.synth.syncoll import solve

REFERENCE = "z3"
"""Our solver with the paper's encoding, for comparison with ``msccl``, which has the same one."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run."""

    solvers: tuple[str, ...]
    timeout_s: float
    repeat: int
    smoke: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a table.

    Attributes:
        ratio: ``msccl`` compared with :data:`REFERENCE`.
        default: ``msccl`` compared with the default solver.
    """

    totals: tuple[Total, ...]
    ratio: Ratio | None
    default: Ratio | None


def run(
    name: str, settings: Settings, msccl: str | None, output: Path | None
) -> list[Raced[PaperRow]]:
    """Time a table, print it, and return its rows.

    Args:
        name: ``table4`` or ``table5``.
        msccl: Command, if the user named one.
        output: Path of the results, written after every row.

    Raises:
        InputError: ``msccl`` cannot run, or ``output`` cannot be written.
    """
    published = load_table(name)
    command = peer.find(msccl)
    contenders = [rows.contender(solver, settings.timeout_s) for solver in settings.solvers]
    if command:
        contenders.append(peer.contender(command, settings.timeout_s))
    facts = {"paper": published.source, "peer": peer.versions(command) if command else None}
    record = begin(name, output, settings, facts)
    selected = published.smallest() if settings.smoke else published.rows
    names = [c.name for c in contenders]
    results: list[Raced[PaperRow]] = []
    for row in selected:
        results.append(Raced(row, race(row, contenders, settings.repeat)))
        record.write(results, len(selected), _summary(results, names))
        _progress(results[-1], settings.timeout_s)
    _print(out(), published, results, settings, _summary(results, names))
    return results


def _summary(results: Sequence[Raced[PaperRow]], names: Sequence[str]) -> Summary:
    totals = (paper_total(results), *(total(name, results) for name in names))
    ratios = {
        solver: ratio(peer.NAME, solver, results)
        for solver in (REFERENCE, solve.DEFAULT_SOLVER)
        if {solver, peer.NAME} <= set(names)
    }
    return Summary(totals, ratios.get(REFERENCE), ratios.get(solve.DEFAULT_SOLVER))


def _progress(result: Raced[PaperRow], timeout_s: float) -> None:
    cells = (f"{n} {report.timing_text(t, timeout_s)}" for n, t in result.timings.items())
    err().print(f"{result.job}: {', '.join(cells)}")


def _print(
    console: Console,
    published: PaperTable,
    results: Sequence[Raced[PaperRow]],
    settings: Settings,
    summary: Summary,
) -> None:
    with_peer = any(peer.NAME in r.timings for r in results)
    console.print(
        report.rows_table(published.title, results, settings.solvers, peer.NAME, settings.timeout_s)
    )
    if not with_peer:
        console.print("msccl: not on the path, so its columns are empty (--msccl COMMAND).")
    console.print(report.totals_table(summary.totals))
    for comparison in (summary.ratio, summary.default):
        if comparison:
            console.print(report.ratio_text(comparison))
