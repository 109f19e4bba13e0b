"""Describe lower bounds and the completeness of frontiers in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.answer import UNVERIFIED_HINT, Origin
from sccl.core.formatting import format_count, format_gap
from sccl.core.frontier import GATHERED, ClassFrontier, Frontier, SkippedClass
from sccl.core.instance import SweepRange

ABOVE_ALL_TEXT = (
    "above all: gap between R/C and a lower bound for all allreduces with as many steps; optimal: "
    "the gap is zero"
)
"""Explanation of the column "above all" in tables of points."""


@dataclass(frozen=True, slots=True)
class BoundSummary:
    """Lower bounds on the costs of algorithms for a collective on a machine.

    Attributes:
        reasons: proofs of the bounds, in sentences.
        scope: class of algorithms for which they hold. Empty: all algorithms.
        classes: bounds for single classes of algorithms.
    """

    steps: int
    bandwidth: Fraction
    reasons: tuple[str, ...]
    scope: str = ""
    classes: tuple[BoundSummary, ...] = ()


@dataclass(frozen=True, slots=True)
class Completeness:
    """The completeness of a result: a short heading and its explanation."""

    head: str
    rest: str

    def __str__(self) -> str:
        return f"{self.head}: {self.rest}."


_INCOMPLETE = Completeness("Not the end", "more steps or effort may give a smaller R/C")
_MORE_STEPS = Completeness("Not the end", "more steps may give a smaller R/C")
_INTERRUPTED = Completeness("Interrupted", "these are partial results")
_RUN = " Run the allgather; each rank then reduces the buffers (codegen generates the allgather)."


def completeness(within: SweepRange | None) -> Completeness:
    """Return a description of a frontier that is complete within a range. None: any k and C."""
    if within:
        less = "another k or C may give a lower R/C for the same S"
        met = "the bandwidth bound is met and nothing is open"
        return Completeness(f"Complete for {within.description}", f"{met}; {less}")
    of_each = (
        "no k or C gives a lower R/C for the same S, and the last point meets the bandwidth bound"
    )
    return Completeness("Complete for every k", of_each)


def class_state(part: ClassFrontier) -> Completeness:
    """Return the completeness of the frontier of a class."""
    return completeness(part.within) if part.is_complete else _INCOMPLETE


def frontier_state(frontier: Frontier) -> Completeness:
    """Return the completeness of a frontier of a single class."""
    if frontier.is_interrupted:
        return _INTERRUPTED
    if frontier.is_complete:
        return completeness(frontier.classes[0].within)
    if frontier.open:
        opened = format_count(len(frontier.open), "candidate")
        return Completeness(f"{opened} open", "each may hide a better algorithm")
    return _MORE_STEPS


def class_summary(part: ClassFrontier) -> str:
    """Return the name, scope, bounds and completeness of a class as text."""
    bounds = f"S >= {part.steps}, R/C >= {part.bandwidth}"
    run = _RUN if part.name == GATHERED else ""
    return f"{part.name}: {part.scope}: {bounds}. {class_state(part)}{run}"


def above_all_text(above: Fraction | None) -> str:
    """Return the gap of a point to the lower bound for all classes, as text. None: unknown."""
    if above is None:
        return "-"
    return format_gap(float(above)) if above else "optimal"


def unswept_text(unswept: Sequence[SkippedClass]) -> str:
    """Return a sentence on the classes that were not searched, or an empty text if all were."""
    if not unswept:
        return ""
    named = ", ".join(f"{entry.name} (not searched: {entry.reason})" for entry in unswept)
    return f"Other families may do better: {named}."


def origin_notes(frontier: Frontier) -> list[str]:
    """Return a note for each origin, other than this process, of refutations and claims."""
    frontiers = (frontier, *frontier.halves)
    refuted = Counter(candidate.origin for of in frontiers for candidate in of.refuted)
    claimed = Counter(
        candidate.origin
        for of in (frontier.halves or (frontier,))
        for candidate in of.open
        if candidate.origin
    )
    notes = []
    for origin in Origin:
        if origin is not Origin.THIS_PROCESS and refuted[origin]:
            many = format_count(refuted[origin], "refutation")
            how = "same version, same solver" if origin.is_verified else "not verified, trusted"
            notes.append(f"{origin.value}: {many} from {origin.description} ({how})")
        if claimed[origin]:
            many = format_count(claimed[origin], "candidate")
            notes.append(
                f"{origin.value}: {many} claimed unsat by {origin.description}, not verified here: "
                f"{UNVERIFIED_HINT}"
            )
    return notes


def frontier_summary(frontier: Frontier) -> str:
    """Describe the completeness of a frontier in one sentence per family."""
    if frontier.is_interrupted or not frontier.is_multiclass:
        return str(frontier_state(frontier))
    words = (f"{c.name.capitalize()}: {class_state(c).head.lower()}." for c in frontier.classes)
    unswept = unswept_text(frontier.skipped)
    return " ".join([*words, *([unswept] if unswept else [])])
