"""Sweep the frontier of a collective on a machine, for some k."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from sccl.collectives import Spec, dual_of
from sccl.core.frontier import SweepFrontier
from sccl.core.instance import SweepRange
from sccl.core.topology import Topology
from sccl.synth.common.settings import Settings
from sccl.synth.common.step_limits import StepLimitsFactory
from sccl.synth.common.sweep_events import SweepEvent
from sccl.synth.limits import SWEEP_EFFORT
from sccl.synth.packing.by_steps.limits_by_steps import PackingLimits
from sccl.synth.syncoll.oracle import open_query_oracle
from sccl.synth.syncoll.sweep import sweep

if TYPE_CHECKING:
    from sccl.synth.common.algorithm_folder import AlgorithmFolder


def find_frontier(  # noqa: PLR0913 - a question, how to answer it, and where results go
    topology: Topology,
    spec: Spec,
    covered: SweepRange,
    settings: Settings,
    *,
    folder: AlgorithmFolder | None = None,
    notify: Callable[[SweepEvent], None] = lambda _: None,
) -> SweepFrontier:
    """Return the frontier of a collective on a topology, as far as it was found.

    For allreduce the frontier covers several families of algorithms.

    Args:
        topology: The machine.
        spec: The collective.
        covered: k, last S, largest C.
        settings: Solver, store, and workers.
        folder: Folder for the algorithms. None: none.
        notify: Called with every event, for progress.

    Raises:
        InputError: The settings or the collective do not fit the topology.
    """
    with open_query_oracle(topology, spec, settings) as oracle:
        sweep_collective = partial(
            sweep,
            topology,
            solve=oracle.answer,
            solver=settings.solver,
            limits=_limit_oracle(settings),
            notify=notify,
            prefetch=oracle.prefetch,
        )
        if dual_of(spec).phases == 2:  # an allreduce, which has several families
            from sccl.synth.allreduce.sweep import sweep_allreduce  # noqa: PLC0415

            return sweep_allreduce(
                topology, spec, sweep_collective, covered=covered, folder=folder, notify=notify
            )
        return sweep_collective(spec, covered=covered, folder=folder)


def sweep_equal_halves(
    topology: Topology, spec: Spec, covered: SweepRange, settings: Settings
) -> SweepFrontier:
    """Return the sweep of compositions of equal halves, for a certificate.

    Args:
        topology: The machine.
        spec: The allreduce.
        covered: k, last S, largest C.
        settings: Solver, store, and workers.

    Raises:
        InputError: Compositions take more steps than requested.
    """
    # This is a new sweep, not derived from the known halves. On one-way links both phases need the
    # same C, S, and R, which sweeps of single halves do not search for. With symmetric links the
    # instances are those of the allgather, so a store answers all of them.
    with open_query_oracle(topology, spec, settings) as oracle:
        return sweep(
            topology,
            spec,
            oracle.answer,
            solver=settings.solver,
            covered=covered,
            limits=_limit_oracle(settings),
        )


def _limit_oracle(settings: Settings) -> StepLimitsFactory:
    """Return the source of limits of R/C, with the effort that the settings allow."""
    return partial(PackingLimits, units=settings.capped_units(SWEEP_EFFORT))
