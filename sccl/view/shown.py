"""What the explorer is given to show."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.core.algorithm import Algorithm


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no algorithm for the same question can beat.

    Attributes:
        steps: least S.
        bandwidth: least R/C.
        reasons: why, in sentences.
        scope: the class of algorithms that it holds for; empty: all of them.
        classes: what holds for classes of algorithms only.
    """

    steps: int
    bandwidth: Fraction
    reasons: tuple[str, ...]
    scope: str = ""
    classes: tuple[Bounds, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """An algorithm to show; the judge has accepted it.

    Attributes:
        file: its name, as the user knows it.
        intact: whether the file is as sccl wrote it; else what it claims is not repeated.
    """

    algorithm: Algorithm
    file: str
    intact: bool
    bounds: Bounds

    @property
    def bounded(self) -> bool:
        """Return whether the bounds hold for the algorithm's class."""
        return self.algorithm.scope.startswith(self.bounds.scope)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A (C, S, R) of a sweep for which there is no algorithm.

    Attributes:
        reason: why it is refuted, or open.
    """

    chunks: int
    steps: int
    rounds: int
    reason: str


@dataclass(frozen=True, slots=True)
class ShownClass:
    """What is known of one class of algorithms, of several for one question.

    Attributes:
        name: of the class.
        scope: the class in words.
        files: of its points.
        limits: (S, R/C) that no algorithm of the class with as many steps can beat.
        summary: how far its frontier is known, in a sentence.
    """

    name: str
    scope: str
    files: tuple[str, ...]
    limits: tuple[tuple[int, Fraction], ...]
    approached: tuple[tuple[int, Fraction], ...]
    summary: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep says beside its points.

    Attributes:
        limits: (S, R/C) that no algorithm with as many steps can beat.
        summary: how far the frontier is known, in a sentence.
        beyond: the class that it is about, where that is not what the bounds of the collective
            hold for.
        bounds: least S and R/C of that class, where they are known.
        approached: of the limits, those that algorithms come near, and are not known to attain.
        classes: those of its points, where there are several.
        restricted: files whose points are proved for some k or C only, and what is said of them.
        files: names of its points' files; others may lie beside them, of sweeps before it.
    """

    topology: str
    collective: str
    root: int | None
    refuted: tuple[Candidate, ...]
    open: tuple[Candidate, ...]
    limits: tuple[tuple[int, Fraction], ...]
    summary: str
    beyond: str | None = None
    bounds: tuple[int, Fraction] | None = None
    files: tuple[str, ...] = ()
    approached: tuple[tuple[int, Fraction], ...] = ()
    restricted: tuple[tuple[str, str], ...] = ()
    classes: tuple[ShownClass, ...] = ()
