"""States of the model of how ranks come to another plan, as words of 64 bits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from sccl.core.arrays import BoolArray, UInt64Array
from sccl.torch_backend.control.transitions import (
    CONTRIBUTED_STATES,
    COORDINATOR_TRANSITIONS,
    RANK_TRANSITIONS,
    CoordinatorEvent,
    CoordinatorState,
    RankEvent,
    RankState,
)

RANKS, VERSIONS, COORDINATORS = 3, (1, 2), 2
K = (2, 1, 2)
"""Iterations from one boundary of an agreement to the next, by the active version (0 for none)."""

GIVES, DEAD = 1 << len(VERSIONS), 15
"""A phase of a rank is GIVES times its iterations since the boundary, plus its contribution there,
whose bit k is version k + 1."""

IMPOSSIBLE = 7


class Rule(Enum):
    """Deviations from the protocol."""

    AGREED = "as it is"
    NEXT = "published: ranks switch at the next iteration after COMMIT"
    NAMED = "COMMIT names an iteration, two after the latest vote"
    NO_GENERATION = "what was written for ranks that died is heard by those that begin anew"
    TOLD_FIRST = "the decision is told before it is logged"
    LAST_LOGS = "whoever logs last decides"
    FORGED = "somebody else writes decisions into the store"
    LEAST = "they are, and ranks agree on the least of the highest versions that they know of"
    FORGETS = "a rank forgets what it voted for when a later version is committed"


@dataclass(frozen=True, slots=True)
class Part:
    """Some bits of a word."""

    shift: int
    bits: int

    def of(self, words: UInt64Array) -> npt.NDArray[np.intp]:
        """Return their values."""
        mask = np.uint64((1 << self.bits) - 1)
        return ((words >> np.uint64(self.shift)) & mask).astype(np.intp)

    def put(self, words: UInt64Array, values: Any) -> UInt64Array:
        """Return words in which they have other values."""
        clear = np.uint64(~(((1 << self.bits) - 1) << self.shift) & (2**64 - 1))
        return (words & clear) | (np.asarray(values).astype(np.uint64) << np.uint64(self.shift))


class Layout:
    """Layout of a word. Ranks come first, as separate parts that can be sorted."""

    def __init__(self) -> None:
        self.bits = 0
        self.ranks: list[Part] = []
        self.state: list[dict[int, Part]] = []
        self.phase: list[Part] = []
        self.lead: list[Part] = []
        for _ in range(RANKS):
            start = self.bits
            self.state.append({version: self._part(3) for version in VERSIONS})
            self.phase.append(self._part(4))
            self.lead.append(self._part(1))
            self.ranks.append(Part(start, self.bits - start))
        self.minds: list[Part] = []
        self.mind: list[dict[int, Part]] = []
        for _ in range(COORDINATORS):
            start = self.bits
            self.mind.append({version: self._part(3) for version in VERSIONS})
            self.minds.append(Part(start, self.bits - start))
        self.written = {version: self._part(1) for version in VERSIONS}
        self.born = {version: self._part(1) for version in VERSIONS}  # its generation
        self.votes = {version: self._part(1) for version in VERSIONS}  # all have voted yes
        self.log = {version: self._part(2) for version in VERSIONS}
        self.commit = {version: self._part(1) for version in VERSIONS}  # it was announced
        self.abort = {version: self._part(1) for version in VERSIONS}
        self.due = {VERSIONS[0]: self._part(2)}  # of Rule.NAMED
        self.generation = self._part(1)
        # What was agreed on by those with lead 0; where ranks don't agree, 1: all have come so far.
        self.result = self._part(2)
        assert self.bits <= 64

    def _part(self, bits: int) -> Part:
        self.bits += bits
        return Part(self.bits - bits, bits)


AT = Layout()
LOG_NONE, LOG_COMMIT, LOG_ABORT = 0, 1, 2
ALL: BoolArray = np.ones(1, bool)


def _rank_table() -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    after = np.full((len(RankState), len(RankEvent)), IMPOSSIBLE)
    votes = np.zeros_like(after)
    for (state, event), (new, vote) in RANK_TRANSITIONS.items():
        after[state, event], votes[state, event] = new, vote
    return after, votes


def _coordinator_table() -> npt.NDArray[np.intp]:
    after = np.full((len(CoordinatorState), len(CoordinatorEvent)), -1)
    for (state, event), new in COORDINATOR_TRANSITIONS.items():
        after[state, event] = new
    return after


AFTER, VOTES = _rank_table()
MIND = _coordinator_table()
COUNTS = np.array([state in CONTRIBUTED_STATES for state in RankState] + [False])


def active(words: UInt64Array, rank: int) -> npt.NDArray[np.intp]:
    """Return the version that a rank runs."""
    found = np.zeros(len(words), np.intp)
    for version in VERSIONS:
        found[AT.state[rank][version].of(words) == RankState.ACTIVE] = version
    return found


def counted(words: UInt64Array, rank: int) -> npt.NDArray[np.intp]:
    """Return the versions that a rank can run and knows to be committed, as bits."""
    bits = np.zeros(len(words), np.intp)
    for version in VERSIONS:
        bits |= np.where(COUNTS[AT.state[rank][version].of(words)], 1 << (version - 1), 0)
    return bits


def highest(bits: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the highest version in a set of bits, 0 if empty."""
    version = np.zeros(len(bits), np.intp)
    for one in VERSIONS:
        version[(bits >> (one - 1)) & 1 == 1] = one
    return version


def distinct(words: UInt64Array) -> UInt64Array:
    """Return words sorted, each once: NumPy's own, by hashes, takes ten times as long for these."""
    words = np.sort(words)
    return words[np.append(True, words[1:] != words[:-1])] if len(words) else words
