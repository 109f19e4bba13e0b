"""Training plan: the choice of an option for each collective of a training step, and their order.

Source: SYNDICATE (NSDI 2023) section 4.2: an execution plan states the motifs of an operation and
the carrier of each. A scheduling order states the order in which they are issued.

A step timeline has the starts and ends of computations and motifs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sccl.core.fabric import Fabric
from sccl.core.workload import Workload

T = TypeVar("T")

FULL_LOAD = 1000
"""The whole of a resource."""


@dataclass(frozen=True, slots=True)
class OptionMotif:
    """A motif, with its channel and carrier.

    Attributes:
        channel: channel of the fabric.
        carrier: a baseline's name, or a synthesiser's.
        ns: nanoseconds that it takes alone, from its launch to its last arrival.
        loads: its use of resources meanwhile: name of a resource of the fabric, and the used amount
            out of :data:`FULL_LOAD`. By name.
        after: motifs of the same option that end before it begins, each before it in the row.
    """

    channel: str
    carrier: str
    ns: int
    loads: tuple[tuple[str, int], ...]
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run a collective.

    Attributes:
        recipe: the rules that split it.
        motifs: the resulting motifs.
        bitwise: whether it reduces in the same order as the undivided collective.
    """

    recipe: str
    motifs: tuple[OptionMotif, ...]
    bitwise: bool = True

    @property
    def ns(self) -> int:
        """Return its time alone, if motifs wait only for one another."""
        ends: list[int] = []
        for motif in self.motifs:
            ends.append(motif.ns + max((ends[k] for k in motif.after), default=0))
        return max(ends)

    @property
    def work(self) -> dict[str, int]:
        """Return for how long it takes resources: nanoseconds times thousandths, by name."""
        totals: dict[str, int] = {}
        for motif in self.motifs:
            for name, load in motif.loads:
                totals[name] = totals.get(name, 0) + load * motif.ns
        return totals

    @property
    def isolated_ns(self) -> int:
        """Return its time alone, by the rules of plans, with its motifs in order."""
        return isolated_finish(
            [motif.ns for motif in self.motifs],
            [motif.after for motif in self.motifs],
            [dict(motif.loads) for motif in self.motifs],
        )


def isolated_finish(
    ticks: Sequence[int], after: Sequence[Sequence[int]], loads: Sequence[Mapping[T, int]]
) -> int:
    """Return the end of the last motif of an option, if motifs are issued in order.

    A motif begins no earlier than those before it, as soon as the motifs that it waits for have
    ended and its resources have room.

    Args:
        ticks: duration of each motif.
        after: for each, the earlier motifs that it waits for.
        loads: for each, its use of each resource, out of :data:`FULL_LOAD`.
    """
    ends: list[int] = []
    now = 0
    for took, waits, load in zip(ticks, after, loads, strict=True):
        now = max([now, *(ends[k] for k in waits)])
        while not _has_room(
            load, [running for running, end in zip(loads, ends, strict=False) if end > now]
        ):
            now = min(end for end in ends if end > now)
        ends.append(now + took)
    return max(ends)


def _has_room(load: Mapping[T, int], under_way: Sequence[Mapping[T, int]]) -> bool:
    """Return whether a motif fits beside others; alone any does."""
    return not any(under_way) or all(
        share + sum(running.get(name, 0) for running in under_way) <= FULL_LOAD
        for name, share in load.items()
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
    """The options that a fabric offers for each collective of a workload.

    Attributes:
        options: Pairs of a collective's id and an option, in the order of the workload. The
            default option of a collective comes first.
        refused: Pairs of a collective's id and a refused recipe, in the same order.
        seed: Seed of the planner of motifs.
        costs: sha256 of the table of costs. Empty: all times come from the model.
        max_motifs: Maximum number of motifs per collective.
        bitwise: Whether all options reduce in the order of the undivided collective.
        planned_by: Synthesizer of additional options. Empty: none.
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
        options: Pairs of a collective's id and its option, in the order of the workload.
        order: Order of issue within a window. It has each motif of each collective once, and each
            computation in the order of its stream.
        period_ns: Claimed time from one iteration to the next.
        bound_ns: Lower bound on the period for all plans of these options.
        binding: Argument for the bound.
        search: Name of the search.
        seed: Seed of the search.
        memory_bytes: Limit of the results that a rank holds at any time. 0: no limit.
        costs: sha256 of the table of costs of motifs. Empty: all times come from the model.
        max_motifs: Maximum number of motifs per collective in the offered options.
        bitwise: Whether all offered options reduce in the order of the undivided collective.
        planned_by: Synthesizer of additional options. Empty: none.
        merge_bytes: Size up to which collectives may be merged into one. 0: none.
        unmerged_workload: Workload before collectives were merged. None: none were.
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
    unmerged_workload: Workload | None = None

    @property
    def input_workload(self) -> Workload:
        """Return the workload as it was given."""
        return self.unmerged_workload or self.workload

    @property
    def gap(self) -> float | None:
        """Return by which part the period is above the bound. None: no bound is known."""
        if self.is_at_bound:
            return 0.0
        return self.period_ns / self.bound_ns - 1 if self.bound_ns else None

    @property
    def is_at_bound(self) -> bool:
        """Return whether the bound that is claimed is met."""
        return self.period_ns <= self.bound_ns

    @property
    def is_optimal(self) -> bool:
        """Return whether its period is proved minimal for these options.

        With times from a table of costs the proof needs the table.
        """
        return self.is_at_bound and not self.costs

    def motifs(self) -> Iterator[tuple[str, int, OptionMotif]]:
        """Yield each motif, with its collective's id and its number."""
        for name, option in self.options:
            for number, motif in enumerate(option.motifs):
                yield name, number, motif


@dataclass(frozen=True, slots=True)
class StepSpan:
    """The duration of an operation.

    Attributes:
        op: the id of an operation.
        motif: motif of its option; 0 for a computation.
        iteration: from 0.
        lane: a role's stream of computation, or a channel of the fabric.
        start_ns: start, nanoseconds from the beginning.
        end_ns: end, nanoseconds from the beginning.
        computes: whether it is a computation.
    """

    op: str
    motif: int
    iteration: int
    lane: str
    start_ns: int
    end_ns: int
    computes: bool


@dataclass(frozen=True, slots=True)
class StepTimeline:
    """A plan, as it runs.

    Attributes:
        spans: by start.
        period_ns: from an iteration to the next, once they repeat.
        is_steady: whether they were seen to repeat.
        first_periodic: the iteration from which on they repeat.
    """

    spans: tuple[StepSpan, ...]
    period_ns: int
    is_steady: bool
    first_periodic: int

    @property
    def iterations(self) -> int:
        """Return how many it has."""
        return 1 + max((span.iteration for span in self.spans), default=-1)

    @property
    def prologue_ns(self) -> int:
        """Return by how much more the first iterations take than as many that repeat, or less."""
        return self.finish_ns(self.first_periodic + 1) - (self.first_periodic + 1) * self.period_ns

    def finish_ns(self, iterations: int = 2) -> int:
        """Return when so many iterations have ended, the first ones."""
        return max(span.end_ns for span in self.spans if span.iteration < iterations)


def lane_rows(spans: Iterable[StepSpan]) -> list[int]:
    """Return, of spans by start, on which row of its lane each has room: 0 if it is alone there."""
    free: dict[tuple[str, int], int] = {}
    slots = []
    for span in spans:
        slot = 0
        while free.get((span.lane, slot), 0) > span.start_ns:
            slot += 1
        free[span.lane, slot] = span.end_ns
        slots.append(slot)
    return slots
