"""Plans message by message: isolated costs, closed forms, bounds, and unsupported plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.core.clock import Clock
from sccl.core.sizes import ITEM_BYTES
from sccl.errors import InputError, ParameterError, TooLargeError
from sccl.sim import Messages, simulate
from sccl.topo import resolve_topology
from sccl.training.fabric_messages import build_schedule_messages, link_bytes
from sccl.training.fabric_names import resolve_fabric
from sccl.training.link_simulation import simulate_in_isolation, simulate_on_links
from sccl.training.motifs import apply_recipe, parse_recipe
from sccl.training.options.carriers import CARRIERS
from sccl.training.options.motif_costs import MotifCosts, build_motif_planner
from sccl.training.options.option_enumeration import motif_of
from sccl.training.timeline import simulate_timeline
from sccl.training.timeline_models import StepTiming, simulate_fluid
from sccl.training.types.fabric import Channel, Fabric, Incast, SharedBudget
from sccl.training.types.training_plan import Issue, Option, OptionMotif, TrainingPlan
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import (
    AnyOp,
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)
from tests.kit.nightly import times
from tests.kit.training_plans import TABLE
from tests.kit.workloads import comm

BY_NAME = {carrier.name: carrier for carrier in CARRIERS}
PAIRS = [(carrier.name, name) for carrier in CARRIERS for name in carrier.collectives]

PAIR = Fabric(
    "pair", (Channel("only", resolve_topology("full:2@1GB+3us"), streams=2, launch_us=2.0),)
)
"""1,000 bytes take 6 us: 2 to launch, 3 of latency, 1 to pass."""

Way = tuple[str, str, str]
"""A recipe, a channel, and the carrier of each motif."""


def option_of(fabric: Fabric, op: CommOp, way: Way) -> Option:
    """Return an option whose motifs take their costs, without shares."""
    recipe, name, carrier = way
    motif = motif_of(op)
    assert motif is not None
    number = [channel.name for channel in fabric.channels].index(name)
    costs, size = MotifCosts(fabric), ITEM_BYTES[op.dtype]
    made = apply_recipe(motif, parse_recipe(recipe), size)
    if any(one.collective not in BY_NAME[carrier].collectives for one in made):
        raise ParameterError(f"{carrier} does not carry it")
    motifs = (
        OptionMotif(
            name, carrier, costs.carrier_cost(one, number, BY_NAME[carrier], size).ns, (), one.after
        )
        for one in made
    )
    return Option(recipe, tuple(motifs))


def plan_of(
    fabric: Fabric, ops: Sequence[AnyOp], ways: Sequence[Way], *deps: Dependency
) -> TrainingPlan:
    """Return a plan of operations in the given order.

    All ranks have one role if all take part in all operations, otherwise each has its own.
    """
    calls = [op for op in ops if isinstance(op, CommOp)]
    ranks = range(fabric.ranks)
    roles = [Role("all", tuple(ranks))]
    if any(len(op.members) < fabric.ranks for op in calls):
        roles = [Role(f"rank {rank}", (rank,)) for rank in ranks]
    programs = []
    for role in roles:
        own = (op.id for op in calls if not op.members.isdisjoint(role.ranks))
        events = tuple(HostEvent(HostAction.SUBMIT, name) for name in own)
        programs.append(HostProgram(role.name, events))
    workload = Workload(
        name="by hand",
        ranks=fabric.ranks,
        roles=tuple(roles),
        ops=tuple(ops),
        deps=deps,
        submits=tuple(programs),
    )
    options = [(op.id, option_of(fabric, op, way)) for op, way in zip(calls, ways, strict=True)]
    counts = {name: len(option.motifs) for name, option in options}
    order = [Issue(op.id, k) for op in ops for k in range(counts.get(op.id, 1))]
    return TrainingPlan(workload, fabric, tuple(options), tuple(order), 0, 0, "", "none")


def three(plan: TrainingPlan) -> tuple[float, float, float]:
    """Return the period as claimed, as of fluids, and on links."""
    timeline = simulate_timeline(plan)
    fluid, links = simulate_fluid(plan, timeline), simulate_on_links(plan, timeline)
    return timeline.period_ns, fluid.period_ns, links.period_ns


def of_bytes(name: str, collective: str, group: Sequence[int], size: int) -> CommOp:
    """Return a collective of so many bytes."""
    return replace(comm(name, collective, group, size), dtype="uint8")


def sent(name: str, size: int = 1000, *, groups: Sequence[Sequence[int]] = ((1, 0),)) -> CommOp:
    """Return a broadcast of some bytes."""
    return replace(
        of_bytes(name, "broadcast", groups[0], size),
        beside=tuple(map(tuple, groups[1:])),
    )


DIRECT = ("whole", "only", "direct")


@pytest.mark.parametrize(("carrier", "name"), PAIRS)
@settings(max_examples=times(8))
@given(st.data())
def test_around_a_switch_a_motif_that_is_alone_takes_what_it_costs(
    carrier: str, name: str, data: st.DataObject
) -> None:
    """All elements divide, so that messages of a step are alike. Half a nanosecond is rounded."""
    places = data.draw(st.integers(2, 8))
    group = data.draw(st.permutations(range(8)))[:places]
    size = 840 * data.draw(st.integers(1, 10**6))
    op = of_bytes("one", name, group, size)
    rows = (Incast(3, 0, 0.7), Incast(5, 840 * 1000, 0.5))
    fabric = resolve_fabric("hgx2")
    channel = replace(fabric.channels[0], incast=rows if data.draw(st.booleans()) else ())
    plan = plan_of(replace(fabric, channels=(channel,)), [op], [("whole", "gpu", carrier)])
    claimed, fluid, links = three(plan)
    assert claimed == plan.options[0][1].ns == fluid
    assert claimed - 2 <= links <= claimed + places


@settings(max_examples=times(40))
@given(st.data())
def test_without_overlap_all_three_agree(data: st.DataObject) -> None:
    """Each operation waits for the one before it, over both channels of eight GPUs."""
    fabric = resolve_fabric("hgx2")
    ops: list[AnyOp] = []
    ways: list[Way] = []
    for number in range(data.draw(st.integers(2, 6))):
        if data.draw(st.booleans()):
            ops.append(ComputeOp(f"c{number}", "all", "s", data.draw(st.integers(0, 99)) / 4))
            continue
        carrier, name = data.draw(st.sampled_from(PAIRS))
        size = 840 * data.draw(st.integers(1, 10**4))
        ops.append(of_bytes(f"m{number}", name, range(8), size))
        ways.append(("whole", "gpu", carrier))
    chain = [Dependency(a.id, b.id) for a, b in pairwise(ops)]
    chain.append(Dependency(ops[-1].id, ops[0].id, 1))
    plan = plan_of(fabric, ops, ways, *chain)
    claimed, fluid, links = three(plan)
    assert fluid == pytest.approx(claimed)
    assert links == pytest.approx(claimed, abs=9 * len(ops))


def test_messages_of_two_motifs_pass_a_link_one_after_the_other() -> None:
    """Both are launched at once: the second passes 1 us later. Fluids are as claimed: 6 us, as
    neither loads the link for more than a sixth of its time."""
    plan = plan_of(PAIR, [sent("a"), sent("b")], [DIRECT, DIRECT])
    assert three(plan)[:2] == (6000, 6000)
    assert simulate_on_links(plan, simulate_timeline(plan)).ends_ns[0] == 7000
    assert simulate_in_isolation(plan, simulate_timeline(plan)).ends_ns[0] == 6000


def test_computations_are_slowed_down_as_is_claimed() -> None:
    """While 6 us of a message last, 4 of 9 us are computed: the other 5 take as long."""
    slow = replace(PAIR, channels=(replace(PAIR.channels[0], slowdown=0.5),))
    ops: list[AnyOp] = [ComputeOp("c", "all", "s", 9.0), sent("a")]
    plan = plan_of(slow, ops, [DIRECT], Dependency("c", "a", 1))
    timeline = simulate_timeline(plan)
    assert max(s.end_ns for s in timeline.spans if s.iteration == 0) == 11000
    for model in (simulate_on_links, simulate_in_isolation):
        assert model(plan, timeline).ends_ns[0] == 11000


def test_motif_that_is_in_nobodys_way_takes_on_links_what_it_does_alone() -> None:
    """Without overlap, the parts take as long separately as together, on links of any kind."""
    fabric, calls = resolve_fabric("hgx2x4"), [("m0", "allreduce"), ("m1", "alltoall")]
    ops = [of_bytes(name, collective, range(32), 32 * 840) for name, collective in calls]
    plan = plan_of(
        fabric,
        ops,
        [("whole", "gpu", "direct")] * 2,
        Dependency("m0", "m1"),
        Dependency("m1", "m0", 1),
    )
    timeline = simulate_timeline(plan)
    met, apart = simulate_on_links(plan, timeline), simulate_in_isolation(plan, timeline)
    assert met.ends_ns == pytest.approx(apart.ends_ns)


@pytest.mark.parametrize("collective", ["alltoall", "allgather", "reducescatter", "allreduce"])
@pytest.mark.parametrize("pieces", [1, 7])
def test_synthesized_motif_takes_its_schedule_time(collective: str, pieces: int) -> None:
    """As soon as it can: links are free while latency passes, other than in schedules."""
    fabric, planner = resolve_fabric("dgx1-pcie"), build_motif_planner()
    machine, launch = fabric.channels[0].topology, fabric.channels[0].launch_us * 1000
    op = of_bytes("one", collective, range(8), 8 * 840 * pieces)
    costs, whole = MotifCosts(fabric), motif_of(op)
    assert whole is not None
    cost = costs.planned_cost(whole, 0, planner.plan, 1)
    motif = OptionMotif(fabric.channels[0].name, planner.name, cost.ns, ())
    plan = plan_of(fabric, [op], [("whole", fabric.channels[0].name, "direct")])
    plan = replace(plan, options=(("one", Option("whole", (motif,))),))
    timeline = simulate_timeline(plan)
    met = simulate_on_links(plan, timeline, planner=planner)
    apart = simulate_in_isolation(plan, timeline, planner=planner)
    assert met.ends_ns == pytest.approx(apart.ends_ns)
    took = launch
    for schedule in costs.planned_schedules(whole, 0, planner.plan, 1):
        sent = build_schedule_messages(schedule, machine)
        assert sent.size.sum() == sum(link_bytes(schedule).values())
        messages = Messages.from_schedule(schedule)
        soon = replace(messages, release=0 * messages.release, at_least=0 * messages.at_least)
        clock = Clock.from_topology(machine, schedule.chunk_bytes, tick_ps=1)
        took += simulate(soon, machine, clock).finish / 1000
    assert met.ends_ns[0] == pytest.approx(took)
    assert launch < took <= cost.ns


def test_shared_channel_resources_are_shared() -> None:
    """Two channels on one bus of half of their bandwidth: 2 us each, in turn."""
    machine = resolve_topology("full:2@1GB+3us")
    channels = tuple(Channel(name, machine, launch_us=2.0) for name in ("left", "right"))
    bus = SharedBudget("bus", (("left", (1, 0)), ("right", (1, 0))), 0.5)
    fabric = Fabric("two", channels, (bus,))
    ways: list[Way] = [("whole", "left", "direct"), ("whole", "right", "direct")]
    plan = plan_of(fabric, [sent("a"), sent("b")], ways)
    assert simulate_on_links(plan, simulate_timeline(plan)).ends_ns[0] == 2000 + 3000 + 2 * 2000
    apart = replace(plan, fabric=replace(fabric, shared=()))
    assert simulate_on_links(apart, simulate_timeline(apart)).ends_ns[0] == 6000


def test_launches_are_paid_for_by_each_motif() -> None:
    """Two halves one after the other on one stream: 2 x (2 + 3 + 0.5) us in all models."""
    one = replace(PAIR, channels=(replace(PAIR.channels[0], streams=1),))
    plan = plan_of(one, [sent("a")], [("seg(2)", "only", "direct")])
    streams = tuple(replace(m, loads=(("only: streams", 1000),)) for m in plan.options[0][1].motifs)
    plan = replace(plan, options=(("a", replace(plan.options[0][1], motifs=streams)),))
    assert three(plan) == (11000, 11000, 11000)
    no_launch = replace(one, channels=(replace(one.channels[0], launch_us=0.0),))
    assert simulate_on_links(
        replace(plan, fabric=no_launch), simulate_timeline(plan)
    ).period_ns == pytest.approx(7000)


@pytest.mark.parametrize(("streams", "alone", "on_links"), [(1, 26000, 26000), (2, 20000, 21000)])
def test_head_of_a_stream_holds_those_behind_it(streams: int, alone: int, on_links: int) -> None:
    """The first waits for 9 us of computation. The second is independent, and behind it.

    On one stream it begins when the first has ended, at 9 + 6 us, and takes 11 for 6,000 bytes.
    With two it begins together with the first, and ends at 9 + 11 us, or 1 later behind it on the
    link.
    """
    channel = replace(PAIR.channels[0], streams=streams)
    fabric = replace(PAIR, channels=(channel,))
    load = (("only: streams", 1000 // streams),)
    ops: list[AnyOp] = [ComputeOp("c", "all", "s", 9.0), sent("a"), sent("b", 6000)]
    plan = plan_of(fabric, ops, [DIRECT, DIRECT], Dependency("c", "a"))
    options = tuple(
        (name, replace(o, motifs=tuple(replace(m, loads=load) for m in o.motifs)))
        for name, o in plan.options
    )
    plan = replace(plan, options=options)
    timeline = simulate_timeline(plan)
    first = [s for s in timeline.spans if s.iteration == 0 and not s.computes]
    assert max(s.end_ns for s in first) == alone
    assert simulate_fluid(plan, timeline).ends_ns[0] == pytest.approx(alone)
    assert simulate_on_links(plan, timeline).ends_ns[0] == on_links


def test_streams_are_those_of_ranks() -> None:
    """Pairs of ranks, each with one stream: the waits of one pair do not delay the other."""
    fabric = Fabric("four", (Channel("only", resolve_topology("full:4@1GB+3us"), launch_us=2.0),))
    ops = [sent("a", groups=((1, 0),)), sent("b", 6000, groups=((3, 2),))]
    plan = plan_of(fabric, ops, [DIRECT, DIRECT])
    timeline = simulate_timeline(plan)
    assert simulate_fluid(plan, timeline).ends_ns[0] == 11000
    assert simulate_on_links(plan, timeline).ends_ns[0] == 11000
    both = plan_of(fabric, [ops[0], sent("b", 6000, groups=((2, 0),))], [DIRECT, DIRECT])
    timeline = simulate_timeline(both)
    assert simulate_fluid(both, timeline).ends_ns[0] == 17000
    assert simulate_on_links(both, timeline).ends_ns[0] == 17000


RECIPES = ["whole", "seg(2)", "spline(2)", "ring", "tree(2)"]


@settings(max_examples=times(60, by_day=30))
@given(st.data())
def test_nothing_is_faster_than_links_and_streams_of_computation(data: st.DataObject) -> None:
    """The time of iterations is at least the loads, the computation, and each motif's steps."""
    machine = resolve_topology(data.draw(st.sampled_from(["full:4@2GB+1us", "ring:4@1GB+2us"])))
    streams = data.draw(st.integers(1, 3))
    fabric = Fabric("drawn", (Channel("only", machine, streams=streams, launch_us=1.0),))
    ops: list[AnyOp] = []
    ways: list[Way] = []
    for number in range(data.draw(st.integers(1, 5))):
        if number and data.draw(st.booleans()):
            ops.append(ComputeOp(f"c{number}", "all", "s", data.draw(st.integers(0, 40)) / 4))
            continue
        carrier, name = data.draw(st.sampled_from(PAIRS))
        size = 12 * data.draw(st.integers(1, 2000))
        ops.append(of_bytes(f"m{number}", name, data.draw(st.permutations(range(4))), size))
        ways.append((data.draw(st.sampled_from(RECIPES)), "only", carrier))
    deps = [
        Dependency(a.id, b.id)
        for k, b in enumerate(ops)
        for a in ops[:k]
        if data.draw(st.integers(0, 3)) == 0
    ]
    try:
        plan = plan_of(fabric, ops, ways, *deps)
    except ParameterError:  # a recipe that is not legal, or not carried so
        assume(False)
    timing = simulate_on_links(plan, simulate_timeline(plan))
    least = _least(plan)
    for number, end in enumerate(timing.ends_ns):
        assert end * 1.000001 >= (number + 1) * least


