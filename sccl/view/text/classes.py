"""What is said of classes of algorithms, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from sccl.synth.allreduce.classes import GATHERED, ClassFrontier
from sccl.synth.frontier import completeness

NOT_THE_END = "Not the end: more steps or effort may give a smaller R/C."


_RUN = " Run the allgather; each rank then reduces what it has (codegen makes an allgather of it)."


def class_summary(one: ClassFrontier) -> str:
    """Return what is known of a class, as a sentence that begins with its name."""
    bounds = f"S >= {one.steps}, R/C >= {one.bandwidth}"
    run = _RUN if one.name == GATHERED else ""
    within = one.within.words if one.within else ""
    return f"{one.name}: {one.scope}: {bounds}. {state_of_class(one.complete, within)}{run}"


def state_of_class(complete: bool, within: str) -> str:
    """Return how far the frontier of a class is known."""
    return completeness(within) if complete else NOT_THE_END


def unswept_words(unswept: Sequence[tuple[str, str]]) -> str:
    """Return that other classes may do better, and which; empty: all were looked at."""
    if not unswept:
        return ""
    named = ", ".join(f"{name} (not looked at: {why})" for name, why in unswept)
    return f"Other classes may do better: {named}."
