"""Reference of the commands, generated from the commands themselves.

mkdocs-click finds no options, because Typer bundles its own Click.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from docs.made.markdown import cell, escape
from sccl.cli.main import load_verb
from sccl.cli.verbs import VERBS, Verb

MIN_COMMANDS = 4
"""Number of commands from which on equal options are explained once."""

_HEAD = ("| option | takes | |", "|---|---|---|")


def summary() -> str:
    """Return a table of all commands, in the order of ``sccl --help``."""
    return _table({verb.name: f"`sccl {verb.name}`" for verb in VERBS})


def full() -> str:
    """Return the same table, with links to the pages of the site."""
    return _table(
        {
            verb.name: f"[`sccl {verb.name}`](commands/{_word(verb)}.md#{_anchor(verb)})"
            for verb in VERBS
        }
    )


def pages() -> dict[str, str]:
    """Return the page of each first word after ``sccl``, in the order of ``sccl --help``."""
    verbs: dict[str, list[Verb]] = defaultdict(list)
    for verb in VERBS:
        verbs[_word(verb)].append(verb)
    return {word: _page(word, verbs_of_word) for word, verbs_of_word in verbs.items()}


def common() -> str:
    """Return a table of the options that many commands share."""
    return "\n".join((*_HEAD, *sorted(_common_rows())))


def _table(names: dict[str, str]) -> str:
    rows = ["| command | purpose |", "|---|---|"]
    rows += [f"| {names[verb.name]} | {cell(verb.summary)} |" for verb in VERBS]
    return "\n".join(rows)


def _word(verb: Verb) -> str:
    return verb.name.split()[0]


def _anchor(verb: Verb) -> str:
    return f"sccl-{verb.name.lower().replace(' ', '-')}"


def _page(word: str, verbs: list[Verb]) -> str:
    parts = [f"# sccl {word}"]
    for verb in verbs:
        if verb.name != word:
            parts.append(f"## sccl {verb.name}")
        parts += _command(verb)
    return "\n\n".join(parts) + "\n"


def _command(verb: Verb) -> Iterator[str]:
    command: Any = load_verb(verb)
    yield escape(command.help)
    yield "\n".join(("```text", *verb.examples, "```"))
    rows = _rows(verb)
    own = [row for row in rows if row not in _common_rows()]
    if own:
        yield "\n".join((*_HEAD, *own))
    shared = ", ".join(_names(row) for row in rows if row in _common_rows())
    if shared:
        yield f"[Common options](../commands.md#common-options): {shared}."


def _names(row: str) -> str:
    """Return the first cell of a row."""
    return row.split("|")[1].strip()


@cache
def _common_rows() -> frozenset[str]:
    """Return the rows of options that many commands share.

    If an option has several rows, the most frequent one is common.
    """
    rows = Counter(row for verb in VERBS for row in _rows(verb) if row.startswith("| `-"))
    by_name: dict[str, str] = {}
    for row, number in rows.most_common():
        if number >= MIN_COMMANDS:
            by_name.setdefault(_names(row), row)
    return frozenset(by_name.values())


@cache
def _rows(verb: Verb) -> tuple[str, ...]:
    """Return the rows of a command's arguments and options.

    The help hides two kinds of options: those that the command only refuses, and those with an
    environment variable. Only the latter have a row.
    """
    command: Any = load_verb(verb)
    hints = get_type_hints(command.callback)
    return tuple(
        _parameter(parameter, hints[parameter.name])
        for parameter in command.params
        if (not parameter.hidden or parameter.envvar) and parameter.name in hints
    )


def _parameter(parameter: Any, hint: Any) -> str:
    """Return the row of a parameter: its names, its type, and its purpose."""
    argument = parameter.param_type_name == "argument"
    names = (
        [parameter.metavar or parameter.name.upper()]
        if argument
        else sorted(parameter.opts, key=len)[::-1]
    )
    value = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    has_default = value is not None and value is not False and not callable(value)
    shown = has_default and not parameter.required
    default = f" Default: {getattr(value, 'value', value)}." if shown else ""
    variable = f" Environment: `{parameter.envvar}`." if parameter.envvar else ""
    needed = " **Required.**" if parameter.required else ""
    cells = ", ".join(f"`{name}`" for name in names)
    purpose = cell(parameter.help + default)
    return f"| {cells} | {cell(_takes(hint))} | {purpose}{variable}{needed} |"


def _takes(hint: Any) -> str:
    """Return the type of an option's argument, in a word."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    if get_origin(kinds[0]) is list or get_origin(hint) is list:
        return f"{_takes(get_args(kinds[0])[0] if get_args(kinds[0]) else kinds[0])} ..."
    if issubclass(kinds[0], Enum):
        return " or ".join(member.value for member in kinds[0])
    return {int: "whole number", float: "number", Path: "path", bool: ""}.get(kinds[0], "text")
