"""Read and write files, and find the data files of the package."""

from __future__ import annotations

import os
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import IO, BinaryIO

from sccl.errors import FormatError, InputError

_MAX_TEXT_BYTES = 2**30
"""Maximum size of a text file: larger than all of sccl's files, but finite for endless devices."""

PIECE_BYTES = 2**20
"""Number of bytes to read at a time."""

_GZIP = b"\x1f\x8b"

_BLANKS = b"\0 \t\r\n\v\f"

PACKED_MAGIC = b"\x89SCCL-PACKED-1\r\n"
"""The first bytes of a packed schedule's file, with which no text begins."""

_PACKAGE = Path(__file__).resolve().parents[2]


def data_dir(name: str) -> Path:
    """Return the folder ``topologies`` or ``codegen_templates``.

    An installed wheel carries both inside the package (``pyproject.toml`` maps them there). In a
    checkout they are at the top level, next to the package.
    """
    inside = _PACKAGE / "_data" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        InputError: The file does not exist, is a folder, is not readable, or is endless.
        FormatError: It is not UTF-8 text.
    """
    try:
        with path.open("rb") as file:
            content = read_nonblank(file, _MAX_TEXT_BYTES, str(path))
    except (OSError, ValueError) as error:  # a path with a zero in it
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {_describe_error(path, error)}; check the path") from error
    if len(content) > _MAX_TEXT_BYTES:
        raise InputError(
            f"cannot read {path}: it is longer than {_MAX_TEXT_BYTES >> 20} MiB; check the path"
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path} is not a text file (byte {error.start} is not UTF-8): expected JSON"
        ) from error


def is_packed(path: Path) -> bool:
    """Return whether a file is a packed schedule. False: it is not, or cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(PACKED_MAGIC)) == PACKED_MAGIC
    except (OSError, ValueError):
        return False


@contextmanager
def open_for_reading(path: Path) -> Iterator[BufferedReader]:
    """Open a file for reading bytes, and convert errors to an InputError.

    Raises:
        InputError: The file does not exist, is a folder, or is not readable.
    """
    try:
        with path.open("rb") as file:
            yield file
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {_describe_error(path, error)}; check the path") from error


def read_nonblank(file: BinaryIO, limit: int, where: str) -> bytes:
    """Return the bytes of a file, or a little more than ``limit`` if it is longer than that.

    Raises:
        FormatError: A long part of it is blank, as of a device or of packed blanks.
    """
    content = bytearray()
    while len(content) <= limit and (piece := file.read(PIECE_BYTES)):
        check_nonblank(piece, where)
        content += piece
    return bytes(content)


def read_pieces(file: IO[bytes], where: str) -> Iterator[bytes]:
    """Yield the content of a file piece by piece, decompressed if it is in gzip format.

    Raises:
        FormatError: Its compressed content is damaged, truncated, or followed by other bytes.
    """
    piece = file.read(PIECE_BYTES)
    if not piece.startswith(_GZIP):
        while piece:
            yield piece
            piece = file.read(PIECE_BYTES)
        return
    unpack = zlib.decompressobj(wbits=31)
    while piece:
        if unpack.eof:
            piece = piece.lstrip(b"\0")  # padding
            if piece and not piece.startswith(_GZIP[:1]):
                raise FormatError(
                    f"{where}: other bytes follow its packed content, expected its end or another "
                    "gzip stream: copy it anew"
                )
            unpack = zlib.decompressobj(wbits=31) if piece else unpack  # several, one by one
        else:
            try:
                yield unpack.decompress(piece, PIECE_BYTES)
            except zlib.error as error:
                raise FormatError(f"{where}: the file is damaged (gzip: {error})") from error
            piece = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
        piece = piece or file.read(PIECE_BYTES)
    if not unpack.eof:
        raise FormatError(
            f"{where}: it is cut off, as its packed content does not end: copy it anew"
        )


def check_nonblank(piece: bytes, where: str) -> None:
    """Check that a complete piece of a file is not blank, since blanks would only fill memory.

    Raises:
        FormatError: The piece contains only blanks and zeros.
    """
    if len(piece) == PIECE_BYTES and not piece.strip(_BLANKS):
        raise FormatError(
            f"{where}: {PIECE_BYTES >> 20} MiB of it contain only blanks or zeros; check the path"
        )


def _describe_error(path: Path, error: Exception) -> str:
    """Return a path and its error as text. A path may contain a zero, or be too long."""
    text = str(path) if len(str(path)) < 300 else f"{str(path)[:60]}..."
    reason = getattr(error, "strerror", None) or str(error)
    return f"{text if text.isprintable() else repr(text)}: {reason}"


def path_exists(path: Path) -> bool:
    """Return whether a file or folder exists, without raising errors for any name."""
    return os.path.exists(path)  # noqa: PTH110 - that of Path raises where a name is too long


def is_folder(path: Path) -> bool:
    """Return whether a folder exists, without raising errors for any name."""
    return os.path.isdir(path)  # noqa: PTH112 - likewise