def _least(plan: TrainingPlan) -> float:
    """Return nanoseconds that an iteration takes at least: of links, of a stream, of steps."""
    (channel,) = plan.fabric.channels
    costs, links = MotifCosts(plan.fabric), channel.topology.links
    busy, steps = np.zeros(len(links)), [0.0]
    for name, option in plan.options:
        op = next(op for op in plan.workload.collectives() if op.id == name)
        whole = motif_of(op)
        assert whole is not None
        made = apply_recipe(whole, parse_recipe(option.recipe), 1)
        for one, motif in zip(made, option.motifs, strict=True):
            told = costs.carrier_messages(one, 0, BY_NAME[motif.carrier], 1)
            by = np.repeat(np.arange(len(told.step)), np.diff(told.first))
            took = told.sent[by] / np.array([links[k].gb_per_s for k in told.link])
            np.add.at(busy, told.link, took)
            alone = np.zeros(len(told.step))
            np.maximum.at(alone, by, took)
            each = np.zeros(int(told.step[-1]) + 1 if len(told.step) else 0)
            np.maximum.at(each, told.step, alone)
            steps.append(float(each.sum()) + channel.launch_us * 1000)
    computed = sum(op.duration_us * 1000 for op in plan.workload.computation())
    return max(float(busy.max(initial=0.0)), computed, *steps)


