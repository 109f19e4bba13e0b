"""Communication sketches: a designer's restrictions on plans, which reduce the search.

TACCL (NSDI 2023), section 3 and appendix A: the allowed links (the logical topology), the use of
switches (hyperedges), the symmetries of a plan, and the number of chunks per buffer.

A sketch is for a machine of equal nodes. Ranks within a node are numbered from 0: rank r of the
machine has the number r modulo the ranks of a node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sccl.errors import ParameterError

MAX_NODES = 65_536
"""Maximum of nnodes, as a guard against typing errors."""

MAX_CHUNKUP = 1024
"""Maximum of input_chunkup, as a guard against typing errors."""

MAX_SHARES = 1024
"""Maximum of beta_split, as a guard against typing errors."""

MAX_SIZE_BYTES = 2**60
"""Maximum of input_size: 1 EiB, as a guard against typing errors."""


class HyperedgePolicy(StrEnum):
    """Policy for the number of used connections through a switch (section 3.2)."""

    MAX = "uc-max"
    MIN = "uc-min"
    FREE = "free"


class RelayPattern(StrEnum):
    """Named patterns of sends to other nodes."""

    FULLY_CONNECTED = "fully-connected"
    """All pairs of numbers."""
    DIRECT_MAP = "direct-map"
    """Equal numbers."""


@dataclass(frozen=True, slots=True)
class Hyperedge:
    """Ranks of a node that a switch joins pairwise.

    Attributes:
        local: Their numbers within the node.
    """

    local: tuple[int, ...]
    policy: HyperedgePolicy

    def __post_init__(self) -> None:
        if len(self.local) < 2 or len(set(self.local)) < len(self.local):
            raise ParameterError(
                f"intranode_sketch.switches has one of ranks {list(self.local)}, expected two or "
                "more that differ"
            )


@dataclass(frozen=True, slots=True)
class RelayRules:
    """The rules for chunks that leave a node (section 3.1, appendix A).

    Attributes:
        connections: Numbers on other nodes to which each number sends, or a named pattern.
        leaves_by: Pairs of a sender and the numbers whose chunks it sends. Chunks of other numbers
            may leave through any sender. Empty: all chunks may.
        relay_map: (r1, r2): chunks of number n leave through n // r1 * r1 + r2. None: see
            ``leaves_by``.
        shares: Pairs of a sender and n: it has 1/n of the bandwidth between nodes. Others have the
            full bandwidth.
        local_first: Whether a sender's own chunks leave before relayed ones.
    """

    connections: RelayPattern | tuple[tuple[int, tuple[int, ...]], ...]
    leaves_by: tuple[tuple[int, tuple[int, ...]], ...] = ()
    relay_map: tuple[int, int] | None = None
    shares: tuple[tuple[int, int], ...] = ()
    local_first: bool = False

    def __post_init__(self) -> None:
        if self.leaves_by and self.relay_map:
            raise ParameterError(
                "gpus_to_sender_rev_map and chunk_to_relay_map both select the senders of a node: "
                "leave one out"
            )
        if self.relay_map and (self.relay_map[0] < 1 or self.relay_map[1] < 0):
            raise ParameterError(
                f"chunk_to_relay_map is {list(self.relay_map)}, expected [r1, r2] with r1 at least "
                "1 and r2 at least 0"
            )
        if not isinstance(self.connections, RelayPattern) and not any(
            to for _, to in self.connections
        ):
            raise ParameterError(
                'internode_conn has no sender with a receiver: give one as {"0": [1]}, '
                "'fully-connected' or 'direct-map'"
            )
        for sender, receivers in (
            () if isinstance(self.connections, RelayPattern) else self.connections
        ):
            if not receivers:
                raise ParameterError(
                    f"internode_conn[{sender}] has no receiver: give it one, or leave it out"
                )
        for sender, share in self.shares:
            if not 1 <= share <= MAX_SHARES:
                raise ParameterError(
                    f"beta_split of {sender} is {share}, expected 1 to {MAX_SHARES}: n stands for "
                    "1/n of the bandwidth"
                )

    def receivers(self, sender: int, locals_: int) -> frozenset[int]:
        """Return the numbers on other nodes to which a sender sends."""
        if self.connections is RelayPattern.FULLY_CONNECTED:
            return frozenset(range(locals_))
        if self.connections is RelayPattern.DIRECT_MAP:
            return frozenset({sender})
        assert not isinstance(self.connections, RelayPattern)
        return frozenset(
            to for number, all_to in self.connections if number == sender for to in all_to
        )

    def senders(self, origin: int) -> frozenset[int] | None:
        """Return the senders through which chunks of a number leave a node. None: any."""
        if self.relay_map is not None:
            each, offset = self.relay_map
            return frozenset({origin // each * each + offset})
        allowed = frozenset(sender for sender, origins in self.leaves_by if origin in origins)
        return allowed or None

    def share(self, sender: int) -> int:
        """Return n such that a sender has 1/n of the bandwidth between nodes."""
        return dict(self.shares).get(sender, 1)


@dataclass(frozen=True, slots=True)
class Rotation:
    """A symmetry that rotates each block of ``size`` ranks by ``offset``.

    Rank r maps to ``(r % size + offset) % size + r // size * size``.
    """

    offset: int
    size: int

    def __post_init__(self) -> None:
        if not 0 < self.offset < self.size:
            raise ParameterError(
                f"symmetry_offsets [{self.offset}, {self.size}]: expected [offset, size] with an "
                "offset of 1 to one less than the size"
            )

    def image(self, rank: int) -> int:
        """Return the image of a rank."""
        return (rank % self.size + self.offset) % self.size + rank // self.size * self.size


@dataclass(frozen=True, slots=True)
class Sketch:
    """Restrictions on plans, for machines of equal nodes.

    Attributes:
        name: name in messages.
        nodes: number of nodes of the machine.
        chunks: number of chunks of each part that a rank sends or receives.
        size_bytes: default size of a rank's buffer. None: not stated.
        intranode_links: Numbers of the same node to which each number sends. None: all links.
        hyperedges: Use of the switches of a node.
        relays: Rules for chunks that leave nodes. None: any link is allowed.
        rotations: Symmetries of the plan.

    Raises:
        ParameterError: The sketch is inconsistent.
    """

    name: str
    nodes: int
    chunks: int = 1
    size_bytes: int | None = None
    intranode_links: tuple[tuple[int, tuple[int, ...]], ...] | None = None
    hyperedges: tuple[Hyperedge, ...] = ()
    relays: RelayRules | None = None
    rotations: tuple[Rotation, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MAX_NODES:
            raise ParameterError(f"nnodes is {self.nodes}, expected 1 to {MAX_NODES}")
        if not 1 <= self.chunks <= MAX_CHUNKUP:
            raise ParameterError(f"input_chunkup is {self.chunks}, expected 1 to {MAX_CHUNKUP}")
        if self.size_bytes is not None and not 1 <= self.size_bytes <= MAX_SIZE_BYTES:
            raise ParameterError(
                f"input_size is {self.size_bytes} bytes, expected 1 to {MAX_SIZE_BYTES}"
            )
        if self.relays is not None and self.nodes == 1:
            raise ParameterError("internode_sketch is given for 1 node: leave it out")
        self._check_policies()

    def _check_policies(self) -> None:
        """Check that hyperedges of the same ranks, in any order, have equal policies."""
        first: dict[frozenset[int], int] = {}
        for place, edge in enumerate(self.hyperedges):
            before = first.setdefault(frozenset(edge.local), place)
            if (policy := self.hyperedges[before].policy) is not edge.policy:
                raise ParameterError(
                    f"intranode_sketch.switches[{place}] has the ranks of switches[{before}], but "
                    f"switch_hyperedge_strategy is '{edge.policy}' for it and '{policy}' for that: "
                    "leave one of the two out"
                )

    def numbered_entries(self) -> Iterable[tuple[str, int]]:
        """Yield each entry with a number within a node, and the number."""
        for place, edge in enumerate(self.hyperedges):
            yield from ((f"intranode_sketch.switches[{place}]", n) for n in edge.local)
        for src, receivers in self.intranode_links or ():
            entry = f"intranode_sketch.intranode_conn[{src}]"
            yield from ((entry, n) for n in (src, *receivers))
        if self.relays is None:
            return
        if not isinstance(self.relays.connections, RelayPattern):
            for src, receivers in self.relays.connections:
                entry = f"internode_sketch.internode_conn[{src}]"
                yield from ((entry, n) for n in (src, *receivers))
        for sender, origins in self.relays.leaves_by:
            entry = f"internode_sketch.gpus_to_sender_rev_map[{sender}]"
            yield from ((entry, n) for n in (sender, *origins))
        for sender, _ in self.relays.shares:
            yield f"internode_sketch.beta_split[{sender}]", sender
