"""Verify symmetric algorithms from the sends of one representative chunk of each orbit.

Theorem. Let A be a group whose elements are pairs of a permutation of ranks and a permutation of
chunks. Let sends be given for one chunk of each orbit. Assume:

(i) Every element maps links to links with as many lanes, and budgets to budgets of the same width.
(ii) Every element maps the holders and the destinations of a chunk to those of the chunk's image.
(iii) Every element that fixes a given chunk maps the set of the chunk's sends to itself.

Then the images of all given sends form a valid algorithm if and only if two conditions hold:

(a) The sends of each given chunk are valid by themselves, apart from bandwidth.
(b) In each step, the number of images of sends over each orbit of constraints (links or budgets) is
at most the total capacity of the orbit.

Proof. By (iii) the images of a chunk's sends depend only on the image of the chunk. So the sends of
every chunk are well defined, and (a) holds for them as for the given chunk, since only names
differ. The set of all images is invariant under A. So by (i) all constraints of an orbit carry
equal loads, and their sum decides. []

Nothing in a file is trusted: (i) and (ii) are checked for each generator, and (iii) for generators
of the stabilizer of a chunk (Schreier's lemma). Two kinds of groups are supported:

- Some generators, called translations, commute, keep chunk numbers, and are transitive on ranks.
  The others, called turns, normalize the group of translations. Then every chunk has an image on
  rank 0, and only the stabilizer of rank 0 needs further checks.
- The group acts freely: only the identity fixes a rank. Then only the identity fixes a chunk, and
  (iii) holds. The generators need not commute, and the group need not be transitive. The group is
  free if the Schreier generators of the stabilizer of one rank of each orbit are all the identity.

In both cases, a free group N takes each rank to its *home*, a representative of the rank's orbit.
Groups of another kind go to the stream verifier
(:func:`sccl.judge.steps_arrays.first_violation`), which executes every send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sccl.core.arrays import Int32Array, IntArray
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.symmetric import SymmetricAlgorithm, Symmetry
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.judge.execution import is_compiled_worthwhile
from sccl.judge.steps import (
    bandwidth_violation,
    chunk_violations,
    count_violations,
    malformed_violations,
)
from sccl.judge.violation import Violation, missing_violation
from sccl.topo.symmetry.regular_groups import (
    LinkArrays,
    RegularGroup,
    find_regular_group,
    find_semiregular_group,
    split_commuting,
)

_MAX_ROUTES = 2**26  # chunks, if there are turns: group elements to their images take 4 bytes each


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """A symmetry that fixes rank 0: the image of each rank, and of each chunk of rank 0."""

    ranks: Int32Array
    chunk_images: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class _Action:
    """A free group N of symmetries, and turns that fix rank 0 and normalize N.

    Attributes:
        size: Number of elements of N.
        home: First rank of each rank's orbit under N, shape (ranks,).
        to_home: Function that returns the element of N that takes a rank to its home.
        turns: Turns, which generate the whole group together with N. Empty unless N is transitive.
        link_images: Image of each link, for each generator of the whole group.
        budget_images: Image of each distinct budget, for each generator of the whole group.
    """

    size: int
    home: IntArray
    to_home: Callable[[int], Int32Array]
    turns: tuple[_Turn, ...]
    link_images: list[IntArray]
    budget_images: list[IntArray]


def violations(algorithm: SymmetricAlgorithm) -> list[Violation] | None:
    """Return the first violation of an algorithm, if any.

    Returns:
        A list with the violation, an empty list if the algorithm is valid, or None if this
        verifier does not apply.

    Raises:
        ParameterError: The sends of two chunks of the same orbit are given.
    """
    if (violation := next(malformed_violations(algorithm), None)) is not None:
        return [violation]
    action = _find_action(algorithm)
    if action is None:
        return None
    orbits = _ChunkOrbits(algorithm, action)
    if not orbits.is_invariant():
        return None
    violation = next(orbits.violations(), None)
    return [violation] if violation else []


# --- conditions (i) and (ii) ----------------------------------------------------------------------


def _find_action(algorithm: SymmetricAlgorithm) -> _Action | None:
    """Check (i) and (ii), and return the group's action, or None if it is not supported."""
    topology, collective = algorithm.topology, algorithm.collective
    if not algorithm.symmetries or not _is_supported(algorithm):
        return None
    images = [np.array(symmetry.ranks, np.int32) for symmetry in algorithm.symmetries]
    wide = [image.astype(np.int64) for image in images]
    links = LinkArrays.from_topology(topology)
    budgets = [_budget_images(topology, symmetry) for symmetry in algorithm.symmetries]
    preserved = [numbers for numbers in budgets if numbers is not None]
    if len(preserved) < len(budgets) or not all(map(links.is_preserved, images)):
        return None
    link_images = [links.link_numbers(image[links.src], image[links.dst]) for image in wide]
    of_constraints = link_images, preserved
    kept, others = split_commuting(algorithm.symmetries)
    regular = find_regular_group([np.array(symmetry.ranks, np.int32) for symmetry in kept])
    if regular is not None:
        turns = [_turn(regular, symmetry, collective) for symmetry in others]
        fits = not turns or collective.num_chunks <= _MAX_ROUTES
        if fits and None not in turns:
            return _Action(
                topology.ranks,
                np.zeros(topology.ranks, np.int64),
                lambda rank: np.argsort(regular.element_taking(rank)).astype(np.int32),
                tuple(turn for turn in turns if turn),
                *of_constraints,
            )
    if any(symmetry.chunk_shift for symmetry in algorithm.symmetries):
        return None
    free = find_semiregular_group([image.tolist() for image in images], topology.ranks)
    if free is None:
        return None
    return _Action(free.size, free.representative, free.element_to.__getitem__, (), *of_constraints)


