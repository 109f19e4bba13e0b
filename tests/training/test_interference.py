"""Computation next to channels that slow it down: durations, and claims of plans."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.training.fabric_names import resolve_fabric
from sccl.training.planner import Planner, PlanSettings
from sccl.training.scheduling.workload_problem import all_waits, stream_of
from sccl.training.timeline import Interference, simulate_timeline
from sccl.training.timeline_models import simulate_fluid
from sccl.training.types.fabric import Fabric
from sccl.training.types.training_plan import FULL_LOAD, OptionMotif, TrainingPlan
from sccl.training.types.workload_ops import ComputeOp, Role
from sccl.training.validate.plan_faults import find_faults, find_plan_bound_fault
from tests.kit.nightly import times
from tests.kit.training import random_training_plan
from tests.kit.training_plans import layered_plan, prefetching_plan


def slowed(fabric: Fabric, **parts: float) -> Fabric:
    """Return a fabric whose channels slow computations down."""
    channels = tuple(replace(c, slowdown=parts.get(c.name, 0.0)) for c in fabric.channels)
    return replace(fabric, channels=channels)


def beside(plan: TrainingPlan, **parts: float) -> TrainingPlan:
    return replace(plan, fabric=slowed(plan.fabric, **parts))


def ends_of(plan: TrainingPlan, op: str) -> int:
    """Return when an operation of the second iteration ends, after that begins."""
    spans = {(s.op, s.motif): s for s in simulate_timeline(plan).spans if s.iteration == 1}
    return spans[op, 0].end_ns - spans["forward", 0].start_ns


def test_computation_next_to_a_channel_takes_longer() -> None:
    """The next batch is on the hosts' channel for 6 us, from 2.5 us before the optimizer on.

    The optimizer takes 1.5 us instead of 1, and 2 us of the batch remain next to its successors.
    4/3 us of forward are done by then, so that it takes 2/3 us longer, too.
    """
    plan = prefetching_plan()
    assert (ends_of(plan, "forward"), ends_of(plan, "backward")) == (3000, 8500)
    half = beside(plan, cpu=0.5)
    assert (ends_of(half, "forward"), ends_of(half, "backward")) == (3667, 9167)
    assert simulate_timeline(half).period_ns == 14500 + 500 + 667
    timing = simulate_fluid(half, simulate_timeline(half))
    assert timing.period_ns == pytest.approx(14500 + 500 + 2000 / 3)


def test_channel_next_to_which_nothing_computes_slows_nothing_down() -> None:
    assert simulate_timeline(beside(prefetching_plan(), gpu=0.5)).period_ns == 14500


def test_ranks_that_do_not_take_part_are_not_slowed_down() -> None:
    """Two more ranks do the same beside, and only they compute longer."""
    plan = prefetching_plan()
    roles = (*plan.workload.roles, Role("others", (2, 3)))
    more = ComputeOp("alone", "others", "7", 8.0)
    workload = replace(plan.workload, ranks=4, roles=roles, ops=(*plan.workload.ops, more))
    order = (*plan.order, replace(plan.order[1], op="alone"))
    both = beside(replace(plan, workload=workload, order=order), cpu=0.5)
    spans = [s for s in simulate_timeline(both).spans if s.op == "alone"]
    assert {s.end_ns - s.start_ns for s in spans} == {8000}
    assert ends_of(both, "forward") == 3667


def test_parts_of_channels_add_up() -> None:
    plan = prefetching_plan()
    slowing = Interference.of_plan(beside(plan, cpu=0.5, gpu=0.25))
    assert slowing.marks == {
        ("batch", 0): (("cpu", "all"),),
        ("gradients", 0): (("gpu", "all"),),
        ("gradients", 1): (("gpu", "all"),),
    }
    assert slowing.slowdown_factor("all", [("cpu", "all")]) == Fraction(3, 2)
    assert slowing.slowdown_factor("all", slowing.parts) == Fraction(7, 4)
    assert slowing.slowdown_factor("others", slowing.parts) == 1
    assert Interference.of_plan(plan) == Interference({}, {})


def small(plan: TrainingPlan) -> TrainingPlan:
    """Return a plan of few nanoseconds."""
    ops = tuple(
        replace(op, duration_us=op.duration_us / 1000) if isinstance(op, ComputeOp) else op
        for op in plan.workload.ops
    )
    options = tuple(
        (name, replace(option, motifs=tuple(replace(m, ns=m.ns // 1000) for m in option.motifs)))
        for name, option in plan.options
    )
    return replace(plan, workload=replace(plan.workload, ops=ops), options=options)


class TickByTick:
    """A plan of few nanoseconds, run by looking at all of it in each of them."""

    def __init__(self, plan: TrainingPlan, iterations: int) -> None:
        self.plan, self.iterations = plan, iterations
        self.computes = {op.id: op for op in plan.workload.computation()}
        self.options = dict(plan.options)
        self.slow = {c.name: Fraction(str(c.slowdown)) for c in plan.fabric.channels}
        self.before = defaultdict(list)
        for wait in all_waits(plan.workload, plan.memory_bytes):
            self.before[wait.after].append((wait.before, wait.lag))
        ahead = max(issue.shift for issue in plan.order)
        self.queues: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        for window in range(-ahead, iterations):
            for issue in plan.order:
                op = self.computes.get(issue.op)
                if 0 <= window + issue.shift < iterations:
                    own = self.queues["" if op is None else stream_of(op)]
                    own.append((issue.op, issue.motif, window + issue.shift))
        self.left: dict[tuple[str, int, int], Fraction] = {}
        self.spans: dict[tuple[str, int, int], list[int]] = {}
        self.done: set[tuple[str, int, int]] = set()

    def run(self) -> dict[tuple[str, int, int], tuple[int, int]]:
        """Return when each starts and ends."""
        now = 0
        while any(self.queues.values()) or self.left:
            while self._ended(now) or self._started(now):
                pass
            busy = {self._motif(key).channel for key in self.left if key[0] in self.options}
            factor = 1 + sum((self.slow[name] for name in busy), Fraction(0))
            for key in self.left:
                self.left[key] -= 1 / factor if key[0] in self.computes else 1
            now += 1
        return {key: (start, end) for key, (start, end) in self.spans.items()}

    def _motif(self, key: tuple[str, int, int]) -> OptionMotif:
        return self.options[key[0]].motifs[key[1]]

    def _ended(self, now: int) -> bool:
        over = [key for key, left in self.left.items() if left <= 0]
        for key in over:
            self.spans[key].append(now)
            self.done.add(key)
            del self.left[key]
        return bool(over)

    def _started(self, now: int) -> bool:
        for own in self.queues.values():
            if own and self._may(own[0]):
                key = own.pop(0)
                op = self.computes.get(key[0])
                ns = round(op.duration_us * 1000) if op else self._motif(key).ns
                self.left[key] = Fraction(ns)
                self.spans[key] = [now]
                return True
        return False

    def _may(self, key: tuple[str, int, int]) -> bool:
        op, k, iteration = key
        waits = [(op, k, iteration - 1)]
        for other, lag in self.before[op]:
            count = len(self.options[other].motifs) if other in self.options else 1
            waits += [(other, j, iteration - lag) for j in range(count)]
        if op in self.options:
            waits += [(op, j, iteration) for j in self._motif(key).after]
        if any(one[2] >= 0 and one not in self.done for one in waits):
            return False
        if op not in self.options or not self._motif(key).ns:
            return True
        used: dict[str, int] = defaultdict(int)
        for one in [key, *(other for other in self.left if other[0] in self.options)]:
            for name, load in self._motif(one).loads if self._motif(one).ns else ():
                used[name] += load
        return all(load <= FULL_LOAD for load in used.values())


PARTS = st.sampled_from([0.0, 0.05, 0.3, 0.5, 1.0])


@settings(max_examples=times(60))
@given(st.integers(0, 10**9), PARTS, PARTS)
def test_events_are_those_of_every_tick(seed: int, gpu: float, cpu: float) -> None:
    drawn = random_training_plan(seed)
    assume(drawn is not None)
    assert drawn is not None
    plan = beside(small(drawn), gpu=gpu, cpu=cpu)
    spans = {
        (s.op, s.motif, s.iteration): (s.start_ns, s.end_ns) for s in simulate_timeline(plan).spans
    }
    # Independent work runs ahead, so both run equally many iterations and slow others down.
    found = TickByTick(plan, 1 + max(key[2] for key in spans)).run()
    assert {key: spans[key] for key in found if key[2] < 5} == {
        key: span for key, span in found.items() if key[2] < 5
    }


@settings(max_examples=times(60, by_day=25))
@given(st.integers(0, 10**9), PARTS, PARTS)
def test_fluids_are_slowed_down_as_much(seed: int, gpu: float, cpu: float) -> None:
    """Without shared resources the durations equal those of events, rounded up to nanoseconds."""
    drawn = random_training_plan(seed)
    assume(drawn is not None)
    assert drawn is not None
    options = tuple(
        (name, replace(o, motifs=tuple(replace(m, loads=()) for m in o.motifs)))
        for name, o in drawn.options
    )
    wide = tuple(replace(channel, streams=64) for channel in drawn.fabric.channels)
    plan = replace(drawn, options=options, fabric=replace(drawn.fabric, channels=wide))
    plan = beside(plan, gpu=gpu, cpu=cpu)
    timeline = simulate_timeline(plan)
    assume(timeline.is_steady and timeline.first_periodic < 3)
    ends = simulate_fluid(plan, timeline, 8).ends_ns
    for iteration in range(8):
        told = timeline.finish_ns(iteration + 1)
        assert ends[iteration] == pytest.approx(told, abs=16 * (iteration + 1))


def test_plan_claims_its_time_next_to_channels() -> None:
    """It is never better than without, its bound is one of all plans, and claims are checked."""
    workload = layered_plan(2).workload
    periods = {}
    for part in (0.0, 0.25):
        fabric = slowed(resolve_fabric("hgx2"), gpu=part, cpu=part)
        planner = Planner(workload, fabric, PlanSettings(seconds=0.0))
        planner.run()
        plan = planner.plan()
        assert find_faults(plan) == ()
        assert find_plan_bound_fault(plan) == ""
        assert plan.bound_ns <= plan.period_ns <= planner.baseline_ns
        periods[part] = plan.period_ns
        if part:
            (fault,) = find_faults(replace(plan, period_ns=periods[0.0]))
            assert fault.kind == "period"
    assert periods[0.25] > periods[0.0]
