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


def text() -> str:
    """Return the reference of all commands, in the order and groups of ``sccl --help``."""
    texts: list[str] = []
    group = ""
    for verb in VERBS:
        if verb.group != group:
            group = verb.group
            texts.append(f"## {group}")
        for full, one in _leaves(f"sccl {verb.name}", load_verb(verb)):
            texts += _command(full, one)
    return "\n\n".join(texts)


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", {})
    if not inner:
        yield name, command
    for word, one in inner.items():
        yield from _leaves(f"{name} {word}", one)


def _command(name: str, command: Any) -> Iterator[str]:
    yield f"### {name}"
    yield escape(command.help)
    yield f"```text\n{command.epilog.removeprefix('Example: ')}\n```"
    hints = get_type_hints(command.callback)
    rows = [_parameter(one, hints[one.name]) for one in command.params if not one.hidden]
    if rows:
        yield "\n".join(["| option | takes | |", "|---|---|---|", *rows])


def _parameter(one: Any, hint: Any) -> str:
    """Return the row of a parameter: its names, its type, and its purpose."""
    argument = one.param_type_name == "argument"
    names = [one.metavar or one.name.upper()] if argument else sorted(one.opts, key=len)[::-1]
    kept = one.show_default if isinstance(one.show_default, str) else one.default
    told = kept is not None and kept is not False and not callable(kept)
    shown = told and not one.required
    default = f" Default: {getattr(kept, 'value', kept)}." if shown else ""
    needed = " **Required.**" if one.required else ""
    cells = ", ".join(f"`{name}`" for name in names)
    return f"| {cells} | {cell(_takes(hint))} | {cell(one.help + default)}{needed} |"


def _takes(hint: Any) -> str:
    """Return the type of an option's argument, in a word."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    if get_origin(kinds[0]) is list or get_origin(hint) is list:
        return f"{_takes(get_args(kinds[0])[0] if get_args(kinds[0]) else kinds[0])} ..."
    if issubclass(kinds[0], Enum):
        return " or ".join(one.value for one in kinds[0])
    return {int: "whole number", float: "number", Path: "path", bool: ""}.get(kinds[0], "text")
