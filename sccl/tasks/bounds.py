"""Bounds: what no algorithm for a question can beat, as people read it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sccl.collectives import Spec, named
from sccl.core.frontier import COMPOSED
from sccl.core.topology import Topology
from sccl.prove.bounds import any_bounds, lower_bounds
from sccl.synth.allreduce.classes import SCOPES, has_classes
from sccl.view.shown import Bounds
from sccl.view.text.reasons import in_words


def bounds_of(topology: Topology, spec: Spec) -> Bounds:
    """Return what no algorithm can beat, and why; of allreduce, also of compositions.

    Raises:
        InputError: the collective does not fit the topology, or some rank cannot be reached.
    """
    if not has_classes(spec):
        return in_words(lower_bounds(topology, spec), spec)
    composed = Bounds(*_bounds_of_halves(topology), (), SCOPES[COMPOSED])
    return replace(in_words(any_bounds(topology), spec), classes=(composed,))


def _bounds_of_halves(topology: Topology) -> tuple[int, Fraction]:
    """Return the least S and R/C of a reducescatter and then an allgather."""
    scatter, gather = (
        lower_bounds(topology, named(name, topology.ranks))
        for name in ("reducescatter", "allgather")
    )
    return scatter.steps + gather.steps, scatter.bandwidth + gather.bandwidth / topology.ranks
