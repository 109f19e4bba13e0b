"""Algorithm: a k-synchronous candidate solution (Q, T), SCCL section 3.3."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.core.collective import Collective
from sccl.core.ids import ChunkId, Edge, Rank, Step
from sccl.core.topology import Topology


@dataclass(frozen=True, slots=True, order=True)
class Send:
    """In ``step``, ``src`` sends ``chunk`` to ``dst``, which stores it or reduces it."""

    step: Step
    chunk: ChunkId
    src: Rank
    dst: Rank
    reduce: bool = False

    @property
    def edge(self) -> Edge:
        """Return ``(src, dst)``."""
        return (self.src, self.dst)


def make_send(chunk: int, src: int, dst: int, step: int, *, reduce: bool = False) -> Send:
    """Return a :class:`Send` from plain numbers."""
    return Send(Step(step), ChunkId(chunk), Rank(src), Rank(dst), reduce)


class KSynchronousPlan:
    """The costs of an algorithm, with all sends listed or with symmetries."""

    __slots__ = ()
    collective: Collective
    rounds_per_step: tuple[int, ...]

    @property
    def steps(self) -> int:
        """Return S, the latency cost."""
        return len(self.rounds_per_step)

    @property
    def rounds(self) -> int:
        """Return R."""
        return sum(self.rounds_per_step)

    @property
    def bandwidth_cost(self) -> Fraction:
        """Return R/C (SCCL section 3.6)."""
        return Fraction(self.rounds, self.collective.chunks)


@dataclass(frozen=True, slots=True)
class Algorithm(KSynchronousPlan):
    """Rounds per step and sends, for one collective on one topology.

    It is a *candidate*: construction does not verify it, so that wrong algorithms can be
    represented and explained. :func:`sccl.judge.violations` verifies it. ``sends`` are sorted by
    step and chunk.

    Attributes:
        rounds_per_step: Q = (r_0, ..., r_{S-1}).
        sends: T.
        scope: Class of algorithms within which optimality is claimed.
        proved: the proved kinds of optimality (``"latency"``, ``"bandwidth"``, ``"pareto"``).
    """

    topology: Topology
    collective: Collective
    rounds_per_step: tuple[int, ...]
    sends: tuple[Send, ...]
    scope: str = ""
    proved: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.collective.check_equal_chunks()
        object.__setattr__(self, "sends", tuple(sorted(self.sends)))

    @property
    def num_sends(self) -> int:
        """Return the number of sends."""
        return len(self.sends)
