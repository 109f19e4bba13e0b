"""Make the page of comparisons again: ``python -m docs.compared FOLDER``.

The folder keeps the output of ``sccl compare --json`` for each machine and collective, so that a
run that was stopped continues there. An empty folder computes all of them, two at a time.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from sccl.comparison.comparison import compare, comparison_subject
from sccl.comparison.comparison_output import compare_output
from sccl.comparison.contender_selection import build_contenders, contender_names
from sccl.comparison.contenders import ComparisonProblem
from sccl.core.clock import AlphaModel
from sccl.core.cost import format_bytes
from sccl.core.files.disk import make_directory, slugify, write_atomically
from sccl.core.files.outputs import to_plain
from sccl.core.sizes import parse_sizes
from sccl.topo import resolve_topology
from sccl.view import charts
from sccl.view.charts import SystemTimes, comparison_chart

DOCS = Path(__file__).parent
PAGE = DOCS / "results" / "comparisons.md"
RAW_DATA = DOCS.parent / "benchmarks" / "results" / "comparisons.json"
MACHINES = {
    "dgx1": "NVIDIA DGX-1, 8 GPUs on NVLinks.",
    "z52": "Gigabyte Z52, 8 GPUs as a ring.",
    "ndv2x2": "Two Azure NDv2, 16 GPUs. The links between the two are slower than the others.",
    "dgx2": "NVIDIA DGX-2, 16 GPUs around NVSwitches.",
    "dragonfly:4x5": "Dragonfly, 5 full groups of 4 ranks.",
    "rail:4x4": "4 nodes of 4 GPUs: a switch in each node, and one for the i-th GPUs of all nodes.",
    "torus:4x4x4": "3D torus, 64 ranks.",
}
NOT_WITHIN_BUDGET = {
    "dgx2": ("limits-time", "teccl"),
    "rail:4x4": ("pareto",),
    "torus:4x4x4": ("taccl", "teccl"),
}
"""Contenders that would take over two processor minutes for the sizes of one collective."""
SIZES = "1KB,16KB,64KB,1MB,16MB,1GB"
COLLECTIVES = ("allreduce", "allgather")

_MADE = "<!-- docs/compared.py writes everything below. -->\n"
_SUMMARY = "Fastest contender by size, and its gap to the lower bound:\n"
_MISSING = "Contenders without a result on a machine:\n"

Comparison = dict[str, Any]
"""The output of ``sccl compare --json``."""


def main(folder: Path) -> None:
    """Write the page, its pictures, and the raw data."""
    make_directory(folder)
    pairs = [(collective, machine) for machine in MACHINES for collective in COLLECTIVES]
    with ProcessPoolExecutor(2) as pool:
        results = dict(zip(pairs, pool.map(partial(_comparison, folder), pairs), strict=True))
    by_machine = {m: {c: results[c, m] for c in COLLECTIVES} for m in MACHINES}
    head = PAGE.read_text(encoding="utf-8").partition(_MADE)[0]
    parts = [head + _MADE, _SUMMARY, _summary(by_machine), _MISSING, _missing(by_machine)]
    for machine, about in MACHINES.items():
        picture = DOCS / "pictures" / f"compare-{slugify(machine)}.svg"
        drawings = [_chart(comparison) for comparison in by_machine[machine].values()]
        charts.save_chart(charts.stack_charts(drawings), picture)
        parts += [f"## {machine}\n\n{about}\n", f"![{_alt(machine)}](../pictures/{picture.name})\n"]
    write_atomically(PAGE, "\n".join(parts))
    lines = ",\n".join(json.dumps(_times(comparison)) for comparison in results.values())
    write_atomically(RAW_DATA, f"[\n{lines}\n]\n")


def _comparison(folder: Path, pair: tuple[str, str]) -> Comparison:
    """Return the comparison that the folder keeps, after computing it if it is missing."""
    collective, machine = pair
    file = folder / f"{collective}-{slugify(machine)}.json"
    if not file.exists():
        wall, busy = time.perf_counter(), time.process_time()
        subject = comparison_subject(resolve_topology(machine), collective, None)
        problem = ComparisonProblem(subject.topology, subject.spec, AlphaModel.TRAVELS)
        left_out = NOT_WITHIN_BUDGET.get(machine, ())
        names = (name for name in contender_names() if name not in left_out)
        contenders = build_contenders(problem, names, {}, lambda _: None)
        compared = compare(problem, contenders, parse_sizes(SIZES))
        if compared.end_reason:
            raise KeyboardInterrupt
        output = compare_output(compared, {}, {}, None, None)
        write_atomically(file, json.dumps(to_plain(output), indent=1))
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
        sys.stderr.write(f"{file.stem}: {wall:.0f} s, {busy:.0f} s of the processor\n")
    comparison: Comparison = json.loads(file.read_text(encoding="utf-8"))
    return comparison


def _times(comparison: Comparison) -> Comparison:
    """Return bounds, and the times of each contender by size, without plans."""
    bounds = {size["size_bytes"]: size["bound_us"] for size in comparison["sizes"]}
    times = {
        system["name"]: {row["size_bytes"]: row["time_us"] for row in system["times"]}
        for system in comparison["systems"]
        if system["times"]
    }
    names = {name: comparison[name] for name in ("sccl", "collective", "topology", "alpha")}
    return names | {"bounds_us": bounds, "times_us": times}


def _chart(comparison: Comparison) -> charts.ChartType:
    systems = [
        SystemTimes(
            system["name"], tuple((row["size_bytes"], row["time_us"]) for row in system["times"])
        )
        for system in comparison["systems"]
        if system["times"]
    ]
    bounds = [(size["size_bytes"], size["bound_us"]) for size in comparison["sizes"]]
    title = f"{comparison['collective']} on {comparison['topology']}"
    return comparison_chart(systems, bounds, title, f"alpha {comparison['alpha']}")


def _alt(machine: str) -> str:
    both = " and ".join(COLLECTIVES)
    return f"Completion time divided by the lower bound, by size: {both} on {machine}"


def _summary(by_machine: dict[str, dict[str, Comparison]]) -> str:
    """Return a table of the fastest contender on each machine by size, with its gap."""
    sizes = next(iter(next(iter(by_machine.values())).values()))["sizes"]
    heads = [format_bytes(size["size_bytes"]) for size in sizes]
    rows = [f"| | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for machine, by_collective in by_machine.items():
        for collective, comparison in by_collective.items():
            cells = [_cell(size) for size in comparison["sizes"]]
            rows.append(f"| {collective}, {machine} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _missing(by_machine: dict[str, dict[str, Comparison]]) -> str:
    """Return a table of the contenders that have no time on a machine, by reason."""
    rows = ["| machine | not within budget | not defined there |", "|---|---|---|"]
    for machine, by_collective in by_machine.items():
        systems = [system for compared in by_collective.values() for system in compared["systems"]]
        timed = {system["name"] for system in systems if system["times"]}
        synthesizers = [system["name"] for system in systems if system["what"] == "synthesiser"]
        late = {*NOT_WITHIN_BUDGET.get(machine, ()), *synthesizers} - timed
        undefined = {system["name"] for system in systems} - timed - late
        cells = [", ".join(sorted(names)) or "-" for names in (late, undefined)]
        rows.append(f"| {machine} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _cell(size: Comparison) -> str:
    return f"{size['winner']}, {_percent(size['gap'])}"


def _percent(gap: float) -> str:
    return "met" if gap == 0 else f"{gap:.2%}" if gap < 0.01 else f"{gap:.0%}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
