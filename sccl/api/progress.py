"""Show progress on a terminal or in a notebook, or pass it to a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from rich.console import Console

from sccl.view.text.progress_notes import ProgressNotes, progress_bar

Progress = bool | Callable[[str], None]
"""Whether to show progress on a terminal or in a notebook, or a function that gets each line."""


@contextmanager
def progress_notes(progress: Progress) -> Iterator[ProgressNotes]:
    """Yield the receiver of a sweep's events."""
    if callable(progress):
        yield ProgressNotes(progress)
        return
    with _status_line(shown=progress) as status:
        yield ProgressNotes(lambda _: None, status)


@contextmanager
def progress_lines(progress: Progress, first: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that receives progress, line by line.

    Args:
        first: First line.
    """
    if callable(progress):
        yield progress
        return
    with _status_line(shown=progress) as status:
        status(first)
        yield status


@contextmanager
def _status_line(*, shown: bool) -> Iterator[Callable[[str], None]]:
    console = Console(stderr=True, highlight=False, emoji=False, force_jupyter=False)
    if shown and _in_notebook():
        with _notebook_cell() as status:
            yield status
    elif shown and console.is_terminal:
        with progress_bar(console) as status:
            yield status
    else:
        yield lambda _: None


def _in_notebook() -> bool:
    """Return whether this process is a Jupyter kernel."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython  # noqa: PLC0415 - loaded already

    return hasattr(get_ipython(), "kernel")


@contextmanager
def _notebook_cell() -> Iterator[Callable[[str], None]]:
    """Yield a function that updates a progress bar in a cell. Clear the bar at the end.

    The bar has no percentage, because the number of candidates is unknown. Rich's bars need
    ipywidgets.
    """
    from IPython import display  # noqa: PLC0415

    show: Any = display.display  # it has no types
    line = show({"text/plain": ""}, raw=True, display_id=True)
    try:
        yield lambda text: line.update(
            {"text/plain": text, "text/html": f"<progress></progress> {escape(text)}"}, raw=True
        )
    finally:
        line.update({"text/plain": "", "text/html": ""}, raw=True)
