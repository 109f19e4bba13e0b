"""Parse the tables that ``rocm-smi --showtopo`` and ``amd-smi topology`` print.

``rocm-smi`` prints a banner above each table and names GPUs by number. ``amd-smi`` prints a title
and names GPUs by PCI bus id. Pasted texts may lack tables or rows, or contain messages between
them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations

from sccl.core.ids import Edge
from sccl.errors import FormatError, TooLargeError
from sccl.topo.importers.common.gpu_pairs import MAX_GPUS

MAX_CHARACTERS = 2**22
"""Maximum size of a text. Eight tables of 64 GPUs by bus id have a tenth of it."""

WEIGHT, HOPS, LINKS, SPEEDS = "weight", "hops", "link type", "bandwidth"

_TITLES = {
    "weight between two gpus": WEIGHT,
    "hops between two gpus": HOPS,
    "link type between two gpus": LINKS,
    "weight table:": WEIGHT,
    "hops table:": HOPS,
    "link type table:": LINKS,
    "numa bw table:": SPEEDS,
}
_SHORT_TITLES = {"bandwidth": SPEEDS}
"""Titles of ``rocm-smi --shownodesbw`` that also occur in other files."""

_BANNERS = frozenset({"", "rocm system management interface", "end of rocm smi log", "numa nodes"})
_NOTES = ("Format:", '"0-0"')
"""Beginnings of lines that explain a table."""

_TITLE = re.compile(r"=+ *([^=]*?) *=+|([A-Za-z][A-Za-z -]* TABLE:)")
_TITLE_LINE = re.compile(rf"^[ \t]*=*[ \t]*(?:{'|'.join(_TITLES)})", re.IGNORECASE | re.MULTILINE)

_BUS_ID = r"(?:[0-9a-fA-F]{1,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_NAME = re.compile(rf"GPU[0-9]{{1,4}}|{_BUS_ID}")
_NUMA = re.compile(r"GPU *\[? *([0-9]{1,4}) *\]?\s*: \(Topology\) Numa Node: (-?[0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Tables:
    """The content of the text.

    Attributes:
        gpus: names of the GPUs: ``GPU0`` or bus ids.
        rows: Words of each present GPU row, by table.
        numa: NUMA node by GPU, if stated.
        errors: number of lines with error messages.
        unused: titles of tables that are not read.
        unread: numbers of lines within tables that are no rows.
    """

    gpus: tuple[str, ...]
    rows: dict[str, dict[int, tuple[str, ...]]]
    numa: dict[int, str]
    errors: int
    unused: tuple[str, ...]
    unread: tuple[int, ...]

    def words(self, table: str) -> dict[Edge, str]:
        """Return the word of each pair with a row, the lower GPU first. Empty: no such table."""
        rows = self.rows.get(table, {})
        return {
            (a, b): rows[a][b] if a in rows else rows[b][a]
            for a, b in combinations(range(len(self.gpus)), 2)
            if a in rows or b in rows
        }


def has_titles(text: str) -> bool:
    """Return whether a line is the title of one of the tables."""
    return _TITLE_LINE.search(text[:MAX_CHARACTERS]) is not None


def parse_tables(text: str) -> Tables:
    """Return the content of the tables.

    Raises:
        InputError: There are no tables, one is invalid, or they exceed the limits.
    """
    if len(text) > MAX_CHARACTERS:
        raise TooLargeError(
            f"it has {len(text)} characters, and tables are read to {MAX_CHARACTERS}: give the "
            "output of rocm-smi --showtopo alone"
        )
    reading = _TableReader()
    for number, line in enumerate(text.splitlines(), start=1):
        reading.read_line(number, line.strip())
    if not reading.gpus:
        raise FormatError(
            "no table of GPUs: expected the output of rocm-smi --showtopo, or of amd-smi topology"
        )
    for table, rows in reading.rows.items():
        if table != HOPS or WEIGHT not in reading.rows:  # weights tell more than hops
            _check_symmetry(table, rows)
    return Tables(
        gpus=tuple(reading.gpus),
        rows={table: dict(sorted(cells.items())) for table, cells in reading.rows.items()},
        numa=reading.numa,
        errors=reading.errors,
        unused=tuple(reading.unused),
        unread=tuple(reading.unread),
    )


class _TableReader:
    """Line-by-line reader: the current table, and all tables so far."""

    def __init__(self) -> None:
        self.gpus: list[str] = []
        self.rows: dict[str, dict[int, tuple[str, ...]]] = {}
        self.numa: dict[int, str] = {}
        self.errors = 0
        self.unused: dict[str, None] = {}
        self.unread: list[int] = []
        self._table: str | None = None
        self._in_legend = False

    def read_line(self, number: int, line: str) -> None:
        words = line.split()
        if match := _TITLE.fullmatch(line):
            self._begin((match[1] or match[2] or "").strip())
        elif line == "Legend:":
            self._table, self._in_legend = None, True
        elif self._in_legend:
            return
        elif numa := _NUMA.match(line):
            self.numa.setdefault(int(numa[1]), numa[2])
        elif "not supported" in line.lower() or line.startswith("ERROR"):
            self.errors += 1
        elif self._table and words and _NAME.fullmatch(words[0]):
            if all(map(_NAME.fullmatch, words)):
                self._header(number, words)
            else:
                self._row(number, words[0], tuple(words[1:]))
        elif self._table and words and not line.startswith(_NOTES):
            self.unread.append(number)

    def _begin(self, title: str) -> None:
        """Begin a table, which may be one that is ignored."""
        name = title.lower()
        self._table = (_TITLES | _SHORT_TITLES).get(name)
        self._in_legend = False
        if self._table is None and name not in _BANNERS:
            self.unused[title.removesuffix(":")] = None

    def _header(self, number: int, names: list[str]) -> None:
        if self.gpus and names != self.gpus:
            raise FormatError(
                f"line {number} names {len(names)} GPUs, and the table before named "
                f"{len(self.gpus)}, or others: give the output of one machine"
            )
        if len(names) > MAX_GPUS:
            raise TooLargeError(f"it has {len(names)} GPUs, and tables are read to {MAX_GPUS}")
        if len(set(names)) < len(names):
            raise FormatError(f"line {number} names a GPU twice: expected each once")
        self.gpus = names

    def _row(self, number: int, name: str, words: tuple[str, ...]) -> None:
        if name not in self.gpus:
            raise FormatError(f"line {number} describes {name}, which no earlier header lists")
        if len(words) != len(self.gpus):
            raise FormatError(
                f"line {number} has {len(words)} words for {len(self.gpus)} GPUs: expected one each"
            )
        rows = self.rows.setdefault(self._table or "", {})
        if rows.setdefault(self.gpus.index(name), words) is not words:
            raise FormatError(f"line {number} is the second of {name} in its table: give one")


def _check_symmetry(table: str, rows: dict[int, tuple[str, ...]]) -> None:
    for a, b in combinations(sorted(rows), 2):
        if rows[a][b] != rows[b][a]:
            raise FormatError(
                f"the table of {table} has {rows[a][b][:40]!r} from GPU {a} to {b}, and "
                f"{rows[b][a][:40]!r} back: expected the same"
            )
