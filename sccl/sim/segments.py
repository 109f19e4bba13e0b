"""Segments of routes: the properties of routes, machine and clock for a simulation, as flat arrays.

A route is cut into *segments*, which a chunk passes at a constant rate. A segment ends at the
route's destination and at every node that can hold chunks: a rank, or a switch with a buffer. A
switch without a buffer forwards a chunk while it receives it. So all links of a segment carry the
chunk at the rate of the slowest. Each link starts when the first byte reaches it, one alpha after
the link before.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.clock import AlphaModel, Clock
from sccl.core.schedule import MAX_TIME
from sccl.core.topology import Topology
from sccl.errors import ParameterError, TopologyError
from sccl.sim.message_routes import MessageRoutes
from sccl.sim.messages import NO_GATE, Messages


class Segments(NamedTuple):
    """The segments of all routes, one route after the other.

    A *use* is a link of a segment, and a *claim* is a budget that a segment uses. A *limit* is a
    budget, or the buffer places of a switch.

    Attributes:
        route_first: index of each route's first segment, shape (routes + 1,).
        use_first: index of each segment's first use, shape (segments + 1,).
        use_link: link of each use.
        use_offset: ticks from the start of the segment to the start on the link, for each use.
        use_alpha: alpha of the link in ticks, for each use.
        use_idle: ticks for which the link is busy in addition to the passage of the chunk, for each
            use.
        pace: ticks in which a chunk passes each link of a segment, shape (chunk sizes, segments).
        claim_first: index of each segment's first claim, shape (segments + 1,).
        claim_on: budget of each claim.
        claim: amount of each claim, in the unit of rates.
        claim_early: ticks from the end of each segment's claims to the end of its last link's use.
        enters: limit of the switch at each segment's end. ``NO_GATE``: the end has no limit.
        stored: whether the node at each segment's end stores the whole chunk before it sends it.
        left: amount of each limit: budgets in the unit of rates, then switches in buffer places.
    """

    route_first: IntArray
    use_first: IntArray
    use_link: IntArray
    use_offset: IntArray
    use_alpha: IntArray
    use_idle: IntArray
    pace: NDArray[np.int64]
    claim_first: IntArray
    claim_on: IntArray
    claim: IntArray
    claim_early: IntArray
    enters: IntArray
    stored: NDArray[np.bool_]
    left: IntArray


def build_segments(routes: MessageRoutes, topology: Topology, clock: Clock) -> Segments:
    """Return the segments of routes, with their uses of links, budgets and switches.

    Raises:
        TopologyError: a budget counts a chunk twice on its way through a switch that stores
            nothing.
        ParameterError: speeds of links and budgets are too far apart to be compared exactly.
    """
    link = routes.link
    ends = _can_hold_chunks(topology)[np.array([k.dst for k in topology.links], np.int64)[link]]
    ends[routes.first[1:] - 1] = True
    segment = np.concatenate(([0], np.cumsum(ends)))
    use_first = np.concatenate(([0], np.flatnonzero(ends) + 1))
    alpha = np.array(clock.alpha, np.int64)[link]
    before = np.cumsum(alpha) - alpha
    occupies = clock.model is AlphaModel.OCCUPIES
    idle_of_links = np.array(clock.alpha, np.int64) * occupies
    pace = np.maximum.reduceat(np.array(clock.beta, np.int64)[:, link], use_first[:-1], axis=1)
    on, by = _budget_claims(topology, link, segment[:-1])
    np.maximum.at(pace.T, by, np.array(clock.shared, np.int64).T[on])
    rates, capacities = _common_rates(topology)
    rate = np.minimum.reduceat(rates[link], use_first[:-1])
    np.minimum.at(rate, by, capacities[on])
    claim_first = np.searchsorted(by, np.arange(len(use_first)))
    last = np.array([k.dst for k in topology.links], np.int64)[link[use_first[1:] - 1]]
    enters, stored, places = _switch_limits(topology, len(capacities))
    onward = np.ones(len(last), np.bool_)
    onward[segment[routes.first[1:]] - 1] = False  # a message that has arrived occupies no memory
    return Segments(
        route_first=segment[routes.first],
        use_first=use_first,
        use_link=link,
        use_offset=before - np.repeat(before[use_first[:-1]], np.diff(use_first)),
        use_alpha=alpha,
        use_idle=idle_of_links[link],
        pace=pace,
        claim_first=claim_first,
        claim_on=on,
        claim=rate[by],
        claim_early=_early_releases(topology, idle_of_links, on, by, len(rate)),
        enters=np.where(onward, enters[last], NO_GATE),
        stored=stored[last],
        left=np.concatenate((capacities, places)),
    )


def _can_hold_chunks(topology: Topology) -> NDArray[np.bool_]:
    """Return whether each node can hold a chunk."""
    rooms = [s.buffer_chunks != 0 for s in topology.switches]
    return np.array([True] * topology.ranks + rooms)


def _switch_limits(topology: Topology, first: int) -> tuple[IntArray, NDArray[np.bool_], IntArray]:
    """Return the buffer limits of nodes.

    Args:
        topology: machine.
        first: number of the first limit of a switch.

    Returns:
        The limit of each node or ``NO_GATE``, whether each node stores whole chunks, and the number
        of buffer places of each switch with a limit.
    """
    limits = [NO_GATE] * topology.ranks
    places: list[int] = []
    for switch in topology.switches:
        limits.append(first + len(places) if switch.buffer_chunks else NO_GATE)
        places += [switch.buffer_chunks] if switch.buffer_chunks else []
    stored = [True] * topology.ranks + [not s.cut_through for s in topology.switches]
    return np.array(limits, np.int64), np.array(stored), np.array(places, np.int64)


def _budget_claims(
    topology: Topology, link: IntArray, segment: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the budget and the segment of each claim, ascending by segment.

    Raises:
        TopologyError: a budget counts a chunk on two links of a segment.
    """
    places = {k.edge: i for i, k in enumerate(topology.links)}
    members = [(places[e], b) for b, budget in enumerate(topology.budgets) for e in budget.edges]
    links, budgets = np.array(sorted(members), np.int64).reshape(-1, 2).T
    first = np.searchsorted(links, np.arange(len(places) + 1))
    many = (first[1:] - first[:-1])[link]
    by = np.repeat(segment, many)
    within = np.arange(len(by)) - np.repeat(np.cumsum(many) - many, many)
    on = budgets[np.repeat(first[link], many) + within]
    pairs, counts = np.unique(by * len(topology.budgets) + on, return_counts=True)
    if (counts > 1).any():
        budget = topology.budgets[int(pairs[counts > 1][0]) % len(topology.budgets)]
        raise TopologyError(
            f"topology {topology.name!r}, budget {budget.name!r}: it counts a chunk twice, into "
            "and out of a switch without a buffer; remove the links on one side from the budget, "
            "or give the switch a buffer"
        )
    return on, by


