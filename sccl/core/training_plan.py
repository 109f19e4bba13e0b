"""Training plan: how a fabric does a step of training: options of collectives, and their order.

Source: SYNDICATE (NSDI 2023) section 4.2: an execution plan says of which motifs an operation
is made and what carries each. A scheduling order says in which order they are issued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sccl.core.fabric import Fabric
from sccl.core.workload import Workload

T = TypeVar("T")

WHOLE_LOAD = 1000
"""Of a resource, all of it."""


@dataclass(frozen=True, slots=True)
class OptionMotif:
    """A motif, with what carries it.

    Attributes:
        channel: of the fabric.
        carrier: how: a baseline's name, or a synthesiser's.
        ns: nanoseconds that it takes alone, from its launch until all of it has arrived.
        loads: what it uses meanwhile: a resource of the fabric by its name, and how much of it, of
            :data:`WHOLE_LOAD`. By name.
        after: motifs of the same option that end before it begins, each before it in the row.
    """

    channel: str
    carrier: str
    ns: int
    loads: tuple[tuple[str, int], ...]
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One way to do a collective.

    Attributes:
        recipe: the rules that split it.
        motifs: what they make of it.
        bitwise: whether it reduces in the same order as the collective does as it is.
    """

    recipe: str
    motifs: tuple[OptionMotif, ...]
    bitwise: bool = True

    @property
    def ns(self) -> int:
        """Return what it takes alone, if motifs wait for nothing but one another."""
        ends: list[int] = []
        for motif in self.motifs:
            ends.append(motif.ns + max((ends[k] for k in motif.after), default=0))
        return max(ends)

    @property
    def work(self) -> dict[str, int]:
        """Return for how long it takes resources: nanoseconds times thousandths, by name."""
        found: dict[str, int] = {}
        for motif in self.motifs:
            for name, load in motif.loads:
                found[name] = found.get(name, 0) + load * motif.ns
        return found

    @property
    def alone_ns(self) -> int:
        """Return what it takes alone, by the rules of plans, its motifs in their order."""
        return by_itself(
            [motif.ns for motif in self.motifs],
            [motif.after for motif in self.motifs],
            [dict(motif.loads) for motif in self.motifs],
        )


def by_itself(
    ticks: Sequence[int], after: Sequence[Sequence[int]], loads: Sequence[Mapping[T, int]]
) -> int:
    """Return when the last of an option's motifs ends, which are issued in their order.

    A motif begins no earlier than those before it, once what it waits for has ended and what it
    loads has room.

    Args:
        ticks: of each motif.
        after: of each, those before it that it waits for.
        loads: of each, how much of each resource it has meanwhile, of :data:`WHOLE_LOAD`.
    """
    ends: list[int] = []
    now = 0
    for took, waits, load in zip(ticks, after, loads, strict=True):
        now = max([now, *(ends[k] for k in waits)])
        while not _has_room(
            load, [own for own, end in zip(loads, ends, strict=False) if end > now]
        ):
            now = min(end for end in ends if end > now)
        ends.append(now + took)
    return max(ends)


def _has_room(load: Mapping[T, int], under_way: Sequence[Mapping[T, int]]) -> bool:
    """Return whether a motif fits beside others; alone any does."""
    return not any(under_way) or all(
        own + sum(other.get(name, 0) for other in under_way) <= WHOLE_LOAD
        for name, own in load.items()
    )


@dataclass(frozen=True, slots=True)
class RefusedRecipe:
    """A recipe of which a collective has no option.

    Attributes:
        why: a sentence: it is none for the collective, nothing carries it, or others are better.
    """

    recipe: str
    why: str


@dataclass(frozen=True, slots=True)
class OfferedOptions:
    """What a fabric offers for the collectives of a workload, of which a plan takes one for each.

    Attributes:
        options: each collective, by its id, and one of its options. In the order of the workload,
            the default first.
        refused: likewise, recipes of which it has none.
        seed: of what plans motifs.
        costs: sha256 of the table of costs that times are of, where it has them, or empty.
        max_motifs: into how many motifs options split a collective at the most.
        bitwise: whether only options are offered that reduce as the whole does.
        planned_by: the synthesiser of which some are, too. Empty: of none.
    """

    workload: Workload
    fabric: Fabric
    options: tuple[tuple[str, Option], ...]
    refused: tuple[tuple[str, RefusedRecipe], ...] = ()
    seed: int = 0
    costs: str = ""
    max_motifs: int = 16
    bitwise: bool = False
    planned_by: str = ""


@dataclass(frozen=True, slots=True)
class Issue:
    """A place in the order of a window.

    Attributes:
        op: the id of an operation.
        motif: of its option; 0 of a computation.
        shift: of how many iterations ahead of the window's own.
    """

    op: str
    motif: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A plan of a workload on a fabric.

    Attributes:
        options: of each collective, by its id, in the order of the workload.
        order: of a window: each motif of each collective once, and each computation. These are in
            the order of their stream.
        period_ns: from an iteration to the next, as claimed.
        bound_ns: that no plan of these options takes less than.
        binding: what shows the bound.
        search: which found it.
        seed: of the search.
        memory_bytes: what held results may take at once. 0: any.
        costs: sha256 of the table of costs that times of motifs are of, where it has them; empty:
            all are what carriers take.
        max_motifs: into how many motifs options that were offered split a collective at the most.
        bitwise: whether only options were offered that reduce as the whole does.
        planned_by: the synthesiser of which options were offered, too. Empty: of none.
        merge_bytes: up to which size collectives might be merged into one. 0: none.
        asked: the workload as it was given, where that is another one than is run, in which some
            collectives are one. None: it is the same.
    """

    workload: Workload
    fabric: Fabric
    options: tuple[tuple[str, Option], ...]
    order: tuple[Issue, ...]
    period_ns: int
    bound_ns: int
    binding: str
    search: str
    seed: int = 0
    memory_bytes: int = 0
    costs: str = ""
    max_motifs: int = 16
    bitwise: bool = False
    planned_by: str = ""
    merge_bytes: int = 0
    asked: Workload | None = None

    @property
    def given(self) -> Workload:
        """Return the workload as it was given."""
        return self.asked or self.workload

    @property
    def gap(self) -> float | None:
        """Return by which part the period is above the bound. None: no bound is known."""
        if self.meets_bound:
            return 0.0
        return self.period_ns / self.bound_ns - 1 if self.bound_ns else None

    @property
    def meets_bound(self) -> bool:
        """Return whether the bound that is claimed is met."""
        return self.period_ns <= self.bound_ns

    @property
    def proved(self) -> bool:
        """Return whether no plan of these options takes less.

        Of times of a table of costs only who has the table can say so.
        """
        return self.meets_bound and not self.costs

    def motifs(self) -> Iterator[tuple[str, int, OptionMotif]]:
        """Yield each motif, with its collective's id and its number."""
        for name, option in self.options:
            for number, motif in enumerate(option.motifs):
                yield name, number, motif
