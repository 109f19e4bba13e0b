"""Machines from the files that people have, one file per format, found by its name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import cast

from sccl.core.modules import module_names, named_module
from sccl.errors import FormatError, InputError
from sccl.topo.importers.contract import MAX_BYTES, Hints, Imported, Importer
from sccl.topo.network import Nic

__all__ = [
    "MAX_BYTES",
    "Hints",
    "Imported",
    "Importer",
    "Nic",
    "load",
    "names",
    "read",
    "text_of_bytes",
]

NO_IMPORTERS = frozenset(
    {
        "contract",
        "gpus",
        "hwloc_tree",
        "infragraph_nodes",
        "infragraph_paths",
        "nccl_tree",
        "nvidia_matrix",
        "pairs",
        "plain_xml",
        "plain_yaml",
        "rocm_tables",
        "taccl_nodes",
        "unused",
    }
)
"""Files that readers share."""

_PREFIX = re.compile(r" {0,9}[A-Za-z0-9][A-Za-z0-9_.-]{0,255}: ?")
"""A prefix that tools print before each line, such as ``node01: `` or, by rank, ``0: ``."""

_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
"""Byte order marks that some editors begin a text with, and the encodings they stand for."""


def names() -> tuple[str, ...]:
    """Return the names of the formats, as ``--format`` takes them. None is loaded."""
    return module_names(__path__, NO_IMPORTERS)


def load(name: str) -> Importer:
    """Return the reader of a format.

    Raises:
        UnknownNameError: there is none of that name.
    """
    hint = f"the formats are auto, {', '.join(names())}"
    module = named_module(__name__, name, "format", names(), hint)
    return cast("Importer", module)


def read(text: str, hints: Hints, where: str, name: str = "auto") -> tuple[Importer, Imported]:
    """Return the importer that reads a text, and the machine that the text describes.

    Args:
        where: name of the text in messages: its file name.
        name: name of a format. ``auto``: the format that recognises the text.

    Raises:
        InputError: no format recognises it, there is no such format, or the text is invalid.
    """
    prefix = common_prefix(text)
    if prefix:
        text = "\n".join(line[len(prefix) :] for line in text.splitlines())
    importer = _who_reads(text, where) if name == "auto" else load(name)
    try:
        imported = importer.read(text, hints)
    except InputError as error:
        raise type(error)(f"{where}: {error}") from error
    if prefix:
        line = f"every line begins with {prefix[:60]!a}, which is left out"
        imported = replace(imported, understood=(line, *imported.understood))
    return importer, imported


def common_prefix(text: str) -> str:
    """Return the name of a machine that all lines of a text begin with. Empty: none.

    Tools that run a command on several machines print it: pdsh, clush, srun --label.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    found = _PREFIX.match(lines[0]) if len(lines) > 1 else None
    if found is None:
        return ""
    prefix = found[0]
    bare = prefix.rstrip()
    return prefix if all(line.startswith(prefix) or line == bare for line in lines) else ""


def _who_reads(text: str, where: str) -> Importer:
    for importer in map(load, names()):
        if importer.sniff(text):
            return importer
    found = [_PREFIX.match(line) for line in text.splitlines() if line.strip()]
    machines = {one[0].rstrip(": ") for one in found if one}
    if all(found) and 1 < len(machines) <= len(found) // 2:
        raise FormatError(
            f"{where}: lines begin with names of {len(machines)} machines, such as "
            f"{min(machines)[:60]}: give the lines of one"
        )
    raise FormatError(
        f"{where} is no description of a machine that sccl knows: name its format with --format, "
        f"one of {', '.join(names())}"
    )


def text_of_bytes(content: bytes, where: str) -> str:
    """Return the text that some bytes are, whichever editor wrote them.

    Raises:
        FormatError: they are no text.
    """
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{where} is not a text file (byte {error.start} is not {encoding.upper()}): expected "
            "a description of a machine"
        ) from error
