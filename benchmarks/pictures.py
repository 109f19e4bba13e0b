"""Draw pictures of results from the files that ``-o`` writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import hosted
from benchmarks import syndicate_charts as syndicate
from benchmarks import taccl_charts as taccl
from benchmarks import teccl_charts as teccl
from benchmarks.enforce_report import charts as enforced
from benchmarks.scale import series_of
from benchmarks.tacos import charts as tacos
from sccl.core.files.disk import read_text
from sccl.errors import FormatError, InputError, ParameterError
from sccl.view.charts import measured_chart, save_chart, stack_charts

if TYPE_CHECKING:
    from sccl.view.charts import ChartType

Results = Sequence[Mapping[str, Any]]


_TOGETHER = frozenset({"teccl-epochs", "teccl-scale", "taccl"})
"""Benchmarks that run in parts, and whose files make one picture."""


def draw(files: Sequence[Path], path: Path, only: Sequence[str] = ()) -> None:
    """Write one picture of the results in files, one below the other.

    Args:
        only: Figures of TACOS to draw. Empty: all.

    Raises:
        FormatError: A file is not a result of a benchmark.
        ParameterError: There is no picture of such results.
    """
    entries: list[tuple[Path, str, list[Mapping[str, Any]]]] = []
    for file in files:
        with _name_file_in_errors(file):
            plain = json.loads(read_text(file))
            name, results = plain["benchmark"], list(plain["results"])
        matches = [rows for _, other_name, rows in entries if other_name == name in _TOGETHER]
        if matches:
            matches[0].extend(results)
        else:
            entries.append((file, name, results))
    save_chart(stack_charts([chart for entry in entries for chart in _charts(*entry, only)]), path)


@contextmanager
def _name_file_in_errors(file: Path) -> Iterator[None]:
    """Name the file in errors about its content.

    Raises:
        FormatError: A field is missing or has another type.
    """
    try:
        yield
    except InputError:
        raise
    except (ArithmeticError, ValueError, LookupError, TypeError) as error:
        raise FormatError(
            f"{file}: expected what 'python -m benchmarks ... -o' writes ({error!r})"
        ) from error


def _charts(file: Path, name: str, results: Results, only: Sequence[str]) -> list[ChartType]:
    if name != "tacos" and name not in _DRAWN:
        raise ParameterError(f"{file}: no picture of {name!r}, only of {', '.join(_DRAWN)}, tacos")
    with _name_file_in_errors(file):
        return tacos.charts(results, only) if name == "tacos" else _DRAWN[name](results)


def _scale(results: Results) -> list[ChartType]:
    """Return charts of seconds, memory, and variables by ranks."""
    rows = [
        r | r["spec"] | {"series": series_of(r["spec"]["family"], r["spec"]["symmetry"])}
        for r in results
        if r["verdict"] == "sat"
    ]
    kinds = (
        ("seconds", "Time of the whole process", "seconds"),
        ("memory_mb", "Memory", "MB"),
        ("variables", "Model", "variables"),
    )
    return [
        measured_chart(rows, "ranks", field, "series", title=title, x_title="Ranks",
                       y_title=unit, log_x=True, log_y=True)
        for field, title, unit in kinds
    ]  # fmt: skip


def _growth(results: Results) -> list[ChartType]:
    """Return charts of processor time and memory of every collective by ranks, per family."""
    charts = []
    for family in dict.fromkeys(r["family"] for r in results):
        rows = [
            {**r, "series": r["collective"]}
            for r in results
            if r["family"] == family and r["user_seconds"] is not None
        ]
        charts += [
            measured_chart(rows, "ranks", field, "series", title=f"{family}: {title}",
                           x_title="Ranks", y_title=unit, log_x=True, log_y=True)
            for field, title, unit in (
                ("user_seconds", "processor time of sccl limits", "seconds"),
                ("memory_mb", "memory", "MB"),
            )
        ]  # fmt: skip
    return charts


def _table(results: Results) -> list[ChartType]:
    """Return a chart of the number of rows that each solver answers within a time."""
    rows = []
    for solver in results[0]["timings"]:
        timings = [r["timings"][solver] for r in results]
        solved = sorted(t["seconds"] for t in timings if t["verdict"] in ("sat", "unsat"))
        rows += [
            {"series": solver, "solved": n, "seconds": s} for n, s in enumerate(solved, start=1)
        ]
    where = results[0]["job"]["topology"]
    title = f"The paper's rows on {where}, the fastest first"
    return [
        measured_chart(rows, "solved", "seconds", "series", title=title,
                       x_title="Rows solved", y_title="Seconds per row", log_y=True)
    ]  # fmt: skip


def _collectives(results: Results) -> list[ChartType]:
    """Return charts of times by block size, with those of the MPI library, by number of ranks."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for r in results:
        rows = groups.setdefault((r["mpi"], r["ranks"]), [])
        for library, field in (("sccl", "sccl_us"), (r["mpi"], "mpi_us")):
            rows += [
                {"series": f"{r['collective']}, {library}", "bytes": size["size_bytes"],
                 "us": size[field]}
                for size in r["sizes"]
            ]  # fmt: skip
    return [
        measured_chart(rows, "bytes", "us", "series", title=f"{ranks} ranks: sccl and {mpi}",
                       x_title="Block (bytes)", y_title="Time of a call (\u00b5s)",
                       x_bytes=True, log_y=True)
        for (mpi, ranks), rows in groups.items()
    ]  # fmt: skip


def _least_times(results: Results) -> list[ChartType]:
    """Return charts of gaps to the lower bound by output size, for rows with other results."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for r in results:
        least_us = r["any"]["bound_us"] if r["any"] else r.get("least_us")
        if least_us is None or (r["published_us"] is None and not r.get("figure")):
            continue
        times = {
            "published": None if r.get("note") else r["published_us"],
            "eight rings": r.get("rings_us"),
            "equal chunks": r["equal"]["finish_us"],
            "any chunks": r["any"] and r["any"]["finish_us"],
        }
        groups.setdefault(f"{r['collective']} on {r['topology']}", []).extend(
            {
                "series": series,
                "bytes": r["output_bytes"],
                "above": 100 * (us / least_us - 1),
            }
            for series, us in times.items()
            if us is not None
        )
    return [
        measured_chart(rows, "bytes", "above", "series", title=title,
                       x_title="Output of a rank (bytes)", y_title="Gap to the lower bound (%)",
                       x_bytes=True)
        for title, rows in groups.items()
    ]  # fmt: skip


_DRAWN: dict[str, Callable[[Results], list[ChartType]]] = {
    "growth": _growth,
    "scale": _scale,
    "table4": _table,
    "table5": _table,
    "bundles": hosted.charts,
    "collectives": _collectives,
    "enforce": enforced,
    "syndicate": syndicate.charts,
    "taccl": taccl.charts,
    "teccl": _least_times,
    "teccl-epochs": teccl.charts,
    "teccl-scale": teccl.scale_charts,
}
