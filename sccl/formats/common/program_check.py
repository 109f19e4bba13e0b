"""Check a graph of steps for faults under every speed of its thread blocks, without sampling.

The happens-before order of steps does not depend on the schedule, so one run in any topological
order represents all runs. Two accesses of a place, one of them a write, are a race unless they are
ordered (vector clocks, Lamport 1978, Fidge and Mattern 1988). A cycle of waits is a deadlock in all
runs. Without races all runs have the same result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sccl.core.graphs import topological_order
from sccl.errors import TooLargeError
from sccl.formats.common.program_graph import (
    Content,
    GraphFault,
    GraphStep,
    Label,
    Move,
    Place,
    ProgramTransfer,
    StepGraph,
    StepProgram,
)

MAX_CLOCKS = 2**28
"""Maximum of steps times thread blocks: one gigabyte of clocks."""

_MAX_SHOWN = 4
"""Maximum number of missing chunks, or of steps in a cycle, that a message names."""


@dataclass(slots=True)
class GraphRun:
    """Result of a run.

    Attributes:
        transfers: Transfers of the messages that a step used.
    """

    faults: list[GraphFault] = field(default_factory=list)
    transfers: list[ProgramTransfer] = field(default_factory=list)


def run_graph(graph: StepGraph) -> GraphRun:
    """Run a program and return all faults and the content of its messages.

    Raises:
        TooLargeError: The program has too many steps and thread blocks.
    """
    order, faults = order_steps(graph.steps)
    if faults:
        return GraphRun(faults)
    execution = _Execution(graph, _clocks(graph.steps, order))
    for number in order:
        execution.run_step(number)
    execution.compare_results()
    return GraphRun(execution.faults, execution.list_transfers())


def find_faults(program: StepProgram) -> list[GraphFault]:
    """Return the faults of a program in all modes of a call, which they name if there are several.

    Raises:
        TooLargeError: The program has too many steps and thread blocks.
    """
    several = len(program.call_modes) > 1
    return [
        replace(fault, message=f"{mode.name}: {fault.message}" if several else fault.message)
        for mode in program.call_modes
        for fault in (*mode.faults, *run_graph(mode.graph).faults)
    ]


def completed_before(steps: Sequence[GraphStep]) -> list[tuple[int, ...]]:
    """Return the direct predecessors of every step, including the previous one of its block."""
    earlier: list[tuple[int, ...]] = []
    for number, step in enumerate(steps):
        follows = number and (steps[number - 1].rank, steps[number - 1].block) == (
            step.rank,
            step.block,
        )
        earlier.append((number - 1, *step.after) if follows else step.after)
    return earlier


def order_steps(steps: Sequence[GraphStep]) -> tuple[list[int], list[GraphFault]]:
    """Return the steps in topological order, and faults if there is none."""
    before = completed_before(steps)
    waits = {
        number: (*sources, number) if steps[number].never_reason else sources
        for number, sources in enumerate(before)
    }  # a step that never happens waits for itself
    order = topological_order(waits, key=int)
    if len(order) == len(steps):
        return order, []
    return order, list(_find_deadlocks(steps, before, set(order)))


def _find_deadlocks(
    steps: Sequence[GraphStep], before: Sequence[tuple[int, ...]], done: set[int]
) -> Iterator[GraphFault]:
    """Yield steps that await an event that never happens, or else a cycle of waits."""
    left = [number for number in range(len(steps)) if number not in done]
    causes = [steps[number] for number in left if steps[number].never_reason]
    for step in causes:
        yield _fault("deadlock", step, f"{step.name} {step.never_reason}")
    if causes:
        return
    path: list[int] = []
    seen: dict[int, int] = {}
    number = left[0]
    while number not in seen:
        seen[number] = len(path)
        path.append(number)
        number = next(source for source in before[number] if source not in done)
    circle = path[seen[number] :]
    names = [steps[n].name for n in circle[:_MAX_SHOWN]]
    more = f", and {len(circle) - _MAX_SHOWN} more" if len(circle) > _MAX_SHOWN else ""
    text = f"{', which waits for '.join(names)}{more}, which waits for the first of them"
    yield _fault("deadlock", steps[circle[0]], text)


def _clocks(steps: Sequence[GraphStep], order: Sequence[int]) -> npt.NDArray[np.int32]:
    """Return the vector clock of every step: the completed steps of each thread block.

    Raises:
        TooLargeError: There are too many steps and blocks.
    """
    blocks = {key: n for n, key in enumerate(dict.fromkeys((s.rank, s.block) for s in steps))}
    if len(steps) * len(blocks) > MAX_CLOCKS:
        raise TooLargeError(
            f"the program has {len(steps)} steps in {len(blocks)} thread blocks, and up to "
            f"{MAX_CLOCKS} of the one times the other are compared: give one of fewer chunks"
        )
    before = completed_before(steps)
    clocks = np.zeros((len(steps), max(1, len(blocks))), np.int32)
    for number in order:
        row = clocks[number]
        for source in before[number]:
            np.maximum(row, clocks[source], out=row)
        step = steps[number]
        row[blocks[step.rank, step.block]] = step.index + 1
    return clocks


def _fault(kind: str, step: GraphStep, text: str) -> GraphFault:
    return GraphFault(kind, text, step.rank, step.block, step.index, step.chunk)


@dataclass(slots=True)
class _PlaceContent:
    """Content of a place.

    Attributes:
        messages: Numbers of the messages that brought it unchanged.
    """

    content: Content
    messages: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Message:
    """A message from a place of one rank to a place of another.

    Attributes:
        index: Index of the destination.
        used: Time of its first use, None before.
    """

    src: int
    dst: int
    index: int
    sent: int
    content: Content
    used: int | None = None
    reduced: bool = False


class _Execution:
    """State of a run: the content of places and the last steps that accessed them."""

    def __init__(self, graph: StepGraph, clocks: npt.NDArray[np.int32]) -> None:
        self.graph = graph
        self.clocks = clocks
        keys = dict.fromkeys((s.rank, s.block) for s in graph.steps)
        self.column = {key: n for n, key in enumerate(keys)}
        self.contents = {place: _PlaceContent(content) for place, content in graph.initial.items()}
        self.writer: dict[Place, int] = {}
        self.readers: dict[Place, list[int]] = defaultdict(list)
        self.messages: list[_Message] = []
        self.faults: list[GraphFault] = []
        self.racing: set[tuple[int, int]] = set()
        self.now = 0

    def run_step(self, number: int) -> None:
        """Run a step: all reads first, then all writes."""
        step = self.graph.steps[number]
        for place in dict.fromkeys(place for move in step.moves for place in move.srcs):
            self._read(number, step, place)
        for place in dict.fromkeys(move.dst for move in step.moves):
            self._write(number, place)
        results = [self._result(step, move) for move in step.moves]
        for move, result in zip(step.moves, results, strict=True):
            self.contents[move.dst] = result
        self.now += 2

    def _result(self, step: GraphStep, move: Move) -> _PlaceContent:
        # Sources on one rank are added there, and their sum is one message.
        operands = [self._read_content(source) for source in move.srcs]
        if len({source[0] for source in move.srcs}) == 1:
            return self._deliver(self._add_operands(step, operands), move.srcs[0][0], move.dst)
        came = zip(move.srcs, operands, strict=True)
        return self._add_operands(
            step, [self._deliver(held, source[0], move.dst) for source, held in came]
        )

    def _read_content(self, source: Place) -> _PlaceContent:
        held = self.contents.get(source, _PlaceContent(frozenset()))
        for message in (self.messages[number] for number in held.messages):
            message.used = self.now if message.used is None else message.used
        return held

    def _deliver(self, held: _PlaceContent, src: int, target: Place) -> _PlaceContent:
        if src == target[0]:
            return held
        self.messages.append(_Message(src, target[0], target[2], self.now + 1, held.content))
        return _PlaceContent(held.content, frozenset({len(self.messages) - 1}))

    def _read(self, number: int, step: GraphStep, place: Place) -> None:
        if place not in self.contents:
            text = f"{step.name} reads {_format_place(place)}, which no step has written"
            self.faults.append(_fault("unwritten", step, text))
            self.contents[place] = _PlaceContent(frozenset())
        if place in self.writer:
            self._check_race(self.writer[place], number, place)
        self.readers[place].append(number)

    def _write(self, number: int, place: Place) -> None:
        writers = [self.writer[place]] if place in self.writer else []
        for earlier in (*self.readers.pop(place, ()), *writers):
            if earlier != number:
                self._check_race(earlier, number, place)
        self.writer[place] = number

    def _check_race(self, first: int, then: int, place: Place) -> None:
        a, b = self.graph.steps[first], self.graph.steps[then]
        if (
            self.clocks[then, self.column[a.rank, a.block]] > a.index
            or (first, then) in self.racing
        ):
            return
        self.racing.add((first, then))
        text = (
            f"{b.name} and {a.name} both touch {_format_place(place)}, and nothing says which is "
            f"first"
        )
        self.faults.append(_fault("race", b, text))

    def _add_operands(self, step: GraphStep, operands: Sequence[_PlaceContent]) -> _PlaceContent:
        if len(operands) == 1:
            return operands[0]
        content: Content = frozenset()
        for held in operands:
            if both := content & held.content:
                text = f"{step.name} adds {_format_labels(both)} a second time"
                self.faults.append(_fault("twice", step, text))
            content |= held.content
            for message in (self.messages[number] for number in held.messages):
                if not message.reduced:
                    message.reduced = True
                    message.used = max(self.now, message.sent + 1)
        return _PlaceContent(content)

    def compare_results(self) -> None:
        """Record a fault for every place whose final content differs from the demand."""
        for place, wanted in sorted(self.graph.demand.items()):
            got = self.contents.get(place)
            if got is not None and got.content == wanted:
                continue
            step = self.graph.steps[self.writer[place]] if place in self.writer else None
            by = f", written last by {step.name}" if step else ", which no step has written"
            kind, outcome = _describe_difference(
                wanted, frozenset() if got is None else got.content
            )
            self.faults.append(
                GraphFault(
                    kind,
                    f"rank {place[0]}: {_format_place(place)}{by}, ends {outcome}",
                    place[0],
                    None if step is None else step.block,
                    None if step is None else step.index,
                    place[2],
                )
            )

    def list_transfers(self) -> list[ProgramTransfer]:
        """Return the messages that a step used or that are part of the demand."""
        final = {
            number
            for place in self.graph.demand
            for number in self.contents.get(place, _PlaceContent(frozenset())).messages
        }
        return [
            ProgramTransfer(
                *(m.src, m.dst, m.index, m.sent),
                m.sent + 1 if m.used is None else m.used,
                m.content,
                m.reduced,
            )
            for number, m in enumerate(self.messages)
            if m.used is not None or number in final
        ]


def _describe_difference(wanted: Content, got: Content) -> tuple[str, str]:
    if missing := wanted - got:
        kind = "missing"
        text = f"without {_format_labels(missing)}"
        more = f", and with {_format_labels(got - wanted)} instead" if got - wanted else ""
        return kind, text + more
    return "wrong", f"with {_format_labels(got - wanted)} besides"


def _format_labels(labels: frozenset[Label]) -> str:
    ordered = sorted(labels)
    text = ", ".join(f"chunk {index} of rank {rank}" for rank, index in ordered[:_MAX_SHOWN])
    return text + (f" and {len(ordered) - _MAX_SHOWN} more" if len(ordered) > _MAX_SHOWN else "")


def _format_place(place: Place) -> str:
    rank, buffer, index = place
    return f"{buffer} chunk {index} of rank {rank}"