def test_unsimulated_plan_is_reported() -> None:
    plan = plan_of(PAIR, [sent("a")], [DIRECT])
    timeline = simulate_timeline(plan)
    with pytest.raises(TooLargeError, match="more than 9 messages over links are on the way in 7"):
        simulate_on_links(plan, timeline, most_sent=9)
    with pytest.raises(ParameterError, match="times come from a table of costs"):
        simulate_on_links(replace(plan, costs=TABLE), timeline)
    ((name, option),) = plan.options
    strange = replace(option, motifs=tuple(replace(m, carrier="tacos") for m in option.motifs))
    other = build_motif_planner("teccl")
    with pytest.raises(ParameterError, match="has carrier 'tacos', which has no known"):
        simulate_on_links(replace(plan, options=((name, strange),)), timeline, planner=other)
    with pytest.raises(ParameterError, match="has carrier 'tacos', which has no known"):
        simulate_on_links(replace(plan, options=((name, strange),)), timeline)
    with pytest.raises(InputError, match="it makes 2 motifs with waits"):
        simulate_on_links(
            replace(plan, options=((name, replace(option, recipe="seg(2)")),)), timeline
        )


def test_periods_are_of_the_later_half() -> None:
    assert StepTiming((9.0, 12.0, 15.0, 18.0)).period_ns == 3
    assert StepTiming((9.0, 12.0, 15.0, 19.0)).period_ns == 3.5
