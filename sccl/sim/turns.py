"""Turns: the order in which links, budgets and switches serve the messages of algorithms.

A thread block sends its steps one after the other. So the segments that use a link, a budget or the
places of a switch start in the order in which they start with barriers between steps, but without
waiting for the barriers.

No message is later than with barriers. *Proof* by induction over that order. Consider a segment.
All segments before it that use one of its resources started no later than with barriers. So they
have released the resource no later, and the chunk has arrived no later. No other segment may take
the resource in between. Hence the segment starts no later. This holds in both alpha models and for
every budget and switch. []
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.sim.state import NONE
from sccl.sim.tables import Segments

Numbers = NDArray[np.int64]


class Turns(NamedTuple):
    """Which segments of messages start after which. They are numbered message after message.

    Attributes:
        ahead: of each, how many have to start before it.
        next_first: of each, where those that start after it begin in ``next_``.
        next_: segments of messages.
    """

    ahead: Numbers
    next_first: Numbers
    next_: Numbers


def free_turns(count: int) -> Turns:
    """Return that so many segments of messages start in any order."""
    none = np.zeros(0, np.int64)
    return Turns(np.zeros(count, np.int64), np.zeros(count + 1, np.int64), none)


def turns_of(began: Numbers, segment: Numbers, parts: Segments, links: int) -> Turns:
    """Return the turns of segments of messages that use the same link, budget or switch.

    Args:
        began: of each, its place in the order of starts.
        segment: of each, which it is of those of ``parts``.
        links: of the machine.
    """
    count = len(segment)
    event, resource = _uses(segment, parts, links)
    order = np.lexsort((began[event], resource))
    event, resource = event[order], resource[order]
    same = resource[1:] == resource[:-1]
    pairs = np.unique(event[:-1][same] * count + event[1:][same])
    before, after = np.divmod(pairs, max(count, 1))
    return Turns(
        np.bincount(after, minlength=count).astype(np.int64),
        np.searchsorted(before, np.arange(count + 1)),
        after,
    )


def _uses(segment: Numbers, parts: Segments, links: int) -> tuple[Numbers, Numbers]:
    """Return the uses of messages' segments: the segment, and a link or, after these, a limit."""
    every = np.arange(len(parts.use_first) - 1)
    enters = np.flatnonzero(parts.enters != NONE)
    by = np.concatenate(
        (
            np.repeat(every, np.diff(parts.use_first)),
            np.repeat(every, np.diff(parts.claim_first)),
            enters,
        )
    )
    limits = np.concatenate((parts.claim_on, parts.enters[enters])) + links
    used = np.concatenate((parts.use_link, limits))
    order = np.argsort(by, kind="stable")
    first = np.searchsorted(by[order], np.arange(len(every) + 1))
    many = np.diff(first)[segment]
    event = np.repeat(np.arange(len(segment)), many)
    within = np.arange(len(event)) - np.repeat(np.cumsum(many) - many, many)
    return event, used[order][first[segment][event] + within]
