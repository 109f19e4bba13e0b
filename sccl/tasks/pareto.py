"""Sweeping: the frontier of a collective on a machine, for some k."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta

from sccl.collectives import Spec
from sccl.core.candidate import Range
from sccl.core.events import Event
from sccl.core.files.frontier_shapes import FrontierWire
from sccl.core.frontier import Frontier
from sccl.core.topology import Topology
from sccl.synth.allreduce.classes import has_classes
from sccl.synth.allreduce.sweep import sweep_allreduce
from sccl.synth.folder import Folder
from sccl.synth.ksync.queries import queries
from sccl.synth.ksync.sweep import sweep
from sccl.synth.limit.oracle import PackingLimits
from sccl.synth.oracle import SWEEP_LIMIT_UNITS, LimitOracle
from sccl.synth.settings import Settings
from sccl.tasks.outputs import Inputs


class FrontierOutput(FrontierWire, frozen=True, kw_only=True):
    """The JSON output of 'sccl pareto'."""

    schema: Annotated[Literal[1], Meta(description="Version of this shape.")] = 1
    kind: Literal["frontier"] = "frontier"
    sccl: Annotated[str, Meta(description="The version of sccl.")]
    inputs: Inputs


def find_frontier(  # noqa: PLR0913 - a question, how to answer it, and where results go
    topology: Topology,
    spec: Spec,
    covered: Range,
    settings: Settings,
    *,
    folder: Folder | None = None,
    notify: Callable[[Event], None] = lambda _: None,
) -> Frontier:
    """Return the frontier of a collective on a topology, as far as it was found.

    That of allreduce is over several classes of algorithms.

    Args:
        covered: k, last S, largest C.
        folder: where to keep the algorithms. None: nowhere.
        notify: called with every event, for progress.

    Raises:
        InputError: the settings or the collective do not fit the topology.
    """
    with queries(topology, spec, settings) as (solve, expect):
        of = partial(
            sweep,
            topology,
            solve=solve,
            solver=settings.solver,
            limits=_limits(settings),
            notify=notify,
            expect=expect,
        )
        if has_classes(spec):
            return sweep_allreduce(
                topology, spec, of, covered=covered, folder=folder, notify=notify
            )
        return of(spec, covered=covered, folder=folder)


def equal_halves(topology: Topology, spec: Spec, covered: Range, settings: Settings) -> Frontier:
    """Return the sweep of compositions of equal halves, for a certificate.

    Args:
        spec: Allreduce.

    Raises:
        InputError: Compositions take more steps than requested.
    """
    # Swept anew, not derived from the halves that are kept. On one-way links both phases need C, S
    # and R in common, which sweeps of each half alone do not look for. Where links carry alike the
    # instances are those of the allgather, so that a store answers them all.
    with queries(topology, spec, settings) as (solve, _):
        return sweep(
            topology,
            spec,
            solve,
            solver=settings.solver,
            covered=covered,
            limits=_limits(settings),
        )


def _limits(settings: Settings) -> LimitOracle:
    """Return who knows limits of R/C, with the effort that the settings allow."""
    return partial(PackingLimits, units=settings.units(SWEEP_LIMIT_UNITS))
