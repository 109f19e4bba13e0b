"""Decide when motifs are issued, from the plan's order and the submitted calls only.

All ranks submit the same calls in the same order. Decisions that depend only on this sequence, and
on no clock, are therefore equal on all ranks, however far apart they are:

- After a whole iteration matched the plan, the following iterations are planned.
- A motif is issued when all motifs before it in the order are issued, and all calls of its
  operation are submitted.
- A call that the plan does not expect causes a *cut*. All submitted work is then issued in the
  plan's order, without missing calls, and calls keep their own order until an iteration matches the
  plan again. If some calls of an operation are missing, the others are issued as well.
- The host may wait for work that is not issued, before it submits the calls that the plan has
  earlier. Then all ranks are stalled at the same call, and there is a cut as well.

A rank that is stalled before its next call writes the number of its calls to the job's store. When
all ranks have written the same number, the last of them writes the decision to cut. A rank that
still makes its next call first writes the decision to continue. The first write decides for all
ranks, so no clock decides, and ranks never decide differently.

Source: SYNDICATE (NSDI 2023) section 4.4, Pseudocode 2. It has no cuts, and would wait forever.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sccl.errors import ToolError
from sccl.torch_backend.peers import format_ranks

IssuedMotif = tuple[int, int, int]
"""Iteration, operation, and motif. In the order of a window: operation, motif, and shift."""


@dataclass(slots=True)
class CallSequence:
    """The position of a rank in its plan.

    Attributes:
        program: Keys of the calls of an iteration, in order.
        ops: Operation of each call of the program.
        order: Order of a window: operation, motif, and number of iterations ahead.
        planned: Whether the plan orders the next calls.
        calls: Number of submitted calls.
        cuts: Number of cuts.
        iterations: Number of iterations that matched the plan, planned or not.
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
        """Compute the first and the last call of each operation."""
        self._ends = {op: place for place, op in enumerate(self.ops)}
        self._begins = {op: place for place, op in reversed(list(enumerate(self.ops)))}

    def submit(self, call: Hashable) -> tuple[tuple[int, int] | None, list[IssuedMotif]]:
        """Process a call.

        Returns:
            Iteration and place of the call in the program (None: the call is not planned), and work
            to issue before the call, after a cut.
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
        """Return the place of the next call in the program, if it is planned."""
        return self._next

    def follow(self, calls: Iterable[Hashable]) -> None:
        """Process the last calls before this plan, at most those of one iteration.

        If they match an iteration of the plan, the next call is planned.
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
        """Stop planning, and return all submitted work that is not issued, in order.

        It includes operations with missing calls.
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
        """Start planning at the next call, if the last calls match an iteration."""
        self._last.append(call)
        if len(self._last) > len(self.program):
            self._last.popleft()
        if call == self.program[-1] and list(self._last) == list(self.program):
            self.planned = True
            self.iterations += 1
            self._last.clear()
            self._iteration = self._next = self._place = 0
            # Earlier windows contain work of the first iterations that is issued ahead.
            self._window = -max(shift for _, _, shift in self.order)


CUT, RESUME = "cut", "on"


class StallAgreement:
    """The agreement of ranks on stalls.

    Attributes:
        at: Number of calls after which this rank is stalled. None: it is not stalled.
    """

    def __init__(self, store: Any, rank: int, ranks: int, limit_s: float) -> None:
        self._store, self._rank, self._ranks, self._limit_s = store, rank, ranks, limit_s
        self._silent = False  # whether a request had no answer in time
        self.at: int | None = None

    def tell(self, calls: int) -> None:
        """Report, once for each number of calls, that this rank is stalled after these calls."""
        if self.at == calls:
            return
        self.at = calls
        self._ask("set", f"stalled/{calls}/{self._rank}", "1")
        if self._ask("add", f"stalled/{calls}", 1) == self._ranks:
            self._decide(calls, CUT)

    def decided(self) -> str:
        """Return the decision for the stall of this rank. Empty: none yet."""
        key = f"decided/{self.at}"
        return str(self._ask("get", key).decode()) if self._ask("check", [key]) else ""

    def go_on(self) -> str:
        """Decide to continue before this rank's next call, and return the decision that holds."""
        assert self.at is not None
        decision = self._decide(self.at, RESUME)
        self.at = None
        return decision

    def _decide(self, calls: int, decision: str) -> str:
        return str(self._ask("compare_set", f"decided/{calls}", "", decision).decode())

    def others(self) -> str:
        """Return a text with the ranks that are not stalled at the same call."""
        keys = {rank: f"stalled/{self.at}/{rank}" for rank in range(self._ranks)}
        moving = [rank for rank, key in keys.items() if not self._ask("check", [key])]
        if not moving:
            return "all ranks have reached this call"
        have = "has" if len(moving) == 1 else "have"
        return f"{format_ranks(moving)} {have} not reached this call"

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Return the answer of the store, whose process may be stopped or have ended.

        Raises:
            ToolError: There is no answer in time, or an earlier request had none.
        """
        answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put((getattr(self._store, method)(*arguments), None))
            except Exception as error:  # noqa: BLE001 - raised in the caller
                answers.put((None, error))

        answer, error = None, None
        try:
            if not self._silent:
                threading.Thread(target=ask, name="sccl-store", daemon=True).start()
            answer, error = answers.get(timeout=0 if self._silent else self._limit_s)
        except queue.Empty:
            self._silent = True
            error = TimeoutError(f"no answer in {self._limit_s:g} s")
        if error is not None:
            raise ToolError(
                f"the job's store does not answer ({error}): look at the process that holds it, "
                "torchrun or rank 0"
            ) from error
        return answer
