"""Find the part of a machine, and of a sketch's logical topology, that a symmetry breaks.

TACCL (NSDI 2023), section 3.3: a symmetry is an automorphism of the logical topology. The broken
part is reported as a link, a route, or an entry of the sketch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sccl.core.topology import Topology
from sccl.synth.sketches.sketch import RelayRules, Sketch

RouteFactors = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""From where to where each goes, as a sketch speaks of it, and how much slower it is taken. 0: not
at all."""


def machine_violation(topology: Topology, node_image: Sequence[int]) -> str:
    """Return the link or budget of a machine that a node permutation breaks. Empty: none."""
    return _link_violation(topology, node_image) or _budget_violation(topology, node_image)


def switch_violation(topology: Topology, image: Sequence[int]) -> str:
    """Return, as text, why a permutation of ranks does not extend to the switches.

    Args:
        topology: The machine.
        image: Image of each rank.
    """
    if broken := _link_violation(topology, image):
        return broken
    around: list[Counter[object]] = [Counter() for _ in range(topology.ranks)]
    for k in topology.links:
        for end, side in ((k.src, "out"), (k.dst, "in")):
            if end < topology.ranks <= max(k.edge):
                around[end][side, k.lanes, k.alpha_us, k.gb_per_s] += 1
    for rank, target in enumerate(image):
        if around[rank] != around[target]:
            return f"rank {rank} would be {target}, which has other links to switches"
    return "ranks of one switch would be ranks without a common switch"


def _link_violation(topology: Topology, image: Sequence[int]) -> str:
    """Return the link that a permutation breaks. Links at nodes without an image are ignored."""
    costs = {k.edge: (k.lanes, k.alpha_us, k.gb_per_s) for k in topology.links}
    for (src, dst), cost in costs.items():
        if max(src, dst) >= len(image):
            continue
        edge = (image[src], image[dst])
        if edge not in costs:
            return f"link {src} -> {dst} would be {edge[0]} -> {edge[1]}, which does not exist"
        if costs[edge] != cost:
            return f"link {src} -> {dst} would be {edge[0]} -> {edge[1]}, which has another cost"
    return ""


def _budget_violation(topology: Topology, node_image: Sequence[int]) -> str:
    speeds = topology.budget_speeds()
    pairs = list(zip(topology.budgets, speeds, strict=True))
    budget_counts = Counter((frozenset(b.edges), b.chunks_per_round, speed) for b, speed in pairs)
    for budget, speed in pairs:
        edges = frozenset((node_image[u], node_image[v]) for u, v in budget.edges)
        if not budget_counts[edges, budget.chunks_per_round, speed]:
            src, dst = budget.edges[0]
            return (
                f"the links that share {budget.name!r}, including {src} -> {dst}, would not share "
                "an equal budget"
            )
    return ""


def sketch_violation(sketch: Sketch, image: Sequence[int], paths: RouteFactors) -> str:
    """Return the part of a logical topology that a permutation of ranks breaks. Empty: none.

    Args:
        sketch: The sketch.
        image: Image of each rank.
        paths: Routes of the machine, in the directions of the sketch.
    """
    local = len(image) // sketch.nodes
    return (
        _route_violation(local, np.array(image), paths)
        or _relay_violation(sketch, local, image, paths)
        or _hyperedge_violation(sketch, local, image)
    )


def _route_violation(local: int, image: NDArray[np.int64], paths: RouteFactors) -> str:
    """Return the used route whose image is not used, or has another factor. Empty: none."""
    ranks = len(image)
    src, dst, factor = (column[paths[2] > 0] for column in paths)
    keys, first = np.unique(src * ranks + dst, return_index=True)
    target_keys = image[src] * ranks + image[dst]
    at = np.minimum(np.searchsorted(keys, target_keys), len(keys) - 1)
    mapped = np.where(keys[at] == target_keys, factor[first][at], 0)
    wrong = np.flatnonzero(mapped != factor)
    if not len(wrong):
        return ""
    a, b = int(src[wrong[0]]), int(dst[wrong[0]])
    c, d = int(image[a]), int(image[b])
    if mapped[wrong[0]]:
        reason = f"with internode_sketch.beta_split {mapped[wrong[0]]}, expected {factor[wrong[0]]}"
    elif c // local != d // local:
        reason = "which internode_sketch.internode_conn leaves out"
    else:
        reason = "which intranode_sketch.intranode_conn leaves out"
    return f"route {a} -> {b} would be {c} -> {d}, {reason}"


def _relay_violation(sketch: Sketch, local: int, image: Sequence[int], paths: RouteFactors) -> str:
    """Return a rank and its sender whose images are not assigned to each other, as text."""
    relays = sketch.relays
    if relays is None or not (relays.leaves_by or relays.relay_map):
        return ""
    src, dst, factor = paths
    for a, b in zip(src[factor > 0].tolist(), dst[factor > 0].tolist(), strict=True):
        if (a // local != b // local) != (image[a] // local != image[b] // local):
            return (
                f"route {a} -> {b} between nodes would be {image[a]} -> {image[b]} within one node"
            )
    senders = {n for n in range(local) if relays.receivers(n, local)}
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, target in enumerate(image):
        pairs.setdefault((rank % local, target % local), (rank, target))
    for (origin, turned), (rank, target) in pairs.items():
        origin_senders, at = relays.senders(origin), relays.senders(turned)
        for sender, target_sender in pairs:
            leaves, turns = (
                by is None or n in by for by, n in ((origin_senders, sender), (at, target_sender))
            )
            if sender in senders and leaves != turns:
                by, not_by = (sender, target_sender) if leaves else (target_sender, sender)
                of, not_of = (rank, target) if leaves else (target, rank)
                return (
                    f"{_relay_entry(relays)} lets rank {by} send chunks of rank {of} to other "
                    f"nodes, but not their images: rank {not_by} cannot send chunks of rank "
                    f"{not_of}"
                )
    return ""


def _relay_entry(relays: RelayRules) -> str:
    name = "chunk_to_relay_map" if relays.relay_map else "gpus_to_sender_rev_map"
    return f"internode_sketch.{name}"


def _hyperedge_violation(sketch: Sketch, local: int, image: Sequence[int]) -> str:
    """Return a hyperedge whose image is no hyperedge of equal policy. Empty: there is none."""
    hyperedges = {
        (frozenset(node * local + number for number in edge.local), edge.policy)
        for edge in sketch.hyperedges
        for node in range(sketch.nodes)
    }
    for place, edge in enumerate(sketch.hyperedges):
        for node in range(sketch.nodes):
            ranks = [node * local + number for number in edge.local]
            images = sorted(image[rank] for rank in ranks)
            if (frozenset(images), edge.policy) not in hyperedges:
                return (
                    f"intranode_sketch.switches[{place}], ranks {ranks}, would be ranks {images}, "
                    f"which are no switch with {edge.policy.value}"
                )
    return ""
