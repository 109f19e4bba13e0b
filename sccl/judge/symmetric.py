"""Verify symmetric algorithms: the sends of one chunk of each orbit decide for all chunks.

Theorem. Let A be a group of pairs of a permutation of ranks and one of chunks such that (i) links,
lanes and budgets are mapped to links, lanes and budgets, and (ii) each holder or receiver of a
chunk is mapped to one of its image. Let sends of one chunk of each orbit be given such that (iii)
every element of A that keeps the chunk keeps its sends. All their images are a valid algorithm if
and only if (a) the sends of each given chunk are a valid algorithm by themselves, apart from
bandwidth, and (b) over each orbit of constraints, in every step, all images together stay within
the total capacity of the orbit.

Proof. By (iii) the images of a chunk's sends depend on the image of the chunk alone, so each chunk
has its sends, and (a) holds for it as for the given chunk: only names differ. All images together
are invariant, so by (i) the constraints of one orbit carry equal loads: their sum decides.

Nothing in a file is trusted: (i) and (ii) are checked for each generator, (iii) for generators of
the stabiliser of a chunk (Schreier's lemma). The check is quick if some generators commute, keep
chunk numbers, and are transitive on ranks, and the others normalise the group of these. Then every
chunk has an image on rank 0, and the stabiliser of rank 0 decides the rest. Groups of another kind
go to the stream verifier (:mod:`sccl.judge.steps_stream`), which executes every send.
"""

from __future__ import annotations

import numpy as np

from sccl.core.arrays import Int32Array, IntArray
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.errors import ParameterError
from sccl.judge.group_action import GroupAction, budget_orbits, find_group_action, kinds_by_orbit
from sccl.judge.violation import Violation


def violations(algorithm: SymmetricAlgorithm) -> list[Violation] | None:
    """Return the first violation of an algorithm, if any, or None if this verifier does not apply.

    Raises:
        ParameterError: the sends of two chunks of one orbit are given.
    """
    if (violation := malformed_violation(algorithm)) is not None:
        return [violation]
    action = find_group_action(algorithm)
    if action is None:
        return None
    columns = np.array([(s.step, s.chunk, s.src, s.dst) for s in algorithm.sends], np.int64)
    step, chunk, src, dst = columns.reshape(-1, 4).T
    judge = _RootChunkSends(algorithm, action, step, chunk, src, dst)
    if not judge.is_invariant():
        return None
    violation = judge.chunk_violation() or judge.load_violation() or judge.count_violation()
    return [violation] if violation else []


def malformed_violation(algorithm: SymmetricAlgorithm) -> Violation | None:
    """Return the first violation in rounds and numbers, or None."""
    for step, rounds in enumerate(algorithm.rounds_per_step):
        if rounds < 1:
            text = f"step {step} has {rounds} rounds, at least 1 expected"
            return Violation("rounds", text, step)
    chunks, ranks = algorithm.collective.num_chunks, algorithm.topology.ranks
    for send in algorithm.sends:
        if not 0 <= send.step < algorithm.steps:
            return Violation("range", f"step {send.step} does not exist", send.step)
        if not (0 <= send.chunk < chunks and 0 <= send.src < ranks and 0 <= send.dst < ranks):
            return Violation(
                "range", f"step {send.step}: a chunk or rank that does not exist", send.step
            )
    return None


