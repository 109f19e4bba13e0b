"""Generate the page of lower bounds: ``python -m docs.least FOLDER [MACHINE ...]``.

``python -m benchmarks teccl`` measured the bounds and the schedules of arbitrary and equal chunks
(``benchmarks/results/teccl.json``). ``--only tables-MACHINE`` measured single machines again. These
files also contain the published times.

This script computes the TACOS schedules and the classical algorithms. The folder stores them, so
that an interrupted run continues. If machines are named, the parts of all others stay unchanged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.teccl import PUBLISHED, TACCL
from sccl.collectives import named_spec
from sccl.comparison.comparison import compare, comparison_subject
from sccl.comparison.comparison_output import compare_output
from sccl.comparison.contender_selection import build_contenders
from sccl.comparison.contenders import ComparisonProblem
from sccl.core.clock import AlphaModel
from sccl.core.cost import format_bytes
from sccl.core.files.disk import make_directory, slugify, write_atomically
from sccl.core.files.outputs import to_plain
from sccl.errors import unknown_name
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.synth import baselines
from sccl.synth.packing.by_time.time_bound_curve import compute_bound_curve
from sccl.topo import resolve_topology

DOCS = Path(__file__).parent
PAGE = DOCS / "results" / "time-bounds.md"
MEASURED = [
    DOCS.parent / "benchmarks" / "results" / f"teccl{suffix}.json" for suffix in ("", "-dgx2x2")
]
"""Result files. A row of a later file replaces the same row of an earlier one."""

MACHINES = {
    ("dgx1", "allgather"): "NVIDIA DGX-1, 8 GPUs on NVLinks.",
    ("z52", "allgather"): "Gigabyte Z52, 8 GPUs as a ring.",
    ("torus:4x4@50,25GB", "allgather"): "A mixed torus: 16 ranks, rows twice as fast as columns.",
    (
        "rail:4x4",
        "allgather",
    ): "A rail pod: four nodes of four GPUs, with a switch per node and per rail.",
    ("teccl-ndv2x2", "allgather"): "Two Azure NDv2, 16 GPUs. Links differ in alpha and in speed.",
    ("teccl-ndv2x2", "alltoall"): "Two Azure NDv2, 16 GPUs.",
    ("teccl-ndv2x4", "allgather"): "Four Azure NDv2, 32 GPUs.",
    ("teccl-dgx2x2", "allgather"): "Two NVIDIA DGX-2, 32 GPUs on NVSwitches.",
    ("teccl-dgx2x2", "alltoall"): "Two NVIDIA DGX-2, 32 GPUs on NVSwitches.",
}
"""Machines and collectives of the page, with their descriptions."""

_ROUNDED = 1e-4
"""Rounding of measured times, in microseconds."""

_MADE = "<!-- docs/least.py writes everything below. -->\n"

JsonObject = dict[str, Any]


def main(folder: Path, only: Sequence[str] = ()) -> None:
    """Write the page.

    Args:
        only: Machines whose parts are generated. Empty: all machines.

    Raises:
        UnknownNameError: The page has no machine of that name.
    """
    descriptions = {machine: about for (machine, _), about in MACHINES.items()}
    for name in only:
        if name not in descriptions:
            raise unknown_name(
                "machine", name, descriptions, f"give some of {', '.join(descriptions)}"
            )
    make_directory(folder)
    measured = _measured()
    head, _, generated = PAGE.read_text(encoding="utf-8").partition(_MADE)
    before = {part.partition("\n")[0]: part for part in generated.split("\n## ")}
    parts = [head + _MADE]
    for (machine, collective), about in MACHINES.items():
        if only and machine not in only:
            parts.append("## " + before[f"{collective} on {machine}"].rstrip("\n") + "\n")
            continue
        rows = [r for r in measured if (r["topology"], r["collective"]) == (machine, collective)]
        each = resolve_topology(machine).ranks if collective == "allgather" else 1
        sizes = {row["output_bytes"]: row["output_bytes"] // each for row in rows}
        others = _others(folder, machine, collective, list(sizes.values()))
        parts += [f"## {collective} on {machine}\n\n{about}\n", _table(rows, sizes, others)]
    write_atomically(PAGE, "\n".join(parts))


def _measured() -> list[JsonObject]:
    """Return all rows, each from its last measurement."""
    rows = [
        row for file in MEASURED for row in json.loads(file.read_text(encoding="utf-8"))["results"]
    ]
    return list({(r["topology"], r["collective"], r["output_bytes"]): r for r in rows}.values())


def _others(folder: Path, machine: str, collective: str, sizes: list[int]) -> JsonObject:
    """Return the results of TACOS and the classical algorithms, from the folder or computed."""
    file = folder / f"{collective}-{slugify(machine)}.json"
    if not file.exists():
        topology = resolve_topology(machine)
        subject = comparison_subject(topology, collective, None)
        contest = ComparisonProblem(subject.topology, subject.spec, AlphaModel.TRAVELS)
        names = ("tacos", *baselines.names())
        entrants = build_contenders(contest, names, {}, lambda _: None)
        comparison = compare(contest, entrants, sizes, times_alone=True)
        if comparison.end_reason:
            raise KeyboardInterrupt
        spec = named_spec(collective, topology.ranks)
        bound = compute_bound_curve(topology, spec, completion_time_bound(topology, spec), sizes)
        shown = to_plain(compare_output(comparison, {}, {}, None, None))
        bounds = {"least": {size: float(bound.us(size)) for size in sizes}}
        write_atomically(file, json.dumps(shown | bounds, indent=1))
    result: JsonObject = json.loads(file.read_text(encoding="utf-8"))
    return result


def _table(rows: list[JsonObject], sizes: dict[int, int], others: JsonObject) -> str:
    """Return a table with the bound and the gap of each system, by size.

    Args:
        sizes: Buffer size of a rank by its output size, in bytes.
    """
    published_rows = {(p.topology, p.collective, p.output_bytes): p for p in PUBLISHED}
    times: dict[str, dict[int, float]] = {
        system["name"]: {row["size_bytes"]: row["time_us"] for row in system["times"]}
        for system in others["systems"]
    }
    tacos = times.pop("tacos")
    heads = ("output", "bound (µs)", "any chunks", "equal chunks", "TACOS", "best classical")
    text = [f"| {' | '.join((*heads, 'TE-CCL', 'TACCL'))} |", f"|{'---:|' * (len(heads) + 2)}"]
    for row in rows:
        size, buffer = row["output_bytes"], sizes[row["output_bytes"]]
        key = row["topology"], row["collective"], size
        bound = others["least"][str(buffer)]
        if row["any"]["bound_us"] > bound + _ROUNDED:
            bound = row["any"]["bound_us"]
        us, best = min(
            (system_times[buffer], name)
            for name, system_times in times.items()
            if buffer in system_times
        )
        published = TACCL.get(key[:2], {}).get(size)
        cells = [
            format_bytes(size),
            f"{bound:,.6g}" if bound < 10_000 else f"{bound:,.0f}",
            _above(row["any"]["finish_us"], bound),
            f"{_above(row['equal']['finish_us'], bound)}, C={row['equal']['chunks']}",
            _above(tacos.get(buffer), bound),
            f"{_above(us, bound)}, {best}",
            _above(published_rows[key].finish_us, bound),
            _above(published, bound),
        ]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def _above(us: float | None, bound: float) -> str:
    """Return the gap of a time to a lower bound, as a percentage."""
    if us is None:
        return ""
    gap = us / bound - 1
    return f"{gap:.2%}".replace("-0.00", "0.00") if gap < 0.1 else f"{gap:.0%}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