def _early_releases(
    topology: Topology, idle: IntArray, on: IntArray, by: IntArray, segments_: int
) -> IntArray:
    """Return the ticks by which each segment's claims end before its last link is free.

    Bytes pass while a link is busy, except during an alpha that occupies it. That alpha comes
    first, also for the next user of the budget, so the budget can be released early by its length.
    If the links of a budget differ in alpha, the smallest is safe.
    """
    places = {k.edge: i for i, k in enumerate(topology.links)}
    min_idle = [min(int(idle[places[e]]) for e in b.edges) for b in topology.budgets]
    early = np.full(segments_, MAX_TIME)
    np.minimum.at(early, by, np.array(min_idle, np.int64)[on])
    return np.where(early == MAX_TIME, 0, early)


def _common_rates(topology: Topology) -> tuple[IntArray, IntArray]:
    """Return the exact rates of links and of budgets, as integers in a common unit.

    Raises:
        ParameterError: an integer needs more than 62 bits.
    """
    links = [k.lanes * Fraction(str(k.gb_per_s)) for k in topology.links]
    speeds = topology.budget_speeds()
    shared = [
        b.chunks_per_round * Fraction(str(v)) for b, v in zip(topology.budgets, speeds, strict=True)
    ]
    scale = math.lcm(*{rate.denominator for rate in (*links, *shared)})
    common = math.gcd(*{int(rate * scale) for rate in (*links, *shared)})
    integral_rates = [int(rate * scale) // common for rate in (*links, *shared)]
    if max(integral_rates) >= MAX_TIME:
        raise ParameterError(
            f"topology {topology.name!r}: gb_per_s of its links and budgets are too far apart to "
            "be compared exactly, expected few digits: round them"
        )
    return np.array(integral_rates[: len(links)], np.int64), np.array(
        integral_rates[len(links) :], np.int64
    )


def chunk_size_indices(messages: Messages, clock: Clock) -> IntArray:
    """Return the index of each message's chunk size among the sizes of the clock.

    Raises:
        ParameterError: the clock has sizes for another number of chunks.
    """
    lengths = clock.chunk_bytes
    if isinstance(lengths, int):
        return np.zeros(len(messages), np.int64)
    if len(lengths) != messages.num_chunks:
        raise ParameterError(
            f"messages of {messages.num_chunks} chunks, and the clock has sizes of {len(lengths)}: "
            "give one for all chunks, or one for each"
        )
    of_chunks = np.searchsorted(np.array(clock.sizes, np.int64), np.array(lengths, np.int64))
    return of_chunks[messages.chunk]
