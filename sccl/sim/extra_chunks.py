"""Chunks that messages carry beside their own: those that are sent together over a link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import AnyIntArray


class ExtraChunks(NamedTuple):
    """The additional chunks of messages, as columns of one length.

    Attributes:
        message: message numbers, ascending.
        chunk: chunk number.
        reduce: whether it is reduced into the value at the destination.
    """

    message: NDArray[np.int64]
    chunk: NDArray[np.int32]
    reduce: NDArray[np.bool_]

    @classmethod
    def from_columns(
        cls, message: AnyIntArray, chunk: AnyIntArray, reduce: NDArray[np.bool_]
    ) -> ExtraChunks:
        """Return columns as those of messages are."""
        return cls(message.astype(np.int64), chunk.astype(np.int32), reduce)


NO_EXTRA_CHUNKS = ExtraChunks(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.bool_))
