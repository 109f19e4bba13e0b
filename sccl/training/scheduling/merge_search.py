"""Search plans in which collectives may be merged if that is faster.

A plan without merging is searched first. Then groups of collectives to merge are selected, and each
selection is evaluated by plans from fixed rules: first all groups of one kind and size are added,
then single groups are removed. A plan with the selected groups is searched like the first one, and
kept if it is better. So merging never makes a plan worse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sccl.errors import InputError
from sccl.training.bounds.merge_relaxation import groups_with_options, relax_merges
from sccl.training.options.merge_candidates import MergeGroup, can_merge, list_merge_candidates
from sccl.training.planner import Planner, check_bound_holds
from sccl.training.scheduling.plan_search import MAX_WINDOWS, initial_plans
from sccl.training.scheduling.steady_state import find_steady_state
from sccl.training.scheduling.workload_problem import PlanningJob
from sccl.training.types.merges import merge_collectives
from sccl.training.types.training_plan import TrainingPlan
from sccl.training.types.workload import Workload

_MAX_TRIES = 48
"""Largest number of selections of groups that are evaluated by rules."""

_MergeGroups = tuple[MergeGroup, ...]


class MergingPlanner(Planner):
    """A search for a plan in which collectives may be merged."""

    _merged_planner: Planner | None = None
    _has_offered_merges = False

    def run(self) -> None:
        """Search for a plan. After an interrupt, the best plan so far remains.

        Raises:
            InputError: The workload does not fit the fabric, an operation has no option, or there
                are too many of them for CP-SAT alone.
            KeyboardInterrupt: The user interrupted.
        """
        super().run()
        rows = self._bound_merges()
        assert self.best is not None
        if rows and self.best[1] > self.bound_ns and (chosen := self._choose_merges(rows)):
            self._search_merged(chosen)

    def plan(self) -> TrainingPlan:
        """Return the best plan that was found.

        Raises:
            ContradictionError: The period is below the lower bound.
        """
        ours = super().plan()
        merged_plan = None if self._merged_planner is None else self._merged_planner.plan()
        best, asked = ours, None
        if merged_plan is not None and merged_plan.period_ns < ours.period_ns:
            best, asked = merged_plan, self.workload
        result = replace(
            best,
            unmerged_workload=asked,
            merge_bytes=self.settings.merge_bytes if self._has_offered_merges else 0,
            bound_ns=self.bound_ns,
            binding=self.binding,
        )
        return check_bound_holds(result)

    def _bound_merges(self) -> list[MergeGroup]:
        """Update the bound to hold for merged plans too. Return the groups that may be merged."""
        assert self.book is not None
        self._report_progress("bounds with merged collectives")
        rows = groups_with_options(self.workload, self.settings.merge_bytes, self.book)
        if rows:
            self._raise_bound(relax_merges(self.workload, rows, self.book).problem)
        self._has_offered_merges = True
        return rows

    def _choose_merges(self, rows: list[MergeGroup]) -> _MergeGroups:
        """Return the groups with the shortest period by rules. Empty: merging does not help."""
        chosen: _MergeGroups = ()
        best, tries = self._rule_period(()), 0
        for kind in self._groups_by_kind(rows):
            taken = {name for row in kind for name in row}
            others = tuple(row for row in chosen if taken.isdisjoint(row))
            period = self._rule_period((*others, *kind))
            if period < best:
                best, chosen = period, (*others, *kind)
            if (tries := tries + 1) == _MAX_TRIES // 2:
                break
        for row in chosen[: _MAX_TRIES // 2]:
            fewer = tuple(candidate for candidate in chosen if candidate != row)
            period = self._rule_period(fewer)
            if period <= best:
                best, chosen = period, fewer
        return chosen

    def _groups_by_kind(self, rows: list[MergeGroup]) -> Iterator[_MergeGroups]:
        """Yield the groups of each kind and size."""
        offered = set(rows)
        kind_of = {op.id: op.merge_key for op in self.workload.collectives()}
        for candidates in list_merge_candidates(self.workload, self.settings.merge_bytes):
            kinds: dict[object, list[MergeGroup]] = {}
            for row in candidates:
                if row in offered:
                    kinds.setdefault(kind_of[row[0]], []).append(row)
            yield from map(tuple, kinds.values())

    def _rule_period(self, rows: _MergeGroups) -> int:
        """Return the shortest period of plans by rules that treat all operations alike."""
        merged = self._merge_workload(rows)
        if merged is None:
            return 2**62
        assert self.book is not None
        options = self.book.job_options(merged.collectives())
        try:
            problem = PlanningJob(merged, options.by_collective, self.settings.memory_bytes).problem
        except InputError:  # held results exceed the memory
            return 2**62
        begun = initial_plans(problem, self.settings.seed)[:MAX_WINDOWS]
        return min(
            find_steady_state(problem, window.to_cyclic_plan(plan)).period
            for _, _, window, plan in begun
        )

    def _merge_workload(self, rows: _MergeGroups) -> Workload | None:
        """Return the workload with merged groups. None: an operation would wait for itself."""
        if not can_merge(self.workload, rows):
            return None
        return merge_collectives(self.workload, rows)

    def _search_merged(self, rows: _MergeGroups) -> None:
        """Search for plans with the selected groups merged."""
        merged = self._merge_workload(rows)
        assert merged is not None
        planner = Planner(
            merged,
            self.fabric,
            self.settings,
            self._on_progress,
            book=self.book,
            bound_ns=self.bound_ns,
        )
        try:
            planner.run()
        except InputError:  # for example too many options for CP-SAT alone
            return
        finally:
            if planner.best is not None:
                self._merged_planner = planner
