"""A sketch on a machine: the allowed routes, the senders of a node, and the symmetries.

TACCL (NSDI 2023), sections 3 and 5.1. A sketch names ranks by their numbers within a node. This
module checks it against the machine. Messages name the entry that the machine contradicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from sccl.core.collective import Collective
from sccl.core.formatting import format_count
from sccl.core.topology import Topology
from sccl.errors import CollectiveError, TopologyError
from sccl.synth.limits import MAX_REQUESTED
from sccl.synth.network.symmetries import extend_to_switches
from sccl.synth.scheduling.sketch_symmetry import (
    machine_violation,
    sketch_violation,
    switch_violation,
)
from sccl.synth.sketches.sketch import HyperedgePolicy, RelayPattern, Rotation, Sketch
from sccl.topo.symmetry.permutations import Permutation, map_ranks


@dataclass(frozen=True)
class MachineSketch:
    """A sketch on a machine.

    Attributes:
        sketch: The sketch.
        topology: The machine. For a dual that is planned backwards, the reversed machine.
        is_backwards: Whether routes have the opposite direction of those in the sketch.

    Raises:
        TopologyError: The machine contradicts the sketch.
    """

    sketch: Sketch
    topology: Topology
    is_backwards: bool = False

    def __post_init__(self) -> None:
        ranks, nodes = self.topology.ranks, self.sketch.nodes
        if ranks % nodes:
            raise self._sketch_error(
                f"nnodes is {nodes}, and {format_count(ranks, 'rank')} are not {nodes} equal "
                "nodes: give a sketch for this machine"
            )
        chassis = len(self.topology.chassis)
        if 1 < nodes < chassis:
            raise self._sketch_error(
                f"nnodes is {nodes}, and the machine has {chassis} nodes: give a sketch for as "
                "many nodes, or of one node for all ranks"
            )
        for entry, number in self.sketch.numbered_entries():
            if number >= self.ranks_per_node:
                raise self._sketch_error(
                    f"{entry} names rank {number} of a node, and a node has {self.ranks_per_node}, "
                    "0 to "
                    f"{self.ranks_per_node - 1}: {ranks} ranks on {format_count(nodes, 'node')}"
                )
        self._check_relays()

    def _sketch_error(self, reason: str) -> TopologyError:
        return TopologyError(f"sketch {self.sketch.name}, on {self.topology.name!r}: {reason}")

    @property
    def ranks_per_node(self) -> int:
        """Return the number of ranks of a node."""
        return self.topology.ranks // self.sketch.nodes

    def _check_relays(self) -> None:
        """Check that all data that leave a node have a sender."""
        relays = self.sketch.relays
        if relays is None:
            return
        senders = {
            n for n in range(self.ranks_per_node) if relays.receivers(n, self.ranks_per_node)
        }
        for name, pairs in (
            ("gpus_to_sender_rev_map", [n for n, _ in relays.leaves_by]),
            ("beta_split", [n for n, _ in relays.shares]),
        ):
            if strangers := sorted(set(pairs) - senders):
                raise self._sketch_error(
                    f"internode_sketch.{name}[{strangers[0]}]: rank {strangers[0]} of a node sends "
                    "to no other node by internode_conn: give one that does"
                )
        for number in range(self.ranks_per_node):
            by = relays.senders(number)
            if by is not None and not by & senders:
                raise self._sketch_error(
                    f"internode_sketch.chunk_to_relay_map {list(relays.relay_map or ())}: chunks "
                    f"of rank {number} leave their node by rank {min(by)}, which sends to no other "
                    "node by internode_conn: give r1 and r2 that name senders"
                )

    def route_factors(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the time factor of each route from rank to rank. 0: the route is not used.

        Raises:
            TopologyError: A relay has no route.
        """
        if self.is_backwards:
            src, dst = dst, src
        nodes = src // self.ranks_per_node, dst // self.ranks_per_node
        source, target = src % self.ranks_per_node, dst % self.ranks_per_node
        factors = np.ones(len(src), dtype=np.int64)
        between, relays = nodes[0] != nodes[1], self.sketch.relays
        if relays is not None:
            allowed = np.zeros((self.ranks_per_node, self.ranks_per_node), dtype=np.int64)
            for sender in range(self.ranks_per_node):
                for receiver in relays.receivers(sender, self.ranks_per_node):
                    allowed[sender, receiver] = relays.share(sender)
            factors[between] = allowed[source, target][between]
            self._check_relay_routes(
                set(zip(src[between].tolist(), dst[between].tolist(), strict=True))
            )
        if self.sketch.intranode_links is not None:
            inside = np.zeros((self.ranks_per_node, self.ranks_per_node), dtype=np.int64)
            for sender, receivers in self.sketch.intranode_links:
                inside[sender, list(receivers)] = 1
            factors[~between] = inside[source, target][~between]
        inner = set(zip(src[~between].tolist(), dst[~between].tolist(), strict=True))
        self._check_inner_routes(inner)
        self._check_hyperedges(inner)
        return factors

    def _check_relay_routes(self, pairs: set[tuple[int, int]]) -> None:
        """Check that each relay has a route in the machine between each two nodes."""
        relays, nodes = self.sketch.relays, range(self.sketch.nodes)
        assert relays is not None
        for sender in range(self.ranks_per_node):
            for receiver in sorted(relays.receivers(sender, self.ranks_per_node)):
                for a in nodes:
                    for b in nodes:
                        pair = (
                            a * self.ranks_per_node + sender,
                            b * self.ranks_per_node + receiver,
                        )
                        if a != b and pair not in pairs:
                            raise self._missing_route(
                                "internode_sketch.internode_conn", sender, *pair
                            )

    def _check_inner_routes(self, pairs: set[tuple[int, int]]) -> None:
        for sender, receivers in self.sketch.intranode_links or ():
            for receiver in receivers:
                for node in range(self.sketch.nodes):
                    pair = (
                        node * self.ranks_per_node + sender,
                        node * self.ranks_per_node + receiver,
                    )
                    if pair not in pairs:
                        raise self._missing_route("intranode_sketch.intranode_conn", sender, *pair)

    def _check_hyperedges(self, pairs: set[tuple[int, int]]) -> None:
        """Check that routes join all pairs of ranks of a switch, except excluded pairs."""
        within = self.sketch.intranode_links
        left = {(a, b) for a, receivers in within or () for b in receivers}
        for place, edge in enumerate(self.sketch.hyperedges):
            for a, b in permutations(edge.local, 2):
                if within is not None and (a, b) not in left:
                    continue
                for first in range(0, self.topology.ranks, self.ranks_per_node):
                    if (first + a, first + b) not in pairs:
                        raise self._missing_route(
                            f"intranode_sketch.switches[{place}]", None, first + a, first + b
                        )

    def _missing_route(self, entry: str, number: int | None, src: int, dst: int) -> TopologyError:
        relays, place = self.sketch.relays, "" if number is None else f"[{number}]"
        if entry.startswith("inter") and relays and isinstance(relays.connections, RelayPattern):
            place = f" is {relays.connections.value!r}"
        return self._sketch_error(
            f"{entry}{place}: no link or path through switches leads from rank {src} to rank "
            f"{dst}; name ranks that the machine joins{self._chassis_hint()}"
        )

    def _chassis_hint(self) -> str:
        """Return a hint if the machine has another number of nodes."""
        chassis = self.topology.chassis
        if len(chassis) in {0, self.sketch.nodes}:
            return ""
        return f" (nnodes is {self.sketch.nodes}, and the machine has {len(chassis)})"

    def forbidden_routes(
        self, origin: int, src: Sequence[int], dst: Sequence[int]
    ) -> frozenset[int]:
        """Return the forbidden routes of a chunk that starts at a rank.

        If ``is_backwards``, the chunk ends at the rank instead.
        """
        relays = self.sketch.relays
        by = None if relays is None else relays.senders(origin % self.ranks_per_node)
        if relays is None or by is None:
            return frozenset()
        local = self.ranks_per_node
        rows = zip(dst, src, strict=True) if self.is_backwards else zip(src, dst, strict=True)
        return frozenset(
            path
            for path, (a, b) in enumerate(rows)
            if a // local != b // local and a % local not in by
        )

    def hyperedge_routes(
        self, src: Sequence[int], dst: Sequence[int]
    ) -> Iterator[tuple[HyperedgePolicy, list[int]]]:
        """Yield the routes of each hyperedge of each node, with its policy."""
        for edge in self.sketch.hyperedges:
            local = frozenset(edge.local)
            for node in range(self.sketch.nodes):
                ranks = {node * self.ranks_per_node + number for number in local}
                pairs = enumerate(zip(src, dst, strict=True))
                yield edge.policy, [path for path, (a, b) in pairs if a in ranks and b in ranks]

    @cached_property
    def group(self) -> tuple[Permutation, ...]:
        """Return the group of symmetries of all nodes that the rotations generate, identity first.

        Rotations with equal images of all ranks count once.

        Raises:
            TopologyError: A rotation is no symmetry of the machine, or the group is too large.
        """
        ranks = self.topology.ranks
        identity = tuple(range(ranks + len(self.topology.switches)))
        symmetries, front = {identity[:ranks]: identity}, [identity]
        while front:
            fresh = []
            for permutation in front:
                for turn in self._rotation_images:
                    image = tuple(turn[node] for node in permutation)
                    if image[:ranks] not in symmetries:
                        symmetries[image[:ranks]] = image
                        fresh.append(image)
            front = fresh
            if len(symmetries) * ranks > MAX_REQUESTED * 64:
                raise self._sketch_error(
                    f"symmetry_offsets generate more than {MAX_REQUESTED} symmetries: give fewer"
                )
        return tuple(symmetries.values())

    @cached_property
    def _rotation_images(self) -> tuple[Permutation, ...]:
        """Return the image of ranks and switches under each rotation.

        Raises:
            TopologyError: A rotation is no symmetry of the machine.
        """
        return tuple(map(self._rotation_image, self.sketch.rotations))

    def _rotation_image(self, rotation: Rotation) -> Permutation:
        ranks = self.topology.ranks
        if ranks % rotation.size:
            raise self._sketch_error(
                f"{_rotation_entry(rotation)}: {ranks} ranks are no groups of {rotation.size}: "
                "give a "
                "divisor"
            )
        image = tuple(rotation.image(rank) for rank in range(ranks))
        node_image = extend_to_switches(self.topology, image)
        if node_image is None or (broken := machine_violation(self.topology, node_image)):
            broken = switch_violation(self.topology, image) if node_image is None else broken
            raise self._sketch_error(
                f"{_rotation_entry(rotation)} is no symmetry of the machine: {broken}; give "
                "another "
                "offset, or none"
            )
        return node_image

    def check_symmetric(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> None:
        """Check that each rotation maps the logical topology to itself.

        Args:
            src: Source of each route of the machine.
            dst: Destination of each route of the machine.

        Raises:
            TopologyError: A rotation does not.
        """
        if not self.sketch.rotations:
            return
        factors = self.route_factors(src, dst)
        paths = (dst, src, factors) if self.is_backwards else (src, dst, factors)
        for rotation, turn in zip(self.sketch.rotations, self._rotation_images, strict=True):
            if broken := sketch_violation(self.sketch, turn[: self.topology.ranks], paths):
                raise self._sketch_error(
                    f"{_rotation_entry(rotation)} is no symmetry of the sketched machine: "
                    f"{broken}; give "
                    "another offset, or none"
                )

    def check_preserves(self, collective: Collective) -> None:
        """Check that the symmetries map a collective to itself, and no class of it to itself.

        Raises:
            CollectiveError: They do not.
        """
        classes = collective.chunk_classes()
        sets = {ranks for chunk_class in classes for ranks in chunk_class}
        for image in self.group[1:]:
            turned = {ranks: map_ranks(ranks, image) for ranks in sets}  # many classes share them
            for chunk_class, chunks in classes.items():
                turned_class = (turned[chunk_class[0]], turned[chunk_class[1]])
                if turned_class == chunk_class or len(classes.get(turned_class, ())) != len(chunks):
                    raise CollectiveError(
                        f"sketch {self.sketch.name}: symmetry_offsets: {collective.name} is not "
                        "the same again where ranks stand for one another, as where it has a root: "
                        "leave them out"
                    )


def _rotation_entry(rotation: Rotation) -> str:
    return f"symmetry_offsets [{rotation.offset}, {rotation.size}]"
