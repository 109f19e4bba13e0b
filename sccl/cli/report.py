"""Exit codes, error messages, and consoles of all verbs."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.text import Text

from sccl.cli.options import flatten_options
from sccl.cli.signals import exit_code
from sccl.core.algorithm import Algorithm
from sccl.core.collective import Collective
from sccl.core.files.outputs import ErrorOutput, Failure, Output, to_plain
from sccl.core.formatting import single_line
from sccl.core.instance import Instance
from sccl.core.stop import StopKind, StopReason
from sccl.core.topology import Topology
from sccl.errors import InputError, MachineNote, ScclError, ScclWarning

if TYPE_CHECKING:
    from rich.status import Status

T = TypeVar("T")

PLAIN_WIDTH = 160
"""Width of tables in files and pipes, in columns."""


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_ERROR, _FAILED = "[bold red]error:[/] ", "[bold red]failed:[/] "
_SURROGATES = re.compile("[\ud800-\udfff]")


class ExitCode(IntEnum):
    """The exit code of the process."""

    OK = 0
    """Sat, or done."""
    NO = 1
    """Unsat, or verification failed."""
    BAD_INPUT = 2
    UNKNOWN = 3
    """A solver gave up, or a frontier has open candidates."""
    FAILED = 4
    """A defect: a solver failed, or a result failed verification or contradicts a bound."""
    INTERRUPTED = 130
    """Ctrl-C. SIGTERM is 143 and SIGHUP 129: 128 plus the signal (``signals.exit_code``)."""
    CLOSED_PIPE = 141


def exit_if_stopped(reason: StopReason) -> None:
    """Exit with the code of a search that ended early, if it did.

    Raises:
        Exit: It did.
    """
    if reason:
        is_interrupted = reason.kind is StopKind.INTERRUPTED
        raise typer.Exit(ExitCode.INTERRUPTED if is_interrupted else ExitCode.UNKNOWN)


class _Console(Console):
    """A console that raises on a closed pipe, which is no failure of a command.

    Names come from files and command lines: control characters in them are shown, and have no
    effect on the terminal.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text with visible control characters, except line ends."""
        return super().render_str(visible(text), **options)

    def status(self, status: RenderableType, **options: Any) -> Status:
        """Show the current activity, with control characters made visible."""
        message = visible(status) if isinstance(status, str) else status
        return super().status(message, **options)

    def on_broken_pipe(self) -> None:
        """Raise an error for the caller: the reader has left."""
        raise BrokenPipeError


def visible(text: str) -> str:
    """Return text with control characters escaped, as in Python."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def next_command(project: Path, target: str) -> str:
    """Return the next command for a written project, as markup."""
    place = escape(single_line(quote(str(project))))
    return f"sccl project run {place}" if target == "host" else f"make -C {place}"


def out() -> Console:
    """Return the console for results."""
    return _console()


def err() -> Console:
    """Return the console for progress and errors."""
    return _console(stderr=True)


def _console(*, stderr: bool = False) -> Console:
    console = _Console(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


def print_text(text: str, console: Console | None = None) -> None:
    """Print text without markup and line breaks, on the console for results or another one."""
    (console or out()).print(text, markup=False, soft_wrap=True)


@contextmanager
def show_activity(title: str) -> Iterator[Callable[[str], None]]:
    """Show a title on a terminal, and yield a function that appends the current activity."""
    with err().status(escape(single_line(title))) as status:
        yield lambda activity: status.update(escape(single_line(f"{title}: {activity}")))


def print_json(value: Any) -> None:
    """Print plain values as JSON on stdout: one document, and nothing after it."""
    typer.echo(json.dumps(_without_surrogates(value), indent=1))
    _printed.append(True)


def print_file(text: str) -> None:
    """Print the text of a JSON file on stdout, with control characters in strings escaped."""
    typer.echo(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text), nl=False)


def notify_first_compile() -> None:
    """Print on a terminal that code is compiled before its first use."""
    if err().is_terminal:
        err().print(
            "compiling before the first use, which takes some seconds; the result is cached on disk"
        )


def print_output(output: Output) -> None:
    """Print the output of a verb as JSON on stdout."""
    print_json(to_plain(output))


_printed: list[bool] = []
"""Not empty if the running verb has printed its JSON. A failure then prints no second document."""


