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

Prices prove a limit, and :mod:`sccl.prove.check.constraint_prices` checks them. In every step, the
sum over constraints of price times capacity per round is at most 1. So the capacity of R rounds
costs at most R, for any distribution of rounds to steps. If every choice of timed trees for all
chunks costs at least D * C, then R/C >= D. For given rounds per step, whose capacity costs at most
1, it follows that D * C <= 1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.step_limit import StepPrices
from sccl.core.topology import constraint_name
from sccl.synth.common.step_limits import LIMIT_EFFORT_UNITS
from sccl.synth.packing.by_steps.columns import ColumnGeneration, TreeShare
from sccl.synth.packing.by_steps.master import MasterSolution
from sccl.synth.packing.by_steps.packing_problem import PackingProblem, StepTree

_TOLERANCE = 1e-6
"""Relative gap below which floating-point prices give way to exact ones."""


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
        is_timed_out: whether seconds ended it, so that the shares depend on the load of the
            machine.
            The bounds hold, but nothing is written from such a packing.
    """

    problem: PackingProblem
    lower: Fraction
    upper: Fraction
    shares: tuple[TreeShare, ...]
    prices: StepPrices
    rounds: int
    seconds: float
    effort: float = 0.0
    trees: tuple[tuple[int, StepTree], ...] = ()
    is_timed_out: bool = False

    @property
    def is_exact(self) -> bool:
        """Return whether the limit is known."""
        return self.lower == self.upper


@dataclass(frozen=True, slots=True)
class _StopConditions:
    """The conditions that end a search before the limit is known. See :func:`solve_packing`."""

    deadline: float
    target: Fraction | None
    max_rounds: int | None
    effort: float


_NextState = Callable[[], "_NextState | None"]
"""A state: a function that performs its action and returns the next one. None: the end."""


class _PackingSearch:
    """The states of the drawing above, and the results so far."""

    def __init__(
        self,
        columns: ColumnGeneration,
        ends: _StopConditions,
        notify: Callable[[float, float], None],
    ) -> None:
        self.columns, self.ends, self.notify = columns, ends, notify
        self.solution: MasterSolution
        self.rounds, self.upper = 0, Fraction(0)
        self.shares: tuple[TreeShare, ...] = ()

    def run(self) -> None:
        """Go from state to state, to the end."""
        state: _NextState | None = self.solve_master
        while state:
            state = state()

    def solve_master(self) -> _NextState:
        self.rounds += 1
        self.solution = self.columns.master.solve()
        self.notify(float(self.columns.best.value), self.solution.value)
        if self.is_spent():
            return self.finish_exhausted
        gap = self.solution.value - float(self.columns.best.value)
        return self.price_trees if gap > _TOLERANCE else self.close_gap

    def is_spent(self) -> bool:
        """Return whether nothing more may be done, or needs to be."""
        ends, value = self.ends, self.columns.best.value
        if time.perf_counter() > ends.deadline or self.rounds == ends.max_rounds:
            return True
        if self.columns.spent > ends.effort:
            return True
        if ends.target is None:
            return False
        return value > ends.target or self.solution.value < float(ends.target)

    def price_trees(self) -> _NextState:
        """Look for trees that may improve on the solution."""
        try:
            return self.solve_master if self.columns.improve(self.solution) else self.finish_stuck
        except TimeoutError:
            return self.finish_exhausted

    def close_gap(self) -> _NextState | None:
        """Make a packing exact whose floats meet the bound."""
        is_known, grew = self.extract_packing()
        if is_known:
            return None
        return self.solve_master if grew else self.price_again

    def finish_stuck(self) -> _NextState | None:
        """Make a packing exact that no tree improves, though its floats do not meet the bound."""
        is_known, grew = self.extract_packing()
        return self.solve_master if grew and not is_known else None

    def finish_exhausted(self) -> None:
        """Make the packing exact that there is when the search has to end."""
        self.extract_packing()

    def price_again(self) -> _NextState | None:
        """Look for trees once more: exact fractions have shown a gap that floats do not."""
        try:
            return self.solve_master if self.columns.improve(self.solution) else None
        except TimeoutError:
            return None

    def extract_packing(self) -> tuple[bool, bool]:
        """Make the packing exact; return whether the limit is known, and whether trees are new."""
        before = len(self.columns.master.columns)
        is_known, self.upper, self.shares = self.columns.extract_packing(self.solution)
        return is_known, len(self.columns.master.columns) > before


def solve_packing(  # noqa: PLR0913, PLR0917 - two bounds, three ends, a start, and progress
    problem: PackingProblem,
    floor: Fraction = Fraction(0),
    seconds: float = math.inf,
    target: Fraction | None = None,
    earlier: Packing | None = None,
    notify: Callable[[float, float], None] = lambda _low, _high: None,
    most_rounds: int | None = None,
    effort: float = LIMIT_EFFORT_UNITS,
) -> Packing:
    """Return a packing that is the limit of its problem, or near it if effort or time runs out.

    Args:
        floor: a proved lower bound: the bandwidth bound, or the limit of more steps.
        seconds: time after which no further round is begun. By default only effort ends it.
        earlier: the limit of the same problem with a step less, to start from.
        target: stop once the lower bound exceeds this, or cannot.
        notify: called with the bounds after every round, for progress.
        most_rounds: limit on column generation. Unlike seconds it is the same on every machine.
        effort: limit on effort, also the same on every machine.

    Raises:
        KeyboardInterrupt: the user interrupted. The solvers have been stopped.
    """
    begin = time.perf_counter()
    deadline = begin + seconds
    columns = ColumnGeneration(problem, floor, deadline)
    columns.start()
    if earlier is not None and earlier.problem.steps == problem.steps - 1:
        columns.warm_start(earlier.shares)
    search = _PackingSearch(columns, _StopConditions(deadline, target, most_rounds, effort), notify)
    search.run()
    end = time.perf_counter()
    return Packing(
        problem,
        columns.best.value,
        search.upper,
        search.shares,
        _constraint_prices(problem, columns.best.proof.exact),
        search.rounds,
        end - begin,
        columns.spent,
        tuple((column.commodity, column.tree) for column in columns.master.columns),
        is_timed_out=end > deadline,
    )


def _constraint_prices(
    problem: PackingProblem, prices: Iterable[tuple[int, int, Fraction]]
) -> StepPrices:
    """Return the prices of all constraints of some resources, by the constraints' names."""
    named = [(key, s, price) for i, s, price in prices for key in problem.resources[i].keys]
    return tuple(sorted(named, key=lambda priced: (constraint_name(priced[0]), priced[1])))
