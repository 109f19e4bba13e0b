"""Importers of machine descriptions from other tools, one module per format."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import cast

from sccl.core.plugins import load_plugin, plugin_names
from sccl.errors import FormatError, InputError
from sccl.topo.chassis_network import Nic
from sccl.topo.importers.common.contract import MAX_BYTES, Hints, Imported, Importer

__all__ = [
    "MAX_BYTES",
    "Hints",
    "Imported",
    "Importer",
    "Nic",
    "decode_text",
    "importer_names",
    "load_importer",
    "read_machine",
]

_PREFIX = re.compile(r" {0,9}[A-Za-z0-9][A-Za-z0-9_.-]{0,255}: ?")
"""A prefix that tools print before each line, such as ``node01: `` or, by rank, ``0: ``."""

_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
"""Byte order marks of text files, and their encodings."""


def importer_names() -> tuple[str, ...]:
    """Return the names of the formats for ``--format``, without loading their modules."""
    return plugin_names(__path__)


def load_importer(name: str) -> Importer:
    """Return the importer of a format.

    Raises:
        UnknownNameError: There is no such format.
    """
    hint = f"the formats are auto, {', '.join(importer_names())}"
    module = load_plugin(__name__, name, "format", importer_names(), hint)
    return cast("Importer", module)


def read_machine(
    text: str, hints: Hints, where: str, name: str = "auto"
) -> tuple[Importer, Imported]:
    """Return the importer that reads a text, and the machine that the text describes.

    Args:
        where: Name of the text in messages, which is its file name.
        name: Name of a format. ``auto``: the format that recognizes the text.

    Raises:
        InputError: No format recognizes the text, there is no such format, or the text is invalid.
    """
    prefix = common_prefix(text)
    if prefix:
        text = "\n".join(line[len(prefix) :] for line in text.splitlines())
    importer = _detect_importer(text, where) if name == "auto" else load_importer(name)
    try:
        imported = importer.read(text, hints)
    except InputError as error:
        raise type(error)(f"{where}: {error}") from error
    if prefix:
        line = f"every line begins with {prefix[:60]!a}, which is left out"
        imported = replace(imported, understood=(line, *imported.understood))
    return importer, imported


def common_prefix(text: str) -> str:
    """Return the machine name that prefixes all lines of a text, empty if there is none.

    Tools that run a command on several machines print it: pdsh, clush, srun --label.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    match = _PREFIX.match(lines[0]) if len(lines) > 1 else None
    if match is None:
        return ""
    prefix = match[0]
    bare = prefix.rstrip()
    return prefix if all(line.startswith(prefix) or line == bare for line in lines) else ""


def _detect_importer(text: str, where: str) -> Importer:
    for importer in map(load_importer, importer_names()):
        if importer.sniff(text):
            return importer
    matches = [_PREFIX.match(line) for line in text.splitlines() if line.strip()]
    machines = {match[0].rstrip(": ") for match in matches if match}
    if all(matches) and 1 < len(machines) <= len(matches) // 2:
        raise FormatError(
            f"{where}: lines begin with names of {len(machines)} machines, such as "
            f"{min(machines)[:60]}: give the lines of one"
        )
    raise FormatError(
        f"{where} is no description of a machine that sccl knows: name its format with --format, "
        f"one of {', '.join(importer_names())}"
    )


def decode_text(content: bytes, where: str) -> str:
    """Decode text in UTF-8 or with a byte order mark.

    Raises:
        FormatError: The bytes are not text.
    """
    encoding = next(
        (name for mark, name in _BYTE_ORDER_MARKS.items() if content.startswith(mark)), "utf-8"
    )
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{where} is not a text file (byte {error.start} is not {encoding.upper()}): expected "
            "a description of a machine"
        ) from error
