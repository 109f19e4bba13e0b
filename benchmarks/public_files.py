"""Read listed files of public repositories, and compare their counts with the expected ones.

The list names repository, commit, and path of each file and the counts that hold for it. Files are
laid into a folder for a run and are no part of this project. The expected counts were derived from
the files without the readers. The list also records each search that found fewer than ten files
that a reader reads.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import msgspec

from benchmarks.timing import Verdict
from sccl import formats
from sccl.errors import InputError
from sccl.topo import importers
from sccl.training.traces import readers, trace_files
from sccl.training.traces.readers import StepSelection

LIST = Path(__file__).parent / "data" / "public_files.json"

WANTED = 10
"""Files that each reader should read."""

FETCH_TIMEOUT_S = 300.0

_COUNTED = re.compile(r"(\d+) (rank|GPU|chunk|transfer|thread block|rule|step|send)s?\b")
"""Counts in the line in which a reader of plans describes a file."""


@dataclass(frozen=True, slots=True)
class PublicFile:
    """A file of a public repository, and the expected result of its reader.

    Attributes:
        reader: Name of an importer, a reader of traces, or a format of plans.
        repository: Owner and name on GitHub.
        commit: Full hash of a commit that holds the file.
        path: Path inside the repository.
        counts: Expected counts by name. Empty: the file should be refused.
        refused: Part of the expected refusal. Empty: the file should be read.
    """

    reader: str
    repository: str
    commit: str
    path: str
    counts: dict[str, int] = field(default_factory=dict)
    refused: str = ""

    def place(self, folder: Path) -> Path:
        """Return where the file lies in a folder of laid files."""
        return folder.joinpath(self.repository, self.commit, PurePosixPath(self.path))


@dataclass(frozen=True, slots=True)
class PublicFileResult:
    """The outcome of reading one file.

    Attributes:
        counts: Counts that the reader found, those that are expected alone.
        refusal: Message of the reader. Empty: the file was read.
        verdict: ``failed`` if the outcome differs from the list, ``unknown`` if the file could not
            be fetched.
    """

    file: PublicFile
    counts: dict[str, int]
    refusal: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Search:
    """A search for files of a reader that found fewer than :data:`WANTED`.

    Attributes:
        reader: Name of an importer, a reader of traces, or a format of plans.
        found: Number of listed files that the reader reads.
        searched: Words that were looked for, and where.
    """

    reader: str
    found: int
    searched: str


@dataclass(frozen=True, slots=True)
class PublicFileList:
    """The content of the list."""

    files: list[PublicFile]
    searches: list[Search]


def load_list(path: Path = LIST) -> PublicFileList:
    """Return the listed files and searches."""
    return msgspec.json.decode(path.read_bytes(), type=PublicFileList)


def run(
    files: Sequence[PublicFile], folder: Path, mirrors: Path | None
) -> Iterator[PublicFileResult]:
    """Yield the outcome of each file, laying down those that the folder lacks.

    Args:
        files: Files to read.
        folder: Folder of laid files, ``FOLDER/owner/name/commit/path``.
        mirrors: Folder of local git repositories, ``MIRRORS/owner/name``. None: fetch from GitHub.
    """
    for file in files:
        place = file.place(folder)
        if not place.is_file() and not _lay(file, folder, mirrors):
            yield PublicFileResult(file, {}, "", "unknown")
            continue
        yield _outcome(file, place)


def _outcome(file: PublicFile, place: Path) -> PublicFileResult:
    try:
        counts = count(file.reader, place)
    except InputError as error:
        refusal = str(error)
        agrees = bool(file.refused) and file.refused in refusal
        return PublicFileResult(file, {}, refusal, "sat" if agrees else "failed")
    expected_counts = {name: counts.get(name, 0) for name in file.counts} or counts
    agrees = not file.refused and expected_counts == file.counts
    return PublicFileResult(file, expected_counts, "", "sat" if agrees else "failed")


def count(reader: str, place: Path) -> dict[str, int]:
    """Return the counts that a reader finds in a file.

    Raises:
        InputError: The reader refuses the file, or it is of another format.
    """
    if reader in importers.importer_names():
        return _machine(reader, place)
    if reader in readers.names():
        return _traces(reader, place)
    return _plan(reader, place)


def _machine(reader: str, place: Path) -> dict[str, int]:
    text = importers.decode_text(place.read_bytes(), place.name)
    importer, imported = importers.read_machine(text, importers.Hints(place.stem), place.name)
    _check_reader(reader, importer.NAME, place)
    topology = imported.topology
    return {
        "ranks": topology.ranks,
        "switches": len(topology.switches),
        "links": len(topology.links),
        "lanes": sum(link.lanes for link in topology.links),
        "nics": len(imported.nics),
    }


def _traces(reader: str, place: Path) -> dict[str, int]:
    """Return the numbers of traces and of calls in their middle steps."""
    counts = {"traces": 0, "calls": 0, "step": -1}
    for where, content in trace_files.iterate_files(place):
        found_reader = readers.detect_reader(content, where)
        _check_reader(reader, found_reader.NAME, place)
        trace = found_reader.read(content, where, StepSelection())
        counts["traces"] += 1
        counts["calls"] += len(trace.calls())
        if trace.step is not None:
            counts["step"] = trace.step
        if trace.world:
            counts["world"] = trace.world
        if trace.rank is not None:
            counts["rank"] = trace.rank
    return counts


def _plan(reader: str, place: Path) -> dict[str, int]:
    content = place.read_bytes()
    plan_format = formats.detect_format(content)
    _check_reader(reader, "" if plan_format is None else plan_format.NAME, place)
    foreign = formats.load(reader).read(content, place.name)
    if foreign.refused:
        raise InputError("; ".join(foreign.refused))
    return {f"{name.replace(' ', '_')}s": int(n) for n, name in _COUNTED.findall(foreign.about)}


def _check_reader(expected: str, recognized: str, place: Path) -> None:
    if recognized != expected:
        raise InputError(
            f"{place.name}: recognized as {recognized or 'no format'}, not as {expected}"
        )


def _lay(file: PublicFile, folder: Path, mirrors: Path | None) -> bool:
    """Write a file of a repository into the folder, and return whether it exists."""
    repository = folder / ".git" / file.repository if mirrors is None else mirrors / file.repository
    content = _git(repository, "show", f"{file.commit}:{file.path}")
    if content is None and mirrors is None:
        if not repository.exists():
            repository.mkdir(parents=True)
            _git(repository, "init", "--bare", "--quiet")
        url = f"https://github.com/{file.repository}"
        _git(repository, "fetch", "--quiet", "--depth", "1", url, file.commit)
        content = _git(repository, "show", f"{file.commit}:{file.path}")
    if content is None:
        return False
    place = file.place(folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return True


def _git(repository: Path, *words: str) -> bytes | None:
    """Return the output of git. None: git failed."""
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(repository), *words]
        done = subprocess.run(command, capture_output=True, check=True, timeout=FETCH_TIMEOUT_S)
        return done.stdout
    return None


def show_counts(counts: Mapping[str, int]) -> str:
    """Return counts as words."""
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items())
