"""Find the input files of verbs by name, pattern, or folder, and their kinds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.core.algorithm import KSynchronousPlan
from sccl.core.files.algorithms import algorithm_to_wire, load_algorithm
from sccl.core.files.disk import (
    UnreadFiles,
    is_folder,
    is_packed,
    open_for_reading,
    skip_unreadable,
    write_atomically,
    write_pieces_atomically,
)
from sccl.core.files.json_text import digest, file_digest, file_kind, to_text
from sccl.core.files.kinds import (
    ALGORITHM_KINDS,
    CERTIFICATE,
    FRONTIER,
    PACKED_SCHEDULE,
    PLAN_KINDS,
    SCHEDULE,
    SYMMETRIC_ALGORITHM,
    Kind,
)
from sccl.core.formatting import join_first
from sccl.core.progress import ProgressCallback
from sccl.errors import FormatError, InputError

if TYPE_CHECKING:
    from sccl.core.outcome import Plan

ALGORITHM_OR_FRONTIER = ALGORITHM_KINDS | {FRONTIER}
_COMPANION_KINDS = ALGORITHM_OR_FRONTIER | {CERTIFICATE}
"""Kinds of files in one folder that a shell pattern may name together."""


def kind_among(file: Path, kinds: Sequence[Kind]) -> Kind | None:
    """Return the kind of a JSON file, None if unknown, as for an invalid file of ``kinds``.

    Raises:
        InputError: It cannot be read, is not JSON, or has another kind.
    """
    kind = file_kind(file)
    if kind in {None, *kinds}:
        return kind
    *kind_names, last = [str(kind) for kind in kinds if kind != SYMMETRIC_ALGORITHM]
    raise FormatError(f"{file}: it holds {kind}; expected {', '.join(kind_names)} or {last}")


def expand_paths(words: Iterable[str | Path]) -> list[Path]:
    """Return the paths of words: files, folders, and matches of patterns.

    A pattern such as ``'found/*.json'`` arrives unexpanded from the shell. A file whose own name
    has such characters comes first. A pattern matches only folders and JSON files.

    Raises:
        InputError: Nothing matches a pattern.
    """
    return [path for path, _ in _match_words(words)]


def select_files(
    words: Iterable[str | Path], kinds: frozenset[Kind]
) -> tuple[list[Path], list[str | Path]]:
    """Return the named JSON files of some kinds, and the words that name other things."""
    files, rest = list[Path](), list[str | Path]()
    for word in words:
        try:
            paths = expand_paths([word])
        except InputError:  # it matches no JSON file, and may match those of others
            rest.append(word)
            continue
        held = [path for path in paths if _is_of_kinds(path, kinds)]
        files += held
        if not held:
            rest.append(word)
        elif len(held) < len(paths):
            rest += [path for path in paths if path not in held]
    return files, rest


def _is_of_kinds(path: Path, kinds: frozenset[Kind]) -> bool:
    if path.suffix != ".json" or not os.path.isfile(path) or is_packed(path):  # noqa: PTH113 - never raises
        return False
    try:
        return file_kind(path) in kinds
    except InputError:
        return False  # the reader reports the error


def files_of_kinds(
    words: Iterable[str | Path], kinds: frozenset[Kind], unread: UnreadFiles | None = None
) -> list[Path]:
    """Return the distinct files of some kinds: named files, and files in folders.

    A named file of an unexpected kind is returned, too, so that its reader reports the error.

    Args:
        unread: Receives the files that cannot be read. None: the error is raised.

    Raises:
        InputError: Nothing matches a pattern, a folder has none, or a file cannot be read.
    """
    files: dict[Path, Path] = {}
    for path, matched in _match_words(words):
        if is_folder(path):
            chosen = _folder_files(path, kinds, unread)
            if not (chosen or matched or unread):
                for file in sorted(path.iterdir()):
                    reject_foreign(file)
                names = sorted(kind.name for kind in kinds - {SYMMETRIC_ALGORITHM})
                raise InputError(
                    f"{path} holds no {' and no '.join(names)}, expected the --output folder of "
                    "'sccl pareto'; give another"
                )
        else:
            chosen = []
            with skip_unreadable(path, unread):
                chosen = _named_file(path, kinds, matched=matched)
        for file in chosen:
            files.setdefault(file.resolve(), file)
    return list(files.values())


def _named_file(path: Path, kinds: frozenset[Kind], *, matched: bool) -> list[Path]:
    """Return a named or matched file, unless it is a companion of files of the requested kinds.

    Raises:
        InputError: It cannot be read, or has a foreign format.
    """
    if not matched and path.suffix != ".json":
        reject_foreign(path)
        return [path]
    kind = file_kind(path)
    chosen = kind in kinds or not (matched or kind in _COMPANION_KINDS)
    if chosen and kind is None:
        reject_foreign(path)
    return [path] if chosen else []


def reject_foreign(path: Path) -> None:
    """Reject a plan in a foreign format with advice, since few verbs read it.

    Raises:
        FormatError: The file is one.
    """
    if not os.path.isfile(path):  # noqa: PTH113 - never raises, for any name
        return
    from sccl.formats.files.foreign import recognize_file  # noqa: PLC0415 - the formats, where one is met

    if recognized := recognize_file(path):
        raise FormatError(
            f"{path}: it is in the format {recognized[0].NAME}, not in sccl's: verify it with "
            f"'sccl check {path}', or convert it for all verbs with 'sccl import {path} -o "
            "ours.json'"
        )
    if not is_packed(path) and not _is_json(path):
        from sccl.formats.files.foreign import raise_unrecognized  # noqa: PLC0415 - likewise

        raise_unrecognized(path)


def _is_json(path: Path) -> bool:
    """Return whether a file begins like sccl's JSON. Its reader reports any fault."""
    with open_for_reading(path) as stream:
        return stream.read(1024).lstrip()[:1] in {b"{", b"["}


