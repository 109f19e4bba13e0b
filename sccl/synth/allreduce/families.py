"""Families of allreduces: their names, and those that other synthesizers compute."""

from __future__ import annotations

import time
from dataclasses import replace

from sccl.collectives import Spec
from sccl.core.bound import AlgorithmBounds
from sccl.core.frontier import (
    COMPOSED,
    EXCHANGED,
    GATHERED,
    TREES,
    ClassFrontier,
    Frontier,
    LimitPoint,
)
from sccl.core.topology import Topology
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.constructions.clique_exchange import SCOPE as SCOPE_OF_EXCHANGES
from sccl.synth.constructions.clique_exchange import find_clique_exchange
from sccl.synth.packing.by_steps.allreduce_trees import TREE_SCOPE

SCOPES = {
    COMPOSED: "reducescatter-then-allgather compositions",
    TREES: TREE_SCOPE,
    EXCHANGED: SCOPE_OF_EXCHANGES,
    GATHERED: "allreduce by gathering all contributions and reducing locally",
}


def gathered_family(frontier: Frontier) -> ClassFrontier:
    """Return the family *gathered*, from the frontier of an allgather.

    Every rank receives all contributions and reduces them locally. This is an allgather with the
    same (C, S, R). It has the fewest possible steps and the most traffic.
    """
    (part,) = frontier.classes
    restricted = f", {part.within.k}-synchronous" if part.within else ""
    scope = SCOPES[GATHERED] + restricted
    return replace(part, name=GATHERED, scope=scope, collective=frontier.collective)


def exchange_family(  # noqa: PLR0913, PLR0917 - a question, its bounds, two ends, and where results go
    topology: Topology,
    spec: Spec,
    bounds: AlgorithmBounds,
    last: int | None,
    most_chunks: int | None,
    folder: AlgorithmFolder | None,
) -> list[ClassFrontier]:
    """Return the results of clique exchange, if the machine is a power of a clique.

    Args:
        topology: The machine.
        spec: The allreduce.
        bounds: Lower bounds for every allreduce.
        last: Largest S. None: no limit.
        most_chunks: Largest C. None: no limit.
        folder: Folder for the algorithms. None: none.
    """
    begin = since = time.perf_counter()
    clique_power = None if spec.post.pattern else find_clique_exchange(topology)
    points = []
    for halved in clique_power.useful_halvings() if clique_power else ():
        assert clique_power is not None
        steps, cost = clique_power.dimensions + halved, clique_power.cost(halved)
        if last is not None and steps > last:
            break
        made = clique_power.algorithm(spec, halved)
        if most_chunks is not None and (made is None or made.collective.chunks > most_chunks):
            continue
        point = LimitPoint(steps, cost, None, None, bounds.bounds_met(steps, cost))
        if made is not None:
            file = folder.save(made, EXCHANGED) if folder else None
            point = point.with_algorithm(made, file, "construction")
        now = time.perf_counter()
        points.append(replace(point, seconds=now - since))
        since = now
    if not points:
        return []
    assert clique_power is not None
    of = (EXCHANGED, SCOPES[EXCHANGED], bounds.steps, bounds.bandwidth, tuple(points))
    is_complete = (
        len(points) == len(clique_power.useful_halvings()) and points[-1].cost == bounds.bandwidth
    )
    return [ClassFrontier(*of, is_complete=is_complete, seconds=since - begin)]
