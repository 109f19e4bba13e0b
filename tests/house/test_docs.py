"""The documentation's site: built strictly, complete, and without anything from a network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

import sccl
from docs import architecture, draw, least
from docs.made import ROOT, commands, fill, pages
from sccl.errors import UnknownNameError
from tests.kit.commands import COMMANDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDERS = ("docs", "benchmarks", "notebooks")
PAGES = [*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_generated_pages_match_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    stale = f"{page.relative_to(ROOT)} is not what the code says now"
    assert text == fill(text), f"{stale}: run 'make reference' (python -m docs.made)"


def test_architecture_diagram_matches_the_imports() -> None:
    """Drawing fails for a package without a block and for an import of a block above."""
    stale = "docs/pictures/architecture.svg is stale: run 'make reference'"
    assert architecture.PICTURE.read_text(encoding="utf-8") == architecture.drawing(), stale


def test_architecture_diagram_fits_its_canvas() -> None:
    assert len(architecture.BLOCKS) <= 10
    root = ET.parse(architecture.PICTURE).getroot()  # noqa: S314 - it is our own
    width, height = (float(root.attrib[side]) for side in ("width", "height"))
    rectangles = root.iter("{http://www.w3.org/2000/svg}rect")
    boxes = [node.attrib for node in rectangles if node.get("class") == "box"]
    assert len(boxes) == len(architecture.BLOCKS)
    for box in boxes:
        left, top, wide, high = (float(box[side]) for side in ("x", "y", "width", "height"))
        assert 0 <= left <= left + wide <= width
        assert 0 <= top <= top + high <= height


def test_architecture_diagram_refuses_imports_upwards(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = replace(architecture.BLOCKS["solvers"], row=0)
    monkeypatch.setitem(architecture.BLOCKS, "solvers", moved)
    with pytest.raises(ValueError, match="not below them"):
        architecture.drawing()
    monkeypatch.delitem(architecture.BLOCKS, "solvers")
    with pytest.raises(ValueError, match="no block of"):
        architecture.drawing()


def test_summaries_name_every_command_and_public_name() -> None:
    made = {str(page.relative_to(ROOT / "docs")) for page in pages()}
    assert {"reference/commands.md", "reference/python.md", "reference/files.md"} <= made
    index, python, files = (
        (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")
        for name in ("commands", "python", "files")
    )
    shown = (name for name, command in COMMANDS.items() if not command.hidden)
    assert all(f"| `{name}` |" in index for name in shown)
    assert all(f"| `{name}` |" in python for name in sccl.__all__)
    assert "| `topology` |" in files


def test_pages_read_where_the_repository_is_shown() -> None:
    """Nothing that only the site's extensions understand stands in them as text."""
    only_here = r"^(---$|!!! |\?\?\? |::: |:   |=== )|^--8<--|<!-- (commands|files) -->"
    for page in PAGES:
        assert not re.search(only_here, page.read_text(encoding="utf-8"), re.MULTILINE), page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    """Options of many commands are in the index, which each page of such a command names."""
    folder = site / "reference"
    index = (folder / "commands.html").read_text(encoding="utf-8")
    words = {name.split()[1] for name in COMMANDS}
    assert words == {page.stem for page in (folder / "commands").glob("*.html")}
    for name, command in COMMANDS.items():
        word = name.split()[1]
        text = (folder / "commands" / f"{word}.html").read_text(encoding="utf-8")
        assert f'id="{name.lower().replace(" ", "-")}"' in text
        assert f'href="commands/{word}.html"' in index
        for parameter in command.params:
            if parameter.hidden and not parameter.envvar:
                continue  # the command only refuses it
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                if option != "--help-all":  # the index explains it
                    assert f"<code>{option}</code>" in text, f"{name} {option}"


def test_common_options_are_explained_once(site: Path) -> None:
    common = re.findall(r"^\| (`--\w+`)", commands.common(), re.MULTILINE)
    assert {"`--collective`", "`--groups`", "`--json`"} <= set(common)
    assert len(common) == len(set(common))
    text = commands.pages()["limits"]
    assert "| `--groups`" not in text
    assert "[Common options](../commands.md#common-options): `--collective`, `--topo`" in text
    index = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert 'id="common-options"' in index


def test_every_public_name_and_argument_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in sccl.__all__:
        assert f'id="sccl.{name}"' in text
    assert "Number of seeds at a time; it does not change the result." in text
    assert "`" not in re.sub(r"<(script|pre|code)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert ":func:" not in text


def test_every_kind_of_file_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "files.html").read_text(encoding="utf-8")
    kinds = ("topology", "custom-collective", "algorithm", "symmetric-algorithm", "certificate")
    for kind in kinds:
        assert f'<h2 id="{kind}">' in text
    for field in ("both_ways", "chunks_per_round", "rounds_per_step", "generators", "claims"):
        assert f"<code>{field}</code>" in text


