"""Find the part of a machine, and of a sketch's logical topology, that a symmetry breaks.

TACCL (NSDI 2023), section 3.3: a symmetry is an automorphism of the logical topology. The broken
part is reported as a link, a way, or an entry of the sketch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sccl.core.sketch import Relays, Sketch
from sccl.core.topology import Topology

Ways = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""From where to where each goes, as a sketch speaks of it, and how much slower it is taken. 0: not
at all."""


def broken_of_machine(topology: Topology, whole: Sequence[int]) -> str:
    """Return which link or budget of a machine a permutation of all nodes breaks. Empty: none."""
    return _broken_link(topology, whole) or _broken_budget(topology, whole)


def broken_at_switches(topology: Topology, image: Sequence[int]) -> str:
    """Return which link a permutation of the ranks breaks, to which none of the switches belongs.

    Args:
        image: of each rank.
    """
    if broken := _broken_link(topology, image):
        return broken
    around: list[Counter[object]] = [Counter() for _ in range(topology.ranks)]
    for k in topology.links:
        for end, side in ((k.src, "out"), (k.dst, "in")):
            if end < topology.ranks <= max(k.edge):
                around[end][side, k.lanes, k.alpha_us, k.gb_per_s] += 1
    for rank, there in enumerate(image):
        if around[rank] != around[there]:
            return f"rank {rank} would be {there}, whose links to switches are others"
    return "ranks that one switch joins would be ranks that none does"


def _broken_link(topology: Topology, image: Sequence[int]) -> str:
    """Return which link between nodes that have an image breaks."""
    costs = {k.edge: (k.lanes, k.alpha_us, k.gb_per_s) for k in topology.links}
    for (src, dst), cost in costs.items():
        if max(src, dst) >= len(image):
            continue
        there = (image[src], image[dst])
        if there not in costs:
            return f"link {src} -> {dst} would be {there[0]} -> {there[1]}, which is none"
        if costs[there] != cost:
            return f"link {src} -> {dst} would be {there[0]} -> {there[1]}, whose cost is another"
    return ""


def _broken_budget(topology: Topology, whole: Sequence[int]) -> str:
    speeds = topology.budget_speeds()
    pairs = list(zip(topology.budgets, speeds, strict=True))
    there = Counter((frozenset(b.edges), b.chunks_per_round, speed) for b, speed in pairs)
    for budget, speed in pairs:
        edges = frozenset((whole[u], whole[v]) for u, v in budget.edges)
        if not there[edges, budget.chunks_per_round, speed]:
            src, dst = budget.edges[0]
            return (
                f"the links that share {budget.name!r}, {src} -> {dst} among them, would share "
                "nothing like it"
            )
    return ""


def broken_of_sketch(sketch: Sketch, image: Sequence[int], ways: Ways) -> str:
    """Return the part of a logical topology that a permutation of ranks breaks. Empty: none.

    Args:
        image: image of each rank.
    """
    local = len(image) // sketch.nodes
    return (
        _broken_way(local, np.array(image), ways)
        or _broken_relays(sketch, local, image, ways)
        or _broken_hyperedge(sketch, local, image)
    )


def _broken_way(local: int, image: NDArray[np.int64], ways: Ways) -> str:
    """Return which way that is taken would be one that is not, or is slower."""
    ranks = len(image)
    src, dst, factor = (column[ways[2] > 0] for column in ways)
    keys, first = np.unique(src * ranks + dst, return_index=True)
    there = image[src] * ranks + image[dst]
    at = np.minimum(np.searchsorted(keys, there), len(keys) - 1)
    found = np.where(keys[at] == there, factor[first][at], 0)
    wrong = np.flatnonzero(found != factor)
    if not len(wrong):
        return ""
    a, b = int(src[wrong[0]]), int(dst[wrong[0]])
    c, d = int(image[a]), int(image[b])
    if found[wrong[0]]:
        what = f"whose internode_sketch.beta_split is {found[wrong[0]]}, not {factor[wrong[0]]}"
    elif c // local != d // local:
        what = "which internode_sketch.internode_conn leaves out"
    else:
        what = "which intranode_sketch.intranode_conn leaves out"
    return f"way {a} -> {b} would be {c} -> {d}, {what}"


def _broken_relays(sketch: Sketch, local: int, image: Sequence[int], ways: Ways) -> str:
    """Return a rank and its sender whose images are not assigned to each other, as text."""
    relays = sketch.relays
    if relays is None or not (relays.leaves_by or relays.by_number):
        return ""
    src, dst, factor = ways
    for a, b in zip(src[factor > 0].tolist(), dst[factor > 0].tolist(), strict=True):
        if (a // local != b // local) != (image[a] // local != image[b] // local):
            return f"way {a} -> {b} between nodes would be {image[a]} -> {image[b]} within one"
    senders = {n for n in range(local) if relays.receivers(n, local)}
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, there in enumerate(image):
        pairs.setdefault((rank % local, there % local), (rank, there))
    for (origin, turned), (rank, there) in pairs.items():
        here, at = relays.senders(origin), relays.senders(turned)
        for sender, other in pairs:
            leaves, turns = (by is None or n in by for by, n in ((here, sender), (at, other)))
            if sender in senders and leaves != turns:
                by, not_by = (sender, other) if leaves else (other, sender)
                of, not_of = (rank, there) if leaves else (there, rank)
                return (
                    f"{_rule(relays)} lets chunks of rank {of} leave by rank {by} of its node, and "
                    f"those of rank {not_of}, which stands for it, not by rank {not_by}"
                )
    return ""


def _rule(relays: Relays) -> str:
    name = "chunk_to_relay_map" if relays.by_number else "gpus_to_sender_rev_map"
    return f"internode_sketch.{name}"


def _broken_hyperedge(sketch: Sketch, local: int, image: Sequence[int]) -> str:
    """Return which hyperedge would be none, or one of another policy."""
    known = {
        (frozenset(node * local + number for number in edge.local), edge.policy)
        for edge in sketch.hyperedges
        for node in range(sketch.nodes)
    }
    for place, edge in enumerate(sketch.hyperedges):
        for node in range(sketch.nodes):
            own = [node * local + number for number in edge.local]
            there = sorted(image[rank] for rank in own)
            if (frozenset(there), edge.policy) not in known:
                return (
                    f"intranode_sketch.switches[{place}], ranks {own}, would be ranks {there}, "
                    f"which are no switch with {edge.policy.value}"
                )
    return ""
