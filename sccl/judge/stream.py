"""The judge for algorithms too large to hold: their sends arrive in arrays, step by step.

It re-executes all sends on the whole machine, as :mod:`sccl.judge.steps` does, and knows nothing
of the symmetries they were made with. It stops at the first violation. Non-combining collectives
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.errors import CollectiveError
from sccl.judge.violation import Violation

Batch = tuple[int, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
"""(step, chunks, sources, destinations) of some sends of a step."""

_DENSE_RANKS = 8192  # a table of all pairs of ranks finds an edge's number fastest


def first_violation(
    topology: Topology,
    collective: Collective,
    rounds_per_step: Sequence[int],
    batches: Iterable[Batch],
) -> Violation | None:
    """Return the first thing that is wrong with a stream of sends; None if it is a valid algorithm.

    Args:
        batches: by ascending step.

    Raises:
        CollectiveError: the collective combines.
    """
    if collective.combining:
        raise CollectiveError(f"{collective.name} combines: its sends cannot be judged as a stream")
    for step, rounds in enumerate(rounds_per_step):
        if rounds < 1:
            return Violation(
                "rounds", f"step {step} has {rounds} rounds, at least 1 expected", step
            )
    state = _State(topology, collective, rounds_per_step)
    for batch in batches:
        if (found := state.take(batch)) is not None:
            return found
    return state.finish()


class _State:
    def __init__(
        self, topology: Topology, collective: Collective, rounds_per_step: Sequence[int]
    ) -> None:
        self.topology, self.collective, self.rounds = topology, collective, rounds_per_step
        self.nodes = topology.ranks + len(topology.switches)  # links may end on switches
        shape = (collective.num_chunks, topology.ranks)
        self.held = np.zeros(shape, dtype=bool)
        for (holders, _), chunks in collective.classes().items():
            self.held[np.ix_(chunks, sorted(holders))] = True
        self.edges = sorted(topology.edges)
        codes = np.array([u * self.nodes + v for u, v in self.edges], np.int64)
        self.codes = codes
        self.dense: NDArray[np.int32] | None = None
        if self.nodes <= _DENSE_RANKS:
            self.dense = np.full(self.nodes**2, -1, np.int32)
            self.dense[codes] = np.arange(len(codes), dtype=np.int32)
        self.step = 0
        self.load = np.zeros(len(self.edges), np.int64)
        self.arrived: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []

    def take(self, batch: Batch) -> Violation | None:
        """Execute sends of the present step or of a later one, and return what is wrong first."""
        step, chunks, sources, destinations = batch
        if not self.step <= step < len(self.rounds):
            return Violation(
                "range", f"step {step} does not exist, or comes after a later one", step
            )
        if step > self.step and (found := self.close()) is not None:
            return found
        self.step = step
        ranks = self.topology.ranks
        for what, values, end in (
            ("chunk", chunks, self.collective.num_chunks),
            ("rank", sources, ranks),
            ("rank", destinations, ranks),
        ):
            if len(values) and not (int(values.min()) >= 0 and int(values.max()) < end):
                return Violation("range", f"step {step}: a {what} that does not exist", step)
        edges = self.number(sources.astype(np.int64) * self.nodes + destinations)
        if len(edges) and int(edges.min()) < 0:
            i = int(np.argmin(edges))
            text = f"step {step}: there is no link {sources[i]}->{destinations[i]}"
            return Violation("link", text, step, int(chunks[i]), int(destinations[i]))
        had = self.held[chunks, sources]
        if not had.all():
            i = int(np.argmin(had))
            text = (
                f"step {step}: rank {sources[i]} does not hold chunk {chunks[i]} when it sends it "
                f"to {destinations[i]}"
            )
            return Violation("availability", text, step, int(chunks[i]), int(sources[i]))
        self.load += np.bincount(edges, minlength=len(self.edges))
        self.arrived.append((chunks, destinations))
        return None

    def number(self, codes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the numbers of edges, -1 where there is none."""
        if self.dense is not None:
            return self.dense[codes]
        places = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        found = np.where(self.codes[places] == codes, places, -1)
        return found.astype(np.int32)

    def close(self) -> Violation | None:
        """End a step: check what it carried, and let it arrive."""
        rounds = self.rounds[self.step]
        number = {edge: i for i, edge in enumerate(self.edges)}
        if int(self.load.max(initial=0)) > 0:
            for constraint in self.topology.constraints():
                used = sum(int(self.load[number[edge]]) for edge in constraint.edges)
                if used > constraint.chunks_per_round * rounds:
                    text = (
                        f"step {self.step}: {constraint.name} carries {used} chunks, "
                        f"{constraint.chunks_per_round} per round x {rounds} rounds allowed"
                    )
                    return Violation("bandwidth", text, self.step, rank=constraint.edges[0][0])
        for chunks, destinations in self.arrived:
            self.held[chunks, destinations] = True
        self.load[:] = 0
        self.arrived = []
        return None

    def finish(self) -> Violation | None:
        """End the last step, and return what is wanted and not there."""
        if (found := self.close()) is not None:
            return found
        for (_, wanted), chunks in self.collective.classes().items():
            there = self.held[np.ix_(chunks, sorted(wanted))]
            if not there.all():
                i, j = (int(k) for k in np.argwhere(~there)[0])
                rank = sorted(wanted)[j]
                text = f"after the last step rank {rank} does not hold chunk {chunks[i]}"
                return Violation("postcondition", text, chunk=chunks[i], rank=rank)
        return None
