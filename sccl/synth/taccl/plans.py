"""From a request and a sketch to a schedule, and a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec

from sccl.collectives import dual_of
from sccl.core.files.sketch_shapes import SketchWire
from sccl.core.files.sketches import sketch_of_wire, sketch_to_wire
from sccl.core.outcome import Found, GaveUp, Outcome
from sccl.core.sketch import Sketch
from sccl.errors import ParameterError, TooLargeError
from sccl.solvers.effort import Effort, Spending
from sccl.synth.contract import Notify, Request
from sccl.synth.taccl.automatic import suggested
from sccl.synth.taccl.options import Options
from sccl.synth.taccl.phase import NEAR, SketchedPhase
from sccl.synth.taccl.phases import assembled, bound_of_any_chunks, directions, phase_of

UNITS = 4.0
"""Default effort, in units."""


@dataclass(frozen=True, slots=True)
class SketchedBest:
    """The best schedule so far and the lower bound, for one phase, in microseconds.

    Attributes:
        sketch: its sketch.
    """

    us: float
    least_us: float
    sketch: str


@dataclass(frozen=True, slots=True)
class PhaseFound:
    """The result of a phase.

    Attributes:
        relaxed_us: lower bound for any order of its routes.
        by: the order or model that found its schedule.
        tried: time by each order, and each model, microseconds.
    """

    relaxed_us: float
    by: str
    tried: dict[str, float]


@dataclass(frozen=True, slots=True)
class SketchKept:
    """The sketch of a result, and the results of its phases."""

    kept: SketchWire
    phases: tuple[PhaseFound, ...]


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the best schedule of chunks within a sketch that is found, with a lower bound.

    Raises:
        InputError: the sketch or the options do not fit the request.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    units = UNITS if effort.units is None else effort.units
    effort = Effort(effort.timeout_s, effort.seed, units)
    if options.sketch is not None:
        one = WithinSketch(request, sketch_of_wire(options.sketch), options, notify)
        return one.outcome(Spending(Effort(effort.timeout_s, effort.seed)), units)
    return _of_several(request, options, effort, notify)


_LOOK = 0.15
"""Fraction of the effort for a first evaluation of a sketch, with only routes and orders."""

_WITH_CARE = 2
"""Sketches that are planned with care, in the end."""


def _of_several(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the best within sketches that the machine suggests."""
    search = _Several(request, options, effort, notify)
    ended = ""
    try:
        search.look()
        search.with_care()
    except KeyboardInterrupt:
        if search.best is None:
            raise
        ended = "interrupted"
    best = search.best
    if best is None:
        return GaveUp(search.why_not)
    best.tell()
    if not ended and search.spending.late() and not best.done:
        ended = effort.why_late
    found = best.assembled()
    return GaveUp(ended, found) if ended else found


class _Several:
    """A search over sketches."""

    def __init__(self, request: Request, options: Options, effort: Effort, notify: Notify) -> None:
        self.request, self.options, self.notify = request, options, notify
        self.spending = Spending(Effort(effort.timeout_s, effort.seed))  # each part has its units
        self.units = effort.units or UNITS
        self.looked: list[WithinSketch] = []
        self.asked: set[Sketch] = set()
        self.best: WithinSketch | None = None

    @property
    def ended(self) -> bool:
        """Return whether there is nothing to better, or no time for it."""
        return self.spending.late() or (self.best is not None and self.best.done)

    @property
    def why_not(self) -> str:
        """Return why nothing was found."""
        late = self.spending.late()
        return self.spending.effort.why_late if late else "no routes within that budget"

    def look(self) -> None:
        """Evaluate the machine's suggestions quickly, one choice after the other."""
        choices = suggested(self.request, symmetric=_treats_alike(self.request))
        try:
            some = next(choices)
            while not self.ended:
                for sketch in some:
                    self._look_at(sketch)
                if self.best is None:
                    return
                some = choices.send(self.best.sketch)
        except StopIteration:
            return

    def _look_at(self, sketch: Sketch) -> None:
        sketch = replace(sketch, chunks=self.options.chunks or sketch.chunks)
        asked = replace(sketch, name="")
        if self.ended or asked in self.asked:
            return
        self.asked.add(asked)
        try:
            one = WithinSketch(self.request, sketch, self.options, self.notify)
            if self.best is None:
                one.begin()
                self.best = one
            one.bound()
            if self.best is not one and one.least >= self.best.finish:
                return  # no schedule of such chunks is better
            self._take_from(one)
        except TooLargeError:
            if self.best is None and not self.looked:
                raise

    def _take_from(self, one: WithinSketch) -> None:
        """Evaluate a sketch, and keep its result, even after an interrupt."""
        try:
            one.look(self.spending, self.units * _LOOK)
        finally:
            if one.found:
                self.looked.append(one)
                self._compare(one)

    def _compare(self, one: WithinSketch) -> None:
        if self.best is None or one.finish < self.best.finish:
            self.best = one

    def with_care(self) -> None:
        """Plan the best of those that were looked at with care."""
        for one in sorted(self.looked, key=lambda one: one.finish)[:_WITH_CARE]:
            assert self.best is not None
            if self.ended or one.least >= self.best.finish:
                continue
            try:
                one.run(self.spending, self.units / _WITH_CARE)
            finally:
                self._compare(one)


