"""Schedules as algorithms, and those that steps cannot tell."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from sccl.collectives import named_spec
from sccl.core.clock import Clock
from sccl.core.schedule import Schedule, build_schedule
from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.errors import InputError, ParameterError
from sccl.judge import violations
from sccl.topo import resolve_topology
from sccl.transform.levels import algorithm_from_schedule
from tests.kit.schedules import around_a_ring
from tests.kit.timed import right


@given(right())
def test_schedule_of_single_hops_becomes_an_algorithm(schedule: Schedule) -> None:
    try:
        algorithm = algorithm_from_schedule(schedule)
    except InputError:
        hops = schedule.message is not None and len(set(schedule.message)) < schedule.num_sends
        assert hops or schedule.topology.switches
        return
    assume(schedule.num_sends)
    assert violations(algorithm) == []
    assert not algorithm.topology.switches
    assert algorithm.num_sends == schedule.num_sends or schedule.topology.switches


def test_steps_are_as_few_as_the_transfers_allow() -> None:
    algorithm = algorithm_from_schedule(around_a_ring())
    assert (algorithm.steps, algorithm.rounds) == (1, 1)
    line = resolve_topology("line:3")
    clock = Clock.from_topology(line, 25_000)
    took = clock.busy(0) + clock.lag(0)
    place = {k.edge: i for i, k in enumerate(line.links)}
    rows = [(0, clock.busy(0), 0, place[0, 1], False), (took, 2 * took, 0, place[1, 2], False)]
    relayed = build_schedule(line, named_spec("broadcast", 3).at(1), rows, clock)
    assert algorithm_from_schedule(relayed).steps == 2


def test_values_that_go_round_in_a_circle_have_times_and_no_steps() -> None:
    """Rank 1 stores the chunk from 0, then that from 2, after it has sent its own to 2."""
    machine = resolve_topology("full:3")
    clock = Clock.from_topology(machine, 1)
    place = {k.edge: i for i, k in enumerate(machine.links)}
    took, later = clock.busy(0), 10 * clock.lag(0)
    rows = [
        (8, 8 + took, 0, place[0, 1], False),
        (2, later + took, 0, place[2, 1], False),
        (5, 2 * later + took, 0, place[1, 2], False),
    ]
    schedule = build_schedule(machine, named_spec("allreduce", 3).at(3), rows, clock)
    with pytest.raises(ParameterError, match="in a cycle"):
        algorithm_from_schedule(schedule)


def test_switches_and_relays_are_rejected() -> None:
    ring = around_a_ring()
    relayed = build_schedule(
        ring.topology,
        ring.collective,
        [(0, 10**9, 0, 0, False), (2 * 10**9, 3 * 10**9, 0, 3, False)],
        ring.clock,
        [4, 4],
    )
    with pytest.raises(ParameterError, match="message 4 has 2 hops"):
        algorithm_from_schedule(relayed)


def test_budgets_of_links_at_a_switch_are_those_of_the_pairs_that_go_over_them() -> None:
    """Ranks 0 and 1 are at one card, which one chunk leaves in a round."""
    ends = [(rank, 3) for rank in range(3)]
    links = tuple(Link(*end, 1, 0.5, 25.0) for a, b in ends for end in ((a, b), (b, a)))
    cards = (Budget("card", ((0, 3), (1, 3)), 1), Budget("unused", ((3, 0), (3, 1)), 2))
    machine = Topology("cards", 3, links, 0.5, 10.0, budgets=cards, switches=(Switch("s"),))
    place = {k.edge: i for i, k in enumerate(machine.links)}
    clock = Clock.from_topology(machine, 25_000)
    rows, took = [], clock.busy(0) + clock.lag(0)
    for chunk in (0, 1):  # each a message over two links
        for hop, edge in enumerate(((chunk, 3), (3, 2))):
            start = (2 * chunk + hop) * took
            rows.append((start, start + clock.busy(0), chunk, place[edge], False))
    schedule = build_schedule(machine, named_spec("gather", 3, 2).at(1), rows, clock, [0, 0, 1, 1])
    algorithm = algorithm_from_schedule(schedule)
    card, port = algorithm.topology.budgets
    assert (card.name, card.edges, card.chunks_per_round) == ("card", ((0, 2), (1, 2)), 1)
    assert card.gb_per_s == 25.0
    assert port.name.startswith("through")
    assert (algorithm.steps, algorithm.rounds) == (1, 2)
