"""How far a frontier is known, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.answer import Origin
from sccl.core.candidate import Range
from sccl.core.frontier import GATHERED, ClassFrontier, Frontier, Unswept
from sccl.core.words import counted, gap_text

EVERY_WORDS = (
    "above all: gap between R/C and a lower bound for all allreduces with as many steps; optimal: "
    "the gap is zero"
)
"""The note of a table of points on the column "above all"."""


UNVERIFIED_HINT = (
    "--no-store without --cluster solves the question here, --trust-store and --trust-cluster "
    "accept the claim"
)
"""How to settle an unsat that is not verified."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a result: in a word or two, and their meaning."""

    head: str
    rest: str

    def __str__(self) -> str:
        return f"{self.head}: {self.rest}."


_NOT_THE_END = Extent("Not the end", "more steps or effort may give a smaller R/C")
_MORE_STEPS = Extent("Not the end", "more steps may give a smaller R/C")
_INTERRUPTED = Extent("Interrupted", "these are partial results")
_RUN = " Run the allgather; each rank then reduces the buffers (codegen generates the allgather)."


def completeness(within: Range | None) -> Extent:
    """Return the meaning of a complete frontier within a range. None: any k and C."""
    if within:
        less = "another k or C may give a smaller R/C in as many steps"
        met = "the bandwidth bound is met and nothing is open"
        return Extent(f"Complete for {within.words}", f"{met}; {less}")
    of_each = "each point is the limit of its S, and the last meets the bandwidth bound"
    return Extent("Complete for every k", of_each)


def state_of_class(one: ClassFrontier) -> Extent:
    """Return how far the frontier of a class is known."""
    return completeness(one.within) if one.complete else _NOT_THE_END


def state(frontier: Frontier) -> Extent:
    """Return how far a frontier of one class is known."""
    if frontier.stopped == "interrupted":
        return _INTERRUPTED
    if frontier.complete:
        return completeness(frontier.classes[0].within)
    if frontier.open:
        opened = counted(len(frontier.open), "candidate")
        return Extent(f"{opened} open", "each may hide a better algorithm")
    return _MORE_STEPS


def class_summary(one: ClassFrontier) -> str:
    """Return the state of a class, as a sentence that begins with its name."""
    bounds = f"S >= {one.steps}, R/C >= {one.bandwidth}"
    run = _RUN if one.name == GATHERED else ""
    return f"{one.name}: {one.scope}: {bounds}. {state_of_class(one)}{run}"


def above_words(above: Fraction | None) -> str:
    """Return the gap of a point to the lower bound for all classes, as text. None: unknown."""
    if above is None:
        return "-"
    return gap_text(float(above)) if above else "optimal"


def unswept_words(unswept: Sequence[Unswept]) -> str:
    """Return that other classes may do better, and which. Empty: all were looked at."""
    if not unswept:
        return ""
    named = ", ".join(f"{one.name} (not looked at: {one.why})" for one in unswept)
    return f"Other classes may do better: {named}."


def origin_notes(frontier: Frontier) -> list[str]:
    """Return a sentence for each origin, other than this process, of refutations and claims."""
    every = (frontier, *frontier.halves)
    refuted = Counter(one.origin for of in every for one in of.refuted)
    claimed = Counter(
        one.origin for of in (frontier.halves or (frontier,)) for one in of.open if one.origin
    )
    notes = []
    for origin in Origin:
        if origin is not Origin.HERE and refuted[origin]:
            many = counted(refuted[origin], "refutation")
            how = "same version, same solver" if origin.is_verified else "not verified, trusted"
            notes.append(f"{origin.value}: {many} from {origin.words} ({how})")
        if claimed[origin]:
            many = counted(claimed[origin], "candidate")
            notes.append(
                f"{origin.value}: {many} claimed unsat by {origin.words}, not verified here: "
                f"{UNVERIFIED_HINT}"
            )
    return notes


def summary(frontier: Frontier) -> str:
    """Return how far a frontier is known, in a sentence; of several classes, one for each."""
    if frontier.stopped == "interrupted" or not frontier.several:
        return str(state(frontier))
    words = (f"{c.name.capitalize()}: {state_of_class(c).head.lower()}." for c in frontier.classes)
    unswept = unswept_words(frontier.unswept)
    return " ".join([*words, *([unswept] if unswept else [])])
