"""All reachable states, level by level, and the shortest path to a fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sccl.core.arrays import UInt64Array
from tests.kit.switching import Model
from tests.kit.switching_words import distinct


@dataclass(frozen=True, slots=True)
class Explored:
    """Result of an exploration of all states.

    Attributes:
        words: The states.
        wrong: The fault, or empty.
        events: Shortest sequence of events that leads to it.
    """

    words: UInt64Array
    wrong: str = ""
    events: tuple[str, ...] = ()


def explore(model: Model) -> Explored:
    """Walk through all states, level by level, until something is wrong."""
    level = np.zeros(1, np.uint64)
    seen, levels = level, [level]
    while len(level):
        made: list[UInt64Array] = []
        for step in model.steps(level):
            if step.wrong.any():
                place = int(np.flatnonzero(step.wrong)[0])
                mixed = model.mixed(step.words[place : place + 1])[0]
                wrong = "two plans in one iteration" if mixed else "a plan that is not there"
                source = level[step.sources[place]]
                return Explored(seen, wrong, tuple(_way(model, levels, source)))
            made.append(distinct(model.canonical(step.words)))
        found = distinct(np.concatenate(made))
        places = np.minimum(np.searchsorted(seen, found), len(seen) - 1)
        level = found[seen[places] != found]
        seen = np.concatenate([seen, level])
        seen.sort(kind="stable")  # of two sorted parts, which it merges
        levels.append(level)
    return Explored(seen)


def _way(model: Model, levels: Sequence[UInt64Array], last: np.uint64) -> list[str]:
    """Return events that lead to a state, and one that leads to a fault.

    States are sorted by ranks, but the ranks keep their numbers here.
    """
    targets = [last]
    for level in levels[-2::-1]:
        for step in model.steps(level):
            hits = np.flatnonzero(model.canonical(step.words) == targets[-1])
            if len(hits):
                targets.append(level[step.sources[hits[0]]])
                break
    names, word = [], np.zeros(1, np.uint64)
    for target in targets[-2::-1]:
        step = next(
            step
            for step in model.steps(word)
            if len(step.words) and model.canonical(step.words)[0] == target
        )
        names.append(step.name)
        word = step.words
    return [*names, next(step.name for step in model.steps(word) if step.wrong.any())]
