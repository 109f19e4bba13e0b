"""Read tables of measured costs of collectives, which replace modelled ones.

A row has the time of a collective of a group with an option, which is a channel and its carrier:
``gpu ring``. Between measured sizes, times are interpolated linearly in logarithms. Sizes outside
by more than a factor of two are refused.
"""

from __future__ import annotations

import csv
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from io import StringIO
from math import exp, log

from sccl.core.motif import Motif
from sccl.core.workload_ops import COLLECTIVES, MOST_US
from sccl.errors import FormatError, ParameterError, unknown_name
from sccl.motif import buffer_of
from sccl.train.carriers import CARRIERS

COLUMNS = ("collective", "option", "ranks", "bytes", "us")

BESIDE = " beside "
"""Separator in names of carriers between a motif's carrier and the one that leaves the
remainder.
"""

_PLANNED = ("tacos",)
"""Synthesizers that plan motifs, whose measurements are accepted as well."""

_BEYOND = 2
"""Factor by which a size may lie outside the measured ones."""

_MOST_ROWS = 10**6

_NUMBER = r"[0-9]{1,18}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,2})?"

Key = tuple[str, str, int]
"""A collective, an option, and how many ranks."""


@dataclass(frozen=True)
class CostTable:
    """Times that were measured.

    Attributes:
        where: the file.
        rows: bytes and microseconds, by bytes.
    """

    where: str
    rows: Mapping[Key, tuple[tuple[int, float], ...]]

    @cached_property
    def digest(self) -> str:
        """Return the sha256 of its times, ``"sha256:..."``, however its lines stand."""
        lines = [
            ",".join((key[0], key[1], str(key[2]), str(size), repr(us)))
            for key, own in sorted(self.rows.items())
            for size, us in own
        ]
        return f"sha256:{sha256(chr(10).join(lines).encode()).hexdigest()}"

    def us(self, motif: Motif, channel: str, carrier: str, item_bytes: int) -> float | None:
        """Return the time of a motif with its launch. None: the table has nothing similar.

        Parts of the pattern of an alltoall are not among its collectives.

        Raises:
            ParameterError: It is outside the measured sizes by more than a factor of two.
        """
        key = (motif.collective, f"{channel} {carrier}", motif.places)
        if motif.offsets or key not in self.rows:
            return None
        return self._interpolated(key, buffer_of(motif) * item_bytes)

    def check(self, channels: Sequence[str]) -> None:
        """Refuse a table of which a row can be meant for no option.

        Args:
            channels: of the fabric, by name.

        Raises:
            ParameterError: an option names no such channel, or nothing that carries.
        """
        known = [carrier.name for carrier in CARRIERS]
        for collective, option, ranks in self.rows:
            own = [name for name in channels if option.startswith(f"{name} ")]
            carriers = {option.removeprefix(f"{name} ").partition(BESIDE)[0] for name in own}
            if not carriers & {*known, *_PLANNED}:
                raise ParameterError(
                    f"{self.where}: {collective} of {ranks} ranks has option {option!r:.60}, "
                    f"expected a channel ({', '.join(channels)}) and its carrier there "
                    f"({', '.join(known)})"
                )

    def _interpolated(self, key: Key, size: int) -> float:
        rows = self.rows[key]
        if not rows[0][0] <= size * _BEYOND or not size <= rows[-1][0] * _BEYOND:
            raise ParameterError(
                f"{self.where} has {key[0]} of {key[2]} ranks with {key[1]!r} for "
                f"{rows[0][0]} to {rows[-1][0]} bytes, and {size} are asked for, more than twice "
                "as far: measure it for that, too"
            )
        if len(rows) == 1:
            return rows[0][1] * max(1.0, size / rows[0][0])
        place = bisect_right(rows, (size, MOST_US), 1, len(rows) - 1)
        (low, low_us), (high, high_us) = rows[place - 1], rows[place]
        part = log(size / low) / log(high / low)
        return exp(log(low_us) + part * log(high_us / low_us))


def cost_table_of_text(text: str, where: str) -> CostTable:
    """Return the table in a CSV text, whose first line names its columns.

    Args:
        where: Its file, for messages.

    Raises:
        FormatError: It has none. The message names the line.
    """
    lines = csv.reader(StringIO(text))
    rows: dict[Key, dict[int, float]] = {}
    try:
        names = tuple(name.strip() for name in next(lines, []))
        if names != COLUMNS:
            raise FormatError(
                f"{where}, line 1: columns are {', '.join(names)[:80] or 'missing'}, expected "
                f"{','.join(COLUMNS)}"
            )
        for line in lines:
            if not "".join(line).strip():
                continue
            if lines.line_num > _MOST_ROWS:
                raise FormatError(f"{where} has more than {_MOST_ROWS} lines: give fewer")
            try:
                key, size, us = _row(line)
            except ParameterError as error:
                raise FormatError(f"{where}, line {lines.line_num}: {error}") from error
            if rows.setdefault(key, {}).setdefault(size, us) != us:
                raise FormatError(
                    f"{where}, line {lines.line_num}: {key[0]} of {key[2]} ranks with {key[1]!r} "
                    f"and {size} bytes is there twice, with other times: give it once"
                )
    except csv.Error as error:
        raise FormatError(f"{where}, line {lines.line_num}: {error}; expected CSV") from error
    if not rows:
        raise FormatError(f"{where} has no times: give a line for each, {','.join(COLUMNS)}")
    return CostTable(where, {key: tuple(sorted(own.items())) for key, own in sorted(rows.items())})


def _row(line: list[str]) -> tuple[Key, int, float]:
    """Parse a line.

    Raises:
        ParameterError: It is not valid.
        UnknownNameError: There is no such collective.
    """
    if len(line) != len(COLUMNS):
        raise ParameterError(f"it has {len(line)} fields, expected {len(COLUMNS)}")
    collective, option, ranks, size, us = (field.strip() for field in line)
    if collective not in COLLECTIVES:
        known = f"they are {', '.join(COLLECTIVES)}"
        raise ParameterError(str(unknown_name("collective", collective, COLLECTIVES, known)))
    if len(option.split()) < 2:
        raise ParameterError(
            f"option is {option!r:.60}, expected a channel and its carrier, such as 'gpu ring'"
        )
    numbers = [_whole("ranks", ranks, 2), _whole("bytes", size, 1)]
    if not re.fullmatch(_NUMBER, us) or not 0 < float(us) <= MOST_US:
        raise ParameterError(f"us is {us!r:.40}, expected microseconds, above 0, to {MOST_US:g}")
    return (collective, " ".join(option.split()), numbers[0]), numbers[1], float(us)


def _whole(name: str, text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least):
        raise ParameterError(f"{name} is {text!r:.40}, expected a whole number from {least} on")
    return int(text)
