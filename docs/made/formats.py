"""Tables of external formats for plans and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, get_type_hints

import msgspec

from docs.made.markdown import cell
from sccl import formats
from sccl.formats.common import contract as format_contract
from sccl.topo import importers

OWN_PAGE = "../reference/files.md#topology"


def plans() -> str:
    """Return the table of plan formats."""
    rows = [
        (_named(form.NAME), cell(form.ABOUT), ", ".join(_directions(form)), cell(form.SOURCE))
        for form in map(formats.load, formats.names())
    ]
    return _table(("format", "content", "sccl", "source"), rows)


def options() -> str:
    """Return the table of the options of plan formats."""
    users: dict[tuple[str, str], list[str]] = {}
    for form in map(formats.load, formats.names()):
        for option in _options(form.Options):
            users.setdefault(option, []).append(f"`{form.NAME}`")
    rows = [(name, ", ".join(names), text) for (name, text), names in users.items()]
    return _table(("`--set`", "format", "meaning"), rows)


def machines() -> str:
    """Return the table of machine formats."""
    readers = map(importers.load_importer, importers.importer_names())
    rows = [(_named(reader.NAME), cell(reader.ABOUT), cell(reader.SOURCE)) for reader in readers]
    return _table(("format", "content", "source"), rows)


def _named(name: str) -> str:
    """Return the name of a format, linked to its page."""
    return f"[`{name}`]({OWN_PAGE if name == 'own' else f'{name}.md'})"


def _directions(form: Any) -> Iterator[str]:
    if form.TAKES:
        yield "writes"
    if form.read.__module__ != format_contract.__name__:
        yield "reads"


def _options(options: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    hints = get_type_hints(options, include_extras=True)
    for field in msgspec.structs.fields(options):
        notes = getattr(hints[field.name], "__metadata__", ())
        text = " ".join(note for note in notes if isinstance(note, str))
        yield f"`{field.name.replace('_', '-')}`", cell(text)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
