"""TE-CCL with time-varying bandwidth: plans are executed, and respect their bound."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import custom_spec, named_spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.files.shapes import CustomCollectiveWire
from sccl.core.outcome import Outcome, Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.errors import InputError, ParameterError, TopologyError, UnreachableError
from sccl.judge import violations
from sccl.sim import replay
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.limits import INFINITE
from sccl.synth.network.bandwidth_files import bandwidth_to_wire
from sccl.synth.network.variable_bandwidth import BandwidthInterval, VariableBandwidth
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem, build_problem
from sccl.synth.teccl import epoch_search
from sccl.synth.teccl.epochs import epoch_length
from sccl.synth.teccl.milp import EpochMilp
from sccl.synth.teccl.time_varying_epochs import build_varying_epochs
from sccl.synth.teccl.time_varying_problem import with_varying_bandwidth
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.small_budgets import small_tacos_budget
from tests.kit.strategies import bandwidths, topologies, unequal

TECCL = registry.load("teccl")

PAIR = Topology("pair", 2, (Link(0, 1, 1, 0.0, 1.0), Link(1, 0, 1, 0.0, 1.0)), 0.0, 1.0)
"""A link passes 1,000 bytes in 1 us, and they arrive at once."""


def less(
    begin: float,
    end: float | None,
    fraction: float = 0.0,
    links: tuple[tuple[int, int], ...] = (),
) -> VariableBandwidth:
    """Return a bandwidth of which links have a part for a while."""
    times = (Fraction(begin), None if end is None else Fraction(end))
    return VariableBandwidth((BandwidthInterval(links, *times, Fraction(fraction)),), "b.json")


@small_tacos_budget()
def asked(
    topology: Topology,
    collective: str,
    size: int,
    bandwidth: VariableBandwidth,
    units: float = 0.5,
    **told: Any,
) -> Outcome:
    request = Request(topology, named_spec(collective, topology.ranks), size)
    options = TECCL.Options(bandwidth=bandwidth_to_wire(bandwidth), **told)
    return registry.plan(TECCL, request, options, Effort(units=units))


def found(*about: Any, **told: Any) -> tuple[Schedule, Solution]:
    outcome = asked(*about, **told)
    assert isinstance(outcome, Solution)
    assert isinstance(outcome.plan, Schedule)
    return outcome.plan, outcome


def rows(schedule: Schedule) -> list[tuple[int, int, int, int]]:
    """Return (message, start, end, link) of each transfer."""
    message = range(schedule.num_sends) if schedule.message is None else schedule.message.tolist()
    columns = (schedule.start, schedule.end, schedule.link)
    return list(zip(message, *(column.tolist() for column in columns), strict=True))


def part(bandwidth: VariableBandwidth, edge: tuple[int, int], us: Fraction) -> Fraction:
    """Return the fraction that a link has at a time."""
    return min(
        (
            one.fraction
            for one in bandwidth.intervals
            if (not one.links or edge in one.links)
            and one.from_us <= us
            and (one.to_us is None or us < one.to_us)
        ),
        default=Fraction(1),
    )


def passed(
    schedule: Schedule, bandwidth: VariableBandwidth, over: list[tuple[int, int]], ticks: int
) -> Fraction:
    """Return the bytes that links pass together in some ticks, each from its own start.

    Args:
        over: (link, first tick of its bytes). The slowest one sets the rate at each moment.
    """
    us = Fraction(schedule.tick_ps, 10**6)
    ends = [t for one in bandwidth.intervals for t in (one.from_us, one.to_us) if t is not None]
    cuts = {Fraction(0), Fraction(ticks)}
    for _, begin in over:
        cuts |= {cut for end in ends if 0 < (cut := end / us - begin) < ticks}
    links, total = schedule.topology.links, Fraction(0)
    for first, last in pairwise(sorted(cuts)):
        rates = []
        for k, begin in over:
            rate = links[k].lanes * Fraction(str(links[k].gb_per_s)) * schedule.tick_ps / 1000
            rates.append(rate * part(bandwidth, links[k].edge, (begin + first) * us))
        total += min(rates) * (last - first)
    return total


def check_bytes(schedule: Schedule, bandwidth: VariableBandwidth) -> None:
    """Check that all bytes of every transfer pass its links between its start and its end.

    A cut-through switch stores nothing, so its links pass data at one rate.
    """
    clock, topology = schedule.clock, schedule.topology
    alphas = clock.alpha if clock.model is AlphaModel.OCCUPIES else (0,) * len(topology.links)
    messages: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    chunks: dict[int, int] = {}
    for (message, start, end, link), chunk in zip(
        rows(schedule), schedule.chunk.tolist(), strict=True
    ):
        messages[message].append((start + alphas[link], end, link))
        chunks[message] = chunk
    for message, hops in messages.items():
        sizes = schedule.chunk_bytes
        size = sizes if isinstance(sizes, int) else sizes[chunks[message]]
        together: list[tuple[int, int]] = []
        for begin, end, link in hops:
            together.append((link, begin))
            dst = topology.links[link].dst - topology.ranks
            if dst < 0 or not topology.switches[dst].cut_through:
                assert passed(schedule, bandwidth, together, end - begin) >= size
                if not topology.budgets:  # and no tick later than that
                    assert passed(schedule, bandwidth, together, end - begin - 1) < size
                together = []


machines = (
    topologies(max_ranks=4)
    | unequal()
    | st.sampled_from(["ring:4", "rail:2x2", "switch2d:2x2"]).map(resolve_topology)
)


@settings(max_examples=times(12, by_day=4), deadline=None)
@given(st.data())
def test_all_bytes_pass_in_the_time_of_their_transfers(data: st.DataObject) -> None:
    topology = data.draw(machines)
    bandwidth = data.draw(bandwidths(topology, lasting=False))
    collective = data.draw(
        st.sampled_from(["allgather", "broadcast", "alltoall", "reducescatter", "allreduce"])
    )
    model = data.draw(st.sampled_from(["auto", "milp", "astar"]))
    lengths = ["fastest", "slowest"] if model != "auto" else ["auto"]
    schedule, best = found(
        topology,
        collective,
        topology.ranks * data.draw(st.sampled_from([1000, 30_000])),
        bandwidth,
        model=model,
        alpha=data.draw(st.sampled_from(["travels", "occupies"])),
        epoch=data.draw(st.sampled_from(lengths)),
    )
    check_bytes(schedule, bandwidth)
    assert violations(schedule) == []
    assert replay(schedule).finish == schedule.finish
    assert best.bound.value <= best.objective
    assert float(best.objective) == pytest.approx(schedule.clock.us(schedule.finish))


@pytest.mark.parametrize("model", ["auto", "milp", "astar"])
@pytest.mark.parametrize(
    ("bandwidth", "starts", "ends"),
    [
        (less(1, 2), (0, 2), (1, 3)),
        (less(0.5, 1.5), (0, 2), (2, 3)),  # an earlier start never ends later
        (less(0, 3, 0.5), (0, 2), (2, 3.5)),
        (less(0, None, 0.25), (0, 4), (4, 8)),
        (less(1, 2, 0, ((1, 0),)), (0, 1), (1, 2)),  # the other direction
    ],
)
def test_two_chunks_over_one_link(
    model: str, bandwidth: VariableBandwidth, starts: tuple[int, int], ends: tuple[float, float]
) -> None:
    """Worked out by hand: each takes 1 us, and nothing passes in the outage."""
    schedule, best = found(PAIR, "broadcast", 2000, bandwidth, chunks=2, model=model)
    assert [start for _, start, _, _ in rows(schedule)] == [10**6 * at for at in starts]
    assert [end for _, _, end, _ in rows(schedule)] == [10**6 * at for at in ends]
    assert best.is_optimal


def test_reductions_are_rescheduled_forwards() -> None:
    schedule, best = found(PAIR, "reduce", 2000, less(1, 2), chunks=2)
    assert best.objective == 3
    assert best.bound.value == 2  # of a bandwidth that does not vary
    assert violations(schedule) == []


@pytest.mark.parametrize("machine", ["full:2", "line:2", "ring:4"])
def test_two_that_would_exchange_do_not_reduce_what_came_back(machine: str) -> None:
    """A late arrival is no part of a send planned before it."""
    bandwidth = less(0, 500, 0, ((1, 0),))
    schedule, _ = found(resolve_topology(machine), "allreduce", 12_000, bandwidth, units=0.5)
    assert violations(schedule) == []


def test_ways_around_an_outage_are_taken() -> None:
    """A ring of four with one failed link: three steps over the others."""
    ring = resolve_topology("ring:4@1GB+0us")
    bandwidth = less(0, None, 0, ((0, 1),))
    for model in ("auto", "milp", "astar"):
        schedule, best = found(ring, "broadcast", 1000, bandwidth, model=model)
        assert [ring.links[k].edge for _, _, _, k in rows(schedule)] == [(0, 3), (3, 2), (2, 1)]
        assert best.is_optimal


def test_chunks_of_unequal_sizes_are_placed_again() -> None:
    ring, bandwidth = resolve_topology("ring:3@1GB+1us"), less(2, 9, 0.25, ((0, 1), (2, 0)))
    wire = CustomCollectiveWire(name="mine", ranks=3, allgatherv=(1000, 7000, 3000))
    request = Request(ring, custom_spec(wire, "mine"), 1)
    outcome = registry.plan(
        TECCL, request, TECCL.Options(bandwidth=bandwidth_to_wire(bandwidth)), Effort(units=0.2)
    )
    assert isinstance(outcome, Solution)
    assert isinstance(outcome.plan, Schedule)
    assert outcome.plan.chunk_bytes == (1000, 7000, 3000)
    assert violations(outcome.plan) == []
    check_bytes(outcome.plan, bandwidth)


def posed_of(
    topology: Topology, collective: str, bytes_: int, bandwidth: VariableBandwidth
) -> SchedulingProblem:
    spec = named_spec(collective, topology.ranks)
    return with_varying_bandwidth(
        build_problem(topology, spec.at(spec.unit), Clock.from_topology(topology, bytes_)),
        bandwidth,
    )


@settings(max_examples=times(30), deadline=None)
@given(st.data())
def test_later_start_never_arrives_earlier(data: st.DataObject) -> None:
    topology = data.draw(machines)
    posed = posed_of(topology, "allgather", 20_000, data.draw(bandwidths(topology)))
    way = data.draw(st.integers(0, len(posed.src) - 1))
    first, second = sorted(data.draw(st.integers(0, 50 * 10**6)) for _ in range(2))
    by = [min(INFINITE, posed.arrival(ChunkSend(at, 0, way))) for at in (first, second)]
    assert by[0] <= by[1]
    idle = posed.idle_units(0, way, first)
    assert by[0] == min(INFINITE, posed.arrival(ChunkSend(first + idle, 0, way)))


@settings(max_examples=times(20, by_day=10), deadline=None)
@given(st.data())
def test_epochs_carry_no_more_than_passes_within_them(data: st.DataObject) -> None:
    """For links alone: in no sequence of epochs more chunks than bytes could pass."""
    topology = data.draw(topologies(max_ranks=4))
    topology = replace(topology, budgets=())
    bandwidth = data.draw(bandwidths(topology, lasting=False))
    posed = posed_of(
        topology, data.draw(st.sampled_from(["allgather", "alltoall"])), 20_000, bandwidth
    )
    length = epoch_length(
        posed,
        data.draw(st.sampled_from(["fastest", "slowest"])),
        data.draw(st.sampled_from([1, 3])),
    )
    epochs = build_varying_epochs(posed, length)
    assert posed.varying_routes
    model = EpochMilp(epochs, SymmetryAction.identity(posed), epochs.min_epochs + 14).solve(
        Effort(units=0.5)
    )
    if model.sends is None:
        return
    for link in range(len(topology.links)):
        uses = []
        for send in model.sends:
            span = epochs.spans_at(send.route, send.start)[0]
            if span.resource == link:
                uses.append(
                    (send.start + span.first_epoch, send.start + span.last_epoch, send.route)
                )
        alone = [use for use in uses if epochs.spans_at(use[2], use[0])[0].load == length]
        for begin, end, _ in alone:
            assert sum(a <= end and begin <= b for a, b, _ in uses) == 1 or begin == end
        in_one: dict[int, int] = defaultdict(int)
        for begin, end, way in uses:
            if begin == end and epochs.spans_at(way, begin)[0].load < length:
                in_one[begin] += posed.route_costs[way] - posed.clock.lag(link)
        for epoch, ticks in in_one.items():
            assert ticks <= posed.varying_routes[0].capacity(
                link, epoch * length, (epoch + 1) * length
            )


def test_symmetries_are_those_of_the_bandwidth_too() -> None:
    for bandwidth in (less(5, 9, 0.5), less(5, 9, 0.5, ((0, 1),))):
        schedule, _ = found(
            resolve_topology("ring:4"), "allgather", 4 * 10_000, bandwidth, model="milp"
        )
        check_bytes(schedule, bandwidth)


def test_models_that_are_too_large_leave_what_was_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_search, "MAX_VARIABLES", 1)
    schedule, _ = found(resolve_topology("ring:4"), "alltoall", 4 * 10_000, less(0.5, 2), 0.1)
    check_bytes(schedule, less(0.5, 2))


@pytest.mark.parametrize("model", ["milp", "astar"])
def test_budgets_of_odd_speeds_are_counted(model: str) -> None:
    """The capacity of such a budget in an epoch exceeds a 64-bit number by far."""
    speeds = {(0, 1): 7.3, (1, 2): 11.9, (2, 0): 5.7, (1, 0): 3.1}
    links = tuple(Link(*edge, 1, 0.3, speed) for edge, speed in speeds.items())
    bus = Budget("bus", tuple(speeds), 1, 13.7)
    odd = Topology("odd", 3, links, 0.3, 7.3, budgets=(bus,))
    schedule, _ = found(odd, "alltoall", 30_000, less(1, 3, 0.25), model=model, epochs=24)
    check_bytes(schedule, less(1, 3, 0.25))


def test_equal_seeds_give_equal_results() -> None:
    about = (resolve_topology("ring:4"), "allreduce", 10**6, less(5, 200, 0, ((0, 1),)), 0.2)
    assert found(*about)[0] == found(*about)[0]


STAR = Topology(
    "star",
    3,
    tuple(Link(*edge, 1, 0.5, 10.0) for r in range(3) for edge in ((r, 3), (3, r))),
    0.5,
    10.0,
    switches=(Switch("hub", copies=True),),
)


@pytest.mark.parametrize(
    ("topology", "told", "bandwidth", "kind", "says"),
    [
        (PAIR, {}, less(0.5, None), UnreachableError, r"b.json: no data reach .* \('to_us'\)"),
        (PAIR, {"model": "astar"}, less(0, None), UnreachableError, "for more than 281 s"),
        (
            PAIR,
            {},
            less(1, None),
            UnreachableError,
            r"2 chunks .* go out of rank 0, .* carry 1, and",
        ),
        (PAIR, {"model": "milp"}, less(1, None), UnreachableError, "and then nothing forever"),
        (PAIR, {}, less(1, 2, 0, ((0, 2),)), TopologyError, "link 0->2 is not a link of"),
        (PAIR, {"model": "continuous"}, less(1, 2), ParameterError, "expected milp or astar"),
        (PAIR, {"model": "lp"}, less(1, 2), ParameterError, "model lp does not support"),
        (PAIR, {"priorities": (1, 2)}, less(1, 2), ParameterError, "leave one of the two out"),
        (PAIR, {"combine": "direct"}, less(1, 2), ParameterError, "expected auto or reversal"),
        (STAR, {}, less(1, 2), ParameterError, "give --switch nocopy"),
    ],
)
def test_impossible_request_is_rejected(
    topology: Topology,
    told: dict[str, Any],
    bandwidth: VariableBandwidth,
    kind: type[InputError],
    says: str,
) -> None:
    with pytest.raises(kind, match=says):
        asked(topology, "broadcast", 2000, bandwidth, chunks=2, **told)


def test_reductions_avoid_failed_links() -> None:
    with pytest.raises(UnreachableError, match="needs a link that has no bandwidth"):
        asked(PAIR, "reduce", 2000, less(1, None), chunks=2)
    ring = resolve_topology("ring:4@1GB+0us")
    schedule, _ = found(ring, "reduce", 10_000, less(1, None, 0, ((1, 0),)))
    assert all(ring.links[k].edge != (1, 0) for _, _, _, k in rows(schedule))


@settings(max_examples=times(20, by_day=8), deadline=None)
@given(st.data())
def test_no_horizon_is_passed_over_that_has_a_schedule(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_ranks=4))
    bandwidth = data.draw(bandwidths(topology, lasting=False))
    posed = posed_of(topology, "allgather", 20_000, bandwidth)
    epochs = build_varying_epochs(posed, epoch_length(posed, "fastest", 1))
    first = epochs.lower_bound(0)
    assert first >= epochs.min_epochs
    if 1 < first < 60:
        fewer = EpochMilp(epochs, SymmetryAction.identity(posed), first - 1).solve(
            Effort(units=0.5)
        )
        assert fewer.sends is None


def test_epoch_is_that_of_plans_in_epochs_in_model_auto_too() -> None:
    asked = "allgather", 40_000, less(1, 2, 0.5)
    assert not violations(
        found(resolve_topology("ring:4"), *asked, epoch="slowest", multiplier=2)[0]
    )


def test_outage_is_waited_for_in_one_horizon() -> None:
    posed = posed_of(PAIR, "allgather", 1000, less(0, 50))
    epochs = build_varying_epochs(posed, epoch_length(posed, "fastest", 1))
    assert epochs.min_epochs == 1
    assert epochs.lower_bound(0) == 51
