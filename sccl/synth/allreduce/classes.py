"""Classes of allreduces: what they are called, and what is known of those that others find."""

from __future__ import annotations

from dataclasses import replace

from sccl.collectives import Spec, dual_of
from sccl.core.frontier import COMPOSED, GATHERED, TREES, ClassFrontier, Frontier
from sccl.synth.limit.trees import SCOPE

SCOPES = {
    COMPOSED: "reducescatter-then-allgather compositions",
    TREES: SCOPE,
    GATHERED: "allreduce by gathering all contributions and reducing locally",
}


def has_classes(spec: Spec) -> bool:
    """Return whether a collective is an allreduce, also in groups, which several classes do."""
    return dual_of(spec).phases == 2


def gathered(found: Frontier) -> ClassFrontier:
    """Return the class of gathering, from the frontier of an allgather.

    Every contribution goes to every rank, which reduces them itself: that is an allgather, with the
    same (C, S, R). It takes the fewest steps there can be, and the most bandwidth.
    """
    (part,) = found.classes
    restricted = f", {part.within.k}-synchronous" if part.within else ""
    scope = SCOPES[GATHERED] + restricted
    return replace(part, name=GATHERED, scope=scope, collective=found.collective)
