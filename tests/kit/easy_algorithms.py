"""Easy algorithms to test with: small frontiers, synthesised once in a run for all workers."""

from __future__ import annotations

from functools import lru_cache, partial

from sccl.collectives import collective_names, custom_spec, named_spec
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Sat
from sccl.core.files.shapes import CustomCollectiveWire
from sccl.core.instance import SweepRange
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.packing.by_steps.limits_by_steps import PackingLimits
from sccl.synth.syncoll import solve as syncoll_solve
from sccl.synth.syncoll.sweep import sweep
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform import build_question, solve_question
from tests.kit import once
from tests.kit.hard_algorithms import EIGHT, FOUR, load_all

MACHINES = (
    "dgx1",
    "z52",
    "z52-pcie",
    "ring:4",
    "line:3",
    "star:4",
    "full:4",
    "mesh:2x3",
    "hypercube:3",
    "torus:3x3",
    "circulant:6:1,2",
)
"""One of each kind."""


@lru_cache(maxsize=64)
def frontier(machine: str, collective: str, root: int | None = None) -> list[Algorithm]:
    """Return a frontier up to one step above the latency bound, for the least k that has one."""
    name = f"frontier {machine} {collective} {root}"
    return once.value(name, partial(_synthesised, machine, collective, root))


def _synthesised(machine: str, collective: str, root: int | None) -> list[Algorithm]:
    topology = resolve_topology(machine)
    spec = named_spec(collective, topology.ranks, root)
    solve = partial(syncoll_solve.solve, solver="cpsat", effort=syncoll_solve.Effort(20.0, 0))
    last = lower_bounds(topology, spec).steps + 1
    for k in (0, 1, 2, 4, 8, 16):
        found = sweep(
            topology,
            spec,
            solve,
            solver="cpsat",
            covered=SweepRange(k=k, max_steps=last),
            limits=PackingLimits,
        )
        if found.points:
            return [expand_algorithm(point.algorithm) for point in found.points if point.algorithm]
    raise AssertionError(f"{collective} on {machine} has no algorithm in {last} steps")


def hop() -> Algorithm:
    """Return one of a custom collective in which two ranks neither send nor receive."""
    wire = CustomCollectiveWire(name="hop", ranks=4, pre=((0, 0),), post=((0, 3),))
    question = build_question(resolve_topology("ring:4"), custom_spec(wire, "test"), 1, 1, 1)
    answer = solve_question(question, syncoll_solve.solve)
    assert isinstance(answer, Sat)
    return expand_algorithm(answer.algorithm)


def bundle_for(ranks: int) -> list[Algorithm]:
    """Return algorithms of every collective for 2, 3, 4 or 8 ranks, the hard ones of 4 and 8.

    With 4 ranks there are also easy ones whose root is 0, beside those with another.
    """
    if ranks == 8:
        return load_all(EIGHT)
    if ranks == 4:
        rooted = ("broadcast", "gather", "reduce", "scatter")
        return load_all(FOUR) + [frontier("full:4", name)[0] for name in rooted]
    machines = [f"full:{ranks}"] if ranks < 3 else [f"full:{ranks}", f"ring:{ranks}"]
    return [a for m in machines for c in collective_names() for a in frontier(m, c)[:2]]
