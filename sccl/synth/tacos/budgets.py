"""Shared budgets in whole numbers: what each link takes of each while it is busy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.synth.tacos.groups import grouped

Count = NDArray[np.uint64]
Ticks = NDArray[np.int64]

_MOST = 2**50


class SharedBudgets(NamedTuple):
    """Budgets by link, and links by budget.

    Attributes:
        beta: of each link: ticks that a chunk takes to pass.
        least: likewise, where a budget that is slower than the link alone slows it down.
        pipes_first: of each link, and one more: where its part of ``pipes`` begins.
        pipes: budgets by link.
        weight: likewise: what the link takes of the budget.
        room: of each budget: what there is of it.
        members_first: of each budget, and one more: where its part of ``members`` begins.
        members: links by budget.
        release: 1: what a link takes is given back as late as its chunk arrives, since other links
            of a budget have another lag: a schedule has to hold backwards in time, too.
    """

    beta: Ticks
    least: Ticks
    pipes_first: Count
    pipes: Count
    weight: Ticks
    room: Ticks
    members_first: Count
    members: Count
    release: int


def shared_of(topology: Topology, clock: Clock) -> SharedBudgets:
    """Return the budgets of a machine, for chunks that are all of one size.

    A transfer goes at one pace while its bytes pass, and the paces of a budget's transfers sum up
    to no more than the budget's. An alpha that occupies the link is counted as if bytes passed.
    """
    place = {link.edge: i for i, link in enumerate(topology.links)}
    beta = np.array(clock.beta[0], dtype=np.int64)
    least = beta.copy()
    for b, budget in enumerate(topology.budgets):
        for edge in budget.edges:
            least[place[edge]] = max(least[place[edge]], clock.share(b))
    rows: list[tuple[int, int, int]] = []
    room = []
    for b, links in enumerate([place[e] for e in budget.edges] for budget in topology.budgets):
        weights, most = _weights(topology, clock, b, [int(least[link]) for link in links])
        rows += [(link, b, weight) for link, weight in zip(links, weights, strict=True)]
        room.append(most)
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    pipes_first, by_link = grouped(table[:, 0], table[:, 1], len(place))
    members_first, by_budget = grouped(table[:, 1], table[:, 0], len(topology.budgets))
    lags = [{clock.lag(place[e]) for e in budget.edges} for budget in topology.budgets]
    return SharedBudgets(
        beta=beta,
        least=least,
        pipes_first=pipes_first,
        pipes=table[by_link, 1].astype(np.uint64),
        weight=table[by_link, 2].copy(),
        room=np.array(room, dtype=np.int64),
        members_first=members_first,
        members=table[by_budget, 0].astype(np.uint64),
        release=int(any(len(values) > 1 for values in lags)),
    )


def pace_of(topology: Topology, clock: Clock, budget: int) -> Fraction:
    """Return the bytes a tick that a budget carries."""
    speed = Fraction(str(topology.budget_speeds()[budget]))
    return topology.budgets[budget].chunks_per_round * speed * clock.tick_ps / 1000


def _weights(
    topology: Topology, clock: Clock, budget: int, ticks: list[int]
) -> tuple[list[int], int]:
    """Return what links that take so many ticks take of a budget, and what there is of it.

    Exact, unless the numbers became too large: then what is taken is rounded up.
    """
    pace, size = pace_of(topology, clock, budget), clock.sizes[0]
    common = math.lcm(*ticks)
    most = math.floor(pace * common)
    if size * common <= _MOST * min(ticks) and most <= _MOST:
        return [size * (common // each) for each in ticks], most
    return [min(_MOST, math.ceil(_MOST * size / (pace * each))) for each in ticks], _MOST
