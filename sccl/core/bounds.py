"""Lower bounds on S and on R/C, with what proves them, as values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Distance:
    """A chunk that has far to go: why no algorithm has fewer steps.

    Attributes:
        problem: what was looked at: the question, or its dual.
        sources: the ranks that hold the chunk before.
        rank: one that wants it.
        steps: links on a shortest path to it.
    """

    problem: str
    chunk: int
    sources: tuple[int, ...]
    rank: int
    steps: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A set of ranks that chunks have to enter.

    Attributes:
        ranks: the set, ascending.
        weight: its share in the proof.
        chunks: how many chunks start outside and are wanted inside.
    """

    ranks: tuple[int, ...]
    weight: Fraction
    chunks: int


@dataclass(frozen=True, slots=True)
class Priced:
    """Prices of links and budgets at which what has to be moved costs so many rounds.

    Attributes:
        problem: what was bounded: the question, or its dual.
        chunks: the C at which chunks are counted.
        rounds: R is at least this for so many chunks.
        prices: (name of a constraint, price) of those that have one.
        cuts: that show what the demand costs; empty: shortest paths do.
    """

    problem: str
    chunks: int
    rounds: Fraction
    prices: tuple[tuple[str, Fraction], ...]
    cuts: tuple[Cut, ...]

    @property
    def kind(self) -> str:
        """Return ``"cut"``, ``"cuts"`` (weighted) or ``"lengths"``."""
        return {0: "lengths", 1: "cut"}.get(len(self.cuts), "cuts")


@dataclass(frozen=True, slots=True)
class Counted:
    """Sends that each chunk of an allreduce needs, of whatever class it is.

    Attributes:
        sends: of each chunk at least, into ``ranks``.
        chunks_per_round: what can be sent to them in a round, at most.
        ranks: those of a cut; empty: all sends are counted, wherever they go.
    """

    problem: str
    sends: int
    chunks_per_round: int
    ranks: tuple[int, ...]

    @property
    def kind(self) -> str:
        """Return ``"cut"`` or ``"sends"``."""
        return "cut" if self.ranks else "sends"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no algorithm of a class can beat.

    Attributes:
        steps: S is at least this.
        bandwidth: R/C is at least this.
        scope: the class, in words; empty: all algorithms.
        distance: proves the first; None: an older file does not say.
        evidence: proves the second; likewise.
    """

    steps: int
    bandwidth: Fraction
    scope: str = ""
    distance: Distance | None = None
    evidence: Priced | Counted | None = None