def is_pattern(word: str | Path) -> bool:
    """Return whether a word is a pattern, and not the name of an existing file or folder."""
    return has_magic(str(word)) and not os.path.lexists(word)


def _match_words(words: Iterable[str | Path]) -> Iterator[tuple[Path, bool]]:
    """Yield the paths of words, each with whether a pattern matched it."""
    for word in words:
        text = str(word)
        if not is_pattern(text):
            yield Path(text), False
            continue
        matches = [Path(match) for match in sorted(glob(text, recursive=True))]  # noqa: PTH207
        chosen = [path for path in matches if is_folder(path) or path.suffix == ".json"]
        if not chosen:
            raise InputError(f"no folder and no .json file matches {text!r}; check the pattern")
        yield from ((path, True) for path in chosen)


def _folder_files(path: Path, kinds: frozenset[Kind], unread: UnreadFiles | None) -> list[Path]:
    chosen = []
    for file in sorted(path.glob("*.json")):
        if is_folder(file) or file in (unread or ()):
            continue
        with skip_unreadable(file, unread):
            chosen += [file] if file_kind(file) in kinds else []
    return chosen


def algorithm_files(
    words: Iterable[str | Path],
    kinds: frozenset[Kind] = ALGORITHM_KINDS,
    unread: UnreadFiles | None = None,
) -> list[Path]:
    """Return the files of algorithms. Frontiers and claims next to them are ignored.

    Args:
        unread: Receives the files that cannot be read. None: the error is raised.

    Raises:
        InputError: There are none.
    """
    inputs = list(words)
    files = files_of_kinds(inputs, kinds, unread)
    if not files and not unread:
        where = (
            f", expected at {join_first(kept, 3)}"
            if (kept := _frontier_algorithm_files(inputs))
            else ""
        )
        raise InputError(
            f"{join_first(inputs, 3)}: only frontiers or claims are given, and no algorithm: give "
            "those "
            f"files too{where}"
        )
    for file in files:
        if not os.path.lexists(file) and _is_topology(str(file)):
            raise InputError(
                f"{file} is a topology, expected the file of an algorithm; see the topology with "
                f"'sccl topo show {file}'"
            )
    return files


