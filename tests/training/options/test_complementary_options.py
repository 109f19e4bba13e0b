"""Options that leave one another their links: two collectives at once on one machine."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.errors import UnknownNameError
from sccl.training.fabric_names import resolve_fabric
from sccl.training.options.fabric_resources import residual_channel
from sccl.training.options.measured_costs import COMPLEMENT_SEPARATOR
from sccl.training.options.motif_costs import build_motif_planner
from sccl.training.options.option_catalog import OptionSettings, find_complements, find_options
from sccl.training.options.option_enumeration import OptionEnumerator
from sccl.training.planner import Planner, PlanSettings
from sccl.training.scheduling.plan_search import search_step_plan
from sccl.training.scheduling.workload_problem import PlanningJob
from sccl.training.types.training_plan import FULL_LOAD, Option
from sccl.training.types.workload import Workload
from sccl.training.validate.plan_faults import (
    find_faults,
    find_plan_bound_fault,
    find_step_plan_fault,
)
from tests.kit.nightly import times
from tests.kit.small_budgets import small_tacos_budget
from tests.kit.workloads import calling, comm

MB = 2**18

TACOS = build_motif_planner("tacos")

DGX, HGX = "dgx1-pcie", "hgx2"

PAIRS = [
    ("allreduce", "alltoall"),
    ("allgather", "reducescatter"),
    ("broadcast", "alltoall"),
    ("reduce", "allgather"),
]


def step(one: str, other: str, size: int, more: int) -> Workload:
    """Return two collectives of 8 ranks that wait for nothing."""
    calls = [comm("one", one, range(8), size), comm("other", other, range(8), more)]
    roots = ("broadcast", "reduce", "gather", "scatter")
    return calling(8, *(replace(op, root=0) if op.collective in roots else op for op in calls))


@cache
@small_tacos_budget()
def finish(machine: str, pair: tuple[str, str], size: int, more: int, *, beside: bool) -> int:
    """Return the least known time of both."""
    workload = step(*pair, size, more)
    asked = OptionSettings(planner=TACOS, complementary=beside)
    problem = PlanningJob(
        workload, find_options(workload, resolve_fabric(machine), asked).by_collective
    ).problem.step
    best = search_step_plan(problem, 4000, 0)
    assert not find_step_plan_fault(problem, best)
    return best.finish(problem)


def is_beside(option: Option) -> bool:
    return any(COMPLEMENT_SEPARATOR in motif.carrier for motif in option.motifs)


@pytest.mark.parametrize("machine", [DGX, HGX])
@small_tacos_budget()
def test_option_is_carried_on_what_another_one_leaves(machine: str) -> None:
    """On links that the other does not use, or on parts of those that it does not fill."""
    workload = step("allreduce", "alltoall", MB, MB)
    of = find_options(
        workload, resolve_fabric(machine), OptionSettings(planner=TACOS)
    ).by_collective
    fits = 0
    for option in filter(is_beside, of["other"]):
        loads = dict(option.motifs[0].loads)
        for one in of["one"]:
            both = [load + loads.get(name, 0) for m in one.motifs for name, load in m.loads]
            fits += max(both) <= FULL_LOAD
    assert fits
    plain = min(o.ns for o in of["other"] if not is_beside(o))
    assert all(o.ns >= plain for o in of["other"] if is_beside(o))


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("machine", [DGX, HGX])
@small_tacos_budget()
def test_complementary_option_fits_the_remaining_bandwidth(
    machine: str, pair: tuple[str, str]
) -> None:
    fabric, workload = resolve_fabric(machine), step(*pair, MB, MB)
    finder = OptionEnumerator(fabric, OptionSettings(planner=TACOS))
    ops = {op.id: op for op in workload.collectives()}
    offers = {name: finder.enumerate_options(op) for name, op in ops.items()}
    found = find_complements(finder, TACOS, ops, offers)
    pipes = finder.costs.pipes
    looked_at = 0
    for name, own in found.items():
        (other,) = offers.keys() - {name}
        for offer in own:
            most = offer.peak_loads[: pipes.first_stream[0]]
            rooms = [
                one.peak_loads[: pipes.first_stream[0]]
                for one in offers[other]
                if offer.parts[0][1].endswith(f" of {ops[other].collective}")
            ]
            assert any((most + room <= FULL_LOAD).all() for room in rooms)
            looked_at += 1
    assert looked_at


@settings(max_examples=times(60))
@given(st.integers(0, 2**32 - 1), st.sampled_from([DGX, HGX, "hgx2x2"]))
def test_used_and_remaining_bandwidth_fit_the_channel(seed: int, machine: str) -> None:
    fabric, rng = resolve_fabric(machine), np.random.default_rng(seed)
    pipes = OptionEnumerator(fabric, OptionSettings()).costs.pipes
    loads = rng.integers(0, 2, len(pipes.names)) * rng.integers(0, 1200, len(pipes.names))
    spare = residual_channel(fabric, pipes, 0, [loads])
    if spare is None:
        return
    whole = {link.edge: link for link in fabric.channels[0].topology.links}
    number = {link.edge: k for k, link in enumerate(fabric.channels[0].topology.links)}
    assert (spare.residual + np.minimum(loads[: len(spare.residual)], FULL_LOAD) <= FULL_LOAD).all()
    for link in spare.machine.links:
        part = spare.residual[number[link.edge]]
        assert part
        assert link.gb_per_s == pytest.approx(whole[link.edge].gb_per_s * part / FULL_LOAD)


@pytest.mark.parametrize(
    ("machine", "pair", "size", "more"),
    [
        pytest.param(DGX, PAIRS[0], MB, MB, marks=pytest.mark.nightly),
        (DGX, PAIRS[1], MB, MB),
        (HGX, PAIRS[0], MB, MB),
        (HGX, PAIRS[0], 4 * MB, MB),
    ],
)
def test_so_both_run_at_once_and_end_earlier(
    machine: str, pair: tuple[str, str], size: int, more: int
) -> None:
    without = finish(machine, pair, size, more, beside=False)
    assert finish(machine, pair, size, more, beside=True) < without


@pytest.mark.parametrize("pair", [("allreduce", "alltoall"), ("allgather", "alltoall")])
def test_slower_complement_is_not_taken(pair: tuple[str, str]) -> None:
    """Large ones fill the ports of a switch: there is nothing to be had beside them."""
    told = [finish(HGX, pair, 256 * MB, 256 * MB, beside=own) for own in (False, True)]
    assert told[1] == told[0]


def test_plans_of_them_are_verified_and_offered_again() -> None:
    workload = step("allreduce", "alltoall", MB, MB)
    asked = PlanSettings(seconds=0.1, planner=TACOS)
    planner = Planner(workload, resolve_fabric(HGX), asked)
    planner.run()
    plan = planner.plan()
    assert any(is_beside(option) for _, option in plan.options)
    assert find_faults(plan, TACOS) == ()
    assert find_plan_bound_fault(plan, TACOS) == ""
    forged = []
    for name, option in plan.options:
        motifs = tuple(
            replace(m, ns=m.ns - 1) if COMPLEMENT_SEPARATOR in m.carrier else m
            for m in option.motifs
        )
        forged.append((name, replace(option, motifs=motifs)))
    (fault,) = find_faults(replace(plan, options=tuple(forged)), TACOS)
    assert (fault.kind, "the plan states" in fault.message) == ("cost", True)
    others = [
        (n, replace(o, motifs=tuple(replace(m, carrier=f"{m.carrier}s") for m in o.motifs)))
        for n, o in plan.options
        if is_beside(o)
    ]
    renamed = tuple({**dict(plan.options), **dict(others)}.items())
    (fault,) = find_faults(replace(plan, options=renamed), TACOS)
    assert "none of its options is carried by" in fault.message


def test_same_is_offered_twice() -> None:
    workload = step("allgather", "alltoall", MB, MB)
    asked = OptionSettings(planner=TACOS)
    of = [find_options(workload, resolve_fabric(HGX), asked).by_collective for _ in range(2)]
    assert of[0] == of[1]
    assert any(map(is_beside, of[0]["other"]))


def test_nothing_is_left_where_one_goes_at_a_time() -> None:
    """Without a synthesiser, or where ranks have one stream, there are no such options."""
    workload = step("allreduce", "alltoall", MB, MB)
    one = resolve_fabric(HGX)
    single = replace(one, channels=tuple(replace(c, streams=1) for c in one.channels))
    for fabric, asked in ((one, OptionSettings()), (single, OptionSettings(planner=TACOS))):
        of = find_options(workload, fabric, asked).by_collective
        assert not any(is_beside(option) for own in of.values() for option in own)


def test_synthesisers_that_there_are_not_are_reported() -> None:
    with pytest.raises(UnknownNameError, match="tacoz"):
        build_motif_planner("tacoz")
