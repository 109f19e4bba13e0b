"""Unpack trace files: plain, compressed with gzip, or several in an archive or a folder."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import IO

from sccl.core.files.disk import check_nonblank, is_folder, open_for_reading, read_pieces
from sccl.core.formatting import format_count
from sccl.errors import FormatError, InputError, TooLargeError
from sccl.training.traces.readers import MAX_BYTES
from sccl.training.traces.readers.common.contract import list_names

_ARCHIVE = b"ustar"
"""Bytes of a tar archive at offset 257."""
_MAX_FILES = 2**16
_TRACE_SUFFIXES = (".json", ".json.gz", ".et", ".et.gz", ".txt")
"""Suffixes of traces in folders and archives. Other files are skipped."""

_MAX_SHOWN = 5
"""Largest number of names of skipped files in a line."""


def iterate_files(
    path: Path, on_skipped: Callable[[str], None] | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield the names and unpacked bytes in a file, an archive (.tar, .tar.gz), or a folder.

    Args:
        path: File or folder.
        on_skipped: Function that receives a line with the names of skipped files.

    Raises:
        InputError: A file cannot be read, or is truncated, empty, or too large.
    """
    if is_folder(path):
        entries = sorted(path.iterdir())
        files = [entry for entry in entries if _is_trace(entry.name)]
        if not files:
            raise InputError(
                f"{path}: there are no traces ({', '.join(_TRACE_SUFFIXES)}) in this folder"
            )
        _report_skipped(
            path, (entry.name for entry in entries if not _is_trace(entry.name)), on_skipped
        )
        for file in files:
            yield from iterate_files(file, on_skipped)
        return
    with open_for_reading(path) as stream:
        content = _read_stream(stream, str(path))
    if not content.strip():
        raise FormatError(f"{path}: it is empty, expected a trace")
    if content[257:262] == _ARCHIVE:
        yield from _archive_members(content, path, on_skipped)
    else:
        yield str(path), content


def _is_trace(name: str) -> bool:
    return name.endswith(_TRACE_SUFFIXES)


def _report_skipped(
    path: Path, names: Iterable[str], on_skipped: Callable[[str], None] | None
) -> None:
    """Report the number and the first names of skipped files, except hidden ones."""
    skipped = [name for name in names if not name.rpartition("/")[2].startswith(".")]
    if not skipped or on_skipped is None:
        return
    count = format_count(len(skipped), "file")
    on_skipped(f"{path}: {count} without traces: {list_names(skipped, _MAX_SHOWN)}")


def _read_stream(stream: IO[bytes], where: str) -> bytes:
    """Return all bytes of a stream, decompressed if necessary.

    Raises:
        InputError: The stream is damaged, truncated, or too large.
    """
    content = bytearray()
    for piece in read_pieces(stream, where):
        _check_filled(piece, content, where)
        content += piece
        _check_size(len(content), where)
    return bytes(content)


def _check_filled(piece: bytes, before: bytearray, where: str) -> None:
    if before[257:262] != _ARCHIVE:  # archives may contain blocks of zeros
        check_nonblank(piece, where)


def _check_size(size: int, where: str) -> None:
    if size > MAX_BYTES:
        raise TooLargeError(
            f"{where}: it is larger than {MAX_BYTES >> 20} MiB, unpacked: trace fewer steps"
        )


def _archive_members(
    content: bytes, path: Path, on_skipped: Callable[[str], None] | None
) -> Iterator[tuple[str, bytes]]:
    """Yield the traces of an archive in memory. Nothing is written to disk."""
    total = count = traces = 0
    where = str(path)
    skipped: list[str] = []
    try:
        with tarfile.open(fileobj=BytesIO(content), mode="r:") as archive:
            for member in archive:
                count += 1
                if count > _MAX_FILES:
                    raise TooLargeError(f"{where}: there are more than {_MAX_FILES} files in it")
                file = archive.extractfile(member) if member.isreg() else None
                base_name = member.name.rpartition("/")[2]
                if file is None or base_name.startswith(".") or not _is_trace(base_name):
                    skipped += [] if member.isdir() else [member.name]
                    continue
                traces += 1
                name = "".join(c if c.isprintable() else "?" for c in member.name[:200])
                unpacked = _read_stream(file, f"{where}: {name}")
                total += len(unpacked)
                _check_size(total, where)
                yield f"{where}: {name}", unpacked
    except (tarfile.TarError, EOFError, ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise FormatError(f"{where}: it is a damaged archive ({error})") from error
    if not count:
        raise FormatError(f"{where}: there are no files in this archive")
    if not traces:
        raise InputError(
            f"{where}: there are no traces ({', '.join(_TRACE_SUFFIXES)}) in this archive"
        )
    _report_skipped(path, skipped, on_skipped)