def _without_surrogates(value: Any) -> Any:
    """Return plain values with surrogates escaped, which file names may contain."""
    if isinstance(value, str):
        return _SURROGATES.sub(lambda half: ascii(half[0])[1:-1], value)
    if isinstance(value, dict):
        return {
            _without_surrogates(name): _without_surrogates(part) for name, part in value.items()
        }
    return (
        [_without_surrogates(part) for part in value] if isinstance(value, list | tuple) else value
    )


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The report of a failure: a colored prefix, a sentence, and the exit code."""

    kind: str
    word: str
    sentence: str
    code: int

    @classmethod
    def from_usage(cls, sentence: str) -> ErrorReport:
        """Return the report of an invalid command line."""
        _printed.clear()  # of an earlier command in this process
        return cls("UsageError", _ERROR, sentence, ExitCode.BAD_INPUT)

    def emit(self, *, json: bool) -> None:
        """Print the sentence on stderr and, for scripts, an error on stdout."""
        with suppress(BrokenPipeError):  # the reader of stderr has gone
            err().print(f"{self.word}{escape(self.sentence)}", soft_wrap=True)
        try:
            if json and not _printed:
                error = Failure(type=self.kind, exit_code=self.code, message=self.sentence)
                print_output(ErrorOutput(inputs={}, error=error))
            sys.stdout.flush()
        except OSError:
            detach_stdout()


def detach_stdout() -> None:
    """Discard the buffered output, so that Python does not report an error at exit.

    Its reader has closed the pipe, or the disk is full.
    """
    with suppress(OSError, ValueError):  # in tests, stdout is no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _classify(error: Exception | KeyboardInterrupt) -> ErrorReport:
    if isinstance(error, KeyboardInterrupt) or exit_code():  # even if it was replaced
        return ErrorReport("Interrupted", "", "interrupted", exit_code() or ExitCode.INTERRUPTED)
    kind = type(error).__name__
    if isinstance(error, InputError):
        sentence = str(error).replace("\n", "\\n")  # of a name: the sentence stays one line
        return ErrorReport(kind, _ERROR, sentence, ExitCode.BAD_INPUT)
    if isinstance(error, ScclError):
        return ErrorReport(kind, _FAILED, str(error), ExitCode.FAILED)
    if isinstance(error, OSError):
        text = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        return ErrorReport(kind, _FAILED, text, ExitCode.FAILED)
    if isinstance(error, MemoryError):
        text = f"out of memory{_size_note(error)}: reduce the problem, or give it more memory"
        return ErrorReport(kind, _FAILED, text, ExitCode.FAILED)
    text = f"{kind}: {error}; this is a defect of sccl, please report it with the command you ran"
    return ErrorReport(kind, _FAILED, text, ExitCode.FAILED)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print sccl's warnings and notes as one line each. Others are unchanged."""
    with warnings.catch_warnings():
        for kind in (ScclWarning, MachineNote):
            warnings.simplefilter("always", kind)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            """Print a warning: sccl's own as a line."""
            if issubclass(category, MachineNote):
                err().print(str(message), markup=False, soft_wrap=True)
            elif issubclass(category, ScclWarning):
                err().print(f"[yellow]warning:[/] {escape(str(message))}", soft_wrap=True)
            else:
                usual(message, category, *rest)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def run_verb(command: Callable[..., T], /, **arguments: Any) -> T:
    """Run a verb, flush its output, and return its result. Signals interrupt it (``signals``)."""
    with _warnings_as_lines():
        try:
            result = command(**arguments)
        except typer.Exit:
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        return result


def report_errors(verb: Callable[..., T]) -> Callable[..., T]:
    """Return a command that prints a verb's exceptions as one sentence, with an exit code.

    With ``--json`` the sentence is also on stdout, as the only document there. Groups of options
    are flattened.
    """
    command = flatten_options(verb)

    @functools.wraps(command)
    def run(**arguments: Any) -> T:
        """Run the verb, and convert its errors to exit codes."""
        json = bool(arguments.get("json"))
        _printed.clear()
        try:
            result = run_verb(command, **arguments)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - exit code 1 is no crash
            raise typer.Exit(_report_failure(error, json=json)) from None
        if exit_code():
            raise typer.Exit(_report_failure(KeyboardInterrupt(), json=json))
        return result

    return run


def _report_failure(error: Exception | KeyboardInterrupt, *, json: bool) -> int:
    """Print the error as one sentence on stderr, and return the exit code."""
    if isinstance(error, typer.Exit) and exit_code() in {0, error.exit_code}:
        return error.exit_code
    if isinstance(error, BrokenPipeError) and not exit_code():  # the reader of stdout has gone
        detach_stdout()
        return ExitCode.CLOSED_PIPE
    ending = _classify(error)
    ending.emit(json=json)
    return ending.code


def _size_note(error: MemoryError) -> str:
    """Return the size of the problem that exhausted the memory.

    It is read from local variables in the frames of the traceback.
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
    sizes_text = ", ".join(f"{size} {label}" for label, size in sizes.items())
    return f" at {sizes_text}" if sizes_text else ""
