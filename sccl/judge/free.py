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

from sccl.core.symmetric import SymmetricAlgorithm
from sccl.errors import ParameterError
from sccl.judge.acting import budget_orbits, is_taken, keep_budgets
from sccl.judge.symmetric import malformed, missing, too_much
from sccl.judge.violation import Violation
from sccl.topo.symmetry.free import FreeGroup, free_group
from sccl.topo.symmetry.regular import LinkArrays

Ints = NDArray[np.int64]


def violations(algorithm: SymmetricAlgorithm) -> list[Violation] | None:
    """Return the first violation of an algorithm, if any; None if this verifier does not apply.

    Raises:
        ParameterError: the sends of two chunks of one orbit are given.
    """
    if (wrong := malformed(algorithm)) is not None:
        return [wrong]
    topology, symmetries = algorithm.topology, algorithm.symmetries
    if not is_taken(algorithm) or any(one.turn for one in symmetries):
        return None
    links = LinkArrays.of(topology)
    kept = all(links.preserved(np.array(one.ranks, np.int32)) for one in symmetries)
    if not symmetries or not kept or not keep_budgets(topology, symmetries):
        return None
    group = free_group([one.ranks for one in symmetries], topology.ranks)
    if group is None:
        return None
    given = _Given(algorithm, links, group)
    wrong = given.alone() or given.unserved() or given.together() or given.counted()
    return [wrong] if wrong else []