def check_can_write(path: Path) -> None:
    """Check that a file can be written at ``path``, before work is spent on its content.

    Raises:
        InputError: It is a folder, or its folder does not exist or is not writable.
    """
    place = _resolve_path(path)
    folder = place.parent if path.is_symlink() else path.parent
    if place.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; give the name of a file in it")
    if _is_stream(place):
        return
    if not folder.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {folder}; create it first")
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {path}: the folder {folder} is not writable")


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically: the file is complete or absent.

    Raises:
        InputError: the folder does not exist or may not be written to.
    """
    write_bytes_atomically(path, text.encode())


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically: the file is complete or absent.

    Raises:
        InputError: the folder does not exist or may not be written to.
    """
    write_pieces_atomically(path, (content,))


def write_pieces_atomically(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write pieces to ``path`` as they arrive, atomically: the file is complete or absent.

    Links are followed. A device or a pipe, such as ``/dev/stdout``, is written to directly.

    Raises:
        InputError: the folder does not exist or may not be written to.
    """
    path = _resolve_path(path)
    if _is_stream(path):
        _append(path, pieces)
        return
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot write {path}: {reason}; check the folder") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)  # mkstemp makes files for their owner only
        Path(temporary).replace(path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise InputError(f"cannot write {path}: {reason}; check the path") from error
        raise


def _resolve_path(path: Path) -> Path:
    """Return the target of a path. Streams such as ``/dev/stdout`` keep their name.

    Raises:
        InputError: Links form a cycle, or the name has a zero byte or is too long.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {_describe_error(path, error)}; check the path") from error
    return path if _is_stream(path) else path.resolve()


def _is_stream(path: Path) -> bool:
    """Return whether a path is a device, a pipe, or a stream of this process."""
    if path.absolute().parts[1:2] in (("dev",), ("proc",)):
        return True  # /dev/stdout may be a file to which other programs also write
    return path.exists() and not path.is_file() and not path.is_dir()


def _append(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    try:
        with path.open("ab") as file:
            file.writelines(pieces)
    except OSError as error:
        raise InputError(f"cannot write {_describe_error(path, error)}; check the path") from error


def make_directory(path: Path) -> None:
    """Create a folder and its parents, if they do not exist.

    Raises:
        InputError: It cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot create the folder {path}: {reason}") from error


def write_folder(directory: Path, texts: Mapping[str, str | bytes], *, last: str) -> None:
    """Write files into a folder, and replace existing files only after all are on the disk.

    A new folder appears complete. Other files in an existing folder remain.

    Args:
        texts: Content of each file, by name.
        last: Name of the file that identifies the folder, which is replaced last.

    Raises:
        InputError: the folder cannot be created or written.
    """
    check_can_create(directory)
    new = not directory.exists()
    place = directory.parent if new else directory
    make_directory(place)
    with (
        translate_write_errors(directory),
        tempfile.TemporaryDirectory(dir=place, prefix=".sccl-") as temporary,
    ):
        made = Path(temporary) / "made"
        made.mkdir()
        for name, text in texts.items():
            write_bytes_atomically(made / name, text.encode() if isinstance(text, str) else text)
        if new:
            made.rename(directory)
            return
        for name in sorted(texts, key=lambda name: (name == last, name)):
            (made / name).replace(directory / name)


@contextmanager
def translate_write_errors(directory: Path) -> Iterator[None]:
    """Convert errors with the files of a folder to an InputError.

    Raises:
        InputError: A file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write {_describe_error(directory, error)}; check the folder"
        ) from error


def check_can_create(path: Path) -> None:
    """Check that a folder exists or can be created, before work is spent on its content.

    Raises:
        InputError: It is a file, is below a file, or is not writable.
    """
    _resolve_path(path)  # raises an error for impossible names
    ancestor = next(
        folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists()
    )
    if not ancestor.is_dir():
        subject = "it" if ancestor == path.absolute() else str(ancestor)
        raise InputError(f"cannot write into {path}: {subject} is a file; give a folder")
    if not os.access(ancestor, os.W_OK):
        raise InputError(f"cannot write into {path}: the folder {ancestor} is not writable")


def slugify(name: str) -> str:
    """Return ``name`` as a safe part of a file name: letters, digits, dot and hyphen."""
    return shorten_name(re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-."), 64) or "unnamed"


def shorten_name(name: str, limit: int, between: str = "-") -> str:
    """Shorten a name to ``limit`` characters, with a hash that distinguishes equal beginnings."""
    if len(name) <= limit:
        return name
    tells = sha256(name.encode()).hexdigest()[:8]
    return f"{name[: limit - len(tells) - 1]}{between}{tells}"


UnreadFiles = dict[Path, InputError]
"""Files that cannot be read, and why."""


@contextmanager
def skip_unreadable(file: Path, unread: UnreadFiles | None) -> Iterator[None]:
    """Record the error of an unreadable file and continue.

    Args:
        unread: Receives the file and the error. None: the error is raised.

    Raises:
        InputError: The file cannot be read, and ``unread`` is None.
    """
    try:
        yield
    except InputError as error:
        if unread is None:
            raise
        unread.setdefault(file, error)
