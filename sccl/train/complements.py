"""Options that leave one another their links, so that two collectives run at once on one machine.

An alltoall is planned on the machine without the links that another collective uses around a ring:
neither takes anything of what the other needs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from sccl.core.dtypes import ITEM_BYTES
from sccl.core.ids import Edge
from sccl.core.workload_ops import CommOp
from sccl.errors import InputError
from sccl.train.costs import MotifPlanner
from sccl.train.finding import OptionFinder, motif_of
from sccl.train.offers import Offer

Key = TypeVar("Key", bound=Hashable)

_MOST = 2
"""Ways of others, for each channel."""


def complements(
    finder: OptionFinder,
    planner: MotifPlanner,
    ops: Mapping[Key, CommOp],
    offers: Mapping[Key, Sequence[Offer]],
) -> dict[Key, list[Offer]]:
    """Return further options of every alltoall: on links that others leave.

    Args:
        ops: collectives, of those that are alike one.
        offers: of each, what was found.
    """
    found: dict[Key, list[Offer]] = {}
    exchanges = {key: op for key, op in ops.items() if op.collective == "alltoall"}
    for channel in range(len(finder.fabric.channels)):
        if not finder.plans(channel) or not exchanges:
            continue
        for said, taken in list(_taken(finder, channel, ops, offers).items())[:_MOST]:
            for key, op in exchanges.items():
                offer = _beside(finder, planner, op, channel, said, taken)
                if offer is not None:
                    found.setdefault(key, []).append(offer)
    return found


def _taken(
    finder: OptionFinder,
    channel: int,
    ops: Mapping[Key, CommOp],
    offers: Mapping[Key, Sequence[Offer]],
) -> dict[str, frozenset[Edge]]:
    """Return the links that collectives use around rings, where they leave some."""
    links = finder.fabric.channels[channel].topology.links
    first = finder.costs.pipes.first_link[channel]
    found: dict[frozenset[Edge], str] = {}
    for key, op in ops.items():
        for offer in offers[key] if op.collective != "alltoall" else ():
            number, carrier, cost = offer.parts[0]
            if (len(offer.parts), number, carrier) != (1, channel, "ring"):
                continue
            used = np.flatnonzero(cost.loads[first : first + len(links)])
            edges = frozenset(links[int(k)].edge for k in used)
            if 0 < len(edges) < len(links):
                found.setdefault(edges, f"{carrier} of {op.collective}")
    return {said: edges for edges, said in found.items()}


def _beside(  # noqa: PLR0913, PLR0917 - an exchange, and what it is to go beside
    finder: OptionFinder,
    planner: MotifPlanner,
    op: CommOp,
    channel: int,
    said: str,
    taken: frozenset[Edge],
) -> Offer | None:
    """Return an alltoall without some links; None: it needs them."""
    motif = motif_of(op)
    if motif is None:
        return None
    try:
        size = ITEM_BYTES[op.dtype]
        cost = finder.costs.planned(motif, channel, planner.plan, size, taken)
    except InputError:
        return None
    name = f"{planner.name} without {said}"
    return Offer("whole", ((channel, name, cost),), ((),), bitwise=True, sure=True)
