"""Find the files that verbs get by name, pattern, or folder, and their kinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.core.algorithm import KSynchronous
from sccl.core.files.algorithms import algorithm_to_wire, load_algorithm
from sccl.core.files.disk import (
    is_folder,
    is_packed,
    read_text,
    reading,
    write_atomically,
    write_pieces_atomically,
)
from sccl.core.files.kinds import (
    ALGORITHMS,
    CERTIFICATE,
    FRONTIER,
    PACKED_SCHEDULE,
    PLANS,
    SCHEDULE,
    SYMMETRIC_ALGORITHM,
    Kind,
)
from sccl.core.files.text import kind_in, text_of
from sccl.errors import FormatError, InputError

if TYPE_CHECKING:
    from sccl.core.outcome import Plan

Told = Callable[[int, int], None]
"""Called with how much was done, and of how much."""

ALGORITHM_OR_FRONTIER = ALGORITHMS | {FRONTIER}
_BESIDE = ALGORITHM_OR_FRONTIER | {CERTIFICATE}
"""Kinds of files in one folder that a shell pattern may name together."""


def kind_of_file(file: Path) -> Kind | None:
    """Return the kind of a file. None: an unknown kind.

    Raises:
        InputError: It cannot be read, or is not JSON.
    """
    return PACKED_SCHEDULE if is_packed(file) else kind_in(read_text(file), str(file))


def kind_among(file: Path, kinds: Sequence[Kind]) -> Kind | None:
    """Return the kind of a JSON file. None: it has none, and may be a broken one of these.

    Raises:
        InputError: It cannot be read, is not JSON, or has another kind.
    """
    kind = kind_of_file(file)
    if kind in {None, *kinds}:
        return kind
    *most, last = [str(kind) for kind in kinds if kind != SYMMETRIC_ALGORITHM]
    raise FormatError(f"{file}: it holds {kind}; expected {', '.join(most)} or {last}")


def paths_of(words: Iterable[str | Path]) -> list[Path]:
    """Return the paths of words: files, folders, and matches of patterns.

    A pattern such as ``'found/*.json'`` arrives unexpanded from the shell. A file whose own name
    has such characters comes first. A pattern matches only folders and JSON files.

    Raises:
        InputError: Nothing matches a pattern.
    """
    return [path for path, _ in _found(words)]


def held_files(
    words: Iterable[str | Path], kinds: frozenset[Kind]
) -> tuple[list[Path], list[str | Path]]:
    """Return the JSON files of some kinds that are named, and the words that name anything else."""
    found, rest = list[Path](), list[str | Path]()
    for word in words:
        try:
            paths = paths_of([word])
        except InputError:  # it matches no JSON file, and may match those of others
            rest.append(word)
            continue
        held = [path for path in paths if _holds_one(path, kinds)]
        found += held
        if not held:
            rest.append(word)
        elif len(held) < len(paths):
            rest += [path for path in paths if path not in held]
    return found, rest


def _holds_one(path: Path, kinds: frozenset[Kind]) -> bool:
    if path.suffix != ".json" or not os.path.isfile(path) or is_packed(path):  # noqa: PTH113 - never raises
        return False
    try:
        return kind_of_file(path) in kinds
    except InputError:
        return False  # who reads it says what is wrong with it


Unread = dict[Path, InputError]
"""Files that cannot be read, and why."""


@contextmanager
def skipping(file: Path, unread: Unread | None) -> Iterator[None]:
    """Note that a file cannot be read, and go on.

    Args:
        unread: takes the file and the error. None: the error is raised.

    Raises:
        InputError: the file cannot be read, and nothing takes it.
    """
    try:
        yield
    except InputError as error:
        if unread is None:
            raise
        unread.setdefault(file, error)


def files_of(
    words: Iterable[str | Path], kinds: frozenset[Kind], unread: Unread | None = None
) -> list[Path]:
    """Return the files of some kinds, each once: named files, and files in folders.

    A named file that belongs to another kind next to them is returned too. Its reader then reports
    the fault.

    Args:
        unread: Receives the files that cannot be read. None: they are refused.

    Raises:
        InputError: Nothing matches a pattern, a folder has none, or a file cannot be read.
    """
    found: dict[Path, Path] = {}
    for path, matched in _found(words):
        if is_folder(path):
            chosen = _in_folder(path, kinds, unread)
            if not (chosen or matched or unread):
                for file in sorted(path.iterdir()):
                    refuse_foreign(file)
                names = sorted(kind.name for kind in kinds - {SYMMETRIC_ALGORITHM})
                raise InputError(
                    f"{path} holds no {' and no '.join(names)}, expected the --out folder of "
                    "'sccl pareto'; give another"
                )
        else:
            chosen = []
            with skipping(path, unread):
                chosen = _named_file(path, kinds, matched=matched)
        for file in chosen:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _named_file(path: Path, kinds: frozenset[Kind], *, matched: bool) -> list[Path]:
    """Return a file that is named or matched, unless it lies beside those of some kinds.

    Raises:
        InputError: it cannot be read, or is in the format of others.
    """
    if not matched and path.suffix != ".json":
        refuse_foreign(path)
        return [path]
    kind = kind_of_file(path)
    chosen = kind in kinds or not (matched or kind in _BESIDE)
    if chosen and kind is None:
        refuse_foreign(path)
    return [path] if chosen else []


def refuse_foreign(path: Path) -> None:
    """Refuse a plan in a foreign format with advice, since few verbs read it.

    Raises:
        FormatError: The file is one.
    """
    if not os.path.isfile(path):  # noqa: PTH113 - never raises, whatever the name
        return
    from sccl.tasks.foreign import foreign_format  # noqa: PLC0415 - the formats, where one is met

    if form := foreign_format(path):
        raise FormatError(
            f"{path}: it is in the format {form.NAME}, not in sccl's: verify it with 'sccl check "
            f"{path}', or convert it for all verbs with 'sccl import {path} -o ours.json'"
        )
    if not is_packed(path) and not _is_json(path):
        from sccl.tasks.foreign import refuse_no_plan  # noqa: PLC0415 - likewise

        refuse_no_plan(path)


def _is_json(path: Path) -> bool:
    """Return whether a file begins like sccl's JSON. Its reader reports any fault."""
    with reading(path) as stream:
        return stream.read(1024).lstrip()[:1] in {b"{", b"["}


