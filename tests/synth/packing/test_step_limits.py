"""The limit of R/C for a number of steps: known values, brute force, proofs, algorithms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import collective_names, named_spec
from sccl.core.answer import Answer, Sat, Unknown
from sccl.core.bound import AlgorithmBounds
from sccl.core.collective import Collective
from sccl.core.frontier import LimitPoint
from sccl.core.instance import Instance, SweepRange
from sccl.core.step_limit import StepLimit
from sccl.core.stop import StopKind, StopReason
from sccl.core.topology import Topology
from sccl.errors import ParameterError, TooLargeError
from sccl.judge import violations
from sccl.prove.bounds.lower_bounds import farthest_pair, lower_bounds
from sccl.prove.check.constraint_prices import step_price_bound
from sccl.prove.check.work import TooMuchError
from sccl.synth.allreduce.limit_search import find_limits
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.settings import Settings
from sccl.synth.packing.by_steps.allreduce_trees import tree_bounds, tree_frontier
from sccl.synth.packing.by_steps.limit_sweep import PackingClass, compute_limits, limit_frontier
from sccl.synth.packing.by_steps.limits_by_steps import LimitWithPacking, PackingLimits, step_limit
from sccl.synth.packing.by_steps.round_steps import (
    multiply_out,
    round_to_multiple,
    round_to_palindrome,
)
from sccl.synth.packing.by_steps.solve import solve_packing
from sccl.synth.packing.problem import (
    build_allreduce_problem,
    build_packing_problem,
)
from sccl.synth.syncoll import solve
from sccl.synth.syncoll.sweep import sweep
from sccl.topo import resolve_topology
from sccl.topo.degrade import remove_parts
from tests.kit.certificates import free
from tests.kit.nightly import times
from tests.kit.small_budgets import small_limit_budget
from tests.kit.strategies import topologies

Use = tuple[tuple[int, int], int]
"""An edge in a step."""


def limit_of(topology: str, collective: str, steps: int) -> Fraction:
    machine = resolve_topology(topology)
    spec = named_spec(collective, machine.ranks)
    found = solve_packing(build_packing_problem(machine, spec.at(spec.unit), steps))
    assert found.is_exact
    return found.lower


@pytest.mark.parametrize(
    ("topology", "collective", "limits"),
    [
        ("dgx1", "allgather", {2: "3/2", 3: "7/6", 4: "7/6"}),
        ("dgx1", "broadcast", {2: "1", 3: "9/22", 4: "4/13"}),
        pytest.param("dgx1", "broadcast", {5: "5/19"}, marks=pytest.mark.nightly),
        ("dgx1", "gather", {2: "7/6"}),
        ("dgx1", "alltoall", {2: "1/3"}),
        ("z52", "allgather", {4: "7/2"}),
        ("z52", "broadcast", {4: "2", 5: "5/4", 6: "1", 7: "7/8", 8: "4/5"}),
        ("ring:4", "allgather", {2: "3/2"}),
        ("full:5", "allgather", {1: "1"}),
        ("line:3", "broadcast", {2: "2", 3: "3/2", 4: "4/3"}),  # S/(S-1): a pipeline
        ("switch:4", "allgather", {1: "3"}),
    ],
)
def test_known_limits(topology: str, collective: str, limits: dict[int, str]) -> None:
    found = {steps: limit_of(topology, collective, steps) for steps in limits}
    assert found == {steps: Fraction(value) for steps, value in limits.items()}


def test_two_machines_joined_by_one_lane_of_the_width_of_an_nvlink() -> None:
    machine = resolve_topology("ndv2x2")
    links = tuple(replace(k, lanes=max(1, k.lanes // 2)) for k in machine.links)
    found = solve_packing(
        build_packing_problem(replace(machine, links=links), named_spec("allgather", 16).at(1), 5)
    )
    assert found.is_exact
    assert found.lower == 11


def timed_trees(
    topology: Topology, holders: frozenset[int], wanted: frozenset[int], steps: int
) -> Iterator[frozenset[Use]]:
    """Yield all minimal ways to reach ``wanted``, by trying every arrival of every rank."""

    def extend(uses: frozenset[Use], rank: int) -> Iterator[frozenset[Use]]:
        if rank == topology.ranks:
            arrival = {v: s for (_, v), s in uses}
            fine = all(u in holders or arrival.get(u, steps) < s for (u, _), s in uses)
            if fine and all(r in holders or r in arrival for r in wanted):
                yield uses
            return
        yield from extend(uses, rank + 1)
        for edge in () if rank in holders else into[rank]:
            for step in range(steps):
                yield from extend(uses | {(edge, step)}, rank + 1)

    into = [
        [edge for edge in sorted(topology.edges) if edge[1] == r] for r in range(topology.ranks)
    ]
    yield from extend(frozenset(), 0)


def brute_force(topology: Topology, collective: Collective, steps: int) -> float:
    """Return the optimum of the packing LP with every timed tree as a column."""
    from ortools.math_opt.python import mathopt

    model = mathopt.Model()
    rho = [model.add_variable(lb=0.0) for _ in range(steps)]
    model.minimize(mathopt.fast_sum(rho))
    load: dict[Use, list[mathopt.Variable]] = {}
    for (holders, wanted), chunks in collective.chunk_classes().items():
        parts = []
        for tree in timed_trees(topology, frozenset(holders), frozenset(wanted), steps):
            parts.append(model.add_variable(lb=0.0))
            for use in tree:
                load.setdefault(use, []).append(parts[-1])
        share = len(chunks) / collective.chunks
        model.add_linear_constraint(mathopt.fast_sum(parts) == share)
    for constraint in topology.constraints():
        for step in range(steps):
            used = [x for edge in constraint.edges for x in load.get((edge, step), [])]
            if used:
                room = constraint.chunks_per_round * rho[step]
                model.add_linear_constraint(mathopt.fast_sum(used) <= room)
    result = mathopt.solve(model, mathopt.SolverType.GLOP)
    return float(result.objective_value())


@settings(max_examples=times(25))
@given(topologies(max_ranks=4), st.sampled_from(["allgather", "broadcast", "alltoall", "gather"]))
def test_against_all_timed_trees(machine: Topology, name: str) -> None:
    spec = named_spec(name, machine.ranks)
    collective = spec.at(spec.unit)
    steps = farthest_pair(machine, collective).steps
    for extra in (0, 1):
        if steps + extra > 3:
            return
        found = solve_packing(build_packing_problem(machine, collective, steps + extra))
        assert found.is_exact
        assert float(found.lower) == pytest.approx(
            brute_force(machine, collective, steps + extra), abs=1e-6
        )
        assert (
            step_price_bound(machine, collective, steps + extra, found.prices, free) == found.lower
        )


@settings(max_examples=times(25))
@given(topologies(max_ranks=5), st.sampled_from(collective_names()))
def test_written_algorithm_attains_the_limit(machine: Topology, name: str) -> None:
    spec = named_spec(name, machine.ranks)
    if spec.combining:
        return
    collective = spec.at(spec.unit)
    steps = farthest_pair(machine, collective).steps
    found = solve_packing(build_packing_problem(machine, collective, steps))
    algorithm = multiply_out(found)
    if algorithm is not None:
        assert violations(algorithm) == []
        assert (algorithm.steps, algorithm.bandwidth_cost) == (steps, found.upper)
    near = round_to_multiple(found, 8)
    if near is not None:
        assert violations(near) == []
        assert near.bandwidth_cost >= found.lower


@settings(max_examples=times(25))
@given(topologies(max_ranks=4), st.integers(1, 3), st.integers(0, 2), st.integers(0, 1))
def test_no_solver_finds_an_algorithm_below_the_limit(
    machine: Topology, chunks: int, extra_rounds: int, extra_steps: int
) -> None:
    spec = named_spec("allgather", machine.ranks)
    steps = farthest_pair(machine, spec.at(1)).steps + extra_steps
    limit = solve_packing(build_packing_problem(machine, spec.at(1), steps)).lower
    rounds = steps + extra_rounds
    answer = solve.solve(Instance(machine, spec.at(chunks), steps, rounds))
    if Fraction(rounds, chunks) < limit:
        assert not isinstance(answer, Sat)


def test_prices_are_checked() -> None:
    machine, collective = resolve_topology("dgx1"), named_spec("broadcast", 8).at(1)
    limit = solve_packing(build_packing_problem(machine, collective, 3))
    assert limit.lower == Fraction(9, 22)
    assert step_price_bound(machine, collective, 3, limit.prices, free) == Fraction(9, 22)
    (name, step, price), *rest = limit.prices
    for prices, says in (
        (((name, step, price + 1), *rest), "buy"),
        (((name, step, -price), *rest), "expected 0 or more"),
        (((name, 3, price), *rest), "expected 0 or more"),
        ((("no link", step, price), *rest), "expected 0 or more"),
    ):
        with pytest.raises(ValueError, match=says):
            step_price_bound(machine, collective, 3, prices, free)
    with pytest.raises(TooMuchError, match="bits"):
        step_price_bound(machine, collective, 3, ((name, step, Fraction(1, 7**2000)), *rest), free)
    assert step_price_bound(machine, collective, 3, rest, free) <= limit.lower


def test_symmetry_changes_no_limit() -> None:
    for machine, name, steps in (("dgx1", "allgather", 2), ("z52", "alltoall", 4)):
        topology = resolve_topology(machine)
        spec = named_spec(name, topology.ranks)
        unit = spec.at(spec.unit)
        reduced = solve_packing(build_packing_problem(topology, unit, steps))
        whole = solve_packing(build_packing_problem(topology, unit, steps, symmetric=False))
        assert reduced.lower == reduced.upper == whole.lower == whole.upper
        assert len(reduced.problem.commodities) < len(whole.problem.commodities)


def asked() -> Iterator[Any]:
    """Yield machine, last S and collective. For an allreduce a reducescatter shows the same."""
    for machine, last in (("ring:4", 4), ("z52-pcie", 4), ("z52-pcie", 5), ("dgx1", 4)):
        for name in collective_names():
            is_long = machine == "z52-pcie" and (last == 5 or name == "allgather")
            is_long |= name == "reducescatter" and machine != "ring:4"
            marks = [pytest.mark.nightly] if is_long else []
            yield pytest.param(machine, last, name, id=f"{name}-{machine}-{last}", marks=marks)


@pytest.mark.parametrize(("machine", "last", "name"), list(asked()))
@small_limit_budget()
def test_limit_frontiers(machine: str, last: int, name: str) -> None:
    topology = resolve_topology(machine)
    spec = named_spec(name, topology.ranks)
    quick = partial(solve.solve, effort=solve.Effort(1.0))
    least = lower_bounds(topology, spec).steps
    found = limit_frontier(topology, spec, quick, max_steps=max(last, least))
    assert found.points
    costs = [p.cost for p in found.points]
    assert costs == sorted(costs, reverse=True)
    for point in found.points:
        assert point.is_proved
        assert point.algorithm is not None
        assert violations(point.algorithm) == []
        assert point.algorithm.steps == point.steps
        if point.is_attained:
            assert "pareto" in point.algorithm.proved
        else:
            assert point.algorithm.bandwidth_cost > point.cost
            assert point.algorithm.proved == ()
    assert found.is_complete == (costs[-1] == found.classes[0].bandwidth)


def test_too_few_steps_are_rejected() -> None:
    machine, spec = resolve_topology("dgx1"), named_spec("allreduce", 8)
    bounds = lower_bounds(machine, spec)
    for steps, says in ((3, "at least 4"), (5, "even")):
        with pytest.raises(ParameterError, match=says):
            step_limit(machine, spec, steps, bounds)
    with pytest.raises(ParameterError, match="max-steps is 3"):
        limit_frontier(machine, spec, solve.solve, max_steps=3)


def test_so_many_steps_that_limits_end_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("limits_by_steps", "limit_sweep"):
        monkeypatch.setattr(f"sccl.synth.packing.by_steps.{module}.MAX_STEPS", 3)
    machine, spec = resolve_topology("ring:4"), named_spec("broadcast", 4)
    found = limit_frontier(machine, spec, solve.solve, max_steps=5)
    assert [limit.steps for limit in found.classes[0].limits] == [2, 3]
    assert (len(found.points), str(found.stop_reason)) == (2, "max-steps")
    swept = sweep(
        machine,
        spec,
        solve.solve,
        solver="cpsat",
        covered=SweepRange(0, 4),
        limits=PackingLimits,
    )
    assert [point.steps for point in swept.points] == [2, 3, 4]
    assert [limit.steps for limit in swept.classes[0].limits] == [2, 3]
    with pytest.raises(TooLargeError, match="expected at most 3"):
        limit_frontier(resolve_topology("ring:8"), named_spec("broadcast", 8), solve.solve)


@pytest.mark.parametrize(
    ("machine", "limits"),
    [
        ("dgx1", {3: "3/4", 4: "1/3", 5: "7/24"}),  # by composition 3/8 and, with 6 steps, 7/24
        ("ring:4", {3: "3/4"}),
        ("hypercube:3", {5: "7/12"}),
        ("star:5", {2: "2", 3: "3/2"}),
        ("full:4", {2: "1/2"}),
    ],
)
def test_allreduce_by_trees(machine: str, limits: dict[int, str], tmp_path: Path) -> None:
    topology = resolve_topology(machine)
    found = tree_frontier(
        topology,
        named_spec("allreduce", topology.ranks),
        max_steps=max(limits),
        folder=AlgorithmFolder(tmp_path),
    )
    assert {p.steps: p.cost for p in found.points} == {
        steps: Fraction(limit) for steps, limit in limits.items()
    }
    for point in found.points:
        assert point.is_proved
        assert point.algorithm is not None
        assert violations(point.algorithm) == []
        assert {s.reduce for s in point.algorithm.sends} == {False, True}
        assert point.algorithm.scope == found.scope
        assert point.is_attained
    assert len(list(tmp_path.iterdir())) == len(found.points)


@pytest.mark.parametrize("seconds", [0.0, 1.5])
def test_when_time_runs_out_both_bounds_hold(seconds: float) -> None:
    """16 ranks are priced by a search, which time ends in the middle."""
    machine = resolve_topology("ndv2x2")
    spec = named_spec("allgather", machine.ranks)
    packed = step_limit(machine, spec, 6, lower_bounds(machine, spec), seconds)
    assert 8 <= packed.limit.lower <= Fraction(167, 20) <= packed.limit.required_upper
    (packing,) = packed.packings
    found = round_to_multiple(packing, 16)
    assert found is not None
    assert found.bandwidth_cost >= Fraction(167, 20)


def test_nothing_is_written_of_a_packing_that_time_ended(tmp_path: Path) -> None:
    """The result depends on seconds."""
    machine, folder = resolve_topology("ring:4"), AlgorithmFolder(tmp_path)

    def gives_up(_: Instance) -> Answer:
        return Unknown(StopReason.parse("tired"), "test", 0.0)

    ask = partial(limit_frontier, machine, named_spec("allgather", 4), gives_up)
    for find in (partial(tree_frontier, machine, named_spec("allreduce", machine.ranks)), ask):
        found = find(max_steps=4, seconds=1e-9, folder=folder)
        for point in found.points:
            assert isinstance(point, LimitPoint)
            assert (point.algorithm, point.missing_reason.kind) == (None, StopKind.TIMEOUT)
    assert list(tmp_path.iterdir()) == []


class Invented(PackingClass):
    """A class whose limit of two steps is 3/2, or less, and of three the bandwidth bound."""

    __slots__ = ()

    def limit_with_packing(self, steps: int, earlier: LimitWithPacking | None) -> LimitWithPacking:  # noqa: ARG002
        least = self.bounds.bandwidth
        lower = least if self.name == "not known" else Fraction(3, 2)
        limits = {2: StepLimit(2, lower, Fraction(3, 2)), 3: StepLimit(3, least, least)}
        return LimitWithPacking(limits[steps], ())

    def algorithm(self, packed: LimitWithPacking, *, is_known: bool, is_late: bool) -> None:  # noqa: ARG002
        return None


@pytest.mark.parametrize("name", ["known", "not known"])
def test_frontier_is_whole_if_the_limits_of_all_steps_are_known(name: str) -> None:
    bounds, spec = AlgorithmBounds(2, Fraction(1)), named_spec("allgather", 3)
    found = Invented(resolve_topology("ring:3"), bounds, 1.0, name, "", 1, (), True, spec)
    frontier = compute_limits(4, found, None, lambda _: None, 0.0)
    (part,) = frontier.classes
    assert (str(frontier.stop_reason), part.is_complete) == ("bandwidth-bound", name == "known")


def test_allreduce_that_is_the_same_backwards() -> None:
    """(48, 5, 14) on DGX-1: the bandwidth bound with a step less than SCCL's (48, 6, 14)."""
    topology = resolve_topology("dgx1")
    unit = named_spec("allreduce", topology.ranks).at(topology.ranks)
    limit = solve_packing(build_allreduce_problem(topology, unit, 5))
    found = round_to_palindrome(limit)
    assert found is not None
    assert violations(found) == []
    assert (found.collective.chunks, found.steps, found.rounds) == (48, 5, 14)
    assert found.rounds_per_step == found.rounds_per_step[::-1]
    backwards = Counter((s.dst, s.src, 4 - s.step, not s.reduce) for s in found.sends)
    assert backwards == Counter((s.src, s.dst, s.step, s.reduce) for s in found.sends)
    assert found == round_to_palindrome(limit)  # the same bytes each time
    one_way = replace(
        limit, problem=replace(limit.problem, topology=remove_parts(topology, [(0, 1)]))
    )
    assert round_to_palindrome(one_way) is None


