"""Read tables of measured costs of collectives, which replace modeled ones.

A row has the time of a collective with an option. The option names a channel and a carrier, such as
``gpu ring``. Between measured sizes, times are interpolated linearly in logarithms. A size that is
more than a factor of two outside the measured sizes is refused.
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

from sccl.errors import FormatError, ParameterError, unknown_name
from sccl.training.motifs import buffer_elements
from sccl.training.options.carriers import CARRIERS
from sccl.training.types.motif import Motif
from sccl.training.types.workload_ops import COLLECTIVES, MAX_OP_US

COLUMNS = ("collective", "option", "ranks", "bytes", "us")

COMPLEMENT_SEPARATOR = " beside "
"""Separator in names of carriers between a motif's carrier and the one that leaves the
remainder.
"""

_PLANNERS = ("tacos",)
"""Synthesizers that plan motifs, whose measurements are accepted as well."""

_MAX_EXTRAPOLATION = 2
"""Factor by which a size may lie outside the measured ones."""

_MAX_ROWS = 10**6

_NUMBER = r"[0-9]{1,18}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,2})?"

Key = tuple[str, str, int]
"""A collective, an option, and the number of ranks."""


@dataclass(frozen=True)
class CostTable:
    """A table of measured times.

    Attributes:
        source: Name of the file.
        rows: Pairs of bytes and microseconds for each key, sorted by bytes.
    """

    source: str
    rows: Mapping[Key, tuple[tuple[int, float], ...]]

    @cached_property
    def digest(self) -> str:
        """Return ``"sha256:..."`` of the times. It does not depend on the order of lines."""
        lines = [
            ",".join((key[0], key[1], str(key[2]), str(size), repr(us)))
            for key, times in sorted(self.rows.items())
            for size, us in times
        ]
        return f"sha256:{sha256(chr(10).join(lines).encode()).hexdigest()}"

    def time_us(self, motif: Motif, channel: str, carrier: str, item_bytes: int) -> float | None:
        """Return the time of a motif in microseconds, with its launch.

        Returns:
            Time. None: the table has no such collective, as for splines of an alltoall.

        Raises:
            ParameterError: The size is more than a factor of two outside the measured sizes.
        """
        key = (motif.collective, f"{channel} {carrier}", motif.max_group_size)
        if motif.offsets or key not in self.rows:
            return None
        return self._interpolate(key, buffer_elements(motif) * item_bytes)

    def check_channels(self, channels: Sequence[str]) -> None:
        """Check that each row names a channel of the fabric and a carrier.

        Args:
            channels: Names of the channels of the fabric.

        Raises:
            ParameterError: A row names an unknown channel or carrier.
        """
        carrier_names = [carrier.name for carrier in CARRIERS]
        for collective, option, ranks in self.rows:
            channel_names = [name for name in channels if option.startswith(f"{name} ")]
            carriers = {
                option.removeprefix(f"{name} ").partition(COMPLEMENT_SEPARATOR)[0]
                for name in channel_names
            }
            if not carriers & {*carrier_names, *_PLANNERS}:
                raise ParameterError(
                    f"{self.source}: {collective} of {ranks} ranks has option {option!r:.60}, "
                    f"expected a channel ({', '.join(channels)}) and its carrier there "
                    f"({', '.join(carrier_names)})"
                )

    def _interpolate(self, key: Key, size: int) -> float:
        rows = self.rows[key]
        if (
            not rows[0][0] <= size * _MAX_EXTRAPOLATION
            or not size <= rows[-1][0] * _MAX_EXTRAPOLATION
        ):
            raise ParameterError(
                f"{self.source} has {key[0]} of {key[2]} ranks with {key[1]!r} for "
                f"{rows[0][0]} to {rows[-1][0]} bytes, and {size} are asked for, more than twice "
                "as far: measure it for that, too"
            )
        if len(rows) == 1:
            return rows[0][1] * max(1.0, size / rows[0][0])
        place = bisect_right(rows, (size, MAX_OP_US), 1, len(rows) - 1)
        (low, low_us), (high, high_us) = rows[place - 1], rows[place]
        part = log(size / low) / log(high / low)
        return exp(log(low_us) + part * log(high_us / low_us))


def parse_cost_table(text: str, where: str) -> CostTable:
    """Return the table of a CSV text, whose first line names its columns.

    Args:
        text: CSV text.
        where: Name of the file, for messages.

    Raises:
        FormatError: The text is not a valid table. The message names the line.
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
            if lines.line_num > _MAX_ROWS:
                raise FormatError(f"{where} has more than {_MAX_ROWS} lines: give fewer")
            try:
                key, size, us = _parse_row(line)
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
    return CostTable(
        where, {key: tuple(sorted(times.items())) for key, times in sorted(rows.items())}
    )


def _parse_row(line: list[str]) -> tuple[Key, int, float]:
    """Parse a line.

    Raises:
        ParameterError: A field is not valid.
        UnknownNameError: There is no such collective.
    """
    if len(line) != len(COLUMNS):
        raise ParameterError(f"it has {len(line)} fields, expected {len(COLUMNS)}")
    collective, option, ranks, size, us = (field.strip() for field in line)
    if collective not in COLLECTIVES:
        hint = f"they are {', '.join(COLLECTIVES)}"
        raise ParameterError(str(unknown_name("collective", collective, COLLECTIVES, hint)))
    if len(option.split()) < 2:
        raise ParameterError(
            f"option is {option!r:.60}, expected a channel and its carrier, such as 'gpu ring'"
        )
    numbers = [_parse_int("ranks", ranks, 2), _parse_int("bytes", size, 1)]
    if not re.fullmatch(_NUMBER, us) or not 0 < float(us) <= MAX_OP_US:
        raise ParameterError(f"us is {us!r:.40}, expected microseconds, above 0, to {MAX_OP_US:g}")
    return (collective, " ".join(option.split()), numbers[0]), numbers[1], float(us)


def _parse_int(name: str, text: str, minimum: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= minimum):
        raise ParameterError(f"{name} is {text!r:.40}, expected a whole number from {minimum} on")
    return int(text)
