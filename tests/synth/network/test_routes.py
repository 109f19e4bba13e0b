"""Ways through switches: when their links are busy, and plans over them."""

from __future__ import annotations

import random

import pytest

from sccl.collectives import collective_names, named_spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule, build_schedule
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import TopologyError
from sccl.judge import violations
from sccl.sim import replay
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.network.arrays import build_arrays
from sccl.synth.network.routes import Routes, build_routes
from sccl.synth.network.switch_distances import nearest_paths
from tests.kit.nightly import seed, times
from tests.kit.optimum_cases import draw_switched


def _row(speeds: tuple[float, ...], switch: Switch, alpha: float = 0.0) -> Topology:
    """Return two ranks joined by links of some speeds over switches in a row, and back by one."""
    nodes = [0, *range(2, 1 + len(speeds)), 1]
    pairs = zip(nodes, nodes[1:], speeds, strict=False)
    links = sorted([*((u, v, gb_per_s) for u, v, gb_per_s in pairs), (1, 0, 1.0)])
    return Topology(
        "row",
        2,
        tuple(Link(u, v, 1, alpha, gb_per_s) for u, v, gb_per_s in links),
        1.0,
        1.0,
        switches=(switch,) * (len(speeds) - 1),
    )


def _from_0_to_1(machine: Topology) -> tuple[Routes, list[tuple[int, int]]]:
    """Return ways for chunks of 12,000 bytes, and when links from rank 0 to 1 are busy in ns."""
    ways = build_routes(machine, Clock.from_topology(machine, 12_000, tick_ps=1000))
    rows = range(int(ways.first[0]), int(ways.first[1]))
    return ways, [(int(ways.offset[r]), int(ways.offset[r] + ways.busy[r])) for r in rows]


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ((1.0, 12.0), [(0, 12_000), (11_001, 12_001)]),  # it ends with the last byte
        ((12.0, 1.0), [(0, 1000), (1, 12_001)]),
        # a fast link between slow ones is busy while the slower of them is, or the other
        ((2.0, 12.0, 1.0, 3.0), [(0, 6000), (1, 6001), (2, 12_002), (8003, 12_003)]),
        ((1.0, 12.0, 2.0, 12.0), [(0, 12_000), (6001, 12_001), (6002, 12_002), (11_003, 12_003)]),
    ],
)
def test_fast_links_are_busy_for_their_own_time(
    speeds: tuple[float, ...], expected: list[tuple[int, int]]
) -> None:
    """Ahead of the slowest link from the first byte on, behind it up to the last byte."""
    waits = _row(speeds, Switch("hub", buffer_chunks=None), alpha=0.001)
    ways, busy = _from_0_to_1(waits)
    assert busy == expected
    held, busy = _from_0_to_1(_row(speeds, Switch("hub"), alpha=0.001))
    assert busy == [(i, i + 12_000) for i in range(len(speeds))]
    assert ways.cost[0] == held.cost[0]


@pytest.mark.parametrize("name", ["teccl", "taccl", "limits-time"])
@pytest.mark.parametrize(("buffer_chunks", "least", "most"), [(None, 22.0, 22.3), (0, 42, 42)])
def test_slow_links_fill_a_fast_one_together(
    name: str, buffer_chunks: int | None, least: float, most: float
) -> None:
    """Two ranks send 20 us each to one that receives 100 times as fast."""
    edges = [(rank, 3, 1.0) for rank in range(3)] + [(3, rank, 100.0) for rank in range(3)]
    links = tuple(Link(u, v, 1, 1.0, gb_per_s) for u, v, gb_per_s in edges)
    hub = Switch("hub", buffer_chunks=buffer_chunks)
    star = Topology("star", 3, links, 1.0, 1.0, switches=(hub,))
    synthesizer = registry.load(name)
    outcome = registry.plan(synthesizer, Request(star, named_spec("gather", 3), 20_000))
    assert isinstance(outcome, Solution)
    assert isinstance(outcome.plan, Schedule)
    assert least <= float(outcome.objective) <= most
    assert replay(outcome.plan).finish == outcome.plan.finish


@pytest.mark.parametrize("name", ["limits-time", "taccl", "tacos", "teccl"])
@pytest.mark.parametrize("part", range(3))
def test_plans_over_rows_of_switches_are_right(name: str, part: int) -> None:
    synthesizer = registry.load(name)
    for number in range(times(6)):
        rng = random.Random(seed(f"rows {part} {number}"))  # noqa: S311 - the same every time
        machine = draw_switched(rng, rng.choice((2, 2, 3)))
        spec, size = (
            named_spec(rng.choice(collective_names()), machine.ranks),
            rng.choice((100, 5999, 100_000)),
        )
        model = rng.choice(list(AlphaModel)).value
        options = synthesizer.Options(**({} if name == "limits-time" else {"alpha": model}))
        try:
            outcome = registry.plan(
                synthesizer, Request(machine, spec, size), options, Effort(units=0.05)
            )
        except TopologyError as error:
            assert "is of links into and out of" in str(error)  # noqa: PT017
            continue
        best = outcome.best if isinstance(outcome, Inconclusive) else outcome
        if not isinstance(best, Solution):
            continue
        assert isinstance(best.plan, Schedule)
        assert violations(best.plan) == []
        assert replay(best.plan).finish == best.plan.finish


def test_links_without_alpha_between_switches_cost_nothing_in_bounds() -> None:
    """A plan lets each hop begin a tick after the one before, where a schedule need not."""
    machine = _row((1.0, 1.0, 1.0), Switch("hub"))
    clock = Clock.from_topology(machine, 1000, tick_ps=1000)
    ways = build_routes(machine, clock)
    assert ways.cost[0] == 1001
    assert nearest_paths(machine, clock, build_arrays(machine, clock, ways)).cost[0] == 1000
    rows = [(0, 1000, 0, link, False) for link, k in enumerate(machine.links) if k.edge != (1, 0)]
    at_once = build_schedule(machine, named_spec("broadcast", 2, 0).at(1), rows, clock, [0] * 3)
    assert violations(at_once) == []
