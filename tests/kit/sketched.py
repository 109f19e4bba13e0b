"""Machines of several nodes with sketches of the links between them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from sccl.core.topology import Link, Topology
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.sketches.sketch import RelayRules, Rotation, Sketch


def nodes_of(draw: st.DrawFn) -> tuple[Topology, Sketch]:
    """Draw nodes that are alike, joined by some relays, and a sketch that names some of them."""
    local, nodes = draw(st.integers(2, 3)), draw(st.integers(2, 3))
    numbers = list(range(local))
    pairs = draw(st.sets(st.sampled_from(list(product(numbers, numbers))), min_size=1))
    inside = draw(st.sampled_from([1.0, 4.0]))
    links = [
        Link(n * local + a, n * local + b, 1, 0.5, 10.0 * inside)
        for n in range(nodes)
        for a in numbers
        for b in numbers
        if a != b
    ]
    links += [
        Link(n * local + a, m * local + b, 1, 2.0, 10.0)
        for n in range(nodes)
        for m in range(nodes)
        if n != m
        for a, b in sorted(pairs)
    ]
    topology = Topology("nodes", local * nodes, tuple(links), 0.5, 10.0)
    taken = draw(st.sets(st.sampled_from(sorted(pairs)), min_size=1))
    joined: dict[int, list[int]] = {}
    for a, b in sorted(taken):
        joined.setdefault(a, []).append(b)
    leaves: dict[int, list[int]] = {}
    if draw(st.booleans()):
        for number in numbers:
            leaves.setdefault(draw(st.sampled_from(sorted(joined))), []).append(number)
    sketch = Sketch(
        "drawn",
        nodes,
        relays=RelayRules(
            tuple((a, tuple(to)) for a, to in joined.items()),
            leaves_by=tuple((a, tuple(own)) for a, own in sorted(leaves.items())),
        ),
        rotations=(Rotation(local, local * nodes),) if draw(st.booleans()) else (),
    )
    return topology, sketch


def resource_loads(
    problem: SchedulingProblem, routes: Iterable[tuple[int, int]]
) -> NDArray[np.int64]:
    """Return, for each resource, the units for which routes occupy its whole capacity."""
    loads = np.zeros(len(problem.capacity), dtype=np.float64)
    counted_groups: set[tuple[int, int]] = set()
    for chunk, path in routes:
        for hop in problem.uses_of_chunk(chunk)[path]:
            if (chunk, hop.multicast_group) not in counted_groups:
                counted_groups.add((chunk, hop.multicast_group))
                loads[hop.resource] += hop.busy * hop.demand / problem.capacity[hop.resource]
    return np.ceil(loads).astype(np.int64)
