"""Training plan: the choice of an option for each collective of a training step, and their order.

Source: SYNDICATE (NSDI 2023) section 4.2: an execution plan states the motifs of an operation and
the carrier of each. A scheduling order states the order in which they are issued.

A step timeline has the starts and ends of computations and motifs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sccl.training.types.fabric import Fabric
from sccl.training.types.workload import Workload

T = TypeVar("T")

FULL_LOAD = 1000
"""Full use of a resource."""


@dataclass(frozen=True, slots=True)
class OptionMotif:
    """A motif, with its channel and carrier.

    Attributes:
        channel: channel of the fabric.
        carrier: Name of the baseline or synthesizer that runs it.
        ns: Isolated time from its launch to its last arrival, nanoseconds.
        loads: Pairs of a fabric resource's name and its use out of :data:`FULL_LOAD`, by name.
        after: Indices of earlier motifs of the same option that end before it begins.
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
        """Return the critical path of its motifs, which ignores resources."""
        ends: list[int] = []
        for motif in self.motifs:
            ends.append(motif.ns + max((ends[k] for k in motif.after), default=0))
        return max(ends)

    @property
    def work(self) -> dict[str, int]:
        """Return its total use of each resource: nanoseconds times thousandths."""
        totals: dict[str, int] = {}
        for motif in self.motifs:
            for name, load in motif.loads:
                totals[name] = totals.get(name, 0) + load * motif.ns
        return totals

    @property
    def isolated_ns(self) -> int:
        """Return its isolated time with its motifs issued in order, by the rules of plans."""
        return isolated_finish(
            [motif.ns for motif in self.motifs],
            [motif.after for motif in self.motifs],
            [dict(motif.loads) for motif in self.motifs],
        )


def isolated_finish(
    ticks: Sequence[int], after: Sequence[Sequence[int]], loads: Sequence[Mapping[T, int]]
) -> int:
    """Return the end of the last motif of an option, if motifs are issued in order.

    A motif begins as soon as its predecessors have ended and its resources are available, but not
    before earlier motifs have begun.

    Args:
        ticks: Duration of each motif.
        after: Earlier motifs that each motif waits for.
        loads: Use of resources by each motif, out of :data:`FULL_LOAD`.
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
    """Return whether a motif can run concurrently with others. Without others, any motif can."""
    return not any(under_way) or all(
        share + sum(running.get(name, 0) for running in under_way) <= FULL_LOAD
        for name, share in load.items()
    )


@dataclass(frozen=True, slots=True)
class RefusedRecipe:
    """A recipe without an option for a collective.

    Attributes:
        why: Reason as a sentence: the recipe does not apply, nothing carries it, or others are
            better.
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
    """An entry in the order of a window.

    Attributes:
        op: Id of an operation.
        motif: Motif of its option. 0 for a computation.
        shift: Number of iterations ahead of the window's own iteration.
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
        memory_bytes: Maximum total size of the results that a rank holds at any time. 0: no limit.
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
        """Return the original workload, before merging."""
        return self.unmerged_workload or self.workload

    @property
    def gap(self) -> float | None:
        """Return the relative gap of the period to the bound. None: no bound is known."""
        if self.is_at_bound:
            return 0.0
        return self.period_ns / self.bound_ns - 1 if self.bound_ns else None

    @property
    def is_at_bound(self) -> bool:
        """Return whether the period attains the claimed bound."""
        return self.period_ns <= self.bound_ns

    @property
    def is_optimal(self) -> bool:
        """Return whether its period is proved minimal for these options.

        With times from a table of costs the proof needs the table.
        """
        return self.is_at_bound and not self.costs

    def motifs(self) -> Iterator[tuple[str, int, OptionMotif]]:
        """Yield each motif, after its collective's id and its number."""
        for name, option in self.options:
            for number, motif in enumerate(option.motifs):
                yield name, number, motif


@dataclass(frozen=True, slots=True)
class StepSpan:
    """The duration of an operation.

    Attributes:
        op: Id of an operation.
        motif: Motif of its option. 0 for a computation.
        iteration: Iteration, from 0.
        lane: Computation stream of a role, or channel of the fabric.
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
    """The execution of a plan.

    Attributes:
        spans: Spans, sorted by start.
        period_ns: Time from one iteration to the next in the periodic part, nanoseconds.
        is_steady: Whether the simulation reached a periodic part.
        first_periodic: First iteration of the periodic part.
    """

    spans: tuple[StepSpan, ...]
    period_ns: int
    is_steady: bool
    first_periodic: int

    @property
    def iterations(self) -> int:
        """Return the number of iterations."""
        return 1 + max((span.iteration for span in self.spans), default=-1)

    @property
    def prologue_ns(self) -> int:
        """Return the additional time of the first iterations compared with periodic ones."""
        return self.finish_ns(self.first_periodic + 1) - (self.first_periodic + 1) * self.period_ns

    def finish_ns(self, iterations: int = 2) -> int:
        """Return the end of the first ``iterations`` iterations."""
        return max(span.end_ns for span in self.spans if span.iteration < iterations)


def lane_rows(spans: Iterable[StepSpan]) -> list[int]:
    """Assign spans, sorted by start, to rows of their lanes without overlap, from row 0."""
    free: dict[tuple[str, int], int] = {}
    slots = []
    for span in spans:
        slot = 0
        while free.get((span.lane, slot), 0) > span.start_ns:
            slot += 1
        free[span.lane, slot] = span.end_ns
        slots.append(slot)
    return slots
