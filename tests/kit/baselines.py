"""Classical algorithms as tests ask for them: by name, collective and machine."""

from __future__ import annotations

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm
from sccl.synth import baselines
from sccl.synth.baselines import Pattern, make_pattern, to_algorithm
from sccl.synth.common.contract import Request
from sccl.topo import resolve_topology

ROOTED = {"broadcast", "reduce", "gather", "scatter"}
ALL = [(name, c) for name in baselines.names() for c in sorted(baselines.load(name).COLLECTIVES)]

ONLY_ON = {"c-cube": "dgx1", "trivance": "full:9"}
"""Algorithms that serve few machines, and one of them."""


def request(collective: str, topology: str, root: int = 0, size: int = 2**20) -> Request:
    machine = resolve_topology(topology)
    spec = named_spec(collective, machine.ranks, root if collective in ROOTED else None)
    return Request(machine, spec, size)


def pattern(name: str, collective: str, topology: str, pieces: int = 1, root: int = 0) -> Pattern:
    return make_pattern(name, request(collective, topology, root), pieces)


def classical(name: str, collective: str, topology: str, pieces: int = 1) -> Algorithm:
    """Return an algorithm over the links of a machine."""
    asked = request(collective, topology)
    return to_algorithm(make_pattern(name, asked, pieces), asked.topology)