def _is_supported(algorithm: SymmetricAlgorithm) -> bool:
    """Return whether each chunk starts on one rank, and symmetries are permutations that fit."""
    topology, collective = algorithm.topology, algorithm.collective
    if topology.switches or collective.combining:
        return False
    if not (collective.is_allgather or collective.is_alltoall):
        return False
    everyone = np.arange(topology.ranks)
    return all(
        collective.class_size_divisor % symmetry.period == 0
        and len(symmetry.ranks) == topology.ranks
        and np.array_equal(np.sort(np.array(symmetry.ranks)), everyone)
        for symmetry in algorithm.symmetries
    )


def _different_budgets(topology: Topology) -> dict[tuple[frozenset[Edge], int], int]:
    """Return the index of one budget for each distinct pair of links and width."""
    return {
        (frozenset(budget.edges), budget.chunks_per_round): place
        for place, budget in enumerate(topology.budgets)
    }


def _budget_images(topology: Topology, symmetry: Symmetry) -> IntArray | None:
    """Return the image of each distinct budget, or None if one has no image."""
    budgets = _different_budgets(topology)
    number = {key: i for i, key in enumerate(budgets)}
    image = symmetry.ranks
    images = [
        number.get((frozenset((image[u], image[v]) for u, v in edges), width), -1)
        for edges, width in budgets
    ]
    return None if -1 in images else np.array(images, np.int64)


def _turn(group: RegularGroup, symmetry: Symmetry, collective: Collective) -> _Turn | None:
    """Return a symmetry followed by the translation that takes the image of rank 0 back to it.

    None: conjugation by it does not map translations to translations.
    """
    image = np.array(symmetry.ranks, np.int32)
    ranks = np.argsort(group.element_taking(int(image[0])))[image].astype(np.int32)
    back = np.argsort(ranks)
    for generator in group.generators:
        conjugate = ranks[generator[back]]
        if not np.array_equal(conjugate, group.element_taking(int(conjugate[0]))):
            return None
    index = np.arange(collective.class_size_divisor, dtype=np.int64)
    place = index % symmetry.period
    index = index - place + (place + symmetry.chunk_shift) % symmetry.period
    if not collective.is_alltoall:
        return _Turn(ranks, index)
    return _Turn(ranks, (index[:, None] * group.ranks + ranks[None, :]).ravel())


