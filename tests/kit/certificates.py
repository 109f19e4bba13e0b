"""Build certificates for tests that write and damage them."""

from __future__ import annotations

from dataclasses import replace

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.core.files.algorithms import load_algorithm
from sccl.core.frontier import SweepFrontier
from sccl.core.instance import SweepRange
from sccl.synth.packing.by_steps.limits_by_steps import PackingLimits
from sccl.synth.syncoll import solve
from sccl.synth.syncoll.sweep import sweep
from sccl.topo import resolve_topology
from sccl.transform import compose
from tests.kit import once
from tests.kit.paths import PUBLISHED


def free(_: int) -> None:
    """Let the checker do as much work as it wants."""


def swept_frontier(machine: str, collective: str, **covered: int) -> SweepFrontier:
    """Return a sweep by the default solver, made once in a run."""
    topology = resolve_topology(machine)
    spec = named_spec(collective, topology.ranks)
    return once.value(
        f"swept {machine} {collective} {covered}",
        lambda: sweep(
            topology,
            spec,
            solve.solve,
            solver="cpsat",
            covered=SweepRange(**covered),
            limits=PackingLimits,
        ),
    )


def composed_allreduce() -> Algorithm:
    """Return an allreduce on dgx1 of two and three steps: C=48 S=5 R=16."""
    scatter, _ = load_algorithm(PUBLISHED / "dgx1-reducescatter/reducescatter-dgx1-c16-s2.json")
    gather, _ = load_algorithm(PUBLISHED / "dgx1-allgather/allgather-dgx1-c6-s3.json")
    assert isinstance(scatter, Algorithm)
    assert isinstance(gather, Algorithm)
    thrice = replace(
        scatter,
        topology=gather.topology,
        collective=named_spec("reducescatter", 8).at(48),
        rounds_per_step=tuple(3 * rounds for rounds in scatter.rounds_per_step),
        sends=tuple(
            make_send(s.chunk + 16 * copy, s.src, s.dst, s.step, reduce=True)
            for copy in range(3)
            for s in scatter.sends
        ),
    )
    return compose(thrice, gather, named_spec("allreduce", 8).at(48))
