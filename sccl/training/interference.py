"""Computation beside communication: which collectives slow down which roles, and by how much.

A channel that is busy may take cores and memory's bandwidth of the ranks that use it
(:class:`~sccl.core.fabric.Channel`): a computation there goes on more slowly while a motif of that
channel is under way, from its launch to its arrival. Parts of several channels add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.fabric import Fabric
from sccl.core.training_plan import TrainingPlan

InterferenceMark = tuple[str, str]
"""That a channel, by its name, is busy for ranks of a role."""


def has_interference(fabric: Fabric) -> bool:
    """Return whether a channel of a fabric slows computations down."""
    return any(channel.slowdown for channel in fabric.channels)


@dataclass(frozen=True, slots=True)
class Interference:
    """The slowdown of computations by communication.

    Attributes:
        parts: Relative slowdown for each mark.
        marks: Marks that each motif sets while it runs, by collective and number.
    """

    parts: dict[InterferenceMark, Fraction]
    marks: dict[tuple[str, int], tuple[InterferenceMark, ...]]

    @classmethod
    def of_plan(cls, plan: TrainingPlan) -> Interference:
        """Return that of a plan."""
        slow = {c.name: Fraction(str(c.slowdown)) for c in plan.fabric.channels if c.slowdown}
        if not slow:
            return cls({}, {})
        roles = {
            op.id: [
                role.name for role in plan.workload.roles if not op.members.isdisjoint(role.ranks)
            ]
            for op in plan.workload.collectives()
        }
        marks = {
            (name, number): tuple((motif.channel, role) for role in roles[name])
            for name, number, motif in plan.motifs()
            if motif.channel in slow and motif.ns
        }
        parts = {mark: slow[mark[0]] for motif_marks in marks.values() for mark in motif_marks}
        return cls(parts, marks)

    def slowdown_factor(self, role: str, busy: Iterable[InterferenceMark]) -> Fraction:
        """Return how many times as long computations of a role take while some marks are set."""
        return 1 + sum((self.parts[mark] for mark in busy if mark[1] == role), Fraction(0))
