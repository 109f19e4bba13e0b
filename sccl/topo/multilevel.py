"""Topologies of several levels, most with switches: generators that :mod:`.generators` lists.

Sides are listed from the inside out (``rail:8x4``: 8 GPUs in each of 4 nodes), and the ranks of a
node are consecutive. Switches are separate nodes that forward data and store nothing. Each link has
its own latency, so a path over a switch has the latencies of two links.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from math import ceil

from sccl.core.topology import MAX_FULL_MESH_RANKS
from sccl.topo.wiring import Dimension, WiredPair, Wiring, check_ranks, parse_count, parse_sides

TACOS_COSTS = (
    "costs of TACOS (MICRO 2024) section VI, its 0.5 us between two ranks, half of it on each side "
    "of a switch"
)


def dragonfly(text: str) -> Wiring:
    """Return a dragonfly: fully joined groups of ``a`` ranks, and one link per pair of groups.

    The links of group i to the groups i+1, i+2, ... start at its ranks 0, 1, ... cyclically. So
    with a + 1 groups each rank has exactly one such link (Kim et al., ISCA 2008, with one global
    link per router).
    """
    size, _, widths = text.partition(":")
    sides = parse_sides(size)
    lanes = [int(w) for w in (widths or "1,1").split(",") if w.isascii() and _is_width(w)]
    if len(sides) != 2 or len(lanes) != 2 or sides[1] < 2:
        raise ValueError(
            "ranks per group x groups, then (optionally) lanes within and between groups, such as "
            "4x5:2,1"
        )
    ranks = check_ranks(sides, MAX_FULL_MESH_RANKS)
    dimensions = (
        Dimension("links within groups", lanes[0]),
        Dimension("links between groups", lanes[1]),
    )
    return Wiring(ranks, _dragonfly_pairs(*sides), dimensions)


def _is_width(text: str) -> bool:
    return text.isdigit() and len(text) <= 4 and text[0] != "0"


def _dragonfly_pairs(members: int, groups: int) -> Iterator[WiredPair]:
    for group in range(groups):
        ranks = range(group * members, (group + 1) * members)
        yield from ((a, b, 0) for a, b in combinations(ranks, 2))
        for peer_group in range(group + 1, groups):
            source = (peer_group - group - 1) % members
            target = (group - peer_group - 1) % groups % members
            yield group * members + source, peer_group * members + target, 1


def switch2d(text: str) -> Wiring:
    """Return nodes with one switch each, and one switch for the i-th ranks of all nodes."""
    sides = parse_sides(text)
    if len(sides) != 2 or min(sides) < 2:
        raise ValueError("ranks per node x nodes, both at least 2")
    inner, nodes = sides
    ranks = check_ranks(sides)
    dimensions = (
        Dimension("links to the switches of nodes", 1, 0.25, 300.0),
        Dimension("links to the switches between nodes", 1, 0.25, 25.0),
    )
    pairs = (
        (rank, ranks + switch, dimension)
        for rank in range(ranks)
        for dimension, switch in enumerate((rank // inner, nodes + rank % inner))
    )
    names = (*_numbered_names("node", nodes), *_numbered_names("out", inner))
    return Wiring(ranks, pairs, dimensions, names, _chassis(inner, nodes), costs=TACOS_COSTS)


def ring_full_switch(text: str) -> Wiring:
    """Return the 3D-RFS of TACOS: rings, fully joined within a node, and switches between nodes.

    Rank ``x + ring * (y + full * z)`` is at position x of ring y of node z.
    """
    sides = parse_sides(text)
    if len(sides) != 3 or min(sides) < 2:
        raise ValueError("ranks in a ring x rings joined fully x nodes, all at least 2")
    ring, full, nodes = sides
    ranks = check_ranks(sides)
    inner = ring * full
    dimensions = (
        Dimension("rings", 1, 0.5, 200.0),
        Dimension("links between rings", 1, 0.5, 100.0),
        Dimension("links to switches", 1, 0.25, 50.0),
    )
    names = _numbered_names("sw", inner)
    chassis = _chassis(inner, nodes)
    return Wiring(ranks, _rfs_pairs(*sides), dimensions, names, chassis, costs=TACOS_COSTS)


def _rfs_pairs(ring: int, full: int, nodes: int) -> Iterator[WiredPair]:
    ranks = ring * full * nodes
    for rank in range(ranks):
        x, y = rank % ring, rank // ring % full
        if x + 1 < ring or ring > 2:
            yield rank, rank + (x + 1) % ring - x, 0
        yield from ((rank, rank + (peer - y) * ring, 1) for peer in range(y + 1, full))
        yield rank, ranks + rank % (ring * full), 2


def fat_tree(text: str) -> Wiring:
    """Return the fat tree of switches with k ports (Al-Fares et al., SIGCOMM 2008).

    It has k pods of k/2 edge and k/2 aggregation switches, k/2 ranks at each edge switch, and
    (k/2)^2 core switches. The i-th group of k/2 core switches joins the i-th aggregation switches
    of all pods.
    """
    ports = parse_count(text, 2)
    if ports % 2:
        raise ValueError("an even number of ports of each switch")
    half = ports // 2
    ranks = check_ranks((ports, half, half))
    names = (
        *(f"e{pod}.{i}" for pod in range(ports) for i in range(half)),
        *(f"a{pod}.{i}" for pod in range(ports) for i in range(half)),
        *(f"c{i}.{j}" for i in range(half) for j in range(half)),
    )
    dimensions = (
        Dimension("links of ranks"),
        Dimension("links of edge and aggregation switches"),
        Dimension("links of aggregation and core switches"),
    )
    return Wiring(ranks, _fat_tree_pairs(ports, half, ranks), dimensions, names)


def _fat_tree_pairs(ports: int, half: int, ranks: int) -> Iterator[WiredPair]:
    edge, above = ranks, ranks + ports * half
    core = above + ports * half
    yield from ((rank, edge + rank // half, 0) for rank in range(ranks))
    for pod in range(ports):
        for i in range(half):
            yield from ((edge + pod * half + i, above + pod * half + j, 1) for j in range(half))
            yield from ((above + pod * half + i, core + i * half + j, 2) for j in range(half))


def rail(text: str) -> Wiring:
    """Return nodes of GPUs around a switch, and a leaf switch for the i-th GPUs of all nodes.

    Each pod has separate leaf switches. Every leaf is linked to every spine switch. Speeds are
    those of a DGX H100 (450 GB/s to NVSwitches, a NIC of 50 GB/s per GPU). The links of a leaf to
    the spines together have at least the bandwidth of the NICs below it, in whole NICs. A latency
    of 0.7 us per link is assumed.
    """
    size, sign, spines_text = text.partition(":")
    sides = parse_sides(size)
    spines = parse_count(spines_text, 1) if sign else 0
    if len(sides) not in {2, 3} or min(sides) < 2 or (len(sides) == 3 and not spines):
        raise ValueError(
            "GPUs per node x nodes, or GPUs x nodes of a pod x pods, all at least 2, then a colon "
            "and a number of spine switches (none unless there are pods)"
        )
    gpus, nodes, pods = (*sides, 1)[:3]
    ranks = check_ranks((gpus, nodes, pods))
    if spines > MAX_FULL_MESH_RANKS:
        raise ValueError(f"at most {MAX_FULL_MESH_RANKS} spine switches")
    dimensions = (
        Dimension("links to the switches of nodes", 1, 0.7, 450.0),
        Dimension("links to leaf switches", 1, 0.7, 50.0),
        Dimension("links of leaf and spine switches", 1, 0.7, 50.0 * ceil(nodes / (spines or 1))),
    )[: 3 if spines else 2]
    prefix = ["leaf "] if pods == 1 else [f"leaf {pod}." for pod in range(pods)]
    leaves = (f"{pod}{i}" for pod in prefix for i in range(gpus))
    names = (*_numbered_names("node", nodes * pods), *leaves, *_numbered_names("spine", spines))
    return Wiring(
        ranks,
        _rail_pairs(gpus, nodes, pods, spines),
        dimensions,
        names,
        _chassis(gpus, nodes * pods),
        costs="GB/s of DGX H100 (NVLink 4.0: 450 to NVSwitches, 50 per NIC); 0.7 us is assumed",
    )


def _rail_pairs(gpus: int, nodes: int, pods: int, spines: int) -> Iterator[WiredPair]:
    node = gpus * nodes * pods
    leaf = node + nodes * pods
    spine = leaf + gpus * pods
    for rank in range(node):
        yield rank, node + rank // gpus, 0
        yield rank, leaf + rank // (gpus * nodes) * gpus + rank % gpus, 1
    yield from ((leaf + i, spine + j, 2) for i in range(gpus * pods) for j in range(spines))


def _numbered_names(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name} {i}" for i in range(count))


def _chassis(inner: int, nodes: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(node * inner, (node + 1) * inner)) for node in range(nodes))


_DOUBLE_NVLINK_PAIRS = ((0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7))
_SINGLE_NVLINK_PAIRS = ((0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6))
"""Pairs of GPUs of a DGX-1 that are joined by two NVLinks, and by one."""


def ndv2(text: str) -> Wiring:
    """Return NDv2 chassis at a switch: GPU 0 of each sends to it, and GPU 1 receives from it.

    This is the model of TE-CCL (SIGCOMM 2024, appendix H and its public code) for three or more
    chassis.
    """
    chassis = parse_count(text, 2)
    ranks = check_ranks((8, chassis))
    pairs = (
        (8 * c + a, 8 * c + b, kind)
        for c in range(chassis)
        for kind, nvlinks in enumerate((_DOUBLE_NVLINK_PAIRS, _SINGLE_NVLINK_PAIRS))
        for a, b in nvlinks
    )
    links = (link for c in range(0, ranks, 8) for link in ((c, ranks, 2), (ranks, c + 1, 2)))
    return Wiring(
        ranks,
        pairs,
        (
            Dimension("double NVLinks", 2, 0.7, 25.0),
            Dimension("single NVLinks", 1, 0.7, 25.0),
            Dimension("links to and from the network", 1, 1.3, 12.5),
        ),
        ("network",),
        _chassis(8, chassis),
        costs="alphas and GB/s as TE-CCL (SIGCOMM 2024) has them",
        one_way=tuple(links),
    )


def dgx2(text: str) -> Wiring:
    """Return DGX-2 chassis: 16 GPUs at a switch, and a NIC for each pair of GPUs.

    GPU 2p+1 sends through NIC p, and GPU 2p receives from it. Two chassis are joined NIC by NIC, as
    in TE-CCL (SIGCOMM 2024, its public code). The NICs of three or more chassis are at one network
    in which each NIC reaches every other NIC, as in DGX-2 pods with a fat tree of InfiniBand and in
    the DGX-2 of TACCL (NSDI 2023). The network is assumed to be non-blocking. Between chassis alpha
    is 2.6 us. If there is a network, each side of it has half.
    """
    chassis = parse_count(text, 2)
    ranks = check_ranks((16, chassis))
    pairs = ((rank, ranks + rank // 16, 0) for rank in range(ranks))
    network = ranks + chassis
    if chassis == 2:
        links: Iterator[WiredPair] = ((rank, (rank + 15) % 32, 1) for rank in range(1, 32, 2))
    else:
        odd = ((rank, network, 1) for rank in range(1, ranks, 2))
        even = ((network, rank, 1) for rank in range(0, ranks, 2))
        links = chain(odd, even)
    names = (*_numbered_names("chassis", chassis), *(("network",) if chassis > 2 else ()))
    return Wiring(
        ranks,
        pairs,
        (
            Dimension("links to the switches of chassis", 1, 0.35, 125.0),
            Dimension("links between chassis", 1, 2.6 if chassis == 2 else 1.3, 12.5),
        ),
        names,
        _chassis(16, chassis),
        costs="alphas and GB/s as TE-CCL (SIGCOMM 2024) has them",
        one_way=tuple(links),
    )
