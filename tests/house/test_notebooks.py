"""Notebooks run from the first cell to the last, and are stored with their outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import sccl
from docs.notebooks import FOLDER, NOTEBOOKS, execute, kernel, read
from tests.kit import once
from tests.kit.paths import ROOT

LARGEST_BYTES = 300_000
"""Maximum number of transfers in the pictures of a stored notebook."""


def executed(path: Path) -> Any:
    """Return a notebook with new outputs. It runs once for all tests."""
    return once.value(f"notebook {path.stem}", lambda: execute(path))


def printed(notebook: Any) -> list[str]:
    """Return the text of each output, with measured seconds and spaces masked."""
    texts = (
        one.text if one.output_type == "stream" else one.data["text/plain"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for one in cell.outputs
    )
    return [" ".join(re.sub(r"\d+\.\d+", "#", text).split()) for text in texts]


def test_there_are_some() -> None:
    assert len(NOTEBOOKS) >= 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_outputs_are_stored(path: Path) -> None:
    import nbformat

    notebook = read(path)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any("text/html" in one.get("data", {}) for cell in cells for one in cell.outputs)
    text = path.read_text(encoding="utf-8")
    assert len(text) < LARGEST_BYTES
    for folder in (str(ROOT), str(Path.home()), "/tmp/"):  # noqa: S108 - it is searched for
        assert folder not in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs_and_becomes_a_page(path: Path) -> None:
    from nbconvert import HTMLExporter

    notebook = executed(path)
    assert printed(notebook) == printed(read(path)), "run: python -m docs.notebooks"
    said = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    assert not [o for o in said if o.output_type == "stream" and o.name == "stderr"]
    assert any("text/html" in o.get("data", {}) for o in said)
    page = converted(HTMLExporter, notebook)
    tables = [
        o.data["text/html"] for o in said if "<table" in o.get("data", {}).get("text/html", "")
    ]
    assert tables
    for table in tables:
        assert re.findall(r"<t[dh][^>]*>([^<]*)", table)[0] in page


def converted(exporter: Any, notebook: Any) -> str:
    """Convert a notebook to another format. The converter has no types."""
    text: str = exporter().from_notebook_node(notebook)[0]
    return text


def test_in_a_document_of_latex_a_frontier_is_a_table() -> None:
    """A cell's output as a kernel gives it, which nbconvert renders without pandoc."""
    from nbconvert import LatexExporter
    from nbformat import v4

    frontier = sccl.pareto("allgather", "ring:4", progress=False)
    data = {"text/html": frontier._repr_html_(), "text/latex": frontier._repr_latex_()}
    output: Any = v4.new_output("display_data", data)  # type: ignore[no-untyped-call]
    cell = v4.new_code_cell("frontier", outputs=[output])  # type: ignore[no-untyped-call]
    notebook = v4.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]
    text = converted(LatexExporter, notebook)
    assert "{booktabs}" in text
    assert frontier.to_latex() in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_links_resolve(path: Path) -> None:
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    for target in [part.split(")")[0] for part in text.split("](")[1:]]:
        assert (path.parent / target).exists()


def test_cell_shows_a_bar_while_it_works_and_is_empty_afterwards() -> None:
    sweep = "sccl.pareto('allgather', 'ring:4', store=False); None"
    shown: list[dict[str, str]] = []

    def keep(message: Any) -> None:
        if message["msg_type"] in ("display_data", "update_display_data"):
            shown.append(message["content"]["data"])

    with kernel() as manager:
        manager.start_kernel()
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            reply = client.execute_interactive(
                f"import sccl\n{sweep}", timeout=120, output_hook=keep
            )
        finally:
            client.stop_channels()
    assert reply["content"]["status"] == "ok"
    bars = [data.get("text/html", "") for data in shown]
    assert any(
        bar.startswith("<progress></progress> S &gt;= 2") and "C=2 S=2 R=3" in bar for bar in bars
    )
    assert shown[-1] == {"text/plain": "", "text/html": ""}


def test_lie_of_the_notebook_on_proofs_is_caught() -> None:
    notebook = executed(FOLDER / "04_proofs.ipynb")
    texts = [o.text for c in notebook.cells if c.cell_type == "code" for o in c.outputs
             if o.output_type == "stream"]  # fmt: skip
    assert any("the prices prove only R/C >= 2" in text for text in texts)
