"""The matching of chunks that one rank wants, from its arrays to transfers."""

from __future__ import annotations

import numpy as np

from sccl.synth.network.machine import Net
from sccl.synth.network.paths import FAR, Ways
from sccl.synth.network.sends import Demand, Pause, Sends, stalled
from sccl.synth.tacos.bits import rows_of_bits
from sccl.synth.tacos.routes import Routes, go_on, put_all
from sccl.synth.tacos.traffic import traffic_of

_PIECE = 200_000

MAX_NODES = 4096
"""Limit on the nodes of machines: the paths between all pairs are kept."""


class ByRoute:
    """Matchings of one demand on one machine, of which the seed decides in which order chunks wait.

    Raises:
        UnreachableError: a chunk has no way to where it is wanted.
    """

    def __init__(self, net: Net, demand: Demand) -> None:
        assert demand.wanted is not None
        assert demand.wanted_by is not None
        self.net, nodes = net, net.nodes
        source, goal = np.zeros((2, demand.chunks), dtype=np.int64)
        source[demand.held], goal[demand.wanted] = demand.held_by, demand.wanted_by
        ways = Ways(net)
        far = np.stack([ways.onto([rank]) for rank in range(nodes)], axis=1)  # by node and goal
        if (far[source, goal] >= FAR).any():
            raise stalled()
        here, there = far[ways.src], far[ways.dst]
        shortest = (there + ways.cost[:, None] == here) & (here < FAR)
        choices = np.zeros((nodes, nodes), dtype=np.int64)
        if min(len(np.unique(ranks)) for ranks in (demand.held_by, demand.wanted_by)) > 1:
            np.add.at(choices, ways.src, shortest.astype(np.int64))
        link, to = np.nonzero(np.concatenate([shortest, there < here]))
        busy = net.busy[net.kind.astype(np.int64)]
        leaves = np.bincount(ways.src, weights=1 / busy, minlength=nodes)
        self._source, self._away = source.astype(np.uint32), np.flatnonzero(source != goal)
        self._empty = Routes(
            far=far.reshape(-1).copy(),
            closer=rows_of_bits(link, to, (2 * len(ways.src), nodes)),
            cost=ways.cost,
            drain=(1 / np.maximum(leaves, 2.0**-60)).astype(np.int64),
            waiting=np.zeros(nodes, dtype=np.int64),
            waits=np.zeros(nodes * (-(-nodes // 64)), dtype=np.uint64),
            first=np.zeros(nodes * nodes, dtype=np.uint32),
            after=np.zeros(demand.chunks, dtype=np.uint32),
            goal=goal.astype(np.uint32),
            choices=choices.reshape(-1),
        )

    def matched(self, seed: int, pause: Pause) -> tuple[int, Sends]:
        """Return the tick at which every chunk is where it is wanted, and the transfers.

        Raises:
            UnreachableError: that cannot be.
        """
        net, state, left = self.net, self._begun(seed), len(self._away)
        links = len(net.src)
        traffic = traffic_of(net, seed, left, 2 * left + links)
        done, before = not left, 0
        while not done:
            done = go_on(state, traffic, net, _PIECE)
            made = int(traffic.left[1])
            if not done and made == before:
                raise stalled()
            pause(made - before, done)
            before = made
            if made + links > len(traffic.when):
                traffic = traffic.with_room_for(2 * len(traffic.when))
        made = int(traffic.left[1])
        sends = Sends(
            traffic.when[:made],
            traffic.chunk[:made].astype(np.int32),
            traffic.link[:made].astype(np.int32),
            np.zeros(made, dtype=np.bool_),
        )
        return int(traffic.now[0]), sends.ordered()

    def _begun(self, seed: int) -> Routes:
        """Return the chunks where they start."""
        empty = self._empty
        state = empty._replace(
            waiting=empty.waiting.copy(),
            waits=empty.waits.copy(),
            first=empty.first.copy(),
            after=empty.after.copy(),
        )
        order = np.random.Generator(np.random.PCG64(seed)).permutation(self._away)
        put_all(state, np.uint64(self.net.nodes), self._source, order)
        return state
