"""Machines whose links lead from x to x + g, with names that tell nothing, and ranks shuffled."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.topology import Topology, per_rank_budgets
from sccl.topo import resolve_topology
from sccl.topo.symmetry.group_choice import candidate_groups
from sccl.topo.symmetry.regular_groups import CayleyMachine, as_cayley_machine, translation_group

SMALL = (
    "ring:3",
    "ring:6",
    "torus:2x2",
    "torus:2x4",
    "torus:3x3",
    "torus:3x4",
    "torus:4x4",
    "torus:2x2x3",
    "hypercube:3",
    "hypercube:4",
)


def renamed(machine: Topology, places: list[int]) -> Topology:
    """Return a machine whose rank r has become ``places[r]``, under a neutral name."""
    links = tuple(replace(k, src=places[k.src], dst=places[k.dst]) for k in machine.links)
    return replace(machine, name="mine", links=links, labels=(), chassis=())


@st.composite
def cayley_machines(draw: st.DrawFn, *, budgets: bool = False) -> Topology:
    """Draw a small torus, hypercube or circulant, sometimes with budgets of its ranks."""
    if draw(st.booleans()):
        machine = resolve_topology(draw(st.sampled_from(SMALL)))
    else:
        ranks = draw(st.integers(4, 12))
        offsets = draw(st.sets(st.integers(1, ranks // 2), min_size=1, max_size=3))
        text = ",".join(map(str, sorted({1, *offsets})))
        machine = resolve_topology(f"circulant:{ranks}:{text}")
    lanes = draw(st.integers(1, 2))
    machine = replace(machine, links=tuple(replace(k, lanes=lanes) for k in machine.links))
    if budgets and draw(st.booleans()):
        most = draw(st.integers(1, 3))
        shared = tuple(per_rank_budgets(machine.edges, most, most))
        return replace(machine, budgets=shared)
    return renamed(machine, draw(st.permutations(range(machine.ranks))))


def graph_of(machine: Topology) -> CayleyMachine:
    """Return a machine as the graph of the translations that are known or recognised."""
    for group in candidate_groups(machine, named_spec("allgather", machine.ranks).at(1), "auto"):
        if (found := translation_group(group.generators)) is not None:
            graph = as_cayley_machine(machine, found)
            assert graph is not None
            return graph
    raise AssertionError(machine.name)
