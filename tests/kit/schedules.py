"""Random schedules of well-formed rows, right or not."""

from __future__ import annotations

from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.schedule import MAX_MESSAGES, Schedule, build_schedule
from sccl.topo import resolve_topology
from tests.kit.strategies import specs, topologies


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Draw a schedule with rows in range and in order, which may be invalid."""
    topology = draw(topologies())
    spec = draw(specs(topology.ranks))
    collective = spec.at(spec.unit * draw(st.integers(1, 2)))
    size = st.integers(1, 2**20)
    each = st.lists(size, min_size=collective.num_chunks, max_size=collective.num_chunks)
    sizes = draw(st.one_of(size, each.map(tuple)))
    clock = Clock.from_topology(
        topology, sizes, draw(st.sampled_from(AlphaModel)), draw(st.integers(1, 1000))
    )
    key = st.tuples(
        st.integers(0, 2**40),
        st.integers(0, collective.num_chunks - 1),
        st.integers(0, len(topology.links) - 1),
    )
    keys = draw(st.lists(key, unique=True, max_size=12))
    rows = [
        (start, start + draw(st.integers(1, 2**40)), chunk, link, draw(st.booleans()))
        for start, chunk, link in keys
    ]
    number = st.integers(0, MAX_MESSAGES - 1)
    numbers = st.lists(number, min_size=len(rows), max_size=len(rows))
    return build_schedule(topology, collective, rows, clock, draw(st.one_of(st.none(), numbers)))


def around_a_ring(model: AlphaModel = AlphaModel.TRAVELS) -> Schedule:
    """Return an allgather on a ring of three ranks, in which each sends its chunk both ways."""
    ring = resolve_topology("ring:3")
    collective = named_spec("allgather", 3).at(1)
    clock = Clock.from_topology(ring, 25_000, model)
    rows = [(0, clock.busy(i), k.src, i, False) for i, k in enumerate(ring.links)]
    return build_schedule(ring, collective, rows, clock)


def together_around(ranks: int, size: int, model: AlphaModel = AlphaModel.TRAVELS) -> Schedule:
    """Return an allgather on a ring in which each sends two chunks on to the next, together."""
    ring = resolve_topology(f"ring:{ranks}")
    collective = named_spec("allgather", ranks).at(2)
    clock = Clock.from_topology(ring, size, model, 1000)
    rows = []
    for i, link in enumerate(ring.links):
        if link.dst != (link.src + 1) % ranks:
            continue
        busy = clock.busy_combined(i, (0, 1))
        for step in range(ranks - 1):
            start, owner = step * (busy + clock.lag(i)), (link.src - step) % ranks
            rows += [(start, start + busy, owner + ranks * c, i, False) for c in (0, 1)]
    return build_schedule(ring, collective, rows, clock)