def brute_force_up_and_down(topology: Topology, steps: int) -> float:
    """Return the optimum over all trees up and down, from one rank or two, by listing them."""
    from ortools.math_opt.python import mathopt

    everyone = frozenset(range(topology.ranks))
    trees = set()
    turns = [frozenset({root}) for root in everyone]
    turns += [frozenset(e) for e in topology.edges if (e[1], e[0]) in topology.edges]
    for roots, turn in product(turns, range(steps + 1)):
        end = turn + len(roots) - 1
        if end > steps:
            continue
        exchanged = {((u, v), turn) for u in roots for v in roots if u != v}
        down = timed_trees(topology, roots, everyone, steps - end)
        up = list(timed_trees(topology.reversed(), roots, everyone, turn))
        for out in down:
            late = {(edge, step + end) for edge, step in out}
            for into in up:
                early = {((v, u), turn - 1 - step) for (u, v), step in into}
                trees.add(frozenset(late | exchanged | early))
    model = mathopt.Model()
    rho = [model.add_variable(lb=0.0) for _ in range(steps)]
    model.minimize(mathopt.fast_sum(rho))
    part = {tree: model.add_variable(lb=0.0) for tree in trees}
    model.add_linear_constraint(mathopt.fast_sum(list(part.values())) == 1.0)
    for constraint in topology.constraints():
        for step in range(steps):
            used = [x for t, x in part.items() for edge in constraint.edges if (edge, step) in t]
            model.add_linear_constraint(
                mathopt.fast_sum(used) <= constraint.chunks_per_round * rho[step]
            )
    result = mathopt.solve(model, mathopt.SolverType.GLOP)
    return float(result.objective_value())


