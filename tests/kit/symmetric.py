"""Instances by name, and algorithms that are found for them under their symmetries."""

from __future__ import annotations

from functools import cache

from sccl.collectives import named
from sccl.core.answer import Sat, Unknown
from sccl.core.instance import Instance
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.synth.ksync import backends
from sccl.synth.ksync.orbits import answer
from sccl.topo import resolve
from sccl.topo.symmetry.groups import groups


def instance_of(machine: str, collective: str, chunks: int, steps: int, rounds: int) -> Instance:
    """Return an instance of a machine and a collective by their names."""
    topology = resolve(machine)
    return Instance(topology, named(collective, topology.ranks).at(chunks), steps, rounds)


def under(instance: Instance, choice: str = "auto") -> Sat | Unknown:
    """Return what is found for an instance under its symmetries."""
    found = groups(instance.topology, instance.collective, choice)
    return answer(instance, found, backends.Effort(20.0))


@cache
def symmetric() -> SymmetricAlgorithm:
    """Return an algorithm that is given by its symmetries, on a torus of 16 ranks."""
    found = under(instance_of("torus:4x4", "allgather", 4, 4, 15))
    assert isinstance(found, Sat)
    assert isinstance(found.algorithm, SymmetricAlgorithm)
    return found.algorithm
