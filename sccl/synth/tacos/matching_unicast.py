"""The matching of chunks that one rank wants, from its arrays to transfers."""

from __future__ import annotations

import numpy as np

from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.shortest_paths import UNREACHABLE, ShortestPaths
from sccl.synth.network.transfers import Demand, Pause, Sends, stalled_error
from sccl.synth.tacos.bitsets import bit_rows
from sccl.synth.tacos.expanded_network import initial_state
from sccl.synth.tacos.matching_unicast_loops import UnicastState, enqueue_chunks, run_events

_SENDS_PER_CALL = 200_000

MAX_NODES = 4096
"""Limit on the nodes of machines: the paths between all pairs are kept."""


class UnicastMatching:
    """Matchings of one demand on one machine, of which the seed decides in which order chunks wait.

    Raises:
        UnreachableError: a chunk has no way to where it is wanted.
    """

    def __init__(self, net: NetworkArrays, demand: Demand) -> None:
        assert demand.wanted is not None
        assert demand.wanted_by is not None
        self.net, nodes = net, net.nodes
        source, goal = np.zeros((2, demand.chunks), dtype=np.int64)
        source[demand.held], goal[demand.wanted] = demand.held_by, demand.wanted_by
        paths = ShortestPaths(net)
        far = np.stack(
            [paths.distances_to([rank]) for rank in range(nodes)], axis=1
        )  # by node and goal
        if (far[source, goal] >= UNREACHABLE).any():
            raise stalled_error()
        source_far, target_far = far[paths.src], far[paths.dst]
        shortest = (target_far + paths.cost[:, None] == source_far) & (source_far < UNREACHABLE)
        choices = np.zeros((nodes, nodes), dtype=np.int64)
        if min(len(np.unique(ranks)) for ranks in (demand.held_by, demand.wanted_by)) > 1:
            np.add.at(choices, paths.src, shortest.astype(np.int64))
        link, to = np.nonzero(np.concatenate([shortest, target_far < source_far]))
        busy = net.busy[net.kind.astype(np.int64)]
        leaves = np.bincount(paths.src, weights=1 / busy, minlength=nodes)
        self._source, self._pending_chunks = (
            source.astype(np.uint32),
            np.flatnonzero(source != goal),
        )
        self._template = UnicastState(
            distance=far.reshape(-1).copy(),
            closer=bit_rows(link, to, (2 * len(paths.src), nodes)),
            cost=paths.cost,
            drain=(1 / np.maximum(leaves, 2.0**-60)).astype(np.int64),
            waiting=np.zeros(nodes, dtype=np.int64),
            waiting_goals=np.zeros(nodes * (-(-nodes // 64)), dtype=np.uint64),
            first_waiting=np.zeros(nodes * nodes, dtype=np.uint32),
            next_waiting=np.zeros(demand.chunks, dtype=np.uint32),
            goal=goal.astype(np.uint32),
            choices=choices.reshape(-1),
        )

    def match(self, seed: int, pause: Pause) -> tuple[int, Sends]:
        """Return the tick at which every chunk is where it is wanted, and the transfers.

        Raises:
            UnreachableError: that cannot be.
        """
        net, state, left = self.net, self._initial_state(seed), len(self._pending_chunks)
        links = len(net.src)
        traffic = initial_state(net, seed, left, 2 * left + links)
        done, before = not left, 0
        while not done:
            done = run_events(state, traffic, net, _SENDS_PER_CALL)
            made = int(traffic.remaining[1])
            if not done and made == before:
                raise stalled_error()
            pause(made - before, done)
            before = made
            if made + links > len(traffic.when):
                traffic = traffic.with_log_capacity(2 * len(traffic.when))
        made = int(traffic.remaining[1])
        sends = Sends(
            traffic.when[:made],
            traffic.chunk[:made].astype(np.int32),
            traffic.link[:made].astype(np.int32),
            np.zeros(made, dtype=np.bool_),
        )
        return int(traffic.now[0]), sends.sorted_sends()

    def _initial_state(self, seed: int) -> UnicastState:
        empty = self._template
        state = empty._replace(
            waiting=empty.waiting.copy(),
            waiting_goals=empty.waiting_goals.copy(),
            first_waiting=empty.first_waiting.copy(),
            next_waiting=empty.next_waiting.copy(),
        )
        order = np.random.Generator(np.random.PCG64(seed)).permutation(self._pending_chunks)
        enqueue_chunks(state, np.uint64(self.net.nodes), self._source, order)
        return state
