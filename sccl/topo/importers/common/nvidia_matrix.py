"""Parse the matrix that ``nvidia-smi topo -m`` prints.

Pasted variants are supported: with blanks instead of tabs, indented or quoted, with a header whose
names are glued together or without a header, and with missing rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from sccl.core.ids import Edge
from sccl.errors import FormatError, TooLargeError
from sccl.topo.importers.common.gpu_pairs import BRIDGE, MAX_GPUS, NODE, SOCKETS, SWITCH, SWITCHES

MAX_CHARACTERS = 2**20
"""Maximum size of a text. A matrix of 64 GPUs and 64 NICs has 70,000 characters."""

PATHS = {
    "PIX": SWITCH,
    "PXB": SWITCHES,
    "PHB": BRIDGE,
    "NODE": NODE,
    "SYS": SOCKETS,
    "SOC": SOCKETS,
}
"""Distance classes of the paths in the legend. SOC was the name of SYS until 2017."""

MX = "MX"
"""Cell of a pair with MetaX's own links, whose number is not printed."""

_CELL = re.compile(rf"X|NV[0-9]{{1,2}}|{MX}|{'|'.join(PATHS)}")
_JOINED_CELLS = re.compile(rf"(?:{_CELL.pattern})+")
"""Cells without a blank between them, in pasted texts that lost their tabs."""

_CELLS = f"X, NV and a number, or one of {', '.join(PATHS)}"
_STYLE = re.compile(r"\x1b?\[[0-9;]{0,8}m")
"""Escape sequences that underline the header. A pasted text may lack the escape character."""

