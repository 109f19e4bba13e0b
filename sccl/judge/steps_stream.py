"""Verify algorithms too large to hold in memory: their sends arrive in arrays, chunk by chunk.

All sends are re-executed on the whole machine, as in :mod:`sccl.judge.steps`, without use of the
symmetries. The state is, for the current chunk, its arrival step on each rank, and for all chunks
the load of every link in each step. Verification stops at the first violation. A chunk that was not
sent has arrived at no other rank. Non-combining collectives only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import Int32Array
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.errors import CollectiveError
from sccl.judge.violation import Violation

SendsOfChunk = tuple[int, Int32Array, Int32Array, Int32Array]
"""(chunk, steps, sources, destinations) of all sends of a chunk, by step."""

_NEVER = np.iinfo(np.int32).max


def first_violation(
    topology: Topology,
    collective: Collective,
    rounds_per_step: Sequence[int],
    batches: Iterable[SendsOfChunk],
) -> Violation | None:
    """Return the first violation in a stream of sends, or None if it is a valid algorithm.

    Args:
        batches: All sends of each chunk at once.

    Raises:
        CollectiveError: the collective combines.
    """
    if collective.combining:
        raise CollectiveError(
            f"{collective.name} reduces: its sends cannot be verified as a stream"
        )
    for step, rounds in enumerate(rounds_per_step):
        if rounds < 1:
            text = f"step {step} has {rounds} rounds, at least 1 expected"
            return Violation("rounds", text, step)
    state = _StreamState(topology, collective, len(rounds_per_step))
    for batch in batches:
        if (violation := state.execute_chunk(batch)) is not None:
            return violation
    return state.unsent_violation() or state.load_violation(rounds_per_step)


class _StreamState:
    def __init__(self, topology: Topology, collective: Collective, steps: int) -> None:
        self.topology, self.collective, self.steps = topology, collective, steps
        nodes = topology.ranks + len(topology.switches)  # links may end on switches
        src, dst = np.array([k.edge for k in topology.links], np.int32).T.copy()
        self.first = np.searchsorted(src, np.arange(nodes + 1)).astype(np.int64)
        self.dst = dst
        self.load = np.zeros((len(dst), steps), dtype=np.int32)
        self.arrival = np.full(topology.ranks, _NEVER, dtype=np.int32)
        self.sent = np.zeros(collective.num_chunks, dtype=bool)
        self.arrays: dict[frozenset[int], Int32Array] = {}

    def execute_chunk(self, batch: SendsOfChunk) -> Violation | None:
        """Execute all sends of a chunk, and return the first violation."""
        chunk, steps, sources, destinations = batch
        if not 0 <= chunk < self.collective.num_chunks or self.sent[chunk]:
            return Violation("range", f"chunk {chunk} does not exist, or comes twice")
        self.sent[chunk] = True
        for label, values, end in (
            ("step", steps, self.steps),
            ("rank", sources, self.topology.ranks),
            ("rank", destinations, self.topology.ranks),
        ):
            if len(values) and not (int(values.min()) >= 0 and int(values.max()) < end):
                return Violation("range", f"chunk {chunk}: a {label} that does not exist")
        self.arrival[:] = _NEVER
        self.arrival[self._array(self.collective.holders(chunk))] = 0
        bad, kind = _execute_sends(
            self.arrival, self.load, (self.first, self.dst), steps, sources, destinations
        )
        if bad < 0:
            return self._missing_violation(chunk)
        step, src, dst = int(steps[bad]), int(sources[bad]), int(destinations[bad])
        if kind == 0:
            return Violation(
                "link", f"step {step}: there is no link {src}->{dst}", step, chunk, dst
            )
        text = f"step {step}: rank {src} does not hold chunk {chunk} when it sends it to {dst}"
        return Violation("availability", text, step, chunk, src)

    def _array(self, ranks: frozenset[int]) -> Int32Array:
        if ranks not in self.arrays:
            if len(self.arrays) > self.topology.ranks:
                self.arrays.clear()
            self.arrays[ranks] = np.array(sorted(ranks), np.int32)
        return self.arrays[ranks]

    def _missing_violation(self, chunk: int) -> Violation | None:
        """Return that a rank that wants a chunk has it not, if so."""
        wanted = self._array(self.collective.destinations(chunk))
        arrived = self.arrival[wanted] != _NEVER
        if arrived.all():
            return None
        rank = int(wanted[np.argmin(arrived)])
        text = f"after the last step rank {rank} does not hold chunk {chunk}"
        return Violation("postcondition", text, chunk=chunk, rank=rank)

    def unsent_violation(self) -> Violation | None:
        """Return that a chunk that is not sent is wanted where it is not, if so."""
        for chunk in np.flatnonzero(~self.sent).tolist():
            no_sends = np.array([], np.int32)
            if (violation := self.execute_chunk((chunk, no_sends, no_sends, no_sends))) is not None:
                return violation
        return None

    def load_violation(self, rounds_per_step: Sequence[int]) -> Violation | None:
        """Return which constraint carries too much in some step, if one does."""
        rounds = np.array(rounds_per_step, np.int64)
        number = {link.edge: i for i, link in enumerate(self.topology.links)}
        for constraint in self.topology.constraints():
            rows = [number[edge] for edge in constraint.edges]
            used = self.load[rows].sum(axis=0, dtype=np.int64)
            over = used > constraint.chunks_per_round * rounds
            if over.any():
                step = int(np.argmax(over))
                text = (
                    f"step {step}: {constraint.name} carries {used[step]} chunks, "
                    f"{constraint.chunks_per_round} per round x {rounds[step]} rounds allowed"
                )
                return Violation("bandwidth", text, step, rank=constraint.edges[0][0])
        return None


@compiled
def _execute_sends(  # noqa: PLR0913, PLR0917 - a state
    arrival: Int32Array,
    load: Int32Array,
    links: tuple[NDArray[np.int64], Int32Array],
    steps: Int32Array,
    sources: Int32Array,
    destinations: Int32Array,
) -> tuple[int, int]:
    """Execute the sends of a chunk and return (index, reason) of an invalid one, or (-1, -1).

    Reason 0 is a missing link.

    Args:
        arrival: First step of the chunk on each rank.
        links: Offsets of the links of each source, and all destinations, ascending.
    """
    first, dst = links
    for i in range(len(steps)):
        step, low, high = steps[i], first[sources[i]], first[sources[i] + 1]
        end = high
        while low < high:
            middle = (low + high) // 2
            if dst[middle] < destinations[i]:
                low = middle + 1
            else:
                high = middle
        if low == end or dst[low] != destinations[i]:
            return i, 0
        if arrival[sources[i]] > step:
            return i, 1
        load[low, step] += 1
        arrival[destinations[i]] = min(arrival[destinations[i]], step + 1)
    return -1, -1
