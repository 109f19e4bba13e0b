"""Algorithm: a k-synchronous candidate solution (Q, T) of SCCL section 3.3."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.core.collective import Collective
from sccl.core.ids import ChunkId, Edge, Rank, Step
from sccl.core.topology import Topology


@dataclass(frozen=True, slots=True, order=True)
class Send:
    """In ``step``, ``src`` sends ``chunk`` to ``dst``, which stores it or reduces it into its."""

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
    """The costs of an algorithm, whether its sends are written out or not."""

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

    It is a *candidate*, not verified on construction: :func:`sccl.judge.violations` verifies it, so
    that wrong algorithms can be represented, checked and explained. ``sends`` are sorted by step
    and chunk.

    Attributes:
        rounds_per_step: Q = (r_0, ..., r_{S-1}).
        sends: T.
        scope: the class of algorithms that a claim of optimality is about.
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
        """Return how many sends there are."""
        return len(self.sends)
