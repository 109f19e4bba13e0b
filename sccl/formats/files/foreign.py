"""Read and verify files in foreign formats."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from glob import glob
from os.path import isfile
from pathlib import Path
from typing import NoReturn

from sccl import formats
from sccl.core.files.disk import (
    UnreadFiles,
    check_nonblank,
    is_folder,
    is_packed,
    open_for_reading,
    read_pieces,
    skip_unreadable,
)
from sccl.core.files.json_text import detect_text_kind
from sccl.core.files.kinds import Kind
from sccl.errors import FormatError, InputError, TooLargeError
from sccl.formats.common.contract import MAX_BYTES, ForeignPlan, Format
from sccl.formats.common.program_graph import GraphFault, StepProgram
from sccl.judge import violations
from sccl.topo import importers

_HEAD = 4096
_SUFFIXES = (".json", ".xml")
"""Suffixes of foreign files in a folder."""


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """A foreign file and its content."""

    file: Path
    digest: str
    format: Format
    content: ForeignPlan


def load_foreign_files(
    words: Iterable[str | Path], unread: UnreadFiles | None = None
) -> tuple[list[ForeignFile], list[str | Path]]:
    """Load foreign files, and return the remaining words.

    Args:
        words: Files, folders and patterns.
        unread: Receives the files that cannot be read, with the error. None: the error is raised.

    Raises:
        InputError: A file of such a format cannot be read.
    """
    foreign_files: list[ForeignFile] = []
    rest: list[str | Path] = []
    for word in words:
        named = _named_files(word)
        matches = [entry for path in named if (entry := _load_foreign(path, unread)) is not None]
        foreign_files += matches
        theirs = {entry.file for entry in matches} | set(unread or ()) & set(named)
        if not theirs:
            rest.append(word)
        elif len(theirs) < len(named):
            rest += [path for path in named if path not in theirs and path.suffix == ".json"]
    return foreign_files, rest


def _named_files(word: str | Path) -> list[Path]:
    """Return the files that a word names or matches, or that a folder contains."""
    path = Path(word)
    if isfile(word):  # noqa: PTH113 - never raises, for any name
        return [path]
    if is_folder(path):
        return [file for file in sorted(path.iterdir()) if file.suffix in _SUFFIXES]
    matches = sorted(glob(str(word), recursive=True))  # noqa: PTH207 - patterns of any root
    return [Path(match) for match in matches if isfile(match)]  # noqa: PTH113 - likewise


def _load_foreign(path: Path, unread: UnreadFiles | None) -> ForeignFile | None:
    with skip_unreadable(path, unread):
        if recognized := recognize_file(path):
            form, content = recognized
            digest = "sha256:" + hashlib.sha256(content).hexdigest()
            return ForeignFile(path, digest, form, form.read(content, str(path)))
    return None


def recognize_file(path: Path) -> tuple[Format, bytes] | None:
    """Return the foreign format of a file and its content, None if there is no known format.

    Raises:
        InputError: The file cannot be read, or exceeds the size limit of foreign formats.
    """
    if is_folder(path) or is_packed(path):
        return None
    with open_for_reading(path) as stream:
        head = stream.read(_HEAD)
    if re.match(rb'\s*\{\s*"schema":\s*[0-9]+,\s*"kind":', head):
        return None  # sccl's own files, some of which are long
    content = read_content(path)
    if content.lstrip()[:1] == b"{" and _content_kind(content) is not None:
        return None
    form = formats.detect_format(content)
    return None if form is None else (form, content)


def read_content(path: Path) -> bytes:
    """Return the content of a file, uncompressed if gzip compressed it.

    Raises:
        InputError: It cannot be read, or exceeds the size limit of foreign formats.
    """
    content = bytearray()
    with open_for_reading(path) as stream:
        for piece in read_pieces(stream, str(path)):
            check_nonblank(piece, str(path))
            content += piece
            if len(content) > MAX_BYTES:
                raise TooLargeError(
                    f"{path} is longer than {MAX_BYTES >> 20} MiB, the limit for files of other "
                    "tools"
                )
    return bytes(content)


def raise_unrecognized(path: Path) -> NoReturn:
    """Refuse a file that is in no known format of plans, and name its format if it has one.

    Raises:
        InputError: Always.
    """
    content = read_content(path)
    if not content.strip():
        raise FormatError(f"{path}: it is empty, expected a plan; write it anew")
    text = content.decode(errors="replace")
    for name in importers.importer_names():
        if name != "own" and importers.load_importer(name).sniff(text):
            raise FormatError(
                f"{path}: it describes a machine ({name}), not a plan: 'sccl topo import {path} "
                "-o machine.json' reads it"
            )
    format_names = ", ".join(formats.readable_names())
    if kind := _content_kind(content):
        raise FormatError(
            f"{path}: it holds {kind} of sccl's own, expected a file of {format_names}"
        )
    raise FormatError(f"{path}: unknown format, expected a plan in one of: {format_names}")


def _content_kind(content: bytes) -> Kind | None:
    try:
        return detect_text_kind(content.decode(), "")
    except (InputError, UnicodeDecodeError):
        return None


def find_faults(foreign_file: ForeignFile) -> list[GraphFault]:
    """Return the violations of a plan or a program, for any relative speed of its thread blocks.

    Raises:
        InputError: It exceeds the size limit of verification.
    """
    from sccl.formats.common import program_check  # noqa: PLC0415 - NumPy is slow to load

    plan = foreign_file.content.plan
    if plan is None:
        return []
    if not isinstance(plan, StepProgram):
        return [
            GraphFault(v.kind, v.message, v.rank, None, v.step, v.chunk) for v in violations(plan)
        ]
    return program_check.find_faults(plan)
