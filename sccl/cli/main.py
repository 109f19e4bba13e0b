"""The ``sccl`` command."""

from __future__ import annotations

import importlib
import keyword
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import sccl
from sccl.cli.signals import detach_stdout
from sccl.cli.verbs import VERBS, Verb

_USAGE: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
"""The exception that Typer raises for an invalid command line. Newer versions bundle Click."""

_FAILURE_CODE = 4  # ExitCode.FAILED, whose module loads much more


def _wants_json(words: Sequence[str]) -> bool:
    """Return whether ``--json`` is among the options, which end at ``--``."""
    before = words[: words.index("--")] if "--" in words else words
    return "--json" in before


def _report_usage_error(error: Any, words: Sequence[str]) -> int:
    """Print the error and the place of the help, and return the exit code."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # older ones lack it; the message is the help
        sys.stderr.write(message)
        return int(error.exit_code)
    from sccl.cli.report import ErrorReport  # noqa: PLC0415 - loads modules that only verbs need

    text = f"{message[:1].lower()}{message[1:]}".rstrip(".")
    verb = [word for word in words[:1] if not word.startswith("-")]
    path = context.command_path if context else " ".join(["sccl", *verb])
    ErrorReport.from_usage(f"{text} (see '{path} --help')").emit(json=_wants_json(words))
    return int(error.exit_code)


class VerbGroup(TyperGroup):
    """All verbs by name, each loaded when it is called and not when it is listed."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for verb in VERBS:
            self.add_command(
                TyperCommand(
                    verb.name, callback=None, help=verb.summary, rich_help_panel=verb.group
                )
            )

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command line, and print errors that precede a verb as one sentence."""
        arguments = args[0] if args else extra.get("args")
        try:
            code = super().main(*args, **extra | {"standalone_mode": False})
            sys.stdout.flush()
        except _USAGE as error:
            code = _report_usage_error(error, sys.argv[1:] if arguments is None else arguments)
        except OSError as error:  # from help and --version: verbs report their own
            where = f": {error.filename}" if error.filename else ""
            sys.stderr.write(f"failed: {error.strerror or error}{where}\n")
            detach_stdout()
            code = _FAILURE_CODE
        return sys.exit(code if isinstance(code, int) else 0) if standalone_mode else code

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the verb that is called, the verb, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_verb(next(verb for verb in VERBS if verb.name == name)), rest


def load_verb(verb: Verb) -> TyperCommand | TyperGroup:
    """Return a verb with its options, or its inner verbs."""
    name = verb.name.replace("-", "_")
    home = importlib.import_module(f"sccl.cli.{verb.home}")
    handler = getattr(home, f"{name}_" if keyword.iskeyword(name) else name)
    typer_app = handler if isinstance(handler, typer.Typer) else typer.Typer(add_completion=False)
    if typer_app is not handler:
        typer_app.command(name=verb.name)(handler)
    command = typer.main.get_command(typer_app)
    assert isinstance(command, TyperCommand | TyperGroup)
    command.name, command.epilog = verb.name, f"Example: {verb.example}"
    command.rich_help_panel = verb.group
    _join_lines(command)
    return command


def _join_lines(command: Any) -> None:
    """Join the lines of each paragraph of a help text, which Typer prints as they are."""
    command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", command.help.strip())
    for inner in getattr(command, "commands", {}).values():
        _join_lines(inner)


app = typer.Typer(
    name="sccl",
    cls=VerbGroup,
    no_args_is_help=True,
    help="Find and prove optimal collective-communication algorithms for any machine.",
    epilog="Start with: sccl pareto --collective allgather --topo dgx1",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sccl {sccl.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Find and prove optimal collective-communication algorithms for any machine."""
