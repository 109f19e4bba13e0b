"""TACOS, asked as tests do."""

from __future__ import annotations

from sccl.collectives import Spec
from sccl.core.outcome import Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Request
from sccl.synth.tacos import planner
from sccl.synth.tacos.options import Options


def found(topology: Topology, spec: Spec, size: int = 1 << 20, **told: object) -> Solution:
    """Return a TACOS schedule with these options and ``seed``, which has to exist."""
    seed = told.pop("seed", 0)
    assert isinstance(seed, int)
    options = Options(**told)  # type: ignore[arg-type]
    outcome = planner.plan(
        Request(topology, spec, size), options, Effort(seed=seed), lambda _: None
    )
    assert isinstance(outcome, Solution)
    return outcome


def schedule(of: Solution) -> Schedule:
    """Return its plan."""
    assert isinstance(of.plan, Schedule)
    return of.plan
