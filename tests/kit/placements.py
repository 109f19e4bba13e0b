"""Machines of chassis, and phases that are placed on them."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from sccl.collectives import dual_of, named_spec
from sccl.core.schedule import Schedule
from sccl.core.topology import Link, Switch, Topology
from sccl.judge import violations
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.synth.packing.flow_problem import FlowProblem, build_flow_problem
from sccl.synth.packing.schedule_builder import ScheduleBuilder, forward_or_reversed


@st.composite
def chassis(draw: st.DrawFn) -> Topology:
    """Ranks around switches, and links one way from rank to rank of two chassis, or a network."""
    inner, many = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    ranks = inner * many
    fast, slow = draw(st.sampled_from([10.0, 15.0, 40.0])), draw(st.sampled_from([1.0, 2.5, 10.0]))
    alpha, far = draw(st.sampled_from([0.0, 0.35, 0.7])), draw(st.sampled_from([0.0, 0.65, 1.3]))
    ends = [(r, ranks + r // inner) for r in range(ranks)]
    links = [Link(*end, 1, alpha, fast) for a, b in ends for end in ((a, b), (b, a))]
    network = ranks + many
    nics = draw(st.lists(st.integers(0, inner - 1), min_size=1, unique=True)) if many > 1 else []
    for rank in range(ranks):
        if rank % inner in nics:
            links += [Link(rank, network, 1, far, float(slow)), Link(network, rank, 1, far, slow)]
    switches = (Switch("one"), *(Switch(f"other {i}") for i in range(many - 1)))
    if many > 1:
        switches = (*switches, Switch("network"))
    together = tuple(tuple(range(at, at + inner)) for at in range(0, ranks, inner))
    return Topology("made", ranks, tuple(links), 0.7, 25.0, switches=switches, chassis=together)


def build_placement(
    topology: Topology, collective: str, size: int
) -> tuple[FlowProblem, ScheduleBuilder, float]:
    """Return a problem, its placement, and its lower bound."""
    spec = named_spec(collective, topology.ranks)
    dual = dual_of(spec)
    machine = topology.reversed() if dual.on_reversed else topology
    problem = build_flow_problem(machine, dual, size)
    floor = completion_time_bound(machine, dual.spec).us(Fraction(size, dual.chunk_factor))
    placing = ScheduleBuilder(problem, dual, forward_or_reversed(topology, dual), lambda: False)
    return problem, placing, float(floor)


def verified_schedule(placing: ScheduleBuilder, topology: Topology, collective: str) -> Schedule:
    """Return the verified schedule of a placement."""
    schedule = placing.schedule(topology, named_spec(collective, topology.ranks))
    assert not violations(schedule)
    return schedule
