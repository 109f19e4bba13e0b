"""Search plans in which collectives may be merged if that is faster.

A plan without merging is searched first. Then rows of collectives are tried, each evaluated by
rules for the whole step: first rows of one kind and size, then rows without one of their members. A
plan with the remaining rows is searched like the first one, and kept if it is better. So merging
never makes a plan worse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sccl.core.merges import with_merged
from sccl.core.training_plan import TrainingPlan
from sccl.core.workload import Workload
from sccl.errors import InputError
from sccl.train.jobs import Job
from sccl.train.merge_bounds import loosened, offerable
from sccl.train.merging import Row, may_be_merged, merge_candidates
from sccl.train.periodic import MOST_WINDOWS, openings_of
from sccl.train.planner import Planner, require_bound_holds
from sccl.train.windows import repeated

_MOST_TRIES = 48
"""Sets of rows, of each of which the step is planned by rules."""

_Rows = tuple[Row, ...]


class MergingPlanner(Planner):
    """A plan that is being looked for, in which collectives may be one."""

    _other: Planner | None = None
    _offered = False

    def run(self) -> None:
        """Search for a plan. After an interrupt, the best plan so far remains.

        Raises:
            InputError: The workload does not fit the fabric, an operation has no option, or there
                are too many of them for CP-SAT alone.
            KeyboardInterrupt: The user interrupted.
        """
        super().run()
        rows = self._bound()
        assert self.best is not None
        if rows and self.best[1] > self.bound_ns and (chosen := self._chosen(rows)):
            self._search_with(chosen)

    def plan(self) -> TrainingPlan:
        """Return the best plan that was found.

        Raises:
            ContradictionError: its period is below the lower bound.
        """
        ours = super().plan()
        other = None if self._other is None else self._other.plan()
        best, asked = ours, None
        if other is not None and other.period_ns < ours.period_ns:
            best, asked = other, self.workload
        whole = replace(
            best,
            asked=asked,
            merge_bytes=self.settings.merge_bytes if self._offered else 0,
            bound_ns=self.bound_ns,
            binding=self.binding,
        )
        return require_bound_holds(whole)

    def _bound(self) -> list[Row]:
        """Bound all plans with merged collectives; return which rows may be."""
        assert self.book is not None
        self._looked_at("bounds with merged collectives")
        rows = offerable(self.workload, self.settings.merge_bytes, self.book)
        if rows:
            self._prove(loosened(self.workload, rows, self.book).problem)
        self._offered = True
        return rows

    def _chosen(self, rows: list[Row]) -> _Rows:
        """Return the rows of which rules make the fastest step; none: it is so without any."""
        chosen: _Rows = ()
        best, tries = self._by_rules(()), 0
        for kind in self._kinds(rows):
            taken = {name for row in kind for name in row}
            others = tuple(row for row in chosen if taken.isdisjoint(row))
            period = self._by_rules((*others, *kind))
            if period < best:
                best, chosen = period, (*others, *kind)
            if (tries := tries + 1) == _MOST_TRIES // 2:
                break
        for row in chosen[: _MOST_TRIES // 2]:
            fewer = tuple(one for one in chosen if one != row)
            period = self._by_rules(fewer)
            if period <= best:
                best, chosen = period, fewer
        return chosen

    def _kinds(self, rows: list[Row]) -> Iterator[_Rows]:
        """Yield rows of collectives of one kind, of one size."""
        offered = set(rows)
        kind_of = {op.id: op.likeness for op in self.workload.collectives()}
        for candidates in merge_candidates(self.workload, self.settings.merge_bytes):
            kinds: dict[object, list[Row]] = {}
            for row in candidates:
                if row in offered:
                    kinds.setdefault(kind_of[row[0]], []).append(row)
            yield from map(tuple, kinds.values())

    def _by_rules(self, rows: _Rows) -> int:
        """Return the period of the best plan of rules for all operations alike."""
        merged = self._merged(rows)
        if merged is None:
            return 2**62
        assert self.book is not None
        options = self.book.options(merged.collectives())
        try:
            problem = Job(merged, options.of, self.settings.memory_bytes).problem
        except InputError:  # more is held at once than there is room for
            return 2**62
        begun = openings_of(problem, self.settings.seed)[:MOST_WINDOWS]
        return min(repeated(problem, window.cyclic(plan)).period for _, _, window, plan in begun)

    def _merged(self, rows: _Rows) -> Workload | None:
        """Return the workload with rows merged. None: something would wait for itself."""
        if not may_be_merged(self.workload, rows):
            return None
        return with_merged(self.workload, rows)

    def _search_with(self, rows: _Rows) -> None:
        """Look for plans with some collectives merged."""
        merged = self._merged(rows)
        assert merged is not None
        other = Planner(
            merged, self.fabric, self.settings, self._told, book=self.book, bound_ns=self.bound_ns
        )
        try:
            other.run()
        except InputError:  # such as too many options for CP-SAT alone
            return
        finally:
            if other.best is not None:
                self._other = other
