"""What is issued when: by the order of a plan and by what the host has submitted, nothing else.

Every rank submits the same calls in the same order. So what depends on that sequence alone, and on
no clock, is the same on all of them, however far one is ahead of the other:

- Once a whole iteration was submitted as the plan has it, the next ones are planned.
- A motif is issued once all before it in the order are, and its operation was submitted: all of the
  calls that it is made of.
- A call that the plan does not expect next is a *cut*: what was submitted before is issued in the
  plan's order, without what is missing, and calls go their own way until an iteration was as
  planned again. Of an operation of which some calls are missing, the others are issued, too. Where
  the host waits for what is not issued, and is to submit something before, all ranks stand at the
  same call, and it is a cut there.

Source: SYNDICATE (NSDI 2023) section 4.4, Pseudocode 2. It has no cuts, and would wait for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

Issued = tuple[int, int, int]
"""An iteration, an operation of it, and a motif of that."""


@dataclass(slots=True)
class CallSequence:
    """Where a rank is in its plan.

    Attributes:
        program: what an iteration submits, in order.
        ops: of each call in it, the operation that it is of.
        order: of a window: operation, motif, and of how many iterations ahead.
        planned: whether calls are expected.
        calls: that were submitted, in all.
        cuts: how often they were others than expected.
        iterations: how many were submitted as the plan has them, expected or not.
    """

    program: Sequence[Hashable]
    ops: Sequence[int]
    order: Sequence[Issued]
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

    def submit(self, call: Hashable) -> tuple[tuple[int, int] | None, list[Issued]]:
        """Take a call.

        Returns:
            Of which iteration it is, and its place in the program. None: it goes its own way. And
            what is issued before it, which is of a cut.
        """
        self.calls += 1
        issued: list[Issued] = []
        if self.planned and call != self.program[self._next]:
            issued = self.cut()
        if not self.planned:
            self._follow(call)
            return None, issued
        own = self._iteration, self._next
        self._next += 1
        if self._next == len(self.program):
            self._iteration, self._next = self._iteration + 1, 0
            self.iterations += 1
        return own, issued

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

    def ready(self) -> list[Issued]:
        """Return what may be issued now, in order."""
        found: list[Issued] = []
        while self.planned:
            op, motif, shift = self.order[self._place]
            iteration = self._window + shift
            if not self._submitted(iteration, self._ends[op]):
                break
            if iteration >= 0:
                found.append((iteration, op, motif))
            self._go_on()
        return found

    def cut(self) -> list[Issued]:
        """Return all that was submitted and is not issued, in order. Nothing is planned then.

        Operations of which some calls are missing are among it.
        """
        found: list[Issued] = []
        while self.planned and self._window <= self._iteration:
            op, motif, shift = self.order[self._place]
            iteration = self._window + shift
            if iteration >= 0 and self._submitted(iteration, self._begins[op]):
                found.append((iteration, op, motif))
            self._go_on()
        self.cuts += self.planned
        self.planned = False
        self._last.clear()
        return found

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
            # What is issued ahead of its window was so in windows before the first.
            self._window = -max(shift for _, _, shift in self.order)
