"""Convert a log of rounds to transfers, sorted by start, chunk, and link."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import IntArray, UInt64Array
from sccl.synth.limits import WORK_PER_CALL
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.transfers import Sends
from sccl.synth.tacos.bitsets import IN_WORD, ONE, TO_WORD, ZERO
from sccl.synth.tacos.matching_uniform import RoundLog

_MAX_COUNTED_PER_LINK = np.uint64(8)
"""Chunks for each link: of more, counting all in each round takes longer than sorting some."""

_HALF_BITS, _LOW_MASK = np.uint64(32), np.uint64(2**32 - 1)


def log_to_sends(log: RoundLog, net: NetworkArrays, chunks: int) -> Sends:
    """Return the transfers of a log. Each round is sorted separately."""
    total, links = len(log.chunk), len(net.src)
    start, reduce = np.empty(total, dtype=np.int64), np.zeros(total, dtype=np.bool_)
    chunk, link = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.int32)
    slot_of, at = np.argsort(net.into).astype(np.uint32), np.uint64(0)
    rounds = max(WORK_PER_CALL // max(links, 1), 1)
    for first in range(0, len(log.fired), rounds):
        fired, number = log.fired[first : first + rounds], np.uint64(first)
        came = (fired, log.chunk, slot_of, np.uint64(chunks))
        at = _list_sends(*came, number, at, int(net.busy[0]), start, chunk, link)
    return Sends(start, chunk, link, reduce)


@compiled
def _list_sends(  # noqa: PLR0913, PLR0917 - columns
    fired: UInt64Array,
    log: NDArray[np.unsignedinteger[Any]],
    slot_of: NDArray[np.uint32],
    chunks: Any,
    number: Any,
    at: Any,
    busy: Any,
    start: IntArray,
    chunk: NDArray[np.int32],
    link: NDArray[np.int32],
) -> Any:
    """Write the sorted transfers of some rounds from index ``at`` on. Return the end index."""
    links = np.uint64(len(slot_of))
    carried, few = np.zeros(links, dtype=np.uint32), chunks <= links * _MAX_COUNTED_PER_LINK
    places = np.zeros(chunks + ONE if few else ONE, dtype=np.uint64)
    keys = np.empty(links, dtype=np.uint64)
    for row in range(np.uint64(len(fired))):
        amount, begin = ZERO, at
        for slot in range(links):
            carried[slot] = 0
            if fired[row, slot >> TO_WORD] >> (slot & IN_WORD) & ONE:
                carried[slot] = log[at + amount] + ONE
                amount += ONE
        if few:
            places[:] = ZERO
            for i in range(at, at + amount):
                places[log[i] + ONE] += ONE
            for i in range(chunks):
                places[i + ONE] += places[i]
        amount = ZERO
        for i in range(links):
            if carried[slot_of[i]]:
                its = np.uint64(carried[slot_of[i]]) - ONE
                if few:
                    place = at + places[its]
                    places[its] += ONE
                    chunk[place], link[place] = its, i
                else:
                    keys[amount] = its << _HALF_BITS | i
                amount += ONE
        at += amount
        if not few:
            keys[:amount].sort()
            for i in range(amount):
                chunk[begin + i], link[begin + i] = keys[i] >> _HALF_BITS, keys[i] & _LOW_MASK
        start[begin:at] = np.int64(number + row) * busy
    return at
