"""The ``sccl`` command."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import sccl
from sccl.cli.renamed import describe_removed_verb, replace_old_names
from sccl.cli.verbs import GROUPS, VERBS, Verb

_USAGE: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
"""The exception that Typer raises for an invalid command line. Newer versions bundle Click."""

_FAILURE_CODE = 4  # ExitCode.FAILED, whose module loads much more
_ANY_NAME = "NAME"


class _RemovedVerbError(_USAGE):  # type: ignore[misc]
    """The command line begins with a verb that was removed."""

    exit_code = 2


def _wants_json(words: Sequence[str]) -> bool:
    """Return whether ``--json`` is among the options, which end at ``--``."""
    before = words[: words.index("--")] if "--" in words else words
    return "--json" in before


def _report_usage_error(error: Any, words: Sequence[str]) -> int:
    """Print the error and the place of the help, and return the exit code."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
        sys.stderr.write(message)
        return int(error.exit_code)
    from sccl.cli.report import ErrorReport  # noqa: PLC0415 - loads modules that only verbs need

    text = f"{message[:1].lower()}{message[1:]}".rstrip(".")
    verb = [word for word in words[:1] if not word.startswith("-")]
    path = context.command_path.strip() if context else " ".join(["sccl", *verb])
    if not isinstance(error, _RemovedVerbError):
        text += f" (see '{path} --help')"
    ErrorReport.from_usage(text).emit(json=_wants_json(words))
    return int(error.exit_code)


class VerbGroup(TyperGroup):
    """Verbs and groups of verbs. A verb is loaded when it is called, not when it is listed."""

    def __init__(self, path: str = "", default: str | None = None, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.path, self.default = path, default
        depth = len(path.split())
        for verb in VERBS:
            words = verb.name.split()
            if words[:depth] != path.split() or words[depth] in self.commands:
                continue
            name = " ".join(words[: depth + 1])
            self.add_command(_stub(verb) if name == verb.name else make_group(name))

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command line, and print errors that precede a verb as one sentence."""
        arguments = args[0] if args else extra.pop("args", None)
        arguments = sys.argv[1:] if arguments is None else arguments
        words, note = replace_old_names(arguments)
        if note:
            sys.stderr.write(f"{note}\n")
        try:
            if sentence := describe_removed_verb(arguments):
                raise _RemovedVerbError(sentence)
            code = super().main(words, *args[1:], **extra | {"standalone_mode": False})
            sys.stdout.flush()
        except _USAGE as error:
            code = _report_usage_error(error, words)
        except OSError as error:  # from help and --version: verbs report their own
            from sccl.cli.report import detach_stdout  # noqa: PLC0415 - as above

            where = f": {error.filename}" if error.filename else ""
            sys.stderr.write(f"failed: {error.strerror or error}{where}\n")
            detach_stdout()
            code = _FAILURE_CODE
        return sys.exit(code if isinstance(code, int) else 0) if standalone_mode else code

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs, a section for each panel."""
        from sccl.cli.help import write_sections  # noqa: PLC0415 - verbs need no help

        commands: Any = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        rows = (
            (c.rich_help_panel or "Commands", (c.name, c.help)) for c in commands if not c.hidden
        )
        write_sections(formatter, rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the group, whose default verb may be left out."""
        if args[:1] == ["--help-all"]:  # the help of a group is complete
            args = ["--help"]
        if self.default and (not args or (args[0].startswith("-") and args[0] != "--help")):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the verb that is called, the verb, and its arguments."""
        if _ANY_NAME in self.commands and args[0] not in self.commands and args[0][:1] != "-":
            return "", load_verb(_find_verb(f"{self.path} {_ANY_NAME}")), args
        name, command, rest = super().resolve_command(ctx, args)
        if command is None or isinstance(command, VerbGroup):
            return name, command, rest
        return name, load_verb(_find_verb(f"{self.path} {name}".strip())), rest


def _find_verb(name: str) -> Verb:
    return next(verb for verb in VERBS if verb.name == name)


def _stub(verb: Verb) -> TyperCommand:
    """Return the entry of a verb in the help of its group."""
    return TyperCommand(
        verb.name.split()[-1],
        callback=None,
        help=verb.summary,
        rich_markup_mode=None,
        rich_help_panel=None if " " in verb.name else verb.panel,
    )


def make_group(path: str) -> VerbGroup:
    """Return a group of verbs."""
    group = GROUPS[path]
    return VerbGroup(
        path,
        group.default,
        name=path.rsplit(maxsplit=1)[-1],
        help=group.summary,
        no_args_is_help=group.default is None,
        rich_markup_mode=None,
        rich_help_panel=None if " " in path else group.panel,
        epilog=f"Each has its own help: sccl {path} COMMAND --help",
    )


def load_verb(verb: Verb) -> TyperCommand:
    """Return a verb with its options."""
    from sccl.cli.help import VerbCommand, arrange_help  # noqa: PLC0415 - listing verbs needs no help of one

    module, _, function = verb.home.rpartition(".")
    handler = getattr(importlib.import_module(f"sccl.cli.{module}"), function)
    typer_app = typer.Typer(add_completion=False, rich_markup_mode=None)
    typer_app.command(name=verb.name.split()[-1], cls=VerbCommand)(handler)
    command = typer.main.get_command(typer_app)
    assert isinstance(command, VerbCommand)
    command.name = verb.name.split()[-1]
    arrange_help(command, verb)
    return command


app = typer.Typer(
    name="sccl",
    cls=VerbGroup,
    no_args_is_help=True,
    help="Find and prove optimal collective-communication algorithms for any machine.",
    epilog="C: chunks per rank, S: steps, R: rounds. A buffer takes S * alpha + R/C * size / "
    "bandwidth. Start with: sccl pareto --collective allgather --topo dgx1",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # loading Rich takes as long as the rest of the help
    context_settings={"max_content_width": 100},
)


def _version(is_requested: bool) -> None:
    if is_requested:
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
