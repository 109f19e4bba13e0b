"""Exit codes, error sentences and consoles, the same for every verb."""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from sccl.cli.signals import exit_code, interrupted, interruptible
from sccl.core.algorithm import Algorithm
from sccl.core.collective import Collective
from sccl.core.instance import Instance
from sccl.core.topology import Topology
from sccl.errors import InputError, ScclError, ScclWarning

P = ParamSpec("P")
T = TypeVar("T")

PLAIN_WIDTH = 160
"""Columns for tables that go to a file or a pipe, where nothing is there to wrap for."""


class ExitCode(IntEnum):
    """What the shell gets."""

    OK = 0
    """Sat; or done."""
    NO = 1
    """Unsat; or the judge rejects."""
    BAD_INPUT = 2
    UNKNOWN = 3
    """A solver gave up; or a frontier has open candidates."""
    FAILED = 4
    """A solver broke, or a result failed the judge: a defect."""
    INTERRUPTED = 130
    """By Ctrl-C; 143 by SIGTERM, 129 by SIGHUP: 128 and the signal (``signals.exit_code``)."""
    CLOSED_PIPE = 141


class _Console(Console):
    """A console that lets a closed pipe through, which is no failure of a command."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def out() -> Console:
    """Return the console for results."""
    console = _Console(highlight=False)
    return console if console.is_terminal else _Console(highlight=False, width=PLAIN_WIDTH)


def err() -> Console:
    """Return the console for progress and errors."""
    console = Console(stderr=True, highlight=False)
    plain = Console(stderr=True, highlight=False, width=PLAIN_WIDTH)
    return console if console.is_terminal else plain


def print_json(value: Any) -> None:
    """Print plain values as JSON on stdout."""
    typer.echo(json.dumps(value, indent=1))


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print sccl's own warnings as one line each; those of others stay what they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ScclWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if issubclass(category, ScclWarning):
                err().print(f"[yellow]warning:[/] {escape(str(message))}", soft_wrap=True)
            else:
                usual(message, category, *rest)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _delivered(command: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a command returns; what it printed has left this process."""
    with _warnings_as_lines():
        try:
            result = command(*args, **kwargs)
        except typer.Exit:
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        return result


def reported(command: Callable[P, T]) -> Callable[P, T]:
    """Turn what a command raises into one sentence on stderr and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            result = interruptible(functools.partial(_delivered, command, *args, **kwargs))
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - exit code 1 is no crash
            raise typer.Exit(_told(error)) from None
        if interrupted():
            raise typer.Exit(_told(KeyboardInterrupt()))
        return result

    return run


def _told(error: Exception | KeyboardInterrupt) -> int:
    """Say what went wrong, in one sentence on stderr, and return the exit code."""
    if isinstance(error, typer.Exit) and (not interrupted() or error.exit_code == exit_code()):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt) or interrupted():  # whatever became of it on its way
        err().print("interrupted")
        return exit_code()
    if isinstance(error, BrokenPipeError):  # the reader of a pipe left: nobody is there to be told
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        return ExitCode.CLOSED_PIPE
    code, kind, text = ExitCode.FAILED, "failed", str(error)
    if isinstance(error, InputError):
        code, kind = ExitCode.BAD_INPUT, "error"
    elif isinstance(error, OSError):
        text = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
    elif isinstance(error, MemoryError):
        text = f"out of memory{_sizes(error)}: ask for less, or give it more memory"
    elif not isinstance(error, ScclError):
        text = (
            f"{type(error).__name__}: {error}; this is a defect of sccl, please report it with the "
            "command you ran"
        )
    err().print(f"[bold red]{kind}:[/] {escape(text)}", soft_wrap=True)
    return code


def _sizes(error: MemoryError) -> str:
    """Return how large the question was that took all memory.

    Wherever that happened, what was worked on is at hand in the calls that led there.
    """
    sizes: dict[str, int] = {}
    trace = error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            if isinstance(value, Topology):
                sizes |= {"ranks": value.ranks, "links": len(value.links)}
            elif isinstance(value, Collective):
                sizes |= {"ranks": value.ranks, "chunks": value.num_chunks}
            elif isinstance(value, Instance | Algorithm):
                sizes |= {"steps": value.steps, "rounds": value.rounds}
        trace = trace.tb_next
    told = ", ".join(f"{size} {what}" for what, size in sizes.items())
    return f" at {told}" if told else ""
