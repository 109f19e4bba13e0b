"""The order in which links, budgets and switches serve the messages of algorithms with steps.

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

from sccl.core.arrays import IntArray
from sccl.sim.segments import Segments
from sccl.sim.state import NONE


class ServiceOrder(NamedTuple):
    """Precedence among the segments of messages, which are numbered message after message.

    Attributes:
        ahead: number of direct predecessors of each segment, shape (segments,).
        next_first: index in ``next_`` of each segment's first successor, shape (segments + 1,).
        next_: direct successors of each segment.
    """

    ahead: IntArray
    next_first: IntArray
    next_: IntArray


def unordered_service(count: int) -> ServiceOrder:
    """Return the service order of ``count`` segments without any precedence."""
    empty = np.zeros(0, np.int64)
    return ServiceOrder(np.zeros(count, np.int64), np.zeros(count + 1, np.int64), empty)


def find_service_order(
    began: IntArray, segment: IntArray, parts: Segments, links: int
) -> ServiceOrder:
    """Return the service order: on each resource, segments follow one another as they began.

    Args:
        began: rank of each message's segments in the order of starts.
        segment: segment number in ``parts`` of each message's segments.
        parts: segments of routes.
        links: number of links of the machine.
    """
    count = len(segment)
    event, resource = _resource_uses(segment, parts, links)
    order = np.lexsort((began[event], resource))
    event, resource = event[order], resource[order]
    is_same = resource[1:] == resource[:-1]
    pairs = np.unique(event[:-1][is_same] * count + event[1:][is_same])
    before, after = np.divmod(pairs, max(count, 1))
    return ServiceOrder(
        np.bincount(after, minlength=count).astype(np.int64),
        np.searchsorted(before, np.arange(count + 1)),
        after,
    )


def _resource_uses(segment: IntArray, parts: Segments, links: int) -> tuple[IntArray, IntArray]:
    """Return which resources the segments of messages use, as two columns.

    The first column is the segment. The second is the resource: a link, or ``links`` plus a limit.
    """
    all_segments = np.arange(len(parts.use_first) - 1)
    enters = np.flatnonzero(parts.enters != NONE)
    by = np.concatenate(
        (
            np.repeat(all_segments, np.diff(parts.use_first)),
            np.repeat(all_segments, np.diff(parts.claim_first)),
            enters,
        )
    )
    limits = np.concatenate((parts.claim_on, parts.enters[enters])) + links
    used = np.concatenate((parts.use_link, limits))
    order = np.argsort(by, kind="stable")
    first = np.searchsorted(by[order], np.arange(len(all_segments) + 1))
    many = np.diff(first)[segment]
    event = np.repeat(np.arange(len(segment)), many)
    within = np.arange(len(event)) - np.repeat(np.cumsum(many) - many, many)
    return event, used[order][first[segment][event] + within]