class _Given:
    """The sends that are given.

    Attributes:
        chunks: that are sent, ascending. Each starts on a rank of its own orbit of chunks.
        row: of each send the place of its chunk among them.
    """

    def __init__(self, algorithm: SymmetricAlgorithm, links: LinkArrays, group: FreeGroup) -> None:
        self.algorithm, self.links, self.group = algorithm, links, group
        columns = [(s.step, s.chunk, s.src, s.dst) for s in algorithm.sends]
        self.step, chunk, self.src, self.dst = np.array(columns, np.int64).reshape(-1, 4).T
        self.chunks, self.row = np.unique(chunk, return_inverse=True)
        self.row = self.row.reshape(-1)
        images = self._orbits(self.chunks)
        if len(np.unique(images)) < len(images):
            raise ParameterError(
                "the sends of two chunks of one orbit are given, expected one each"
            )

    def _orbits(self, chunks: Ints) -> Ints:
        """Return of each chunk the one of its orbit that starts on the first rank of an orbit."""
        ranks, group = self.algorithm.topology.ranks, self.group
        holder, index = chunks % ranks, chunks // ranks
        if self.algorithm.collective.is_transpose:
            index = index - index % ranks + group.back[holder, index % ranks]
        return index * ranks + group.first[holder]

    def alone(self) -> Violation | None:
        """Return the first violation in the sends of one chunk by themselves."""
        self.edges = self.links.numbers(self.src, self.dst)
        if len(self.edges) and int(self.edges.min()) < 0:
            return self._about(int(np.argmin(self.edges)), "link", "there is no link {0}->{1}")
        ranks = self.algorithm.topology.ranks
        # the first arrival of each chunk on each rank; sends are sorted by step
        self.places, first = np.unique(self.row * ranks + self.dst, return_index=True)
        came, sender = self.step[first] + 1, self.row * ranks + self.src
        at = np.minimum(np.searchsorted(self.places, sender), max(len(self.places) - 1, 0))
        own = self.src == self.chunks[self.row] % ranks
        there = own | ((self.places[at] == sender) & (came[at] <= self.step))
        if there.all():
            return None
        text = "rank {0} does not hold chunk {2} when it sends it to {1}"
        return self._about(int(np.argmin(there)), "availability", text)

    def _about(self, i: int, kind: str, text: str) -> Violation:
        """Return a violation by the i-th send."""
        step, src, dst = int(self.step[i]), int(self.src[i]), int(self.dst[i])
        chunk = int(self.chunks[self.row[i]])
        said = f"step {step}: {text.format(src, dst, chunk)}"
        return Violation(kind, said, step, chunk, src if kind == "availability" else dst)

    def unserved(self) -> Violation | None:
        """Return that some chunk does not come to where it is wanted, if so."""
        ranks = self.algorithm.topology.ranks
        indices = self.algorithm.collective.num_chunks // ranks
        firsts = np.array(self.group.firsts, np.int64)
        every = (np.arange(indices)[:, None] * ranks + firsts).ravel()  # one of each orbit
        orbits = self._orbits(self.chunks)
        order = np.argsort(orbits)
        at = np.minimum(np.searchsorted(orbits[order], every), max(len(orbits) - 1, 0))
        if not len(orbits):
            return missing(int(every[0]), 1) if ranks > 1 else None
        row, known = order[at], orbits[order][at] == every
        if not self.algorithm.collective.is_transpose:
            return self._not_everywhere(every, known)
        wanted, own = every // ranks % ranks, every % ranks
        there = self.chunks[row] // ranks % ranks
        served = (wanted == own) | (known & np.isin(row * ranks + there, self.places))
        if served.all():
            return None
        first = int(np.argmin(served))
        return missing(int(every[first]), int(wanted[first]))

    def _not_everywhere(self, every: Ints, known: NDArray[np.bool_]) -> Violation | None:
        """Return that a chunk does not come to all ranks, if so."""
        ranks = self.algorithm.topology.ranks
        if not known.all():
            chunk = int(every[np.argmin(known)])
            return missing(chunk, int(chunk % ranks == 0)) if ranks > 1 else None
        holder = self.chunks % ranks
        elsewhere = self.places[self.places % ranks != holder[self.places // ranks]]
        counts = np.bincount(elsewhere // ranks, minlength=len(self.chunks))
        short = np.flatnonzero(counts < ranks - 1)
        if not len(short):
            return None
        i = int(short[0])
        there = elsewhere[elsewhere // ranks == i] % ranks
        lacking = np.setdiff1d(np.arange(ranks), [*there, holder[i]])
        return missing(int(self.chunks[i]), int(lacking[0]))

    def together(self) -> Violation | None:
        """Return which constraint carries too much, if one does."""
        topology, steps = self.algorithm.topology, self.algorithm.steps
        kind = self.group.kinds((self.links.src, self.links.dst))
        used = np.zeros((int(kind.max()) + 1, steps), np.int64)
        np.add.at(used, (kind[self.edges], self.step), 1)
        rounds = np.array(self.algorithm.rounds_per_step, np.int64)
        # of a given send's images there is one on each link of an orbit
        over = used[kind] > self.links.lanes[:, None] * rounds
        if over.any():
            link, step = (int(x[0]) for x in np.nonzero(over))
            name = "link {}->{}".format(*topology.links[link].edge)
            carried = int(used[kind[link], step])
            return too_much(self.algorithm, step, name, carried, int(self.links.lanes[link]))
        return self._over_budget(kind, used)

    def _over_budget(self, kind: Ints, used: Ints) -> Violation | None:
        """Return which budget carries too much, if one does: of each orbit any one, as all do."""
        topology = self.algorithm.topology
        for members in budget_orbits(self.algorithm):
            budget = topology.budgets[members[0]]
            src, dst = np.array(budget.edges, np.int64).T
            carried = used[kind[self.links.numbers(src, dst)]].sum(axis=0)
            for step, rounds in enumerate(self.algorithm.rounds_per_step):
                if carried[step] > budget.chunks_per_round * rounds:
                    much, width = int(carried[step]), budget.chunks_per_round
                    return too_much(self.algorithm, step, budget.name, much, width)
        return None

    def counted(self) -> Violation | None:
        """Return a violation if the total number of sends differs from the stated number."""
        count = len(self.step) * self.group.size
        if count == self.algorithm.num_sends:
            return None
        text = f"it states {self.algorithm.num_sends} sends, and has {count}"
        return Violation("range", text)
