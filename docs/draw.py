"""Draw the pictures of the README and the documents: ``make pictures``."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path

import sccl
from benchmarks import pictures as measured
from benchmarks.teccl import TACCL
from sccl.synth import baselines
from sccl.view.charts import SystemTimes, TimeMeasure, comparison_chart, save_chart

PICTURES = Path(__file__).parent / "pictures"
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RESULTS = BENCHMARKS / "results"
MEASURED = {
    "tables": ["table4", "table5"],
    "collectives": ["collectives-mpich", "collectives-openmpi"],
    "enforce": ["enforce"],
    "growth": ["growth"],
    "tacos-machines": ["tacos-machines"],
    "teccl-fig10": ["teccl-fig10"],
    "teccl-scale": ["teccl-scale-allgather", "teccl-scale-alltoall"],
}


def main() -> None:
    """Write every picture that shows results."""
    sccl.limits("broadcast", "dgx1", max_steps=8).plot().save(PICTURES / "frontier.svg")
    sccl.pareto("allreduce", "dgx1").plot_times().save(PICTURES / "times.svg")
    sccl.topology("z52-pcie").plot().save(PICTURES / "machine.svg")
    sccl.topology("dgx-h100").plot().save(PICTURES / "dgx-h100.svg")
    draw_training_step(PICTURES / "training-step.svg")
    allgather = sccl.pareto("allgather", "dgx1")
    best = allgather.points[-1].algorithm
    assert best is not None
    fewest_steps = allgather.points[0].algorithm
    assert fewest_steps is not None
    fewest_steps.plot("utilisation").save(PICTURES / "utilisation.svg")
    for name, files in MEASURED.items():
        measured.draw([RESULTS / f"{file}.json" for file in files], PICTURES / f"{name}.svg")
    draw_gap(PICTURES / "gap-ndv2x2.svg")
    with tempfile.TemporaryDirectory() as folder:
        explorer(best.explore(Path(folder, "page.html")))


def draw_gap(picture: Path) -> None:
    """Draw the gap to the lower bound of an allgather on two NDv2, by output size.

    ``python -m docs.least benchmarks/data/least teccl-ndv2x2`` computes the classical times.
    """
    machine, collective, ranks = "teccl-ndv2x2", "allgather", 16
    measured_rows = [
        row
        for row in json.loads((RESULTS / "teccl.json").read_text(encoding="utf-8"))["results"]
        if (row["topology"], row["collective"]) == (machine, collective)
    ]
    compared = json.loads(
        (BENCHMARKS / "data" / "least" / f"{collective}-{machine}.json").read_text(encoding="utf-8")
    )
    classical: dict[int, float] = {}
    for system in compared["systems"]:
        for time in system["times"] if system["name"] in baselines.names() else ():
            output = time["size_bytes"] * ranks
            classical[output] = min(time["time_us"], classical.get(output, time["time_us"]))
    systems = {
        "TACCL": TACCL[machine, collective],
        "TE-CCL": {row["output_bytes"]: row["published_us"] for row in measured_rows},
        "best classical": classical,
        "sccl": {row["output_bytes"]: row["any"]["finish_us"] for row in measured_rows},
    }
    chart = comparison_chart(
        [SystemTimes(name, tuple(times.items())) for name, times in systems.items()],
        [(row["output_bytes"], row["any"]["bound_us"]) for row in measured_rows],
        "Allgather on two NDv2 (16 GPUs)",
        "TACCL and TE-CCL: times published by the authors of TE-CCL (SIGCOMM 2024, table 8). Best "
        "classical: fastest of all classical algorithms in sccl. All times are modeled.",
        TimeMeasure.GAP,
        x_title="Output of a rank (bytes)",
    )
    save_chart(chart, picture)


def draw_training_step(picture: Path) -> None:
    """Draw a training step as it is submitted and as it is planned, with one layer enlarged."""
    workload = sccl.workload("moe", preset="moe-156")
    submitted, planned = (
        sccl.plan(workload, "hgx2x4", search=search, budget=5) for search in ("fifo", "sgs")
    )
    planned.plot(before=submitted).save(picture)
    text = picture.read_text(encoding="utf-8")
    # Descriptions of single bars are most of the file.
    picture.write_text(re.sub(r' (?:aria-[a-z]+|role)="[^"]*"', "", text), encoding="utf-8")


def explorer(page: Path) -> None:
    """Save a screenshot of the explorer with a chunk in the second step."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only the screenshot needs it

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 800}, device_scale_factor=1.5)
        tab.goto(page.resolve().as_uri())
        tab.fill("#chunk", "8")
        tab.dispatch_event("#chunk", "change")
        tab.fill("#step", "1")
        tab.locator("#step").blur()
        tab.wait_for_timeout(1000)  # until animations end
        tab.screenshot(path=PICTURES / "explorer.png")
        browser.close()


if __name__ == "__main__":
    main()
