"""Show progress on a terminal or in a notebook, or pass it to a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from rich.console import Console

from sccl.view.text.notes import Notes, progress_bar

Progress = bool | Callable[[str], None]
"""Whether to show progress on a terminal or in a notebook, or a function that gets each line."""


@contextmanager
def notes(progress: Progress) -> Iterator[Notes]:
    """Yield the receiver of a sweep's events."""
    if callable(progress):
        yield Notes(progress)
        return
    with _status(shown=progress) as status:
        yield Notes(lambda _: None, status)


@contextmanager
def told(progress: Progress, first: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that receives progress, line by line.

    Args:
        first: First line.
    """
    if callable(progress):
        yield progress
        return
    with _status(shown=progress) as status:
        status(first)
        yield status


@contextmanager
def _status(*, shown: bool) -> Iterator[Callable[[str], None]]:
    console = Console(stderr=True, highlight=False, emoji=False, force_jupyter=False)
    if shown and _in_notebook():
        with _cell() as status:
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
    from IPython import get_ipython  # noqa: PLC0415 - only where it is there already

    return hasattr(get_ipython(), "kernel")


@contextmanager
def _cell() -> Iterator[Callable[[str], None]]:
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
