"""What pages of the site are filled with when it is built: commands, file formats, formulas."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from latex2mathml.converter import convert
from mkdocs.utils import get_relative_url

from sccl.cli.main import VERBS, load
from sccl.cli.topo import SHAPES
from sccl.core.wire import json_schema

_REMOTE = "https://unpkg.com/iframe-worker/shim"
_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):(?=<code>)")
_MATH = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the text of a page with its marks replaced by what they stand for."""
    for mark, made in _MADE.items():
        if mark in markdown:
            markdown = markdown.replace(mark, made())
    return _MATH.sub(
        lambda found: f'<div class="math">{convert(found[1], display="block")}</div>\n', markdown
    )


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Return a page that loads nothing from a network, with roles of docstrings taken out."""
    local = output.replace(_REMOTE, get_relative_url("worker.js", page.url))
    return _ROLE.sub("", local)


def on_post_template(output_content: str, **_: Any) -> str:
    """Return a page without a source, such as that for what is not found, likewise."""
    return output_content.replace(_REMOTE, "/worker.js")


def _commands() -> str:
    """Return the reference of all commands, in the order and groups of ``sccl --help``."""
    texts: list[str] = []
    group = ""
    for verb in VERBS:
        if verb.group != group:
            group = verb.group
            texts.append(f"## {group}")
        for full, one in _leaves(f"sccl {verb.name}", load(verb)):
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
    yield _escape(re.sub(r"(?<!\n)\n(?!\n)", " ", command.help.strip()))
    yield f"```text\n{command.epilog.removeprefix('Example: ')}\n```"
    hints = get_type_hints(command.callback)
    rows = [_parameter(one, hints[one.name]) for one in command.params]
    if rows:
        yield "\n".join(["| option | takes | |", "|---|---|---|", *rows])


def _parameter(one: Any, hint: Any) -> str:
    """Return the row of a parameter: its names, what it takes, what it is for."""
    argument = one.param_type_name == "argument"
    names = [one.metavar or one.name.upper()] if argument else sorted(one.opts, key=len)[::-1]
    kept = one.show_default if isinstance(one.show_default, str) else one.default
    told = kept is not None and kept is not False and not callable(kept)
    shown = told and not one.required
    default = f" Default: {getattr(kept, 'value', kept)}." if shown else ""
    needed = " **Required.**" if one.required else ""
    cells = ", ".join(f"`{name}`" for name in names)
    return f"| {cells} | {_cell(_takes(hint))} | {_cell(one.help + default)}{needed} |"


def _takes(hint: Any) -> str:
    """Return what an option of this type is given, in a word."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    if get_origin(kinds[0]) is list or get_origin(hint) is list:
        return f"{_takes(get_args(kinds[0])[0] if get_args(kinds[0]) else kinds[0])} ..."
    if issubclass(kinds[0], Enum):
        return " or ".join(one.value for one in kinds[0])
    return {int: "whole number", float: "number", Path: "path", bool: ""}.get(kinds[0], "text")


def _files() -> str:
    """Return a section for each kind of file, from the schema that reading checks against."""
    return "\n\n".join(text for shape, wire in SHAPES.items() for text in _file(shape.value, wire))


def _file(kind: str, wire: type[Any]) -> Iterator[str]:
    schema = json_schema(wire)
    shapes = schema["$defs"]
    top = schema["$ref"].rsplit("/", 1)[-1]
    yield f"## {kind}"
    for name in [top, *sorted(set(shapes) - {top})]:
        shape = shapes[name]
        if name != top:
            yield f"**{_plain(name)}**"
        yield _escape(shape.get("description", ""))
        rows = [
            f"| `{field}` | {_cell(_type(value))} | "
            f"{'yes' if field in shape.get('required', ()) else ''} | "
            f"{_cell(value.get('description', ''))} |"
            for field, value in shape["properties"].items()
        ]
        yield "\n".join(["| field | value | required | |", "|---|---|---|---|", *rows])
    text = json.dumps(schema, indent=1)
    body = "\n".join(f"    {line}" for line in ["```json", *text.splitlines(), "```"])
    yield f'??? note "sccl topo schema --of {kind}"\n\n{body}'


def _plain(name: str) -> str:
    return name.removesuffix("Wire")


def _type(value: dict[str, Any]) -> str:
    """Return what a field holds, in words and numbers."""
    if "$ref" in value:
        return _plain(value["$ref"].rsplit("/", 1)[-1])
    if "anyOf" in value:
        return " or ".join(_type(one) for one in value["anyOf"])
    if "enum" in value:
        return " or ".join(json.dumps(one) for one in value["enum"])
    if value.get("type") == "array":
        inner = value.get("prefixItems") or [value["items"]]
        shown = ", ".join(_type(one) for one in inner)
        return f"[{shown}]" if "prefixItems" in value else f"list of {shown}"
    least = f" >= {value['minimum']}" if "minimum" in value else ""
    return f"{value.get('type', 'anything')}{least}"


def _escape(text: str) -> str:
    return html.escape(text, quote=False).replace("*", r"\*").replace("_", r"\_")


def _cell(text: str) -> str:
    return _escape(text).replace("|", r"\|").replace("\n", " ")


_MADE: dict[str, Callable[[], str]] = {"<!-- commands -->": _commands, "<!-- files -->": _files}
