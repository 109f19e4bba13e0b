"""The time-indexed model of algorithms that are invariant under symmetries: one variable per orbit.

It is like :mod:`sccl.synth.syncoll.encoding_time_indexed`, but has variables only for one chunk of
each orbit of chunks. Links of one orbit under this chunk's stabilizer share a variable. If an orbit
of (chunk, link, step) loads a constraint n times, it counts n times there. By symmetry all
constraints of an orbit have equal loads, so one row for each orbit is enough.

A solution is an algorithm. If there is none, algorithms without the symmetry may still exist.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from sccl.core.algorithm import make_send
from sccl.core.formatting import format_count
from sccl.core.graphs import UNREACHED, distances, first_members
from sccl.core.ids import Edge
from sccl.core.instance import Instance
from sccl.core.symmetric import SymmetricAlgorithm, Symmetry
from sccl.errors import TooLargeError
from sccl.synth.limits import MAX_VARIABLES
from sccl.topo.symmetry.chunk_orbits import ChunkOrbit, chunk_orbits
from sccl.topo.symmetry.permutations import edge_orbits, rank_orbits


class PathRestriction(Enum):
    """The allowed transfers: with fewer the search is faster, and excludes more algorithms."""

    LAYERED = auto()
    """Along shortest paths, without waiting."""
    SHORTEST = auto()
    """Along shortest paths, at any time."""
    ANY = auto()


@dataclass(frozen=True, slots=True)
class OrbitTransfer:
    """A variable: in ``step``, ``chunk`` is sent over all ``links``. So are its images."""

    chunk: int
    links: tuple[Edge, ...]
    step: int


@dataclass(frozen=True, slots=True)
class OrbitModel:
    """The problem over variables 0 .. len(transfers)-1 and the rounds per step.

    Attributes:
        instance: The instance.
        symmetries: Generators of the group.
        transfers: Meaning of each variable.
        arrivals: (variables, needed): exactly one of them is true if needed, else at most one.
        needs: (variable, variables): if the first is true, so is one of the others.
        capacities: (step, chunks per round, ((variable, times), ...)).
        orbit_sizes: Number of chunks of each orbit, by its first chunk.
        infeasible_reason: Reason if the instance is known to be infeasible. Otherwise empty.
    """

    instance: Instance
    symmetries: tuple[Symmetry, ...]
    transfers: tuple[OrbitTransfer, ...]
    arrivals: tuple[tuple[tuple[int, ...], bool], ...]
    needs: tuple[tuple[int, tuple[int, ...]], ...]
    capacities: tuple[tuple[int, int, tuple[tuple[int, int], ...]], ...]
    orbit_sizes: dict[int, int]
    infeasible_reason: str


def encode_orbits(
    instance: Instance, symmetries: Sequence[Symmetry], paths: PathRestriction = PathRestriction.ANY
) -> OrbitModel:
    """Return the model.

    Args:
        instance: The instance.
        symmetries: Generators of a group that preserves links, budgets, pre and post.
        paths: Allowed transfers.

    Raises:
        TooLargeError: There would be too many variables.
    """
    orbits = chunk_orbits(instance.collective, symmetries)
    successors = instance.topology.successors()
    predecessors = instance.topology.reversed().successors()
    transfers: list[OrbitTransfer] = []
    arrivals: list[tuple[tuple[int, ...], bool]] = []
    needs: list[tuple[int, tuple[int, ...]]] = []
    impossible = ""
    for orbit in orbits:
        holders = instance.collective.holders(orbit.chunks[0])
        wanted = instance.collective.destinations(orbit.chunks[0])
        before, after = distances(successors, holders), distances(predecessors, wanted)
        chunk_model = _ChunkEncoding(instance, orbit, before, after, paths)
        begin = len(transfers)
        transfers += chunk_model.transfers
        if len(transfers) > MAX_VARIABLES:
            raise TooLargeError(f"more than {MAX_VARIABLES} variables")
        arrivals += [(tuple(begin + i for i in v), must) for v, must in chunk_model.arrivals()]
        needs += [(begin + i, tuple(begin + j for j in v)) for i, v in chunk_model.needs()]
        impossible = impossible or chunk_model.infeasible_reason
    sizes = {orbit.chunks[0]: len(orbit.chunks) for orbit in orbits}
    return OrbitModel(
        instance,
        tuple(symmetries),
        tuple(transfers),
        tuple(arrivals),
        tuple(needs),
        _capacities(instance, symmetries, transfers, sizes),
        sizes,
        impossible,
    )


class _ChunkEncoding:
    """The variables and constraints of one chunk."""

    def __init__(
        self,
        instance: Instance,
        orbit: ChunkOrbit,
        before: Sequence[int],
        after: Sequence[int],
        paths: PathRestriction,
    ) -> None:
        self.chunk = orbit.chunks[0]
        self.instance = instance
        self.holders = instance.collective.holders(self.chunk)
        self.wanted = instance.collective.destinations(self.chunk)
        # with one destination only shortest paths to it, with several those to any rank
        length = min(after[r] for r in self.holders) if len(self.wanted) == 1 else None
        links = [
            (u, v)
            for u, v in sorted(instance.topology.edges)
            if v not in self.holders
            and before[u] != UNREACHED
            and after[v] != UNREACHED
            and (paths is PathRestriction.ANY or before[v] == before[u] + 1)
            and (paths is PathRestriction.ANY or length is None or before[v] + after[v] == length)
        ]
        stabilizer = orbit.stabilizer()
        self.first = first_members(rank_orbits(instance.topology, stabilizer))
        self.transfers = []
        for first, members in edge_orbits(links, stabilizer).items():
            u, v = first
            window = range(before[u], instance.steps - after[v])
            for step in window[:1] if paths is PathRestriction.LAYERED else window:
                self.transfers.append(OrbitTransfer(self.chunk, tuple(members), step))
        self.incoming: dict[int, list[int]] = defaultdict(list)
        for i, transfer in enumerate(self.transfers):
            for _, v in transfer.links:
                if self.first[v] == v:
                    self.incoming[v].append(i)  # twice if two links of the orbit end there
        self.infeasible_reason = ""

    def arrivals(self) -> Iterable[tuple[tuple[int, ...], bool]]:
        """Yield, per rank, the transfers that reach it, and whether one of them must."""
        for rank, first in self.first.items():
            if rank != first or rank in self.holders:
                continue
            must = rank in self.wanted
            if must and not self.incoming[rank]:
                within = format_count(self.instance.steps, "step")
                self.infeasible_reason = f"chunk {self.chunk} cannot reach rank {rank} in {within}"
            if must or len(self.incoming[rank]) > 1:
                yield tuple(self.incoming[rank]), must

    def needs(self) -> Iterable[tuple[int, tuple[int, ...]]]:
        """Yield each transfer from a rank without the chunk, and the earlier transfers to it."""
        for i, transfer in enumerate(self.transfers):
            src = self.first[transfer.links[0][0]]
            if src not in self.holders:
                earlier = {j for j in self.incoming[src] if self.transfers[j].step < transfer.step}
                yield i, tuple(sorted(earlier))


def _capacities(
    instance: Instance,
    symmetries: Sequence[Symmetry],
    transfers: Sequence[OrbitTransfer],
    sizes: dict[int, int],
) -> tuple[tuple[int, int, tuple[tuple[int, int], ...]], ...]:
    """Return a row per orbit of constraints and step.

    A variable stands for (chunks of the orbit) x (its links) transfers, spread evenly over the
    orbit of its links. A constraint is loaded by the links of this orbit that it contains.
    """
    topology = instance.topology
    images = (symmetry.ranks for symmetry in symmetries)
    orbit_of = first_members(edge_orbits(sorted(topology.edges), images))
    members = Counter(orbit_of.values())
    on_orbit: dict[tuple[Edge, int], list[tuple[int, int]]] = defaultdict(list)
    for i, transfer in enumerate(transfers):
        orbit = orbit_of[transfer.links[0]]
        times = sizes[transfer.chunk] * len(transfer.links)
        on_orbit[orbit, transfer.step].append((i, times))
    rows = []
    seen = set()
    for constraint in topology.constraints():
        pattern = Counter(orbit_of[edge] for edge in constraint.edges)
        key = (constraint.chunks_per_round, tuple(sorted(pattern.items())))
        if (
            key in seen
        ):  # constraints of one orbit have the same pattern, and equal patterns have equal loads
            continue
        seen.add(key)
        for step in range(instance.steps):
            load: Counter[int] = Counter()
            for orbit, count in pattern.items():
                for i, times in on_orbit[orbit, step]:
                    load[i] += times * count // members[orbit]
            if sum(load.values()) > constraint.chunks_per_round:
                rows.append((step, constraint.chunks_per_round, tuple(sorted(load.items()))))
    return tuple(rows)


def decode_orbits(
    model: OrbitModel, chosen: Iterable[int], rounds_per_step: Sequence[int]
) -> SymmetricAlgorithm:
    """Return the algorithm of a solution."""
    sends = [
        make_send(transfer.chunk, u, v, transfer.step)
        for transfer in (model.transfers[i] for i in chosen)
        for u, v in transfer.links
    ]
    total = sum(model.orbit_sizes[s.chunk] for s in sends)
    return SymmetricAlgorithm(
        model.instance.topology,
        model.instance.collective,
        tuple(rounds_per_step),
        model.symmetries,
        tuple(sends),
        total,
    )
