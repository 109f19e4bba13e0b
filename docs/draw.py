"""Draw the pictures of the README and the documents anew: ``make pictures``."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

import sccl
from benchmarks import pictures as measured

PICTURES = Path(__file__).parent / "pictures"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
MEASURED = {
    "scale": ["scale"],
    "tables": ["table4", "table5"],
    "collectives": ["collectives-mpich", "collectives-openmpi"],
    "tacos-machines": ["tacos-machines"],
    "tacos-sizes": ["tacos-sizes"],
    "tacos-time": ["tacos-time"],
}
_VIEW: ViewportSize = {"width": 1280, "height": 800}


def main() -> None:
    """Write every picture that is made of results."""
    sccl.limits("broadcast", "dgx1", max_steps=8).plot().save(PICTURES / "frontier.svg")
    found = sccl.pareto("broadcast", "ring:8")
    found.plot_times().save(PICTURES / "times.svg")
    sccl.topology("z52-pcie").plot().save(PICTURES / "machine.svg")
    allgather = sccl.pareto("allgather", "dgx1")
    best = allgather.points[-1].algorithm
    assert best is not None
    best.plot("utilisation").save(PICTURES / "utilisation.svg")
    for name, files in MEASURED.items():
        measured.draw([RESULTS / f"{file}.json" for file in files], PICTURES / f"{name}.svg")
    with tempfile.TemporaryDirectory() as folder:
        explorer(best.explore(Path(folder, "page.html")))


def explorer(page: Path) -> None:
    """Write what the explorer shows of a chunk in the second step."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab: Page = browser.new_page(viewport=_VIEW, device_scale_factor=1.5)
        tab.goto(page.resolve().as_uri())
        tab.fill("#chunk", "8")
        tab.dispatch_event("#chunk", "change")
        tab.fill("#step", "1")
        tab.locator("#step").blur()
        tab.wait_for_timeout(1000)  # what moves has come to rest
        tab.screenshot(path=PICTURES / "explorer.png")
        browser.close()


if __name__ == "__main__":
    main()