class _RootChunkSends:
    """The sends that are given, each chunk's translated so that it starts on rank 0.

    Attributes:
        chunks: of each, which chunk of rank 0 it is.
        row: of each send, the place of its chunk in ``chunks``.
        sizes: of each, how many chunks of rank 0 are its images.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - columns
        self,
        algorithm: SymmetricAlgorithm,
        action: GroupAction,
        step: IntArray,
        chunk: IntArray,
        src: IntArray,
        dst: IntArray,
    ) -> None:
        self.algorithm, self.action, self.step = algorithm, action, step
        self.source_chunks, self.row = np.unique(chunk, return_inverse=True)
        ranks = action.group.ranks
        holder, self.chunks = self.source_chunks % ranks, self.source_chunks // ranks
        self.src, self.dst, self.named = src, dst, (src, dst)
        if holder.any():
            self._translate(holder)
        self._find_orbits()

    def _translate(self, holder: IntArray) -> None:
        """Replace chunks of other ranks than 0, and their sends, by images that start there."""
        group, ranks = self.action.group, self.action.group.ranks
        self.src, self.dst, self.chunks = self.src.copy(), self.dst.copy(), self.chunks.copy()
        for rank in np.unique(holder[holder > 0]):
            back = np.argsort(group.element_taking(int(rank)))
            rank_chunks = np.flatnonzero(holder == rank)
            sends = np.isin(self.row, rank_chunks)
            self.src[sends], self.dst[sends] = back[self.src[sends]], back[self.dst[sends]]
            if self.action.targets is not None:
                k = self.chunks[rank_chunks]
                self.chunks[rank_chunks] = k - k % ranks + back[k % ranks]

    def _find_orbits(self) -> None:
        """Find the orbits of chunks of rank 0 under the turns, and the stabilisers of given ones.

        Raises:
            ParameterError: two given chunks are of one orbit.
        """
        self.sizes = np.ones(len(self.chunks), dtype=np.int64)
        self.stabilizers: list[list[Int32Array]] = [[] for _ in self.chunks]
        self.seen = np.zeros(self.action.chunks_per_rank, dtype=bool)
        for i, first in enumerate(self.chunks.tolist()):
            if self.seen[first]:
                raise ParameterError(
                    "the sends of two chunks of one orbit are given, expected one each"
                )
            self.seen[first] = True
            if self.action.stabilizers:
                self.sizes[i] = self._count_images(i, first)

    def _count_images(self, i: int, first: int) -> int:
        """Return the number of images of a chunk on rank 0, and note its stabiliser."""
        images = {first: np.arange(self.action.group.ranks, dtype=np.int32)}
        keeps: dict[bytes, Int32Array] = {}
        for chunk in (order := [first]):
            for turn in self.action.stabilizers:
                target, image = int(turn.chunk_images[chunk]), turn.ranks[images[chunk]]
                if target not in images:
                    images[target] = image
                    self.seen[target] = True
                    order.append(target)
                elif not np.array_equal(image, images[target]):
                    back = np.argsort(images[target]).astype(np.int32)[image]
                    keeps[back.tobytes()] = back
        self.stabilizers[i] = list(keeps.values())
        return len(order)

    def is_invariant(self) -> bool:
        """Return whether the stabiliser of a chunk keeps its sends: condition (iii)."""
        ranks = self.action.group.ranks
        for i, keeps in enumerate(self.stabilizers):
            if not keeps:
                continue
            mask = self.row == i
            step, src, dst = (column[mask] for column in (self.step, self.src, self.dst))
            codes = np.sort((step * ranks + src) * ranks + dst)
            for image in keeps:
                moved = (step * ranks + image[src]) * ranks + image[dst]
                if not np.array_equal(np.sort(moved), codes):
                    return False
        return True

    def chunk_violation(self) -> Violation | None:
        """Return the first violation in the sends of one chunk by themselves: condition (a)."""
        self.edges = self.action.machine.links.link_numbers(self.src, self.dst)
        if len(self.edges) and int(self.edges.min()) < 0:
            return self._violation_at(
                int(np.argmin(self.edges)), "link", "there is no link {0}->{1}"
            )
        # the first arrival of each chunk on each rank, since sends are sorted by step
        places, first = np.unique(self._places(self.dst), return_index=True)
        came = self.step[first] + 1
        sender = self._places(self.src)
        at = np.minimum(np.searchsorted(places, sender), max(len(places) - 1, 0))
        is_available = (self.src == 0) | ((places[at] == sender) & (came[at] <= self.step))
        if not is_available.all():
            text = "rank {0} does not hold chunk {2} when it sends it to {1}"
            return self._violation_at(int(np.argmin(is_available)), "availability", text)
        return self._unserved_violation(places)

    def _places(self, rank: IntArray) -> IntArray:
        return self.row * self.action.group.ranks + rank

    def _violation_at(self, i: int, kind: str, text: str) -> Violation:
        src, dst = (int(column[i]) for column in self.named)
        step, chunk = int(self.step[i]), int(self.source_chunks[self.row[i]])
        said = f"step {step}: {text.format(src, dst, chunk)}"
        return Violation(kind, said, step, chunk, src if kind == "availability" else dst)

    def _unserved_violation(self, places: IntArray) -> Violation | None:
        """Return that a chunk does not come to where it is wanted, if so.

        Args:
            places: chunks' places times ranks, plus the ranks that they come to. No two alike.
        """
        ranks, targets = self.action.group.ranks, self.action.targets
        for k in np.flatnonzero(~self.seen):
            if targets is None or targets[k] != 0:
                rank = 1 if targets is None else int(targets[k])
                return missing_violation(int(k) * ranks, rank)
        if targets is None:
            elsewhere = places[places % ranks != 0]
            counts = np.bincount(elsewhere // ranks, minlength=len(self.chunks))
            for i in np.flatnonzero(counts < ranks - 1):
                reached = elsewhere[elsewhere // ranks == i] % ranks
                rank = int(np.setdiff1d(np.arange(1, ranks), reached)[0])
                return missing_violation(int(self.chunks[i]) * ranks, rank)
            return None
        wanted = targets[self.chunks]
        served = (wanted == 0) | np.isin(np.arange(len(wanted)) * ranks + wanted, places)
        if served.all():
            return None
        first = int(np.argmin(served))
        return missing_violation(int(self.chunks[first]) * ranks, int(wanted[first]))

    def load_violation(self) -> Violation | None:
        """Return which constraint carries too much: condition (b), of links and of budgets."""
        machine, steps = self.action.machine, self.algorithm.steps
        rounds = np.array(self.algorithm.rounds_per_step, np.int64)
        weights = self.sizes[self.row]
        orbit = np.array(kinds_by_orbit(machine, self.action.stabilizers), np.int64)
        used = np.zeros((len(orbit), steps), dtype=np.int64)
        np.add.at(used, (orbit[machine.kinds[self.edges]], self.step), weights)
        members = np.bincount(orbit, minlength=len(orbit))
        for kind in np.unique(orbit).tolist():
            # images of a chunk are as many as ranks times its size, links as ranks times members
            over = used[kind] > members[kind] * machine.lanes[kind] * rounds
            if over.any():
                step = int(np.argmax(over))
                name = f"link 0->{machine.steps[kind]}"
                carried = int(used[kind, step]) // int(members[kind])
                return overload_violation(self.algorithm, step, name, carried, machine.lanes[kind])
        return self._budget_violation(weights)

    def _budget_violation(self, weights: IntArray) -> Violation | None:
        topology, ranks = self.algorithm.topology, self.action.group.ranks
        for members in budget_orbits(self.algorithm):
            count = np.zeros(len(self.action.machine.links.codes), dtype=np.int64)
            for number in members:
                src, dst = np.array(topology.budgets[number].edges, np.int64).T
                count[self.action.machine.links.link_numbers(src, dst)] += 1
            used = np.zeros(self.algorithm.steps, dtype=np.int64)
            np.add.at(used, self.step, weights * count[self.edges] * ranks)
            first = topology.budgets[members[0]]
            for step, rounds in enumerate(self.algorithm.rounds_per_step):
                carried = int(used[step]) // len(members)
                if carried > first.chunks_per_round * rounds:
                    width = first.chunks_per_round
                    return overload_violation(self.algorithm, step, first.name, carried, width)
        return None

    def count_violation(self) -> Violation | None:
        """Return a violation if the total number of sends differs from the stated number."""
        count = int(self.sizes[self.row].sum()) * self.action.group.ranks
        if count == self.algorithm.num_sends:
            return None
        text = f"it states {self.algorithm.num_sends} sends, and has {count}"
        return Violation("range", text)


def missing_violation(chunk: int, rank: int) -> Violation:
    """Return that a chunk does not come to a rank that wants it."""
    text = f"after the last step rank {rank} does not hold chunk {chunk}"
    return Violation("postcondition", text, chunk=chunk, rank=rank)


def overload_violation(
    algorithm: SymmetricAlgorithm, step: int, name: str, carried: int, per_round: int
) -> Violation:
    """Return that a constraint carries too much in a step."""
    rounds = algorithm.rounds_per_step[step]
    text = (
        f"step {step}: {name} carries {carried} chunks, {per_round} per round x {rounds} "
        "rounds allowed"
    )
    return Violation("bandwidth", text, step)
