"""Reference of the commands, generated from the commands themselves.

mkdocs-click finds no options, because Typer bundles its own Click. Its pages also exist only on the
built site, not in the repository.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from docs.made.markdown import cell, escape
from sccl.cli.main import load_verb
from sccl.cli.verbs import VERBS


def summary() -> str:
    """Return a table of all commands, in the order of ``sccl --help``."""
    rows = ["| command | purpose |", "|---|---|"]
    shown = (verb for verb in VERBS if not verb.is_hidden)
    rows += [f"| `sccl {verb.name}` | {cell(verb.summary)} |" for verb in shown]
    return "\n".join(rows)


def full() -> str:
    """Return the reference of all commands, in the order and groups of ``sccl --help``."""
    texts: list[str] = []
    group = ""
    for verb in VERBS:
        if verb.panel != group:
            group = verb.panel
            texts.append(f"## {group}")
        texts += _command(f"sccl {verb.name}", load_verb(verb), verb.examples)
    return "\n\n".join(texts)


def _command(name: str, command: Any, examples: tuple[str, ...]) -> Iterator[str]:
    yield f"### {name}"
    yield escape(command.help)
    yield "\n".join(("```text", *examples, "```"))
    hints = get_type_hints(command.callback)
    rows = [
        _parameter(parameter, hints[parameter.name])
        for parameter in command.params
        if not parameter.hidden and parameter.name in hints  # --help-all has none
    ]
    if rows:
        yield "\n".join(["| option | takes | |", "|---|---|---|", *rows])


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
    needed = " **Required.**" if parameter.required else ""
    cells = ", ".join(f"`{name}`" for name in names)
    return f"| {cells} | {cell(_takes(hint))} | {cell(parameter.help + default)}{needed} |"


def _takes(hint: Any) -> str:
    """Return the type of an option's argument, in a word."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    if get_origin(kinds[0]) is list or get_origin(hint) is list:
        return f"{_takes(get_args(kinds[0])[0] if get_args(kinds[0]) else kinds[0])} ..."
    if issubclass(kinds[0], Enum):
        return " or ".join(member.value for member in kinds[0])
    return {int: "whole number", float: "number", Path: "path", bool: ""}.get(kinds[0], "text")
