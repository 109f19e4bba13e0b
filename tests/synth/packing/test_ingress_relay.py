"""Late data of a chassis: no schedule beats the time bound, and some attain it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import dual_of, named_spec
from sccl.core.outcome import Solution
from sccl.core.topology import Link, Switch, Topology
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.prove.check.ingress_relay_check import ingress_relay_bound
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.packing.by_time.ingress_relay import ingress_relay_us, strongest_ingress_relay
from sccl.synth.packing.flow_problem import FlowProblem, build_flow_problem
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import topologies

TACOS = registry.load("tacos")


def joined(inner: int, far: float, nics: int) -> Topology:
    """Two chassis around switches. The last ranks of one send to the first of the other."""
    ranks = 2 * inner
    ends = [(r, ranks + r // inner) for r in range(ranks)]
    links = [Link(*end, 1, 0.5, 10.0) for a, b in ends for end in ((a, b), (b, a))]
    for rank in range(nics):
        links += [
            Link(inner - 1 - rank, inner + rank, 1, far, 5.0),
            Link(ranks - 1 - rank, rank, 1, far, 5.0),
        ]
    together = (tuple(range(inner)), tuple(range(inner, ranks)))
    switches = (Switch("a"), Switch("b"))
    return Topology("two", ranks, tuple(links), 0.7, 25.0, switches=switches, chassis=together)


def problem_of(topology: Topology, size: int, collective: str = "allgather") -> FlowProblem:
    return build_flow_problem(topology, dual_of(named_spec(collective, topology.ranks)), size)


def test_three_of_four_come_late_to_one() -> None:
    """Data cross after 1 + 1.5 us to one rank, which sends to three, 0.1 us each, at 1 us distance.

    Each of four ranks is at least 3.5 us away, except the one at which they arrive. By the proved
    rule early arrivals are forwarded to three.
    """
    topology = joined(4, 1.5, 1)
    spec = named_spec("allgather", 8)
    cuts, late = (
        completion_time_bound(topology, spec).us(1000),
        ingress_relay_us(problem_of(topology, 1000)),
    )
    assert cuts == Fraction("4.1")  # by the link, which is the slower here
    # 3 * 3000 bytes by T: of the first link no more than 3 * 5000 a microsecond, but of those from
    # with 10,000 from 2.5 + 1 on, and from 3.5 on 5000 by itself
    assert late == Fraction("3.5") + 9000 / Fraction(15_000)


def test_way_over_more_switches_may_be_the_shorter() -> None:
    """Data behind 8000 bytes on one link continue in 1.2 us by the third switch, not in 11."""
    pairs = [(0, 4, 0.5), (1, 5, 0.5), (4, 5, 10.0), (4, 6, 0.1), (6, 5, 0.1), (2, 3, 0.5)]
    rates = [*((*pair, 25.0) for pair in pairs), (2, 0, 0.5, 1.0)]
    links = [
        Link(*ends, 1, alpha, rate) for a, b, alpha, rate in rates for ends in ((a, b), (b, a))
    ]
    three, together = tuple(map(Switch, "abc")), ((0, 1), (2, 3))
    topology = Topology("odd", 4, tuple(links), 0.7, 25.0, switches=three, chassis=together)
    late = strongest_ingress_relay(problem_of(topology, 4000))
    assert late is not None
    assert late.value < 8000 / 1000 + Fraction("0.5") + Fraction("1.2") + 4 * 8000 / 25_000
    of = (
        named_spec("allgather", 4).at(1),
        1,
        Fraction(4000),
        late.proof.inside,
        late.proof.sources,
        late.proof.apart,
    )
    assert late.value == ingress_relay_bound(topology, *of, lambda _: None).us(4000)


def test_rank_of_a_chassis_that_nothing_comes_to() -> None:
    """Rank 1 only sends, and remote arrivals at rank 0 count."""
    links = tuple(Link(*ends, 1, 0.5, 25.0) for ends in ((1, 0), (2, 0), (3, 2), (0, 2)))
    topology = Topology("one-way", 4, links, 0.7, 25.0, chassis=((0, 1), (2, 3)))
    assert ingress_relay_us(problem_of(topology, 1000, "gather")) >= 1


@settings(max_examples=times(30))
@given(st.integers(2, 5), st.integers(1, 3), st.sampled_from([0.1, 0.5, 2.5]), st.integers(1, 9000))
def test_certificates_prove_as_much(inner: int, nics: int, far: float, size: int) -> None:
    """And of more bytes no more than is so."""
    topology = joined(inner, far, min(nics, inner))
    late = strongest_ingress_relay(problem_of(topology, size))
    assert late is not None
    of = (named_spec("allgather", topology.ranks).at(1), 1, Fraction(size))
    floor = ingress_relay_bound(
        topology, *of, late.proof.inside, late.proof.sources, late.proof.apart, lambda _: None
    )
    assert floor.us(size) == late.value
    assert all(
        floor.us(n * size) <= ingress_relay_us(problem_of(topology, n * size)) for n in (2, 9, 99)
    )


@pytest.mark.parametrize(
    ("machine", "size", "expected"),
    [
        ("rail:4x4", 4000, "2.98"),
        ("dgx2:2", 2000, "4.169090909"),
        ("dgx2:2", 8000, "4.815"),
        ("dgx2:4", 15_625, "10.975"),
    ],
)
def test_known_chassis(machine: str, size: int, expected: str) -> None:
    """In pods three quarters of a rail's data are forwarded three times, the rest enters by each.

    For DGX-2 it equals the prices of slots for two chassis, with trees priced by numbers of ranks.
    """
    topology = resolve_topology(machine)
    late = ingress_relay_us(problem_of(topology, size))
    assert float(late) == pytest.approx(float(expected))
    assert late > completion_time_bound(topology, named_spec("allgather", topology.ranks)).us(size)


@settings(max_examples=times(15, by_day=8))
@given(
    st.integers(2, 5),
    st.integers(1, 3),
    st.sampled_from([0.1, 0.5, 2.5]),
    st.integers(10, 4000),
    st.integers(1, 4),
)
def test_no_schedule_takes_less(inner: int, nics: int, far: float, size: int, chunks: int) -> None:
    """For any list schedule of equal chunks."""
    topology = joined(inner, far, min(nics, inner))
    late = ingress_relay_us(problem_of(topology, size * chunks))
    request = Request(topology, named_spec("allgather", topology.ranks), size * chunks)
    options = TACOS.Options(chunks=chunks, alpha="travels")
    found = registry.plan(TACOS, request, options, Effort())
    assert isinstance(found, Solution)
    assert found.objective >= late


@settings(max_examples=times(60, by_day=30), deadline=None)
@given(topologies(max_ranks=4), st.integers(1, 3), st.sampled_from([2, 8]), st.data())
def test_no_schedule_takes_less_whatever_ranks_it_comes_to(
    wiring: Topology, chunks: int, size: int, data: st.DataObject
) -> None:
    speeds = st.sampled_from([0.01, 0.02])
    links = tuple(
        Link(*k.edge, k.lanes, data.draw(st.sampled_from([0.4, 0.5])), data.draw(speeds))
        for k in wiring.links
    )
    topology = Topology("some", wiring.ranks, links, 0.7, 25.0)
    spec = named_spec(data.draw(st.sampled_from(["allgather", "broadcast"])), topology.ranks)
    everyone = set(range(topology.ranks))
    inside = everyone - data.draw(
        st.sets(st.sampled_from(sorted(everyone)), min_size=1, max_size=2)
    )
    apart = data.draw(st.sampled_from([Fraction(n, 10) for n in (4, 5, 8, 9, 10, 12)]))
    try:
        of = (topology, spec.at(1), 1, Fraction(size * chunks), inside, everyone - inside)
        floor = ingress_relay_bound(*of, apart, lambda _: None)
    except ValueError:
        return
    request = Request(topology, spec, size * chunks)
    options = TACOS.Options(chunks=chunks, alpha="travels")
    found = registry.plan(TACOS, request, options, Effort())
    assert isinstance(found, Solution)
    assert found.objective >= floor.lower_bound_us


def test_nothing_is_said_of_what_is_not_so() -> None:
    """A copying switch turns one arrival into many, and without chassis nothing is late."""
    assert ingress_relay_us(problem_of(resolve_topology("torus:3x3"), 9000)) == 0
    topology = joined(3, 1.5, 1)
    switches = tuple(Switch(s.name, copies=True) for s in topology.switches)
    copies = Topology(
        "copies", 6, topology.links, 0.7, 25.0, switches=switches, chassis=topology.chassis
    )
    assert ingress_relay_us(problem_of(copies, 600)) == 0
