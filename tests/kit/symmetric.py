"""Instances by name, and algorithms that are found for them under their symmetries."""

from __future__ import annotations

from functools import cache

from sccl.collectives import named_spec
from sccl.core.answer import Sat, Unknown
from sccl.core.instance import Instance
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.synth.syncoll import solve
from sccl.synth.syncoll.symmetric_search import answer
from sccl.topo import resolve_topology
from sccl.topo.symmetry.group_choice import candidate_groups


def instance_of(machine: str, collective: str, chunks: int, steps: int, rounds: int) -> Instance:
    """Return an instance of a machine and a collective by their names."""
    topology = resolve_topology(machine)
    return Instance(topology, named_spec(collective, topology.ranks).at(chunks), steps, rounds)


def under(instance: Instance) -> Sat | Unknown:
    """Solve an instance under its symmetries."""
    found = candidate_groups(instance.topology, instance.collective, "auto")
    return answer(instance, found, solve.Effort(20.0))


@cache
def symmetric() -> SymmetricAlgorithm:
    """Return an algorithm that is given by its symmetries, on a torus of 16 ranks."""
    found = under(instance_of("torus:4x4", "allgather", 4, 4, 15))
    assert isinstance(found, Sat)
    assert isinstance(found.algorithm, SymmetricAlgorithm)
    return found.algorithm