@settings(max_examples=times(15))
@given(topologies(max_ranks=3))
def test_allreduce_by_trees_against_all_of_them(machine: Topology) -> None:
    least = tree_bounds(machine, named_spec("allreduce", machine.ranks)).steps
    for steps in (least, least + 1):
        if steps > 3:
            return
        unit = named_spec("allreduce", machine.ranks).at(machine.ranks)
        found = solve_packing(build_allreduce_problem(machine, unit, steps))
        assert found.is_exact
        every = brute_force_up_and_down(machine, steps)
        assert float(found.lower) == pytest.approx(every, abs=1e-6)
        algorithm = multiply_out(found) or round_to_multiple(found, 8)
        assert algorithm is None or violations(algorithm) == []


def test_one_way_allreduce_has_a_limit_of_its_own_per_machine() -> None:
    """The bandwidth bound of one machine is none of the reversed one's."""
    machine = remove_parts(
        resolve_topology("full:4"), [(1, 0), (2, 0)]
    )  # one lane into 0, two out of each
    spec = named_spec("allreduce", 4)
    found = step_limit(machine, spec, 4, lower_bounds(machine, spec))
    assert [p.lower for p in found.packings] == [2, 3] == [p.upper for p in found.packings]
    assert [proof.on_reversed for proof in found.limit.proofs] == [True, False]
    with pytest.raises(TooLargeError, match="at most"):
        step_limit(machine, spec, 10**6, lower_bounds(machine, spec))


def test_limit_too_large_for_solvers_is_attained_under_symmetry() -> None:
    how = Settings("cpsat", solve.Effort(60.0))
    found = find_limits(resolve_topology("dgx2"), named_spec("alltoall", 16), None, how)
    (point,) = found.points
    assert point.is_attained
    assert point.algorithm is not None
    assert (point.algorithm.collective.chunks, point.algorithm.rounds) == (32, 5)