def test_formulas_are_written_out(site: Path) -> None:
    pages = sorted((ROOT / "docs" / "mathematics").glob("*.md"))
    sources = [page.read_text(encoding="utf-8") for page in pages]
    assert sum(source.count("```math\n") for source in sources) > 20
    for page, source in zip(pages, sources, strict=True):
        text = (site / "mathematics" / f"{page.stem}.html").read_text(encoding="utf-8")
        assert text.count("<math ") == source.count("```math\n")
        assert "\\mathit" not in text


def test_no_page_names_an_asset_of_a_network(site: Path) -> None:
    loads = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(https?:)?//")
    for page in sorted(site.rglob("*.html")):
        assert not loads.search(page.read_text(encoding="utf-8")), page
    for sheet in sorted(site.rglob("*.css")):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\([\"']?(https?:)?//", text), sheet


def test_pages_open_from_files_and_ask_no_network(site: Path, browser: Browser) -> None:
    wrong: list[str] = []
    tab = browser.new_page()
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda r: None if r.url.startswith("file:") else wrong.append(r.url))
    pages = [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    assert len(pages) >= 15
    for page in pages:
        tab.goto(page.as_uri())
        assert tab.locator("h1").first.is_visible()
        broken = "[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
        assert tab.evaluate(broken) == [], page
    assert wrong == []
    tab.close()


def test_search_finds_without_a_network(site: Path, browser: Browser) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto((site / "index.html").as_uri())
    tab.locator("input.md-search__input").press_sequentially("drat-trim")
    found = tab.locator(".md-search-result__item").first
    found.wait_for(timeout=20_000)
    assert "Certificates" in tab.locator(".md-search-result__list").inner_text()
    tab.close()


def test_tables_page_repeats_the_measured_seconds() -> None:
    """Each row of the page has the seconds of the raw results, in three digits."""
    page = (ROOT / "docs" / "results" / "tables.md").read_text(encoding="utf-8")
    measured: dict[tuple[object, ...], dict[str, float | None]] = {}
    for name in ("table4-cpsat", "table4"):
        text = (ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8")
        for row in json.loads(text)["results"]:
            job = row["job"]
            timings = {name: timing["seconds"] for name, timing in row["timings"].items()}
            place = (job["collective"], job["chunks"], job["steps"], job["rounds"])
            measured[place] = timings | measured.get(place, {}) | {"paper": job["seconds"]}
    rows = re.findall(r"^\| (\w+) \| \((\d+), (\d+), (\d+)\) \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) == 7
    for collective, *numbers, cells in rows:
        seconds = measured[collective, *map(int, numbers)]
        for solver, cell in zip(
            ("paper", "cpsat", "cadical", "z3", "msccl"), cells.split(" | "), strict=True
        ):
            if cell.startswith(">"):
                assert seconds[solver] is None
            else:
                assert float(cell) == pytest.approx(seconds[solver], rel=0.05), (numbers, solver)


def test_optima_of_peers_are_the_bounds_of_ours() -> None:
    text = (ROOT / "docs" / "explanation" / "related-work.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (dgx1|z52|ndv2x2|ndv2x4) \| ([\d/]+) \|", text, re.MULTILINE)
    assert len(rows) == 4
    for machine, optimum in rows:
        assert sccl.bounds("allgather", machine).bandwidth == Fraction(optimum)


def test_page_of_least_times_is_made_again_by_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, text = tmp_path / "page.md", least.PAGE.read_text(encoding="utf-8")
    page.write_text(text, encoding="utf-8")
    monkeypatch.setattr(least, "PAGE", page)
    monkeypatch.setattr(least, "_others", lambda *_: {})
    monkeypatch.setattr(least, "_table", lambda rows, *_: f"{len(rows)} rows\n")
    least.main(tmp_path, ["rail:4x4"])
    made = page.read_text(encoding="utf-8")
    before, _, after = text.partition("## allgather on rail:4x4")
    assert made.startswith(f"{before}## allgather on rail:4x4")
    assert "5 rows" in made
    assert made.endswith(after[after.index("\n## ") :])
    with pytest.raises(UnknownNameError, match="unknown machine 'rail'"):
        least.main(tmp_path, ["rail"])


def test_gap_chart_shows_every_series_of_the_committed_results(tmp_path: Path) -> None:
    draw.draw_gap(tmp_path / "gap.svg")
    text = (tmp_path / "gap.svg").read_text(encoding="utf-8")
    for name in ("sccl", "best classical", "TE-CCL", "TACCL", "Gap to the lower bound (%)"):
        assert f">{name}<" in text, name
