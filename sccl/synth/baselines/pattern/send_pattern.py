"""Patterns: sends of chunks between ranks in steps, before links are chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sccl.core.arrays import AnyIntArray
from sccl.core.collective import Collective
from sccl.errors import ParameterError, TooLargeError

MAX_ROWS = 2**26
"""Rows of 17 bytes, and some 60 while they are sorted: 4 GB."""

_COLUMNS = ("step", "chunk", "src", "dst")


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Sends between any pairs of ranks, with or without a link between them.

    A send of step s carries the value that its sender has after step s - 1, as in an
    :class:`~sccl.core.algorithm.Algorithm`. Like an algorithm, a pattern is a *candidate*: its form
    has been checked, but it is not verified.

    Attributes:
        step: Step of each send, shape (sends,). Rows ascend by (step, chunk, src, dst).
        reduce: Whether the receiver reduces the chunk into its value instead of storing it.

    Raises:
        ParameterError: The columns differ in length, contain numbers out of range, or are not
            sorted.
    """

    collective: Collective
    step: AnyIntArray
    chunk: AnyIntArray
    src: AnyIntArray
    dst: AnyIntArray
    reduce: NDArray[np.bool_]

    def __post_init__(self) -> None:
        ranks = self.collective.ranks
        ends = {"step": 2**31, "chunk": self.collective.num_chunks, "src": ranks, "dst": ranks}
        if any(len(getattr(self, name)) != len(self.reduce) for name in _COLUMNS):
            raise ParameterError("pattern: its columns differ in length, expected one row per send")
        for name, end in ends.items():
            column = getattr(self, name)
            wrong = np.flatnonzero((column < 0) | (column >= end))
            if len(wrong):
                raise ParameterError(
                    f"pattern, row {wrong[0]}: {name} is {column[wrong[0]]}, expected 0 to "
                    f"{end - 1}"
                )
        self._check_order()
        for name in (*_COLUMNS, "reduce"):
            column = getattr(self, name).view()
            column.flags.writeable = False
            object.__setattr__(self, name, column)

    def _check_order(self) -> None:
        ascends = np.zeros(max(len(self.step) - 1, 0), dtype=np.bool_)
        for name in reversed(_COLUMNS):
            column = getattr(self, name)
            ascends = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & ascends)
        if not ascends.all():
            row = 1 + int(np.argmin(ascends))
            raise ParameterError(
                f"pattern, row {row}: it is out of order or repeats row {row - 1} (order: step, "
                "chunk, src, dst): sort the rows, and list each send once"
            )

    @property
    def steps(self) -> int:
        """Return S."""
        return int(self.step[-1]) + 1 if len(self.step) else 0

    @property
    def num_sends(self) -> int:
        """Return the number of sends."""
        return len(self.step)


def build_pattern(  # noqa: PLR0913 - one argument per column
    collective: Collective,
    *,
    step: ArrayLike,
    chunk: ArrayLike,
    src: ArrayLike,
    dst: ArrayLike,
    reduce: ArrayLike = False,
) -> Pattern:
    """Return a pattern from columns in any order, which are broadcast to a common shape.

    Raises:
        TooLargeError: There would be more than :data:`MAX_ROWS` rows.
        ParameterError: The columns are not a pattern of this collective.
    """
    numbers = [np.asarray(column, dtype=np.int32) for column in (step, chunk, src, dst)]
    reduces = np.asarray(reduce, dtype=np.bool_)
    shape = np.broadcast_shapes(*(column.shape for column in (*numbers, reduces)))
    check_rows(int(np.prod(shape, dtype=np.float64)), collective)
    flat = [np.broadcast_to(column, shape).ravel() for column in numbers]
    order = np.lexsort(flat[::-1])
    step, chunk, src, dst = (column[order] for column in flat)
    return Pattern(
        collective, step, chunk, src, dst, np.broadcast_to(reduces, shape).ravel()[order]
    )


def check_rows(rows: int, collective: Collective) -> None:
    """Check that a number of rows fits into memory.

    Raises:
        TooLargeError: There are more than :data:`MAX_ROWS` rows.
    """
    if rows > MAX_ROWS:
        raise TooLargeError(
            f"{collective.name} of {collective.ranks} ranks with C={collective.chunks} has {rows} "
            f"sends; this version makes up to {MAX_ROWS}: give fewer ranks or pieces"
        )
