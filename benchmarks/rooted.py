"""Cut bounds through time, the best constructions, and the packing of trees by steps.

The packing is column generation that starts from the bandwidth bound alone and has the budget of
``sccl limits``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sccl.collectives import named_spec
from sccl.errors import SolverError, TooLargeError
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.prove.bounds.timed_cuts import timed_bound
from sccl.solvers import lp
from sccl.synth.packing.by_steps.limits_by_steps import step_limit
from sccl.synth.packing.by_steps.solve import solve_packing
from sccl.synth.packing.problem import build_packing_problem
from sccl.topo import resolve_topology


@dataclass(frozen=True, slots=True)
class RootedSpec:
    """Collective from or to rank 0, for a number of steps.

    Attributes:
        more: Number of steps beyond the minimum.
        packed: Whether the packing also runs. On many ranks it takes minutes, or the model is too
            large.
    """

    topology: str
    collective: str
    more: int = 0
    packed: bool = True


SPECS = (
    *(RootedSpec("dgx1", "broadcast", more) for more in range(7)),
    *(RootedSpec("z52", "broadcast", more) for more in range(5)),
    *(RootedSpec("ndv2x2", "allgather", more) for more in range(3)),
    RootedSpec("torus:4x4", "broadcast", 1),
    RootedSpec("torus:8x8", "broadcast", 1),
    *(RootedSpec("torus:16x16", "broadcast", more, packed=False) for more in (0, 1, 2, 4)),
    *(RootedSpec("hypercube:10", "broadcast", more, packed=False) for more in (0, 1, 2)),
    RootedSpec("dragonfly:4x5", "gather", 0),
    RootedSpec("torus:8x8", "scatter"),
    RootedSpec("torus:16x16", "scatter"),
    *(RootedSpec(name, "scatter", 0, packed=False) for name in ("torus:32x32", "hypercube:10")),
    RootedSpec("torus:32x32", "gather", 0, packed=False),
)
SMOKE = (RootedSpec("dgx1", "broadcast"), RootedSpec("dgx1", "gather"))


@dataclass(frozen=True, slots=True)
class RootedResult:
    """Bound and best construction for a case, with times that exclude imports.

    Attributes:
        steps: Number of steps, S.
        bound: Lower bound on R/C from cuts through time.
        bound_seconds: Time of the bound, in seconds.
        best: R/C of the best construction: one flow, trees, or a packing that starts from the
            bound.
        seconds: Time of bound and construction together, in seconds.
        packed: Lower and upper bound from a packing alone. None: Not run, or the model is too
            large.
        packed_seconds: Time of that packing, in seconds.
    """

    spec: RootedSpec
    steps: int
    bound: Fraction
    bound_seconds: float
    best: Fraction
    seconds: float
    packed: tuple[Fraction, Fraction] | None
    packed_seconds: float

    @property
    def met(self) -> bool:
        """Return whether the best construction attains the bound."""
        return self.bound == self.best


def run(specs: Sequence[RootedSpec]) -> Iterator[RootedResult]:
    """Yield the results."""
    lp.solve(lp.Model())  # so that one-time loading does not count for the first row
    for spec in specs:
        topology = resolve_topology(spec.topology)
        collective = named_spec(spec.collective, topology.ranks)
        unit = collective.at(collective.unit)
        bounds = lower_bounds(topology, collective)
        steps = bounds.steps + spec.more
        timed_bound.cache_clear()
        begin = time.perf_counter()
        relaxation = timed_bound(topology, unit, steps)
        middle = time.perf_counter()
        limit = step_limit(topology, collective, steps, bounds).limit
        end = time.perf_counter()
        packed = None
        if spec.packed:
            try:
                packing = solve_packing(
                    build_packing_problem(topology, unit, steps), bounds.bandwidth
                )
                packed = (packing.lower, packing.upper)
            except (SolverError, TooLargeError):
                packed = None
        packing_end = time.perf_counter()
        assert relaxation is not None
        value = max(relaxation.bound.value, bounds.bandwidth)
        times = (middle - begin, end - begin, packing_end - end)
        yield RootedResult(
            spec,
            steps,
            value,
            times[0],
            limit.required_upper,
            times[1],
            packed,
            times[2] if packed else 0.0,
        )
