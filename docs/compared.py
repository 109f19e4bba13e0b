"""Make the page of comparisons anew: ``python -m docs.compared FOLDER``.

The folder keeps what ``sccl compare --json`` printed of each machine and collective, so that a run
that was stopped goes on where it was; all of them take half an hour on two cores. An empty folder
makes all anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sccl.core.clock import AlphaModel
from sccl.core.cost import bytes_text
from sccl.core.files.disk import make_directory, slug, write_atomically
from sccl.tasks.compare import compare, compared_subject
from sccl.tasks.compared import compare_output
from sccl.tasks.entrants import Contest
from sccl.tasks.outputs import plain
from sccl.tasks.sizes import sizes_of
from sccl.tasks.taking_part import entrants_of, known_names
from sccl.topo import resolve
from sccl.view import charts
from sccl.view.charts import ComparedSystem, comparison_chart

DOCS = Path(__file__).parent
PAGE = DOCS / "comparisons.md"
MACHINES = {
    "dgx1": "NVIDIA DGX-1, 8 GPUs on NVLinks.",
    "z52": "Gigabyte Z52, 8 GPUs as a ring.",
    "ndv2x2": "Two Azure NDv2, 16 GPUs; the links between the two are slower than the rest.",
    "dgx2": "NVIDIA DGX-2, 16 GPUs on NVSwitches, as links with what leaves and enters each.",
    "torus:4x4x4": "64 ranks in a torus.",
    "dragonfly:4x5": "20 ranks in five groups of four, a link between each two groups.",
    "rail:4x4": "Four nodes of four GPUs: a switch in each node, and one for each rail.",
}
SIZES = "1KB..1GB"
COLLECTIVES = ("allreduce", "allgather")
SHOWN = (0, 3, 6, 10)
"""Indices of the sizes in the summary."""

_MADE = "<!-- What follows is made by docs/compared.py. -->\n"
_SUMMARY = "Fastest at some sizes, and how far its time is above the bound:\n"

Found = dict[str, Any]


def main(folder: Path) -> None:
    """Write the page and its pictures."""
    make_directory(folder)
    found = {m: {c: _compared(folder, c, m) for c in COLLECTIVES} for m in MACHINES}
    head = PAGE.read_text(encoding="utf-8").partition(_MADE)[0]
    parts = [head + _MADE, _SUMMARY, _summary(found)]
    for machine, about in MACHINES.items():
        picture = DOCS / "pictures" / f"compare-{slug(machine)}.svg"
        drawn = [_chart(one) for one in found[machine].values()]
        charts.save(charts.stacked(drawn), picture)
        parts += [f"## {machine}\n\n{about}\n", f"![{_alt(machine)}](pictures/{picture.name})\n"]
        parts += [_section(one) for one in found[machine].values()]
    write_atomically(PAGE, "\n".join(parts))


def _compared(folder: Path, collective: str, machine: str) -> Found:
    """Return what is in the folder; what is missing is made."""
    file = folder / f"{collective}-{slug(machine)}.json"
    if not file.exists():
        subject = compared_subject(resolve(machine), collective, None)
        contest = Contest(subject.topology, subject.spec, AlphaModel.TRAVELS)
        entrants = entrants_of(contest, known_names(), {}, lambda _: None)
        made = compare(contest, entrants, sizes_of(SIZES))
        if made.ended:
            raise KeyboardInterrupt
        write_atomically(
            file, json.dumps(plain(compare_output(made, {}, {}, None, None)), indent=1)
        )
    found: Found = json.loads(file.read_text(encoding="utf-8"))
    return found


def _chart(found: Found) -> charts.ChartType:
    systems = [
        ComparedSystem(one["name"], tuple((r["size_bytes"], r["time_us"]) for r in one["times"]))
        for one in found["systems"]
        if one["times"]
    ]
    bound = [(size["size_bytes"], size["bound_us"]) for size in found["sizes"]]
    title = f"{found['collective']} on {found['topology']}"
    return comparison_chart(systems, bound, title, f"alpha {found['alpha']}")


def _alt(machine: str) -> str:
    both = " and ".join(COLLECTIVES)
    return f"Completion time divided by the lower bound, by size: {both} on {machine}"


def _summary(found: dict[str, dict[str, Found]]) -> str:
    """Return who is fastest on each machine at some sizes, and how far above the bound."""
    sizes = next(iter(next(iter(found.values())).values()))["sizes"]
    heads = [bytes_text(sizes[i]["size_bytes"]) for i in SHOWN]
    rows = [f"| | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for machine, by_collective in found.items():
        for collective, one in by_collective.items():
            cells = [_cell(one["sizes"][i]) for i in SHOWN]
            rows.append(f"| {collective}, {machine} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _cell(size: Found) -> str:
    return f"{size['winner']}, {_percent(size['gap'])}"


def _percent(gap: float) -> str:
    return "met" if gap == 0 else f"{gap:.2%}" if gap < 0.01 else f"{gap:.0%}"


def _section(found: Found) -> str:
    """Return the tables of a collective on a machine."""
    rows = [
        f"### {found['collective']} on {found['topology']}\n",
        "| size | fastest | time (µs) | GB/s | bound (µs) | above | plan |",
        "|---:|---|---:|---:|---:|---:|---|",
    ]
    rows += [
        f"| {bytes_text(size['size_bytes'])} | {size['winner']} | {size['time_us']:.6g} | "
        f"{size['algorithm_gb_per_s']:.4g} | {size['bound_us']:.6g} | {_percent(size['gap'])} "
        f"| {size['plan']} |"
        for size in found["sizes"]
    ]
    heads = [bytes_text(size["size_bytes"]) for size in found["sizes"]]
    rows += ["", "Times of the fastest, and seconds in which the plans of all sizes were made:", ""]
    rows += [f"| | {' | '.join(heads)} | s |", f"|---|{'---:|' * (len(heads) + 1)}"]
    best = {size["size_bytes"]: size["time_us"] for size in found["sizes"]}
    for one in sorted(found["systems"], key=lambda one: _mean(one, best)):
        if one["times"]:
            ratios = {r["size_bytes"]: r["time_us"] / best[r["size_bytes"]] for r in one["times"]}
            cells = [f"{ratios[size]:.3g}" if size in ratios else "-" for size in best]
            rows.append(f"| {one['name']} | {' | '.join(cells)} | {one['seconds']:.2f} |")
    missing = [f"{one['name']} ({one['why']})" for one in found["systems"] if one["why"]]
    rows += ["", f"Not there: {'; '.join(missing)}."] if missing else []
    return "\n".join(rows) + "\n"


def _mean(one: Found, best: dict[int, float]) -> float:
    """Return the sum of how many times as long as the fastest it takes, none at the end."""
    if not one["times"]:
        return float("inf")
    return float(sum(row["time_us"] / best[row["size_bytes"]] for row in one["times"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