def _treats_alike(request: Request) -> bool:
    """Return whether a collective is the same again where ranks stand for one another."""
    spec = dual_of(request.spec).spec
    return spec.name in {"allgather", "alltoall"}


class WithinSketch:
    """A request within a sketch: its phases, and their results."""

    def __init__(self, request: Request, sketch: Sketch, options: Options, notify: Notify) -> None:
        """Pose the phases. Nothing is found yet.

        Raises:
            InputError: the sketch does not fit the machine or the collective.
        """
        self.request, self.sketch, self.notify = request, sketch, notify
        relays, order = sketch.relays, options.order
        if relays is not None and relays.own_first and order.endswith("-end"):
            raise ParameterError(
                f"order is {order}, and sketch {sketch.name!r} has a sender's own chunks leave "
                "before others (enforce_ordering), to which orders from the start keep alone: give "
                "one of these, or best"
            )
        self.dual = dual_of(request.spec)
        self.chunks_given = bool(options.chunks)
        self.chunks = options.chunks or sketch.chunks
        self.options = msgspec.structs.replace(options, chunks=self.chunks)
        self.phases: list[SketchedPhase] = []
        self._bounded = False
        for backwards in directions(self.dual):
            before = self.phases[0] if self.phases else None
            asked = request, sketch, self.options, self.dual, self._tell_of_better
            self.phases.append(phase_of(*asked, before, backwards=backwards))

    @property
    def found(self) -> bool:
        """Return whether all phases have a schedule."""
        return all(phase.batches for phase in self.phases)

    @property
    def finish(self) -> int:
        """Return the ticks after which all has arrived."""
        return sum(phase.finish * phase.posed.unit for phase in self.phases)

    @property
    def least(self) -> int:
        """Return the ticks that its phases take at the least."""
        return sum(phase.least * phase.posed.unit for phase in self.phases)

    @property
    def done(self) -> bool:
        """Return whether the result is optimal, or nearly so.

        That is for the requested chunks, or for any number of chunks if none were requested.
        """
        if not self.found:
            return False
        least = self.least if self.chunks_given else sum(p.any_chunks for p in self.phases)
        gap = Fraction(self.options.gap)
        if all(phase.huge for phase in self.phases):  # another sketch takes minutes
            gap = max(gap, NEAR)
        return self.finish <= least * (1 + gap)

    def begin(self) -> None:
        """Find something at once, to be kept if nothing else is found."""
        for phase in self.phases:
            phase.begin()

    def bound(self) -> None:
        """Compute the lower bound for schedules of any chunks."""
        for phase in self.phases:
            phase.no_less_than(bound_of_any_chunks(phase))
        self._bounded = True

    def look(self, spending: Spending, units: float) -> None:
        """Find something quickly: routes and orders alone."""
        for phase in self.phases:
            left = spending.left(units / len(self.phases))
            if left is not None:
                phase.run(left, quick=True)

    def run(self, spending: Spending, units: float) -> None:
        """Run all steps of all phases.

        Raises:
            KeyboardInterrupt: the user interrupted. Results so far are kept.
        """
        for phase in self.phases:
            left = spending.left(units / len(self.phases))
            if left is not None:
                phase.run(left)

    def outcome(self, spending: Spending, units: float) -> Outcome:
        """Return the best within the sketch.

        Raises:
            KeyboardInterrupt: the user interrupted, and there is nothing to give.
        """
        ended = ""
        try:
            if not spending.late():
                self.begin()
            self.bound()
            self.run(spending, units)
        except KeyboardInterrupt:
            ended = "interrupted"
            if not self.found:
                raise
        if not self.found:
            late = spending.effort.why_late if spending.late() else ""
            return GaveUp(late or "no routes within that budget")
        self.tell()
        if not ended and spending.late() and not all(phase.done for phase in self.phases):
            ended = spending.effort.why_late
        found = self.assembled()
        return GaveUp(ended, found) if ended else found

    def tell(self) -> None:
        """Tell which sketch it is, and how its phases went."""
        parts = []
        for phase in self.phases:
            routes = phase.routes or phase.begun
            assert routes is not None
            tried = {by: phase.us(units) for by, units in phase.tried.items()}
            parts.append(PhaseFound(phase.us(routes.units), phase.by, tried))
        sketch = replace(self.sketch, chunks=self.chunks, size_bytes=self.request.size_bytes)
        if not all(phase.symmetric for phase in self.phases):
            sketch = replace(sketch, rotations=())
        self.notify(SketchKept(sketch_to_wire(sketch), tuple(parts)))

    def _tell_of_better(self, us: float, least_us: float) -> None:
        self.notify(SketchedBest(us, least_us, self.sketch.name))

    def assembled(self) -> Found:
        """Return the results of the phases as one schedule."""
        asked = self.request, self.dual, self.chunks, self.phases
        return assembled(*asked, at_once=not self._bounded)
