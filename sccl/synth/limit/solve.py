"""The limit of R/C for a number of steps: when column generation goes on, and when it ends.

::

      .------------------------------------------------.
      v     gap left              no new tree          |
    solving --------> pricing ---------------> stuck --| new trees
      |  |              |  |                     |     |
      |  |              |  '-- new trees --------|-----|
      |  |  no effort   v  too slow              |     |
      |  '----------> spent -------------------->|     |
      |                                          |     |
      |  gap closed            known             v     |
      '-----------> closed -------------------> end    |
                      |  |                       ^     |
                      |  '---- new trees --------|-----|
                      |                          |     |
                      |  neither        no tree  |     |
                      '---------> repricing -----'     |
                                      |                |
                                      '-- new trees ---'

``closed``, ``stuck`` and ``spent`` make the packing exact, and ask for trees at exact prices once.

Prices prove a limit, and :mod:`sccl.prove.check.prices` checks them: if the constraints' prices,
times what each carries in a round, add up to at most 1 in every step, then R rounds buy at most R,
however they are spread over the steps. So if the timed trees of all chunks together cost at least D
per C, whatever trees they are, then R/C >= D. Likewise for rounds per step that are given: if they
buy at most 1, then D * C <= 1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.limit import Prices
from sccl.core.topology import constraint_name
from sccl.synth.limit.columns import Columns, Share
from sccl.synth.limit.master import Solution
from sccl.synth.limit.options import LIMIT_UNITS
from sccl.synth.limit.problem import Problem, Tree

_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Packing:
    """Shares of timed trees, and the bounds on the limit of R/C for S steps.

    Attributes:
        lower: no algorithm of S steps has a smaller R/C.
        upper: R/C of the packing. Equal to ``lower`` if the limit is known.
        shares: sum to 1 per commodity.
        prices: proof of ``lower``, unless the bandwidth bound proves it (then empty).
        rounds: rounds of column generation.
        effort: effort spent, independent of the clock.
        trees: by commodity, all that were priced on the way.
        timed_out: whether seconds ended it, so that the shares depend on the load of the machine.
            The bounds hold, but nothing is written from such a packing.
    """

    problem: Problem
    lower: Fraction
    upper: Fraction
    shares: tuple[Share, ...]
    prices: Prices
    rounds: int
    seconds: float
    effort: float = 0.0
    trees: tuple[tuple[int, Tree], ...] = ()
    timed_out: bool = False

    @property
    def exact(self) -> bool:
        """Return whether the limit is known."""
        return self.lower == self.upper


@dataclass(frozen=True, slots=True)
class _Ends:
    """The conditions that end a search before the limit is known. See :func:`solve_packing`."""

    deadline: float
    enough: Fraction | None
    most_rounds: int | None
    effort: float


_State = Callable[[], "_State | None"]
"""A state: a function that performs its action and returns the next one. None: the end."""


class _Search:
    """The states of the drawing above, and the results so far."""

    def __init__(
        self, columns: Columns, ends: _Ends, notify: Callable[[float, float], None]
    ) -> None:
        self.columns, self.ends, self.notify = columns, ends, notify
        self.solution: Solution
        self.rounds, self.upper = 0, Fraction(0)
        self.shares: tuple[Share, ...] = ()

    def run(self) -> None:
        """Go from state to state, to the end."""
        state: _State | None = self.solving
        while state:
            state = state()

    def solving(self) -> _State:
        """Solve the LP."""
        self.rounds += 1
        self.solution = self.columns.master.solve()
        self.notify(float(self.columns.best.value), self.solution.value)
        if self.is_spent():
            return self.spent
        gap = self.solution.value - float(self.columns.best.value)
        return self.pricing if gap > _CLOSE else self.closed

    def is_spent(self) -> bool:
        """Return whether nothing more may be done, or needs to be."""
        ends, value = self.ends, self.columns.best.value
        if time.perf_counter() > ends.deadline or self.rounds == ends.most_rounds:
            return True
        if self.columns.spent > ends.effort:
            return True
        if ends.enough is None:
            return False
        return value > ends.enough or self.solution.value < float(ends.enough)

    def pricing(self) -> _State:
        """Look for trees that may improve on the solution."""
        try:
            return self.solving if self.columns.improve(self.solution) else self.stuck
        except TimeoutError:
            return self.spent

    def closed(self) -> _State | None:
        """Make a packing exact whose floats meet the bound."""
        is_known, grew = self.settle()
        if is_known:
            return None
        return self.solving if grew else self.repricing

    def stuck(self) -> _State | None:
        """Make a packing exact that no tree improves, though its floats do not meet the bound."""
        is_known, grew = self.settle()
        return self.solving if grew and not is_known else None

    def spent(self) -> None:
        """Make the packing exact that there is when the search has to end."""
        self.settle()

    def repricing(self) -> _State | None:
        """Look for trees once more: exact fractions have shown a gap that floats do not."""
        try:
            return self.solving if self.columns.improve(self.solution) else None
        except TimeoutError:
            return None

    def settle(self) -> tuple[bool, bool]:
        """Make the packing exact; return whether the limit is known, and whether trees are new."""
        before = len(self.columns.master.columns)
        is_known, self.upper, self.shares = self.columns.settle(self.solution)
        return is_known, len(self.columns.master.columns) > before


def solve_packing(  # noqa: PLR0913, PLR0917 - two bounds, three ends, a start, and progress
    problem: Problem,
    floor: Fraction = Fraction(0),
    seconds: float = math.inf,
    enough: Fraction | None = None,
    earlier: Packing | None = None,
    notify: Callable[[float, float], None] = lambda _low, _high: None,
    most_rounds: int | None = None,
    effort: float = LIMIT_UNITS,
) -> Packing:
    """Return a packing that is the limit of its problem, or near it if effort or time runs out.

    Args:
        floor: a proved lower bound: the bandwidth bound, or the limit of more steps.
        seconds: time after which no further round is begun. By default only effort ends it.
        earlier: the limit of the same problem with a step less, to start from.
        enough: stop once the lower bound exceeds this, or cannot.
        notify: called with the bounds after every round, for progress.
        most_rounds: limit on column generation. Unlike seconds it is the same on every machine.
        effort: limit on effort, also the same on every machine.

    Raises:
        KeyboardInterrupt: the user interrupted. The solvers have been stopped.
    """
    begin = time.perf_counter()
    deadline = begin + seconds
    columns = Columns(problem, floor, deadline)
    columns.start()
    if earlier is not None and earlier.problem.steps == problem.steps - 1:
        columns.go_on(earlier.shares)
    search = _Search(columns, _Ends(deadline, enough, most_rounds, effort), notify)
    search.run()
    end = time.perf_counter()
    return Packing(
        problem,
        columns.best.value,
        search.upper,
        search.shares,
        _of_constraints(problem, columns.best.prices),
        search.rounds,
        end - begin,
        columns.spent,
        tuple((column.commodity, column.tree) for column in columns.master.columns),
        timed_out=end > deadline,
    )


def _of_constraints(problem: Problem, prices: Iterable[tuple[int, int, Fraction]]) -> Prices:
    """Return the prices of all constraints of some resources, by the constraints' names."""
    named = [(key, s, price) for i, s, price in prices for key in problem.resources[i].keys]
    return tuple(sorted(named, key=lambda priced: (constraint_name(priced[0]), priced[1])))
