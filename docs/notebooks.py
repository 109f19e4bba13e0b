"""Run the notebooks and store their outputs: ``python -m docs.notebooks [NAME...]``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Any:
    """Return a stored notebook, whose type nbformat does not declare."""
    reader: Any = nbformat
    return reader.read(path, as_version=4)


@contextmanager
def kernel() -> Iterator[KernelManager]:
    """Yield a kernel manager that uses files, as a free port may be taken before it is bound."""
    with TemporaryDirectory() as folder:
        manager = KernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/kernel")
        try:
            yield manager
        finally:
            if manager.has_kernel:
                manager.shutdown_kernel(now=True)


def execute(path: Path) -> Any:
    """Return a notebook with new outputs, without erased progress bars."""
    notebook = read(path)
    stored = dict(notebook.metadata)
    with kernel() as manager:
        client = NotebookClient(notebook, timeout=300, km=manager, record_timing=False)
        client.execute(cwd=str(path.parent))
    notebook.metadata = nbformat.from_dict(stored)  # type: ignore[no-untyped-call]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = join_streams(
                output
                for output in cell.outputs
                if any(output.get("data", {"stream": True}).values())
            )
    return notebook


def join_streams(outputs: Iterator[Any]) -> list[Any]:
    """Return outputs with adjacent streams of one name joined, as their breaks are random."""
    joined: list[Any] = []
    for output in outputs:
        if output.output_type == "stream" and joined and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def main(names: list[str]) -> None:
    """Run the named notebooks, or all of them, and write them back."""
    for path in NOTEBOOKS:
        if not names or path.stem in names:
            writer: Any = nbformat
            writer.write(execute(path), path)


if __name__ == "__main__":
    main(sys.argv[1:])