def is_pattern(word: str | Path) -> bool:
    """Return whether a word is a pattern of names, and not the name of a file or a folder."""
    return has_magic(str(word)) and not os.path.lexists(word)


def _found(words: Iterable[str | Path]) -> Iterator[tuple[Path, bool]]:
    """Yield the paths of words, and whether a pattern was matched."""
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


def _in_folder(path: Path, kinds: frozenset[Kind], unread: Unread | None) -> list[Path]:
    chosen = []
    for file in sorted(path.glob("*.json")):
        if is_folder(file) or file in (unread or ()):
            continue
        with skipping(file, unread):
            chosen += [file] if kind_of_file(file) in kinds else []
    return chosen


def algorithm_files(
    words: Iterable[str | Path],
    kinds: frozenset[Kind] = ALGORITHMS,
    unread: Unread | None = None,
) -> list[Path]:
    """Return the files of algorithms: frontiers and claims beside them are passed over.

    Args:
        kinds: others than algorithms that are taken, too.
        unread: takes the files that cannot be read. None: they are refused.

    Raises:
        InputError: there is none.
    """
    given = list(words)
    found = files_of(given, kinds, unread)
    if not found and not unread:
        where = f", expected at {_several(kept)}" if (kept := _kept_with(given)) else ""
        raise InputError(
            f"{_several(given)}: only frontiers or claims are given, and no algorithm: give those "
            f"files too{where}"
        )
    for file in found:
        if not os.path.lexists(file) and _is_topology(str(file)):
            raise InputError(
                f"{file} is a topology, expected the file of an algorithm; see the topology with "
                f"'sccl topo show {file}'"
            )
    return found


def _several(names: Sequence[object]) -> str:
    return ", ".join(map(str, names[:3])) + (", ..." if len(names) > 3 else "")


def _kept_with(words: Iterable[str | Path]) -> list[Path]:
    """Return where the algorithms of frontiers are kept."""
    from sccl.tasks.frontiers import read_frontiers  # noqa: PLC0415 - only where they are missing

    return [
        file.parent / point.file.name
        for file in frontier_files(words)
        for frontier in read_frontiers(file)
        for part in frontier.classes
        for point in part.points
        if point.file
    ]


def _is_topology(name: str) -> bool:
    """Return whether a topology is called so."""
    from sccl.topo import resolve  # noqa: PLC0415 - only where a file is missing

    try:
        resolve(name)
    except InputError:
        return False
    return True


def frontier_files(words: Iterable[str | Path]) -> list[Path]:
    """Return the files of frontiers. None where only algorithms are given.

    Raises:
        InputError: nothing matches a pattern, a folder holds neither, or a file cannot be read.
    """
    found = files_of(words, PLANS | {FRONTIER})
    return [file for file in found if file.suffix == ".json" and kind_of_file(file) == FRONTIER]


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan and the file it is from.

    Attributes:
        intact: whether the file is as sccl wrote it.
    """

    file: Path
    plan: Plan
    intact: bool


def write_plan(path: Path, plan: Plan, told: Told = lambda *_: None) -> None:
    """Write the file of an algorithm or a schedule, whole or not at all.

    Args:
        told: how many bytes of a packed schedule were written, and of how many.

    Raises:
        InputError: it cannot be written.
    """
    if isinstance(plan, KSynchronous):
        write_atomically(path, text_of(algorithm_to_wire(plan)))
        return
    from sccl.core.files.packed import write_packed  # noqa: PLC0415 - NumPy is slow to load
    from sccl.core.files.schedules import pieces  # noqa: PLC0415
    from sccl.core.packed import PackedSchedule  # noqa: PLC0415

    if isinstance(plan, PackedSchedule):
        write_packed(path, plan, told)
        return
    write_pieces_atomically(path, (piece.encode() for piece in pieces(plan)))


def load_plans(
    words: Iterable[str | Path], told: Told = lambda *_: None, unread: Unread | None = None
) -> list[LoadedPlan]:
    """Return the algorithms and schedules of files, folders and patterns, right or wrong.

    Args:
        unread: takes the files that cannot be read. None: they are refused.

    Raises:
        InputError: there is none, or a file is neither.
    """
    loaded = []
    for file in algorithm_files(words, PLANS, unread):
        with skipping(file, unread):
            loaded.append(LoadedPlan(file, *load_plan(file, told)))
    return loaded


def load_plan(file: Path, told: Told) -> tuple[Plan, bool]:
    """Return the plan in a file, and whether the file is as sccl wrote it.

    Args:
        told: how many bytes of a packed schedule were read, and of how many.

    Raises:
        InputError: it cannot be read, or holds no plan.
    """
    kind = kind_of_file(file)
    if kind == PACKED_SCHEDULE:
        from sccl.core.files.packed import load_packed  # noqa: PLC0415 - NumPy is slow to load

        return load_packed(file, told)
    if kind != SCHEDULE:
        return load_algorithm(file)
    from sccl.core.files.schedules import load_schedule  # noqa: PLC0415 - NumPy is slow to load

    return load_schedule(file)
