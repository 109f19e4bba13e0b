"""Communication sketches: a designer's restrictions on plans, which reduce the search.

TACCL (NSDI 2023), section 3 and appendix A: the links that may be used (the logical topology), the
use of switches (hyperedges), the symmetries that a plan keeps, and the number of chunks per buffer.
A sketch is for a number of equal nodes. Ranks within one are numbered from 0, and rank r of the
machine is number r modulo the ranks of a node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sccl.errors import ParameterError

MAX_NODES = 65_536
MAX_CHUNKUP = 1024
MAX_SHARES = 1024
MAX_SIZE_BYTES = 2**60


class HyperedgePolicy(StrEnum):
    """How many of the connections through a switch are used (section 3.2)."""

    MAX = "uc-max"
    MIN = "uc-min"
    FREE = "free"


class RelayPattern(StrEnum):
    """Named patterns of sends to other nodes."""

    FULLY_CONNECTED = "fully-connected"
    """Each to each."""
    DIRECT_MAP = "direct-map"
    """Each to the one of its own number."""


@dataclass(frozen=True, slots=True)
class Hyperedge:
    """Ranks of a node that a switch joins each to each.

    Attributes:
        local: their numbers within the node.
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
    """The way chunks leave a node (section 3.1, appendix A).

    Attributes:
        connections: the numbers on other nodes that each number sends to, or a named pattern.
        leaves_by: by sender, the numbers whose chunks it takes. Chunks of other numbers may take
            any sender. Empty: any sender takes all.
        relay_map: (r1, r2): a chunk of number n leaves by n // r1 * r1 + r2. None: see leaves_by.
        shares: by sender, n: it has 1/n of the bandwidth between nodes. Others have all.
        local_first: whether a sender's chunks leave before those of others.
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
        """Return which numbers of other nodes one sends to, of nodes of so many ranks."""
        if self.connections is RelayPattern.FULLY_CONNECTED:
            return frozenset(range(locals_))
        if self.connections is RelayPattern.DIRECT_MAP:
            return frozenset({sender})
        assert not isinstance(self.connections, RelayPattern)
        return frozenset(
            to for number, all_to in self.connections if number == sender for to in all_to
        )

    def senders(self, origin: int) -> frozenset[int] | None:
        """Return by whom chunks of a number leave a node. None: by anyone."""
        if self.relay_map is not None:
            each, offset = self.relay_map
            return frozenset({origin // each * each + offset})
        allowed = frozenset(sender for sender, origins in self.leaves_by if origin in origins)
        return allowed or None

    def share(self, sender: int) -> int:
        """Return n, if a sender has 1/n of the bandwidth between nodes."""
        return dict(self.shares).get(sender, 1)


@dataclass(frozen=True, slots=True)
class Rotation:
    """A symmetry: in each group of so many ranks, each stands for the one an offset after it.

    Rank r goes to ``(r % size + offset) % size + r // size * size``.
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
        """Return where a rank goes."""
        return (rank % self.size + self.offset) % self.size + rank // self.size * self.size


@dataclass(frozen=True, slots=True)
class Sketch:
    """Restrictions on plans, for machines of equal nodes.

    Attributes:
        name: name in messages.
        nodes: number of nodes of the machine.
        chunks: number of chunks of each part that a rank sends or receives.
        size_bytes: default size of a rank's buffer. None: not stated.
        intranode_links: the numbers of its node that each number sends to. None: along all links.
        hyperedges: the use of switches of a node.
        relays: the way chunks leave nodes. None: over any link.
        rotations: symmetries that the plan keeps.

    Raises:
        ParameterError: it is inconsistent.
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

    @property
    def local_ranks(self) -> frozenset[int]:
        """Return all numbers within a node that it names."""
        return frozenset(number for _, number in self.numbered_entries())

    def numbered_entries(self) -> Iterable[tuple[str, int]]:
        """Yield each entry that names a number within a node, and the number."""
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