_GPU = re.compile(r"GPU([0-9]{1,4})(?![0-9])")
_ROW = re.compile(r"^[ \t>|]*GPU[0-9]{1,4}\s(?:.*\s)?X(?:\s|$)", re.MULTILINE)
_MARGIN = " \t>|"
_LEGEND = re.compile(r"(NIC[0-9]{1,4}):\s*(\S{1,64})")
_BEHIND_NICS = frozenset({"CPU", "NUMA", "GPU", "Node"})
"""First words of the columns after the NICs."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """The content of the text.

    Attributes:
        gpus: number of GPUs, including those whose rows are missing.
        rows: Words of each present row, by GPU: for each GPU, then for each NIC.
        nics: names of the columns after the GPUs, from the legend if it has them.
        header: Whether there is a header.
        affinities: Words on CPUs and NUMA nodes of each GPU. Empty: none.
        unread: NICs whose rows do not have a cell for each GPU and NIC.
    """

    gpus: int
    rows: dict[int, tuple[str, ...]]
    nics: tuple[str, ...]
    header: bool
    affinities: tuple[str, ...]
    unread: tuple[str, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Return the GPUs without a row."""
        return tuple(gpu for gpu in range(self.gpus) if gpu not in self.rows)

    def words(self) -> dict[Edge, str]:
        """Return the word of each pair with a row, the lower GPU first."""
        return {
            (a, b): self.rows[a][b] if a in self.rows else self.rows[b][a]
            for a, b in combinations(range(self.gpus), 2)
            if a in self.rows or b in self.rows
        }


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the matrix: the words for pairs, and the words after them."""

    line: int
    gpu: int
    words: tuple[str, ...]
    rest: tuple[str, ...]


def has_gpu_row(text: str) -> bool:
    """Return whether a line is the row of a GPU, with an X on the diagonal."""
    return _ROW.search(_STYLE.sub("", text[:MAX_CHARACTERS])) is not None


def parse_matrix(text: str) -> Matrix:
    """Return the content of a matrix.

    Raises:
        InputError: The text is no such matrix, or exceeds the limits.
    """
    if len(text) > MAX_CHARACTERS:
        raise TooLargeError(
            f"it has {len(text)} characters, and matrices are read to {MAX_CHARACTERS}: give the "
            "output of nvidia-smi topo -m alone"
        )
    lines = [line.strip(_MARGIN) for line in _STYLE.sub("", text).splitlines()]
    rows = [row for i, line in enumerate(lines) if (row := _parse_row(i + 1, line))]
    if not rows:
        raise FormatError(
            "no row of a GPU has the X of its own column: expected the output of nvidia-smi topo -m"
        )
    header = next((line for line in lines[: rows[0].line - 1] if line.startswith("GPU0")), None)
    gpus = _count_seen_gpus(rows) if header is None else _count_named_gpus(header)
    if gpus > MAX_GPUS:
        raise TooLargeError(f"it has {gpus} GPUs, and matrices are read to {MAX_GPUS}")
    by_gpu = _ordered_rows(rows, gpus)
    nics = _nics(header, lines, max(len(row.words) for row in rows) - gpus)
    for row in rows:
        _check_width(row, gpus, len(nics))
    return Matrix(
        gpus,
        {gpu: row.words for gpu, row in by_gpu.items()},
        nics,
        header is not None,
        tuple(" ".join(by_gpu[gpu].rest) if gpu in by_gpu else "" for gpu in range(gpus)),
        tuple(_check_nics(lines, nics, by_gpu, gpus)) if header else (),
    )


def _parse_row(number: int, line: str) -> _Row | None:
    """Parse the row of a GPU, with its words up to the first that is no cell."""
    name, *words = line.split() or [""]
    match = _GPU.fullmatch(name)
    words = [cell for word in words for cell in _split_cells(word)]
    if match is None or not ("X" in words or (words and _CELL.fullmatch(words[0]))):
        return None
    joins = next((i for i, word in enumerate(words) if not _CELL.fullmatch(word)), len(words))
    return _Row(number, int(match[1]), tuple(words[:joins]), tuple(words[joins:]))


def _split_cells(word: str) -> list[str]:
    """Split a word of glued cells into cells. Other words are returned unchanged."""
    return _CELL.findall(word) if _JOINED_CELLS.fullmatch(word) else [word]


def _count_named_gpus(header: str) -> int:
    """Return the number of GPUs in a header, whose names may be glued together."""
    numbers = [int(number) for number in _GPU.findall(header)]
    if numbers != list(range(len(numbers))):
        raise FormatError(
            f"the header names the GPUs {', '.join(map(str, numbers[:99]))}: expected 0 and on, "
            "each once"
        )
    return len(numbers)


def _count_seen_gpus(rows: list[_Row]) -> int:
    """Return the number of GPUs by the rows and the NVLinks, if there is no header."""
    linked = [i for row in rows for i, word in enumerate(row.words) if word.startswith("NV")]
    return 1 + max(*linked, *(row.gpu for row in rows), 0)


def _ordered_rows(rows: list[_Row], gpus: int) -> dict[int, _Row]:
    """Check the rows, and return the present row of each GPU."""
    by_gpu: dict[int, _Row] = {}
    for row in sorted(rows, key=lambda row: (row.gpu, row.line)):
        _check_row(row, gpus)
        earlier_row = by_gpu.setdefault(row.gpu, row)
        if earlier_row is not row:
            raise FormatError(
                f"lines {earlier_row.line} and {row.line} are both of GPU{row.gpu}: give one matrix"
            )
    _check_symmetry(by_gpu)
    return by_gpu


def _check_row(row: _Row, gpus: int) -> None:
    if row.gpu >= gpus:
        raise FormatError(f"line {row.line} describes GPU{row.gpu}, which the header does not list")
    words = row.words[:gpus]
    if len(words) < gpus:
        cell = repr(row.rest[0][:40]) if row.rest else "the end of the line"
        raise FormatError(
            f"line {row.line}: {cell} stands where GPU{row.gpu} and GPU{len(words)} are joined, "
            f"expected {_CELLS}: is it the output of nvidia-smi topo -m?"
        )
    if [i for i, word in enumerate(words) if word == "X"] != [row.gpu]:
        raise FormatError(
            f"line {row.line}: expected the X of GPU{row.gpu} in column {row.gpu} alone: words are "
            "missing, or too many"
        )


def _check_width(row: _Row, gpus: int, nics: int) -> None:
    """Check that a row has a cell for each GPU and NIC of the header.

    Raises:
        FormatError: It has fewer or more cells.
    """
    if len(row.words) != gpus + nics:
        behind = f", then {row.rest[0][:40]!r}" if row.rest else ""
        raise FormatError(
            f"line {row.line}: {len(row.words)} cells{behind}, expected {gpus + nics}: one for "
            f"each of {gpus} GPUs and {nics} NICs; give the output as nvidia-smi topo -m prints it"
        )


def _check_nics(
    lines: list[str], nics: tuple[str, ...], rows: dict[int, _Row], gpus: int
) -> Iterator[str]:
    """Check that NIC rows agree with GPU rows, and yield the NICs whose rows are incomplete.

    Raises:
        FormatError: A NIC row differs from a GPU row.
    """
    columns = {nic.split(" ")[0]: gpus + i for i, nic in enumerate(nics)}
    for number, line in enumerate(lines, 1):
        name, *words = line.split() or [""]
        if name not in columns:
            continue
        cells = [cell for word in words for cell in _split_cells(word)]
        if len(cells) != gpus + len(nics) or not all(map(_CELL.fullmatch, cells)):
            yield name
            continue
        for gpu, row in rows.items():
            if cells[gpu] != row.words[columns[name]]:
                raise FormatError(
                    f"line {number} has {cells[gpu]} for {name[:40]} and GPU{gpu}, line {row.line} "
                    f"has {row.words[columns[name]]}: expected the same word"
                )


def _check_symmetry(rows: dict[int, _Row]) -> None:
    for a, b in combinations(sorted(rows), 2):
        forward, back = rows[a].words[b], rows[b].words[a]
        if forward != back:
            raise FormatError(
                f"line {rows[a].line} has {forward} for GPU{a} and GPU{b}, line {rows[b].line} has "
                f"{back}: expected the same word"
            )


def _nics(header: str | None, lines: list[str], columns: int) -> tuple[str, ...]:
    """Return the names of NICs from header and legend, or column numbers without a header."""
    if header is None:
        return tuple(f"column {i}" for i in range(columns))
    last = list(_GPU.finditer(header))[-1]
    names = header[last.end() :].split()
    end = next((i for i, name in enumerate(names) if name in _BEHIND_NICS), len(names))
    legend = {match[1]: match[2] for line in lines if (match := _LEGEND.fullmatch(line.strip()))}
    return tuple(f"{n} ({legend[n]})" if n in legend else n for n in names[:end])
