"""Progress of what takes long: on a terminal, in a notebook, or told to a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from rich.console import Console

from sccl.view.text.notes import Notes, progress_bar

Progress = bool | Callable[[str], None]
"""Whether to show what is going on where someone may be looking, or who is told, line by line."""


@contextmanager
def notes(progress: Progress) -> Iterator[Notes]:
    """Provide what a sweep tells its events."""
    if callable(progress):
        yield Notes(progress)
        return
    with _status(shown=progress) as status:
        yield Notes(lambda _: None, status)


@contextmanager
def told(progress: Progress, first: str) -> Iterator[Callable[[str], None]]:
    """Provide what is told, line by line, what goes on.

    Args:
        first: what goes on at first.
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
    """Return whether a Jupyter kernel runs this."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython  # noqa: PLC0415 - only where it is there already

    return hasattr(get_ipython(), "kernel")


@contextmanager
def _cell() -> Iterator[Callable[[str], None]]:
    """Provide a bar with what is being done in a cell's output, which is empty again at the end.

    It only moves: how many candidates there will be, nobody knows. Rich's own bars would want
    ipywidgets for it.
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
