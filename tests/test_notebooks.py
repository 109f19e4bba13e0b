"""Notebooks run from the first cell to the last, and are kept without what they print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Any:
    reader: Any = nbformat  # which has no types for it
    return reader.read(path, as_version=4)


def test_there_are_some() -> None:
    assert len(NOTEBOOKS) >= 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_is_kept_without_outputs(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None), cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_runs(path: Path) -> None:
    notebook = read(path)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(path.parent))
    said = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    assert not [o for o in said if o.output_type == "stream" and o.name == "stderr"]
    assert any("text/html" in o.get("data", {}) for o in said)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_its_links_lead_somewhere(path: Path) -> None:
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    for target in [part.split(")")[0] for part in text.split("](")[1:]]:
        assert (path.parent / target).exists()


def test_a_cell_shows_a_bar_while_it_works_and_is_empty_afterwards() -> None:
    sweep = "sccl.pareto('allgather', 'ring:4', store=False); None"
    manager, client = start_new_kernel(kernel_name="python3")
    shown: list[dict[str, str]] = []

    def keep(message: Any) -> None:
        if message["msg_type"] in ("display_data", "update_display_data"):
            shown.append(message["content"]["data"])

    try:
        reply = client.execute_interactive(f"import sccl\n{sweep}", timeout=120, output_hook=keep)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok"
    bars = [data.get("text/html", "") for data in shown]
    assert any(
        bar.startswith("<progress></progress> S &gt;= 2") and "C=2 S=2 R=3" in bar for bar in bars
    )
    assert shown[-1] == {"text/plain": "", "text/html": ""}


def test_the_lie_of_the_notebook_on_proofs_is_caught() -> None:
    notebook = read(FOLDER / "04_proofs.ipynb")
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(FOLDER))
    texts = [o.text for c in notebook.cells if c.cell_type == "code" for o in c.outputs
             if o.output_type == "stream"]  # fmt: skip
    assert any("the prices prove only R/C >= 2" in text for text in texts)
