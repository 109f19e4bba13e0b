"""Decide when motifs are issued, from the plan's order and the submitted calls only.

Every rank submits the same calls in the same order. Decisions that depend on this sequence only,
and on no clock, are therefore equal on all of them, however far apart they are:

- After a whole iteration matched the plan, the following ones are planned.
- A motif is issued when all motifs before it in the order are, and all calls of its operation were
  submitted.
- A call that the plan does not expect is a *cut*. All submitted work is then issued in the plan's
  order, without missing calls, and calls keep their own order until an iteration matches the plan
  again. If some calls of an operation are missing, the others are issued as well. If the host waits
  for work that is not issued, because it has to submit other calls first, all ranks stand at the
  same call, and there is a cut.

Source: SYNDICATE (NSDI 2023) section 4.4, Pseudocode 2. It has no cuts, and would wait forever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

IssuedMotif = tuple[int, int, int]
"""An iteration, an operation of it, and a motif of that."""


@dataclass(slots=True)
class CallSequence:
    """The position of a rank in its plan.

    Attributes:
        program: Keys of the calls of an iteration, in order.
        ops: Operation of each call in it.
        order: Order of a window: operation, motif, and number of iterations ahead.
        planned: Whether calls are expected.
        calls: Number of submitted calls.
        cuts: Number of cuts.
        iterations: Number of iterations that matched the plan, expected or not.
    """

    program: Sequence[Hashable]
    ops: Sequence[int]
    order: Sequence[IssuedMotif]
    planned: bool = False
    calls: int = 0
    cuts: int = 0
    iterations: int = 0
    _last: deque[Hashable] = field(default_factory=deque)
    _iteration: int = 0
    _next: int = 0
    _window: int = 0
    _place: int = 0
    _begins: dict[int, int] = field(init=False)
    _ends: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        """Note with which calls operations begin, and with which they are whole."""
        self._ends = {op: place for place, op in enumerate(self.ops)}
        self._begins = {op: place for place, op in reversed(list(enumerate(self.ops)))}

    def submit(self, call: Hashable) -> tuple[tuple[int, int] | None, list[IssuedMotif]]:
        """Process a call.

        Returns:
            Its iteration, and its place in the program (None: it keeps its own order), and the work
            to issue before it after a cut.
        """
        self.calls += 1
        issued: list[IssuedMotif] = []
        if self.planned and call != self.program[self._next]:
            issued = self.cut()
        if not self.planned:
            self._follow(call)
            return None, issued
        position = self._iteration, self._next
        self._next += 1
        if self._next == len(self.program):
            self._iteration, self._next = self._iteration + 1, 0
            self.iterations += 1
        return position, issued

    @property
    def place(self) -> int:
        """Return how many calls of an iteration come before the next, where that is planned."""
        return self._next

    def follow(self, calls: Iterable[Hashable]) -> None:
        """Take the last calls before this plan, no more than an iteration has.

        If they were one as it has it, the next is planned.
        """
        for call in calls:
            self._follow(call)

    def ready(self) -> list[IssuedMotif]:
        """Return the work that may be issued now, in order."""
        issued: list[IssuedMotif] = []
        while self.planned:
            op, motif, shift = self.order[self._place]
            iteration = self._window + shift
            if not self._submitted(iteration, self._ends[op]):
                break
            if iteration >= 0:
                issued.append((iteration, op, motif))
            self._go_on()
        return issued

    def cut(self) -> list[IssuedMotif]:
        """Return all that was submitted and is not issued, in order. Nothing is planned then.

        Operations of which some calls are missing are among it.
        """
        issued: list[IssuedMotif] = []
        while self.planned and self._window <= self._iteration:
            op, motif, shift = self.order[self._place]
            iteration = self._window + shift
            if iteration >= 0 and self._submitted(iteration, self._begins[op]):
                issued.append((iteration, op, motif))
            self._go_on()
        self.cuts += self.planned
        self.planned = False
        self._last.clear()
        return issued

    def _submitted(self, iteration: int, place: int) -> bool:
        return (iteration, place) < (self._iteration, self._next)

    def _go_on(self) -> None:
        self._place += 1
        if self._place == len(self.order):
            self._window, self._place = self._window + 1, 0

    def _follow(self, call: Hashable) -> None:
        """Plan from the next call on, if the last ones were those of an iteration."""
        self._last.append(call)
        if len(self._last) > len(self.program):
            self._last.popleft()
        if call == self.program[-1] and list(self._last) == list(self.program):
            self.planned = True
            self.iterations += 1
            self._last.clear()
            self._iteration = self._next = self._place = 0
            # Calls that are issued ahead of their window were so in windows before the first.
            self._window = -max(shift for _, _, shift in self.order)
