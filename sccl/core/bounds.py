"""Lower bounds on S and on R/C, with what proves them, as values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.core.words import solved_as


@dataclass(frozen=True, slots=True)
class Distance:
    """A chunk that has far to go: why no algorithm has fewer steps.

    Attributes:
        collective: what was looked at: the one that was asked for, or its dual.
        on_reversed: whether that was done on the reversed topology.
        sources: the ranks that hold the chunk before.
        rank: one that wants it.
        steps: links on a shortest path to it.
    """

    collective: str
    on_reversed: bool
    chunk: int
    sources: tuple[int, ...]
    rank: int
    steps: int

    @property
    def problem(self) -> str:
        """Return what was looked at, in words."""
        return solved_as(self.collective, on_reversed=self.on_reversed)


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
        collective: what was bounded: the one that was asked for, or its dual.
        on_reversed: whether that was done on the reversed topology.
        chunks: the C at which chunks are counted.
        rounds: R is at least this for so many chunks.
        prices: (name of a constraint, price) of those that have one.
        cuts: that show what the demand costs. Empty: shortest paths do.
    """

    collective: str
    on_reversed: bool
    chunks: int
    rounds: Fraction
    prices: tuple[tuple[str, Fraction], ...]
    cuts: tuple[Cut, ...]

    @property
    def problem(self) -> str:
        """Return what was bounded, in words."""
        return solved_as(self.collective, on_reversed=self.on_reversed)

    @property
    def kind(self) -> str:
        """Return ``"cut"``, ``"cuts"`` (weighted) or ``"lengths"``."""
        return {0: "lengths", 1: "cut"}.get(len(self.cuts), "cuts")


@dataclass(frozen=True, slots=True)
class Counted:
    """Sends that each chunk of an allreduce needs, of whatever class it is.

    Attributes:
        sends: of each chunk at least, into ``ranks``, or between ``groups``.
        chunks_per_round: what can be sent so in a round, at most.
        ranks: those of a cut. Empty: it is of groups.
        groups: that take in all ranks; empty, too: each rank is one, and all sends are counted.
        approached: whether allreduces of ever more steps come as near the bound as one likes.
    """

    collective: str
    sends: int
    chunks_per_round: int
    ranks: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    approached: bool = False

    @property
    def bandwidth(self) -> Fraction:
        """Return what R/C is at least."""
        return Fraction(self.sends, self.chunks_per_round)

    @property
    def kind(self) -> str:
        """Return ``"cut"``, ``"groups"`` or ``"sends"``."""
        return "cut" if self.ranks else "groups" if self.groups else "sends"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no algorithm of a class can beat.

    Attributes:
        steps: S is at least this.
        bandwidth: R/C is at least this.
        scope: the class, in words. Empty: all algorithms.
        distance: proves the first. None: an older file does not say.
        evidence: proves the second; likewise.
    """

    steps: int
    bandwidth: Fraction
    scope: str = ""
    distance: Distance | None = None
    evidence: Priced | Counted | None = None

    def met(self, steps: int, cost: Fraction) -> tuple[str, ...]:
        """Return which of the two an algorithm meets, of ``"latency"`` and ``"bandwidth"``."""
        met = (("latency", steps == self.steps), ("bandwidth", cost == self.bandwidth))
        return tuple(what for what, is_met in met if is_met)
