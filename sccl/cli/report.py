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


def reported(command: Callable[P, T]) -> Callable[P, T]:
    """Turn what a command raises into one sentence on stderr and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with _warnings_as_lines():
                return command(*args, **kwargs)
        except KeyboardInterrupt:
            err().print("interrupted")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except InputError as error:
            err().print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
            raise typer.Exit(ExitCode.BAD_INPUT) from None
        except ScclError as error:
            err().print(f"[bold red]failed:[/] {escape(str(error))}", soft_wrap=True)
            raise typer.Exit(ExitCode.FAILED) from None
        except typer.Exit:
            raise
        except BrokenPipeError:  # the reader of a pipe left: nobody is there to be told
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
            raise typer.Exit(ExitCode.CLOSED_PIPE) from None
        except OSError as error:
            text = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
            err().print(f"[bold red]failed:[/] {escape(text)}", soft_wrap=True)
            raise typer.Exit(ExitCode.FAILED) from None
        except Exception as error:  # noqa: BLE001 - exit code 1 must never mean a crash
            what = f"{type(error).__name__}: {error}"
            err().print(
                f"[bold red]failed:[/] {escape(what)}; this is a defect of sccl, please report it "
                "with the command you ran",
                soft_wrap=True,
            )
            raise typer.Exit(ExitCode.FAILED) from None

    return run
