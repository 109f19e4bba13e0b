"""Tables of TACOS's figures for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rich.table import Table

from benchmarks.tacos.cases import TACOS
from benchmarks.tacos.measure import FigureResult
from sccl.core.cost import format_bytes


def figures_table(results: Sequence[FigureResult]) -> Table:
    """Return a table with a row for each bar or dot."""
    table = Table(title="TACOS's figures: judged schedules and simulated classical algorithms")
    for name in ("figure", "machine", "algorithm"):
        table.add_column(name)
    for name in ("size", "us", "GB/s", "of ideal", "of two phases", "busy", "seconds"):
        table.add_column(name, justify="right")
    for r in results:
        cells = (
            f"{r.us:,.1f}",
            f"{r.gb_per_s:.4g}",
            f"{r.efficiency:.1%}",
            f"{r.phased_us / r.us:.1%}",
            f"{r.busy:.1%}",
            f"{r.seconds:.3f}",
        )
        table.add_row(
            r.case.figure,
            r.case.topology,
            r.case.algorithm,
            format_bytes(r.case.size_bytes),
            *cells,
        )
    return table


def means(results: Sequence[FigureResult]) -> dict[str, dict[str, float]]:
    """Return the mean efficiency of each algorithm, by figure."""
    efficiencies: dict[str, dict[str, list[float]]] = {}
    for r in results:
        by_name = efficiencies.setdefault(r.case.figure, {})
        by_name.setdefault(name_of(r), []).append(r.efficiency)
    return {
        figure: {name: fmean(values) for name, values in by_name.items()}
        for figure, by_name in efficiencies.items()
    }


def name_of(result: FigureResult) -> str:
    """Return the name of a result: its algorithm, and its pieces if the figure compares several."""
    return series_name(result.case.algorithm, result.pieces, len(result.case.pieces))


def series_name(algorithm: str, pieces: int, tried: int) -> str:
    """Return the name of a chart line, with its pieces if they are not the best of several."""
    if algorithm == TACOS:
        return "TACOS"
    return algorithm if tried > 1 or pieces == 1 else f"{algorithm}, {pieces} pieces"