def _orbit_numbers(images: list[IntArray], count: int) -> IntArray:
    """Return the orbit number of each of ``count`` points under permutations."""
    first = np.arange(count)
    while True:
        lower = first
        for image in images:
            lower = np.minimum(lower, lower[image])
            lower[image] = np.minimum(lower[image], lower)
        lower = lower[lower]
        if np.array_equal(lower, first):
            return np.unique(first, return_inverse=True)[1].reshape(-1).astype(np.int64)
        first = lower


class _ChunkOrbits:
    """The orbits of the given chunks: those with sends in the algorithm.

    Attributes:
        chunks: Given chunks, ascending.
        row: Index in ``chunks`` of each send's chunk, shape (sends,).
        sizes: Number of images of each given chunk among the chunks of its home rank.
        is_sent: Whether a chunk of a home rank is in the orbit of a given chunk, shape (chunks per
            rank, home ranks).
        stabilizers: Generators of the stabilizer of each given chunk, by index in ``chunks``.
    """

    def __init__(self, algorithm: SymmetricAlgorithm, action: _Action) -> None:
        self.algorithm, self.action = algorithm, action
        columns = [(s.step, s.chunk, s.src, s.dst, s.reduce) for s in algorithm.sends]
        table = np.array(columns, np.int64).reshape(-1, 5).T.copy()
        self.step, chunk, self.src, self.dst, self.reduce = table
        self.chunks, row = np.unique(chunk, return_inverse=True)
        self.row = row.reshape(-1)
        self.links = LinkArrays.from_topology(algorithm.topology)
        self.edges = self.links.link_numbers(self.src, self.dst)
        collective, ranks = algorithm.collective, algorithm.topology.ranks
        self.homes, number = np.unique(action.home, return_inverse=True)
        self.is_sent = np.zeros((collective.num_chunks // ranks, len(self.homes)), np.bool_)
        self.sizes = np.ones(len(self.chunks), dtype=np.int64)
        self.stabilizers: dict[int, list[Int32Array]] = {}
        holders, indices = self.chunks % ranks, self._indices_at_home()
        for i, (index, at) in enumerate(zip(indices, number[holders].tolist(), strict=True)):
            if self.is_sent[index, at]:
                raise ParameterError(
                    "the sends of two chunks of one orbit are given, expected one each"
                )
            self.is_sent[index, at] = True
            if action.turns:
                self._add_images(i, index)

    def _indices_at_home(self) -> list[int]:
        """Return the index, among its home's chunks, of each given chunk's image there."""
        ranks = self.algorithm.topology.ranks
        holders, indices = self.chunks % ranks, self.chunks // ranks
        if self.algorithm.collective.is_alltoall:
            for rank in np.unique(holders).tolist():
                of_rank = holders == rank
                target = indices[of_rank] % ranks
                indices[of_rank] += self.action.to_home(rank)[target] - target
        indices_list: list[int] = indices.tolist()
        return indices_list

    def _add_images(self, i: int, first: int) -> None:
        """Add the images of a chunk of rank 0 under turns, and generators of its stabilizer.

        These are the Schreier generators: the element that leads to an image, then a turn, then the
        inverse of the element that leads to the result.

        Args:
            i: Index of the given chunk.
            first: Index of the chunk among those of rank 0.
        """
        images = {first: np.arange(self.algorithm.topology.ranks, dtype=np.int32)}
        keeps: dict[bytes, Int32Array] = {}
        for chunk in (order := [first]):
            for turn in self.action.turns:
                target, image = int(turn.chunk_images[chunk]), turn.ranks[images[chunk]]
                if target not in images:
                    images[target] = image
                    self.is_sent[target, 0] = True
                    order.append(target)
                elif not np.array_equal(image, images[target]):
                    back = np.argsort(images[target]).astype(np.int32)[image]
                    keeps[back.tobytes()] = back
        self.sizes[i] = len(order)
        if keeps:
            self.stabilizers[i] = list(keeps.values())

    def is_invariant(self) -> bool:
        """Return whether the stabilizer of each chunk keeps its sends: condition (iii)."""
        ranks = self.algorithm.topology.ranks
        for i, keeps in self.stabilizers.items():
            mask = self.row == i
            home = self.action.to_home(int(self.chunks[i]) % ranks)
            step, src, dst = self.step[mask], home[self.src[mask]], home[self.dst[mask]]
            codes = np.sort((step * ranks + src) * ranks + dst)
            for image in keeps:
                moved = (step * ranks + image[src]) * ranks + image[dst]
                if not np.array_equal(np.sort(moved), codes):
                    return False
        return True

    def violations(self) -> Iterator[Violation]:
        """Yield violations of (a), (b), and the stated number of sends."""
        if not self._are_chunks_valid():
            yield from chunk_violations(self.algorithm, self.chunks.tolist())
        yield from self._unsent_violations()
        yield from self._link_violations()
        yield from self._budget_violations()
        yield from count_violations(self.algorithm, int(self._image_counts().sum()))

    def _are_chunks_valid(self) -> bool:
        """Return whether compiled loops prove condition (a). False if they are not worthwhile."""
        sends = len(self.step)
        if not is_compiled_worthwhile("steps", sends) or int(self.edges.min(initial=0)) < 0:
            return False
        from sccl.judge.execution_arrays import is_satisfied  # noqa: PLC0415 - Numba is slow to load
        from sccl.judge.steps_arrays import step_transfers  # noqa: PLC0415

        columns = self.step, self.chunks[self.row], self.src, self.dst, self.reduce.astype(np.bool_)
        return is_satisfied(self.algorithm.collective, step_transfers(*columns), self.chunks)

    def _image_counts(self) -> IntArray:
        """Return the number of images of each send, shape (sends,)."""
        return self.sizes[self.row] * self.action.size

    def _unsent_violations(self) -> Iterator[Violation]:
        """Yield the unmet demand of chunks that are in no orbit of a given chunk."""
        collective, ranks = self.algorithm.collective, self.algorithm.topology.ranks
        index, at = np.nonzero(~self.is_sent)
        chunks = index * ranks + self.homes[at]
        if collective.is_alltoall:
            chunks = chunks[index % ranks != self.homes[at]]
        for chunk in chunks.tolist():
            for rank in sorted(collective.destinations(chunk) - collective.holders(chunk)):
                yield missing_violation("step", chunk, rank)

    def _link_violations(self) -> Iterator[Violation]:
        orbit = _orbit_numbers(self.action.link_images, len(self.links.codes))
        _, first, members = np.unique(orbit, return_index=True, return_counts=True)
        used = np.zeros((len(first), self.algorithm.steps), dtype=np.int64)
        np.add.at(used, (orbit[self.edges], self.step), self._image_counts())
        yield from self._overloads(used // members[:, None], self.links.lanes[first], first)

    def _budget_violations(self) -> Iterator[Violation]:
        topology = self.algorithm.topology
        places = np.array(list(_different_budgets(topology).values()), np.int64)
        orbit = _orbit_numbers(self.action.budget_images, len(places))
        for number in range(int(orbit.max(initial=-1)) + 1):
            members = places[orbit == number]
            holding = np.zeros(len(self.links.codes), dtype=np.int64)
            for place in members.tolist():
                src, dst = np.array(topology.budgets[place].edges, np.int64).T
                holding[self.links.link_numbers(src, dst)] += 1
            used = np.zeros((1, self.algorithm.steps), dtype=np.int64)
            np.add.at(used[0], self.step, self._image_counts() * holding[self.edges])
            width = np.array([topology.budgets[members[0]].chunks_per_round])
            yield from self._overloads(used // len(members), width, len(holding) + members[:1])

    def _overloads(self, used: IntArray, widths: IntArray, places: IntArray) -> Iterator[Violation]:
        """Yield one overloaded constraint for each orbit and step with an overload.

        Args:
            used: Chunks that a constraint of each orbit carries in each step, shape (orbits,
                steps).
            widths: Chunks per round that a constraint of each orbit can carry.
            places: Index of one constraint of each orbit.
        """
        rounds, max_used = self.algorithm.rounds_per_step, int(used.max(initial=0))
        allowed = widths[:, None] * np.array([min(r, max_used) for r in rounds], np.int64)
        for i, step in np.argwhere(used > allowed).tolist():
            constraint = self.algorithm.topology.constraints()[places[i]]
            yield bandwidth_violation(constraint, step, int(used[i, step]), rounds[step])
