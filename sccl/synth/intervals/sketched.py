"""A sketch on a machine: the allowed ways, the senders of a node, and the symmetries.

TACCL (NSDI 2023), sections 3 and 5.1. A sketch names ranks by their numbers within a node. It is
checked against the machine here, and a message names the entry that the machine contradicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from sccl.core.collective import Collective
from sccl.core.sketch import HyperedgePolicy, Joining, Rotation, Sketch
from sccl.core.topology import Topology
from sccl.core.words import counted
from sccl.errors import CollectiveError, TopologyError
from sccl.synth.intervals.rotated import broken_at_switches, broken_of_machine, broken_of_sketch
from sccl.synth.network.symmetries import with_switches
from sccl.topo.symmetry.automorphisms import image_of
from sccl.topo.symmetry.permutations import Permutation

MAX_GROUP = 65_536
"""Symmetries that a sketch's rotations make up together."""


@dataclass(frozen=True)
class Sketched:
    """A sketch on a machine.

    Attributes:
        topology: the machine, or, backwards, the reversed one, on which a dual is planned.
        backwards: whether ways go against those that the sketch speaks of.

    Raises:
        TopologyError: the machine contradicts it.
    """

    sketch: Sketch
    topology: Topology
    backwards: bool = False

    def __post_init__(self) -> None:
        ranks, nodes = self.topology.ranks, self.sketch.nodes
        if ranks % nodes:
            raise self._wrong(
                f"nnodes is {nodes}, and {counted(ranks, 'rank')} are no {nodes} nodes that are "
                "alike: give a sketch for this machine"
            )
        chassis = len(self.topology.chassis)
        if 1 < nodes < chassis:
            raise self._wrong(
                f"nnodes is {nodes}, and the machine has {chassis} chassis: give a sketch for as "
                "many nodes, or of one node for all ranks"
            )
        for entry, number in self.sketch.named():
            if number >= self.local:
                raise self._wrong(
                    f"{entry} names rank {number} of a node, and a node has {self.local}, 0 to "
                    f"{self.local - 1}: {ranks} ranks on {counted(nodes, 'node')}"
                )
        self._check_relays()

    def _wrong(self, what: str) -> TopologyError:
        return TopologyError(f"sketch {self.sketch.name}, on {self.topology.name!r}: {what}")

    @property
    def local(self) -> int:
        """Return how many ranks a node has."""
        return self.topology.ranks // self.sketch.nodes

    def _check_relays(self) -> None:
        """Check that all data that leave a node have a sender."""
        relays = self.sketch.relays
        if relays is None:
            return
        senders = {n for n in range(self.local) if relays.receivers(n, self.local)}
        for name, pairs in (
            ("gpus_to_sender_rev_map", [n for n, _ in relays.leaves_by]),
            ("beta_split", [n for n, _ in relays.shares]),
        ):
            if strangers := sorted(set(pairs) - senders):
                raise self._wrong(
                    f"internode_sketch.{name}[{strangers[0]}]: rank {strangers[0]} of a node sends "
                    "to no other node by internode_conn: give one that does"
                )
        for number in range(self.local):
            by = relays.senders(number)
            if by is not None and not by & senders:
                raise self._wrong(
                    f"internode_sketch.chunk_to_relay_map {list(relays.by_number or ())}: chunks "
                    f"of rank {number} leave their node by rank {min(by)}, which sends to no other "
                    "node by internode_conn: give r1 and r2 that name senders"
                )

    def node(self, rank: int) -> int:
        """Return the node of a rank."""
        return rank // self.local

    def factors(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return of each way from rank to rank by how much slower it is taken. 0: not at all.

        Raises:
            TopologyError: a relay has no way.
        """
        if self.backwards:
            src, dst = dst, src
        nodes = src // self.local, dst // self.local
        here, there = src % self.local, dst % self.local
        found = np.ones(len(src), dtype=np.int64)
        between, relays = nodes[0] != nodes[1], self.sketch.relays
        if relays is not None:
            allowed = np.zeros((self.local, self.local), dtype=np.int64)
            for sender in range(self.local):
                for receiver in relays.receivers(sender, self.local):
                    allowed[sender, receiver] = relays.share(sender)
            found[between] = allowed[here, there][between]
            self._check_joined(set(zip(src[between].tolist(), dst[between].tolist(), strict=True)))
        if self.sketch.within is not None:
            inside = np.zeros((self.local, self.local), dtype=np.int64)
            for sender, receivers in self.sketch.within:
                inside[sender, list(receivers)] = 1
            found[~between] = inside[here, there][~between]
        inner = set(zip(src[~between].tolist(), dst[~between].tolist(), strict=True))
        self._check_within(inner)
        self._check_hyperedges(inner)
        return found

    def _check_joined(self, ways: set[tuple[int, int]]) -> None:
        """Check that each relay has a way in the machine, from each node to each other."""
        relays, nodes = self.sketch.relays, range(self.sketch.nodes)
        assert relays is not None
        for sender in range(self.local):
            for receiver in sorted(relays.receivers(sender, self.local)):
                for a in nodes:
                    for b in nodes:
                        pair = (a * self.local + sender, b * self.local + receiver)
                        if a != b and pair not in ways:
                            raise self._no_way("internode_sketch.internode_conn", sender, *pair)

    def _check_within(self, ways: set[tuple[int, int]]) -> None:
        for sender, receivers in self.sketch.within or ():
            for receiver in receivers:
                for node in range(self.sketch.nodes):
                    pair = (node * self.local + sender, node * self.local + receiver)
                    if pair not in ways:
                        raise self._no_way("intranode_sketch.intranode_conn", sender, *pair)

    def _check_hyperedges(self, ways: set[tuple[int, int]]) -> None:
        """Check that ways join the ranks of a switch each to each, but for those left out."""
        told = self.sketch.within
        left = {(a, b) for a, receivers in told or () for b in receivers}
        for place, edge in enumerate(self.sketch.hyperedges):
            for a, b in permutations(edge.local, 2):
                if told is not None and (a, b) not in left:
                    continue
                for first in range(0, self.topology.ranks, self.local):
                    if (first + a, first + b) not in ways:
                        raise self._no_way(
                            f"intranode_sketch.switches[{place}]", None, first + a, first + b
                        )

    def _no_way(self, entry: str, number: int | None, src: int, dst: int) -> TopologyError:
        relays, what = self.sketch.relays, "" if number is None else f"[{number}]"
        if entry.startswith("inter") and relays and isinstance(relays.joined, Joining):
            what = f" is {relays.joined.value!r}"
        return self._wrong(
            f"{entry}{what}: no link, and no way through switches alone, leads from rank {src} to "
            f"rank {dst}; name ranks that the machine joins{self._other_nodes()}"
        )

    def _other_nodes(self) -> str:
        """Return that a machine says of other nodes, if it does."""
        chassis = self.topology.chassis
        if len(chassis) in {0, self.sketch.nodes}:
            return ""
        return f" (nnodes is {self.sketch.nodes}, and it has {len(chassis)} chassis)"

    def barred(self, origin: int, src: Sequence[int], dst: Sequence[int]) -> frozenset[int]:
        """Return the ways that a chunk which begins on a rank does not go.

        Backwards: that ends there.
        """
        relays = self.sketch.relays
        by = None if relays is None else relays.senders(origin % self.local)
        if relays is None or by is None:
            return frozenset()
        local = self.local
        rows = zip(dst, src, strict=True) if self.backwards else zip(src, dst, strict=True)
        return frozenset(
            way
            for way, (a, b) in enumerate(rows)
            if a // local != b // local and a % local not in by
        )

    def connections(
        self, src: Sequence[int], dst: Sequence[int]
    ) -> Iterator[tuple[HyperedgePolicy, list[int]]]:
        """Yield the ways of each hyperedge of each node, with its policy."""
        for edge in self.sketch.hyperedges:
            local = frozenset(edge.local)
            for node in range(self.sketch.nodes):
                own = {node * self.local + number for number in local}
                pairs = enumerate(zip(src, dst, strict=True))
                yield edge.policy, [way for way, (a, b) in pairs if a in own and b in own]

    @cached_property
    def group(self) -> tuple[Permutation, ...]:
        """Return the group of symmetries of all nodes that the rotations generate, identity first.

        Rotations with equal images of all ranks count once.

        Raises:
            TopologyError: one is no symmetry of the machine, or they are too many.
        """
        ranks = self.topology.ranks
        identity = tuple(range(ranks + len(self.topology.switches)))
        known, front = {identity[:ranks]: identity}, [identity]
        while front:
            fresh = []
            for one in front:
                for turn in self._turns:
                    image = tuple(turn[node] for node in one)
                    if image[:ranks] not in known:
                        known[image[:ranks]] = image
                        fresh.append(image)
            front = fresh
            if len(known) * ranks > MAX_GROUP * 64:
                raise self._wrong(
                    f"symmetry_offsets make up more than {MAX_GROUP} symmetries together: give "
                    "fewer"
                )
        return tuple(known.values())

    @cached_property
    def _turns(self) -> tuple[Permutation, ...]:
        """Return what each rotation does to ranks and switches.

        Raises:
            TopologyError: one is no symmetry of the machine.
        """
        return tuple(map(self._turn, self.sketch.rotations))

    def _turn(self, rotation: Rotation) -> Permutation:
        ranks = self.topology.ranks
        if ranks % rotation.size:
            raise self._wrong(
                f"{_entry(rotation)}: {ranks} ranks are no groups of {rotation.size}: give a "
                "divisor"
            )
        image = tuple(rotation.of(rank) for rank in range(ranks))
        whole = with_switches(self.topology, image)
        if whole is None or (broken := broken_of_machine(self.topology, whole)):
            broken = broken_at_switches(self.topology, image) if whole is None else broken
            raise self._wrong(
                f"{_entry(rotation)} is no symmetry of the machine: {broken}; give another "
                "offset, or none"
            )
        return whole

    def check_symmetric(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> None:
        """Check that each rotation takes the logical topology to itself.

        Args:
            src: where ways of the machine begin.
            dst: where they end.

        Raises:
            TopologyError: one does not.
        """
        if not self.sketch.rotations:
            return
        factors = self.factors(src, dst)
        ways = (dst, src, factors) if self.backwards else (src, dst, factors)
        for rotation, turn in zip(self.sketch.rotations, self._turns, strict=True):
            if broken := broken_of_sketch(self.sketch, turn[: self.topology.ranks], ways):
                raise self._wrong(
                    f"{_entry(rotation)} is no symmetry of the sketched machine: {broken}; give "
                    "another offset, or none"
                )

    def check_keeps(self, collective: Collective) -> None:
        """Check that the symmetries take a collective to itself, and no class of it to itself.

        Raises:
            CollectiveError: they do not.
        """
        classes = collective.classes()
        sets = {ranks for one in classes for ranks in one}
        for image in self.group[1:]:
            turned = {ranks: image_of(ranks, image) for ranks in sets}  # many classes share them
            for one, chunks in classes.items():
                there = (turned[one[0]], turned[one[1]])
                if there == one or len(classes.get(there, ())) != len(chunks):
                    raise CollectiveError(
                        f"sketch {self.sketch.name}: symmetry_offsets: {collective.name} is not "
                        "the same again where ranks stand for one another, as where it has a root: "
                        "leave them out"
                    )


def _entry(rotation: Rotation) -> str:
    return f"symmetry_offsets [{rotation.offset}, {rotation.size}]"
