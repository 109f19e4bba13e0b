"""Groups of symmetries that commute and are transitive on ranks: translations.

Such a group is *regular*: exactly one element maps rank 0 to a given rank (an element that keeps
one rank keeps all, since it commutes with the elements that move that rank to the others). So ranks
can be added: the sum of two ranks is the image of one under the element of the other. A machine
with such a group is a Cayley graph of an abelian group: its links lead from x to x + g, for each g
that rank 0 is linked to. Source: Wielandt, Finite Permutation Groups (1964), section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import Int32Array
from sccl.core.symmetric import Symmetry
from sccl.core.topology import Topology


@dataclass(frozen=True, slots=True, eq=False)
class RegularGroup:
    """A regular abelian group of permutations of ranks.

    Attributes:
        generators: the image of each rank, of each generator.
        orders: of each, the least power that the generators before it make.
        places: of each rank the powers of all generators that take rank 0 there, as one number:
            the power of the first counts once, that of the next as often as the order of the first.
    """

    generators: tuple[Int32Array, ...]
    orders: tuple[int, ...]
    places: NDArray[np.int64]

    @property
    def ranks(self) -> int:
        """Return how many ranks there are, and elements."""
        return len(self.places)

    def element_taking(self, rank: int) -> Int32Array:
        """Return the element that maps rank 0 to a rank, i.e. the addition of that rank."""
        element = np.arange(self.ranks, dtype=np.int32)
        left = int(self.places[rank])
        for generator, order in zip(self.generators, self.orders, strict=True):
            left, exponent = divmod(left, order)
            square = generator
            while exponent:
                if exponent & 1:
                    element = square[element]
                exponent >>= 1
                if exponent:
                    square = square[square]
        return element


def find_regular_group(images: Sequence[Int32Array]) -> RegularGroup | None:
    """Return the group of some permutations of ranks; None if it is not regular, or not abelian."""
    if not images:
        return None
    for i, a in enumerate(images):
        if any(not np.array_equal(a[b], b[a]) for b in images[:i]):
            return None
    ranks = len(images[0])
    reached = np.zeros(1, dtype=np.int32)  # where the elements by now take rank 0
    inside = np.zeros(ranks, dtype=bool)
    inside[0] = True
    orders = []
    for image in images:
        cosets: list[Int32Array] = [reached]
        while not inside[coset := image[cosets[-1]]][0]:
            inside[coset] = True
            cosets.append(coset)
        orders.append(len(cosets))
        reached = np.concatenate(cosets)
    if len(reached) < ranks:
        return None
    places = np.empty(ranks, dtype=np.int64)
    places[reached] = np.arange(ranks)
    return RegularGroup(tuple(images), tuple(orders), places)


def split_commuting(symmetries: Iterable[Symmetry]) -> tuple[list[Symmetry], list[Symmetry]]:
    """Return symmetries that commute and keep the numbers of chunks, and all others.

    The first that commutes with those before it is taken.
    """
    kept: list[Symmetry] = []
    images: list[Int32Array] = []
    others = []
    for symmetry in symmetries:
        image = np.array(symmetry.ranks, np.int32)
        if symmetry.chunk_shift == 0 and all(np.array_equal(image[b], b[image]) for b in images):
            kept.append(symmetry)
            images.append(image)
        else:
            others.append(symmetry)
    return kept, others


def translation_group(symmetries: Iterable[Symmetry]) -> RegularGroup | None:
    """Return the regular abelian group that those of some symmetries make that turn no chunks.

    None: they make none.
    """
    kept, _ = split_commuting(symmetries)
    return find_regular_group([np.array(symmetry.ranks, np.int32) for symmetry in kept])


@dataclass(frozen=True, slots=True, eq=False)
class LinkArrays:
    """The links of a machine as arrays, in their order.

    Attributes:
        codes: source times ranks, plus destination; ascending.
    """

    ranks: int
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    lanes: NDArray[np.int64]
    codes: NDArray[np.int64]

    @classmethod
    def from_topology(cls, topology: Topology) -> LinkArrays:
        """Return the links of a machine without switches."""
        rows = np.array([(k.src, k.dst, k.lanes) for k in topology.links], np.int64)
        src, dst, lanes = (np.ascontiguousarray(column) for column in rows.T)
        return cls(topology.ranks, src, dst, lanes, src * topology.ranks + dst)

    def link_numbers(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which link leads from one rank to another, -1 where there is none."""
        codes = src * self.ranks + dst
        places = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[places] == codes, places, -1)

    def is_preserved(self, image: Int32Array) -> bool:
        """Return whether renaming ranks takes links to links of as many lanes."""
        images = self.link_numbers(
            image[self.src].astype(np.int64), image[self.dst].astype(np.int64)
        )
        return bool((images >= 0).all()) and bool((self.lanes[images] == self.lanes).all())


@dataclass(frozen=True, slots=True, eq=False)
class CayleyMachine:
    """A machine whose links lead from x to x + g, of an abelian group.

    Attributes:
        steps: the ranks g, ascending.
        moves: of each, x + g of every rank x.
        predecessors: shape (steps, ranks): of each, x - g of every rank x.
        lanes: of each, those of its links.
        kinds: of each link of the machine, in their order, which g it is of.
    """

    group: RegularGroup
    links: LinkArrays
    steps: tuple[int, ...]
    moves: tuple[Int32Array, ...]
    predecessors: Int32Array
    lanes: tuple[int, ...]
    kinds: NDArray[np.int64]

    def distances(self) -> NDArray[np.int64]:
        """Return how many links each rank is from rank 0; -1 where none lead there."""
        far = np.full(self.group.ranks, -1, dtype=np.int64)
        far[0] = 0
        front = np.zeros(1, dtype=np.int64)
        steps = 0
        while len(front):
            steps += 1
            reached = np.unique(np.concatenate([move[front] for move in self.moves]))
            front = reached[far[reached] < 0]
            far[front] = steps
        return far

    def is_nearer(self, far: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return, by g and rank x, whether x - g is one link nearer to rank 0 than x.

        Args:
            far: as :meth:`distances` gives it.
        """
        is_nearer = np.zeros((len(self.steps), self.group.ranks), dtype=bool)
        for row, move in zip(is_nearer, self.moves, strict=True):
            row[move] = far[move] == far + 1
        return is_nearer


def as_cayley_machine(topology: Topology, group: RegularGroup) -> CayleyMachine | None:
    """Return a machine as the Cayley graph of a group; None if the group does not preserve it.

    Budgets and switches play no part: they have to be looked at by the caller.
    """
    links = LinkArrays.from_topology(topology)
    if not all(links.is_preserved(image) for image in group.generators):
        return None
    steps = tuple(int(v) for v in links.dst[links.src == 0])
    moves = tuple(group.element_taking(g) for g in steps)
    kinds = np.full(len(links.codes), -1, dtype=np.int64)
    everyone = np.arange(topology.ranks, dtype=np.int64)
    for kind, move in enumerate(moves):
        kinds[links.link_numbers(everyone, move.astype(np.int64))] = kind
    assert (kinds >= 0).all()
    lanes = tuple(int(n) for n in links.lanes[links.src == 0])
    before = np.array([np.argsort(move) for move in moves], np.int32)
    return CayleyMachine(group, links, steps, moves, before, lanes, kinds)
