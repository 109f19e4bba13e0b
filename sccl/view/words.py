"""How far a frontier is known, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from sccl.core.candidate import Range
from sccl.core.frontier import GATHERED, ClassFrontier, Frontier, Unswept
from sccl.core.words import counted

NOT_THE_END = "Not the end: more steps or effort may give a smaller R/C."
_MORE_STEPS = "Not the end: more steps may give a smaller R/C."
_RUN = " Run the allgather; each rank then reduces what it has (codegen makes an allgather of it)."


def completeness(within: Range | None) -> str:
    """Return what it means that a frontier is complete, within a range; None: any k and C."""
    if within:
        less = "another k or C may give a smaller R/C in as many steps"
        met = "the bandwidth bound is met and nothing is open"
        return f"Complete for {within.words}: {met}; {less}."
    of_each = "each point is the limit of its S, and the last meets the bandwidth bound"
    return f"Complete for every k: {of_each}."


def state_of_class(one: ClassFrontier) -> str:
    """Return how far the frontier of a class is known."""
    return completeness(one.within) if one.complete else NOT_THE_END


def class_summary(one: ClassFrontier) -> str:
    """Return what is known of a class, as a sentence that begins with its name."""
    bounds = f"S >= {one.steps}, R/C >= {one.bandwidth}"
    run = _RUN if one.name == GATHERED else ""
    return f"{one.name}: {one.scope}: {bounds}. {state_of_class(one)}{run}"


def unswept_words(unswept: Sequence[Unswept]) -> str:
    """Return that other classes may do better, and which; empty: all were looked at."""
    if not unswept:
        return ""
    named = ", ".join(f"{one.name} (not looked at: {one.why})" for one in unswept)
    return f"Other classes may do better: {named}."


def summary(frontier: Frontier) -> str:
    """Return how far a frontier is known, in a sentence."""
    if frontier.stopped == "interrupted":
        return "Interrupted: this is the part that was found."
    if frontier.several:
        words = (_in_short(one) for one in frontier.classes)
        unswept = unswept_words(frontier.unswept)
        return " ".join([*words, *([unswept] if unswept else [])])
    if frontier.complete:
        return completeness(frontier.classes[0].within)
    if frontier.open:
        return f"{counted(len(frontier.open), 'candidate')} open: each may hide a better algorithm."
    return _MORE_STEPS


def _in_short(one: ClassFrontier) -> str:
    return f"{one.name.capitalize()}: {state_of_class(one).split(':')[0].rstrip('.').lower()}."