def _frontier_algorithm_files(words: Iterable[str | Path]) -> list[Path]:
    from sccl.core.files.frontier_folders import read_frontiers  # noqa: PLC0415 - only where they are missing

    return [
        file.parent / point.file.name
        for file in frontier_files(words)
        for frontier in read_frontiers(file)
        for part in frontier.classes
        for point in part.points
        if point.file
    ]


def _is_topology(name: str) -> bool:
    from sccl.topo import resolve_topology  # noqa: PLC0415 - only where a file is missing

    try:
        resolve_topology(name)
    except InputError:
        return False
    return True


def frontier_files(words: Iterable[str | Path]) -> list[Path]:
    """Return the files of frontiers, empty if there are only plans.

    Raises:
        InputError: A pattern matches nothing, a folder contains neither, or a file cannot be read.
    """
    files = files_of_kinds(words, PLAN_KINDS | {FRONTIER})
    return [file for file in files if file.suffix == ".json" and file_kind(file) == FRONTIER]


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan and the file it is from.

    Attributes:
        intact: Whether the file is unchanged since sccl wrote it.
    """

    file: Path
    plan: Plan
    intact: bool


def write_plan(path: Path, plan: Plan, on_progress: ProgressCallback = lambda *_: None) -> None:
    """Write the file of an algorithm or a schedule atomically.

    Args:
        on_progress: Callback with the written and total bytes of a packed schedule.

    Raises:
        InputError: It cannot be written.
    """
    if isinstance(plan, KSynchronousPlan):
        write_atomically(path, to_text(algorithm_to_wire(plan)))
        return
    from sccl.core.files.packed_schedules import write_packed  # noqa: PLC0415 - NumPy is slow to load
    from sccl.core.files.schedules import text_pieces  # noqa: PLC0415
    from sccl.core.packed_schedule import PackedSchedule  # noqa: PLC0415

    if isinstance(plan, PackedSchedule):
        write_packed(path, plan, on_progress)
        return
    write_pieces_atomically(path, (piece.encode() for piece in text_pieces(plan)))


def load_plans(
    words: Iterable[str | Path],
    on_progress: ProgressCallback = lambda *_: None,
    unread: UnreadFiles | None = None,
) -> list[LoadedPlan]:
    """Load the algorithms and schedules of files, folders and patterns, without verifying them.

    Args:
        unread: Receives the files that cannot be read. None: the error is raised.

    Raises:
        InputError: There are none, or a file is neither.
    """
    loaded = []
    for file in algorithm_files(words, PLAN_KINDS, unread):
        with skip_unreadable(file, unread):
            loaded.append(LoadedPlan(file, *load_plan(file, on_progress)))
    return loaded


def load_plan(file: Path, on_progress: ProgressCallback) -> tuple[Plan, bool]:
    """Load a plan, and return whether the file is unchanged since sccl wrote it.

    Args:
        on_progress: Callback with the read and total bytes of a packed schedule.

    Raises:
        InputError: The file cannot be read, or contains no plan.
    """
    kind = file_kind(file)
    if kind == PACKED_SCHEDULE:
        from sccl.core.files.packed_schedules import load_packed  # noqa: PLC0415 - NumPy is slow to load

        return load_packed(file, on_progress)
    if kind != SCHEDULE:
        return load_algorithm(file)
    from sccl.core.files.schedules import load_schedule  # noqa: PLC0415 - NumPy is slow to load

    return load_schedule(file)


def algorithm_digest(file: Path) -> str:
    """Return the stated digest of an algorithm's file, or the sha256 of another file's text.

    Raises:
        InputError: The file cannot be read.
    """
    if file_kind(file) in ALGORITHM_KINDS:
        return digest(algorithm_to_wire(load_algorithm(file)[0]))
    return file_digest(file)
