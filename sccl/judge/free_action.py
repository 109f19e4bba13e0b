"""Verify symmetric algorithms whose group keeps no rank: one rank of each orbit decides.

As in :mod:`sccl.judge.symmetric`, each generator must map links to links, lanes to lanes, and
budgets to budgets, and each holder or receiver of a chunk to one of its image. Here the generators
need not commute, and the group need not be transitive on ranks. Each chunk starts on one rank,
which only the identity keeps, so only the identity keeps the chunk. The given sends of one chunk of
an orbit therefore have exactly one image for every other chunk of the orbit, and condition (iii) of
that module holds. Three conditions remain: each given chunk is sent correctly by itself. Every
chunk that must move is an image of a given chunk, and over each orbit of constraints, in every
step, all images together stay within the total capacity.

The group property is checked with tables of all pairs of ranks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.errors import ParameterError
from sccl.judge.group_action import budget_orbits, is_budget_preserving, is_supported
from sccl.judge.symmetric import malformed_violation, missing_violation, overload_violation
from sccl.judge.violation import Violation
from sccl.topo.symmetry.regular_groups import LinkArrays
from sccl.topo.symmetry.semiregular import SemiregularGroup, find_semiregular_group


def violations(algorithm: SymmetricAlgorithm) -> list[Violation] | None:
    """Return the first violation of an algorithm, if any, or None if this verifier does not apply.

    Raises:
        ParameterError: The sends of two chunks of one orbit are given.
    """
    if (wrong := malformed_violation(algorithm)) is not None:
        return [wrong]
    topology, symmetries = algorithm.topology, algorithm.symmetries
    if not is_supported(algorithm) or any(symmetry.chunk_shift for symmetry in symmetries):
        return None
    links = LinkArrays.from_topology(topology)
    kept = all(links.is_preserved(np.array(symmetry.ranks, np.int32)) for symmetry in symmetries)
    if not symmetries or not kept or not is_budget_preserving(topology, symmetries):
        return None
    group = find_semiregular_group([symmetry.ranks for symmetry in symmetries], topology.ranks)
    if group is None:
        return None
    judge = _OrbitSends(algorithm, links, group)
    wrong = (
        judge.chunk_violation()
        or judge.unserved_violation()
        or judge.load_violation()
        or judge.count_violation()
    )
    return [wrong] if wrong else []


class _OrbitSends:
    """The sends that are given.

    Attributes:
        chunks: that are sent, ascending. Each starts on a rank of its own orbit of chunks.
        row: of each send the place of its chunk among them.
    """

    def __init__(
        self, algorithm: SymmetricAlgorithm, links: LinkArrays, group: SemiregularGroup
    ) -> None:
        self.algorithm, self.links, self.group = algorithm, links, group
        columns = [(s.step, s.chunk, s.src, s.dst) for s in algorithm.sends]
        self.step, chunk, self.src, self.dst = np.array(columns, np.int64).reshape(-1, 4).T
        self.chunks, self.row = np.unique(chunk, return_inverse=True)
        self.row = self.row.reshape(-1)
        images = self._chunk_orbits(self.chunks)
        if len(np.unique(images)) < len(images):
            raise ParameterError(
                "the sends of two chunks of one orbit are given, expected one each"
            )

    def _chunk_orbits(self, chunks: IntArray) -> IntArray:
        """Return of each chunk the one of its orbit that starts on the first rank of an orbit."""
        ranks, group = self.algorithm.topology.ranks, self.group
        holder, index = chunks % ranks, chunks // ranks
        if self.algorithm.collective.is_alltoall:
            index = index - index % ranks + group.element_to[holder, index % ranks]
        return index * ranks + group.representative[holder]

    def chunk_violation(self) -> Violation | None:
        """Return the first violation in the sends of one chunk by themselves."""
        self.edges = self.links.link_numbers(self.src, self.dst)
        if len(self.edges) and int(self.edges.min()) < 0:
            return self._violation_at(
                int(np.argmin(self.edges)), "link", "there is no link {0}->{1}"
            )
        ranks = self.algorithm.topology.ranks
        # the first arrival of each chunk on each rank, since sends are sorted by step
        self.places, first = np.unique(self.row * ranks + self.dst, return_index=True)
        came, sender = self.step[first] + 1, self.row * ranks + self.src
        at = np.minimum(np.searchsorted(self.places, sender), max(len(self.places) - 1, 0))
        is_holder = self.src == self.chunks[self.row] % ranks
        is_available = is_holder | ((self.places[at] == sender) & (came[at] <= self.step))
        if is_available.all():
            return None
        text = "rank {0} does not hold chunk {2} when it sends it to {1}"
        return self._violation_at(int(np.argmin(is_available)), "availability", text)

    def _violation_at(self, i: int, kind: str, text: str) -> Violation:
        step, src, dst = int(self.step[i]), int(self.src[i]), int(self.dst[i])
        chunk = int(self.chunks[self.row[i]])
        said = f"step {step}: {text.format(src, dst, chunk)}"
        return Violation(kind, said, step, chunk, src if kind == "availability" else dst)

    def unserved_violation(self) -> Violation | None:
        """Return that some chunk does not come to where it is wanted, if so."""
        ranks = self.algorithm.topology.ranks
        indices = self.algorithm.collective.num_chunks // ranks
        firsts = np.array(self.group.representatives, np.int64)
        chunks = (np.arange(indices)[:, None] * ranks + firsts).ravel()  # one of each orbit
        orbits = self._chunk_orbits(self.chunks)
        order = np.argsort(orbits)
        at = np.minimum(np.searchsorted(orbits[order], chunks), max(len(orbits) - 1, 0))
        if not len(orbits):
            return missing_violation(int(chunks[0]), 1) if ranks > 1 else None
        row, is_sent = order[at], orbits[order][at] == chunks
        if not self.algorithm.collective.is_alltoall:
            return self._coverage_violation(chunks, is_sent)
        wanted, holder = chunks // ranks % ranks, chunks % ranks
        target = self.chunks[row] // ranks % ranks
        served = (wanted == holder) | (is_sent & np.isin(row * ranks + target, self.places))
        if served.all():
            return None
        first = int(np.argmin(served))
        return missing_violation(int(chunks[first]), int(wanted[first]))

    def _coverage_violation(self, chunks: IntArray, is_sent: NDArray[np.bool_]) -> Violation | None:
        """Return that a chunk does not come to all ranks, if so."""
        ranks = self.algorithm.topology.ranks
        if not is_sent.all():
            chunk = int(chunks[np.argmin(is_sent)])
            return missing_violation(chunk, int(chunk % ranks == 0)) if ranks > 1 else None
        holder = self.chunks % ranks
        elsewhere = self.places[self.places % ranks != holder[self.places // ranks]]
        counts = np.bincount(elsewhere // ranks, minlength=len(self.chunks))
        short = np.flatnonzero(counts < ranks - 1)
        if not len(short):
            return None
        i = int(short[0])
        reached = elsewhere[elsewhere // ranks == i] % ranks
        lacking = np.setdiff1d(np.arange(ranks), [*reached, holder[i]])
        return missing_violation(int(self.chunks[i]), int(lacking[0]))

    def load_violation(self) -> Violation | None:
        """Return which constraint carries too much, if one does."""
        topology, steps = self.algorithm.topology, self.algorithm.steps
        kind = self.group.orbit_numbers((self.links.src, self.links.dst))
        used = np.zeros((int(kind.max()) + 1, steps), np.int64)
        np.add.at(used, (kind[self.edges], self.step), 1)
        rounds = np.array(self.algorithm.rounds_per_step, np.int64)
        # of a given send's images there is one on each link of an orbit
        over = used[kind] > self.links.lanes[:, None] * rounds
        if over.any():
            link, step = (int(x[0]) for x in np.nonzero(over))
            name = "link {}->{}".format(*topology.links[link].edge)
            carried = int(used[kind[link], step])
            return overload_violation(
                self.algorithm, step, name, carried, int(self.links.lanes[link])
            )
        return self._budget_violation(kind, used)

    def _budget_violation(self, kind: IntArray, used: IntArray) -> Violation | None:
        """Return which budget carries too much, if one does: of each orbit any one, as all do."""
        topology = self.algorithm.topology
        for members in budget_orbits(self.algorithm):
            budget = topology.budgets[members[0]]
            src, dst = np.array(budget.edges, np.int64).T
            carried = used[kind[self.links.link_numbers(src, dst)]].sum(axis=0)
            for step, rounds in enumerate(self.algorithm.rounds_per_step):
                if carried[step] > budget.chunks_per_round * rounds:
                    much, width = int(carried[step]), budget.chunks_per_round
                    return overload_violation(self.algorithm, step, budget.name, much, width)
        return None

    def count_violation(self) -> Violation | None:
        """Return a violation if the total number of sends differs from the stated number."""
        count = len(self.step) * self.group.size
        if count == self.algorithm.num_sends:
            return None
        text = f"it states {self.algorithm.num_sends} sends, and has {count}"
        return Violation("range", text)
