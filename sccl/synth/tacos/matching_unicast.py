"""Set up the matching of chunks with one destination each, and return its transfers.

The choices of the links are in :mod:`sccl.synth.tacos.matching_unicast_loops`.
"""

from __future__ import annotations

import numpy as np

from sccl.synth.limits import INFINITE, SENDS_PER_CALL
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.shortest_paths import ShortestPaths
from sccl.synth.network.transfers import Demand, Pause, Sends, stalled_error
from sccl.synth.tacos.bitsets import bit_rows
from sccl.synth.tacos.expanded_network import initial_state
from sccl.synth.tacos.matching_unicast_loops import UnicastState, enqueue_chunks, run_events


class UnicastMatching:
    """Matchings of one demand on one machine. The seed determines the order of waiting chunks.

    Raises:
        UnreachableError: A chunk has no path to its destination.
    """

    def __init__(self, net: NetworkArrays, demand: Demand) -> None:
        assert demand.wanted is not None
        assert demand.wanted_by is not None
        self.net, nodes = net, net.nodes
        source, destination = np.zeros((2, demand.chunks), dtype=np.int64)
        source[demand.held], destination[demand.wanted] = demand.held_by, demand.wanted_by
        paths = ShortestPaths(net)
        # Shape (nodes, destinations).
        distance = np.stack([paths.distances_to([rank]) for rank in range(nodes)], axis=1)
        if (distance[source, destination] >= INFINITE).any():
            raise stalled_error()
        before, after = distance[paths.src], distance[paths.dst]
        on_shortest_path = (after + paths.cost[:, None] == before) & (before < INFINITE)
        choices = np.zeros((nodes, nodes), dtype=np.int64)
        if min(len(np.unique(ranks)) for ranks in (demand.held_by, demand.wanted_by)) > 1:
            np.add.at(choices, paths.src, on_shortest_path.astype(np.int64))
        row, closer_to = np.nonzero(np.concatenate([on_shortest_path, after < before]))
        busy = net.busy[net.kind.astype(np.int64)]
        chunks_per_tick = np.bincount(paths.src, weights=1 / busy, minlength=nodes)
        self._source = source.astype(np.uint32)
        self._pending_chunks = np.flatnonzero(source != destination)
        self._template = UnicastState(
            distance=distance.reshape(-1).copy(),
            closer=bit_rows(row, closer_to, (2 * len(paths.src), nodes)),
            cost=paths.cost,
            drain=(1 / np.maximum(chunks_per_tick, 2.0**-60)).astype(np.int64),
            waiting=np.zeros(nodes, dtype=np.int64),
            waiting_goals=np.zeros(nodes * (-(-nodes // 64)), dtype=np.uint64),
            first_waiting=np.zeros(nodes * nodes, dtype=np.uint32),
            next_waiting=np.zeros(demand.chunks, dtype=np.uint32),
            goal=destination.astype(np.uint32),
            choices=choices.reshape(-1),
        )

    def match(self, seed: int, pause: Pause) -> tuple[int, Sends]:
        """Return the completion time in ticks, and the transfers.

        Args:
            seed: Seed of the order of waiting chunks, and of the links' choices.
            pause: Called after each piece of work.

        Raises:
            UnreachableError: A chunk cannot reach its destination.
        """
        net, state, pending = self.net, self._initial_state(seed), len(self._pending_chunks)
        links = len(net.src)
        traffic = initial_state(net, seed, pending, 2 * pending + links)
        done, num_sends = not pending, 0
        while not done:
            done = run_events(state, traffic, net, SENDS_PER_CALL)
            new_sends = int(traffic.remaining[1]) - num_sends
            if not done and not new_sends:
                raise stalled_error()
            pause(new_sends, done)
            num_sends += new_sends
            if num_sends + links > len(traffic.when):
                traffic = traffic.with_log_capacity(2 * len(traffic.when))
        sends = Sends(
            traffic.when[:num_sends],
            traffic.chunk[:num_sends].astype(np.int32),
            traffic.link[:num_sends].astype(np.int32),
            np.zeros(num_sends, dtype=np.bool_),
        )
        return int(traffic.now[0]), sends.sorted_sends()

    def _initial_state(self, seed: int) -> UnicastState:
        template = self._template
        state = template._replace(
            waiting=template.waiting.copy(),
            waiting_goals=template.waiting_goals.copy(),
            first_waiting=template.first_waiting.copy(),
            next_waiting=template.next_waiting.copy(),
        )
        order = np.random.Generator(np.random.PCG64(seed)).permutation(self._pending_chunks)
        enqueue_chunks(state, np.uint64(self.net.nodes), self._source, order)
        return state
