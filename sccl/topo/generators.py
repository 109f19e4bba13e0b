"""Generate topologies from formulas: ``ring:8``, ``torus:4x4x4``, ``circulant:8:1,3`` and so on.

By default links of generated topologies have one lane, and most go both ways. The default costs are
those of the machine that a generator models, else those of the V100's NVLink as measured by TACCL,
so that tables have a time axis. ``torus:4x4@50,25GB+0.5us`` sets other costs
(:func:`sccl.topo.wiring.apply_costs`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice, pairwise, permutations

from sccl.core.topology import (
    MAX_FULL_MESH_RANKS,
    MAX_RANKS,
    Link,
    Switch,
    Topology,
    per_rank_budgets,
)
from sccl.errors import ParameterError, unknown_name
from sccl.topo.low_diameter import cayley, de_bruijn, hyperx, kautz, slim_fly
from sccl.topo.multilevel import dgx2, dragonfly, fat_tree, ndv2, rail, ring_full_switch, switch2d
from sccl.topo.wiring import (
    COST_EXAMPLE,
    Dimension,
    WiredPair,
    Wiring,
    apply_costs,
    check_ranks,
    parse_count,
    parse_sides,
    single_dimension,
)

_MAX_PAIRS = 2**19  # a full machine of 1,024 ranks


@dataclass(frozen=True, slots=True)
class Generator:
    """A family of topologies.

    Attributes:
        arguments: Description of the arguments after the colon.
        example: A valid name with arguments.
        make: Function that returns the wiring for the arguments, without costs (``@``).
    """

    name: str
    arguments: str
    example: str
    description: str
    make: Callable[[str], Wiring]


def _ring(text: str) -> Wiring:
    n = parse_count(text, 2)
    return _circulant_wiring(n, [1])


def _line(text: str) -> Wiring:
    n = parse_count(text, 2)
    return Wiring(n, single_dimension(pairwise(range(n))))


def _star(text: str) -> Wiring:
    n = parse_count(text, 2)
    return Wiring(n, ((0, leaf, 0) for leaf in range(1, n)))


def _full(text: str) -> Wiring:
    n = parse_count(text, 2)
    return Wiring(n, single_dimension(combinations(range(n), 2)))


def _grid(text: str, *, periodic: bool) -> Wiring:
    sides = parse_sides(text)
    names = (f"side {i} ({side})" for i, side in enumerate(sides, 1))
    pairs = _grid_pairs(sides, periodic=periodic)
    return Wiring(check_ranks(sides), pairs, tuple(Dimension(name) for name in names))


def _grid_pairs(sides: tuple[int, ...], *, periodic: bool) -> Iterator[WiredPair]:
    total = stride = check_ranks(sides)
    for dimension, side in enumerate(sides):
        stride //= side
        for rank in range(total):
            at = rank // stride % side
            neighbor = rank + stride * ((at + 1) % side - at)
            if neighbor > rank or (periodic and side > 2 and neighbor < rank):
                yield (*_sorted_pair(rank, neighbor), dimension)


def _tpu_v4(text: str) -> Wiring:
    """Return a slice of a TPU v4 pod: a torus of chips if it consists of whole cubes, else a mesh.

    Cubes of 4x4x4 chips have optical switches at their faces. Smaller slices have no wraparound
    (Jouppi et al., ISCA 2023, section 2; Google Cloud, TPU v4). Twisted tori are not supported.
    """
    sides = parse_sides(text)
    if len(sides) != 3:
        raise ValueError("three sides such as 4x4x4, each a multiple of 4 for one that wraps")
    wraps = all(side % 4 == 0 for side in sides)
    wiring = _grid(text, periodic=wraps)
    dimensions = tuple(replace(d, alpha_us=1.0, gb_per_s=50.0) for d in wiring.dimensions)
    describes = f"a slice of a TPU v4 pod, {'a torus' if wraps else 'a mesh, being no whole cubes'}"
    return replace(wiring, dimensions=dimensions, description=describes, costs=_TPU_V4_SOURCE)


_TPU_V4_SOURCE = (
    "6 links of 50 GB/s per chip (Jouppi et al., ISCA 2023, Table 4), assumed to be per "
    "direction; no alpha is published: 1 us is assumed, as in ASTRA-sim's examples for TPU v3"
)


def _hypercube(text: str) -> Wiring:
    d = parse_count(text, 1)
    if d >= MAX_RANKS.bit_length():
        raise ValueError(f"at most {MAX_RANKS} ranks")
    flips = ((n, n ^ 1 << i, d - 1 - i) for n in range(2**d) for i in range(d) if not n >> i & 1)
    return Wiring(2**d, flips, tuple(Dimension(f"dimension {i}") for i in range(1, d + 1)))


def _circulant(text: str) -> Wiring:
    size, _, offsets = text.partition(":")
    n = parse_count(size, 2)
    if not re.fullmatch(r"[0-9]{1,6}(,[0-9]{1,6})*", offsets):
        raise ValueError("a size, a colon and offsets such as 8:1,3")
    jumps = [int(o) for o in offsets.split(",")]
    if any(not 0 < jump < n for jump in jumps):
        raise ValueError(f"offsets from 1 to {n - 1}")
    return _circulant_wiring(n, jumps)


def _circulant_wiring(n: int, jumps: Iterable[int]) -> Wiring:
    """Return the circulant: rank r is joined to rank r + jump modulo n, for each jump."""
    return Wiring(
        n,
        single_dimension(
            _sorted_pair(rank, (rank + jump) % n) for jump in jumps for rank in range(n)
        ),
    )


def _sorted_pair(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _switch(text: str) -> Wiring:
    """Return ranks at a switch, as links between all pairs with shared budgets per rank."""
    size, sign, wide = text.partition("x")
    if sign and not re.fullmatch(r"[1-9][0-9]{0,3}", wide):
        raise ValueError("ranks, then (optionally) lanes of each to the switch, such as 8x18")
    n, lanes = check_ranks([parse_count(size, 2)], MAX_FULL_MESH_RANKS), int(wide or "1")
    pairs = single_dimension(combinations(range(n), 2))
    budgets = tuple(per_rank_budgets(permutations(range(n), 2), lanes, lanes))
    describes = f"{'one lane' if lanes == 1 else f'{lanes} lanes'} of each rank to a switch"
    dimensions = (Dimension("lanes to the switch", lanes),)
    return Wiring(n, pairs, dimensions, budgets=budgets, description=describes)


_GENERATORS = (
    Generator("ring", "RANKS", "ring:8", "a cycle", _ring),
    Generator("line", "RANKS", "line:4", "a path", _line),
    Generator("star", "RANKS", "star:5", "rank 0 joined to all others", _star),
    Generator("full", "RANKS", "full:4", "every pair joined", _full),
    Generator("mesh", "AxB..", "mesh:3x3", "a grid", lambda t: _grid(t, periodic=False)),
    Generator(
        "torus", "AxB..", "torus:4x4x4", "a grid that wraps", lambda t: _grid(t, periodic=True)
    ),
    Generator(
        "tpu-v4", "AxBxC", "tpu-v4:4x4x4", "a slice of a TPU v4 pod: a torus of cubes", _tpu_v4
    ),
    Generator("hypercube", "DIMENSIONS", "hypercube:4", "2^d ranks, bits flip", _hypercube),
    Generator(
        "circulant", "RANKS:OFFSETS", "circulant:8:1,3", "n joined to n +- offset", _circulant
    ),
    Generator(
        "kautz",
        "LINKSxRANKS",
        "kautz:2x12",
        "generalized Kautz graph: one-way links, low diameter",
        kautz,
    ),
    Generator(
        "debruijn",
        "LINKSxRANKS",
        "debruijn:2x8",
        "generalized de Bruijn graph: one-way links",
        de_bruijn,
    ),
    Generator(
        "cayley",
        "AxB[^TURN]:GENERATORS",
        "cayley:5x4^2:1.0,0.1",
        "Cayley graph of a group, one-way links",
        cayley,
    ),
    Generator("hyperx", "AxB..", "hyperx:4x4", "a grid, all ranks of a line joined", hyperx),
    Generator("slimfly", "PRIME", "slimfly:5", "2 q^2 ranks of diameter 2", slim_fly),
    Generator("switch", "RANKS[xLANES]", "switch:8x18", "lanes of each rank to a switch", _switch),
    Generator(
        "dragonfly", "RANKSxGROUPS", "dragonfly:4x5", "full groups, one link a pair", dragonfly
    ),
    Generator(
        "switch2d", "RANKSxNODES", "switch2d:8x4", "switches in nodes and between them", switch2d
    ),
    Generator(
        "rfs",
        "RINGxFULLxNODES",
        "rfs:2x4x8",
        "rings, joined fully, over switches",
        ring_full_switch,
    ),
    Generator("fattree", "PORTS", "fattree:4", "three levels of switches of k ports", fat_tree),
    Generator(
        "rail",
        "GPUSxNODES[xPODS][:SPINES]",
        "rail:8x4",
        "nodes of GPUs around a switch, a leaf switch a rail, spine switches",
        rail,
    ),
    Generator("ndv2", "NODES", "ndv2:16", "NDv2 nodes of 8 GPUs, one NIC each", ndv2),
    Generator("dgx2", "NODES", "dgx2:4", "DGX-2 nodes of 16 GPUs, eight NICs each", dgx2),
)


def generators() -> tuple[Generator, ...]:
    """Return every family of generated topologies."""
    return _GENERATORS


def make_wiring(generator: Generator, arguments: str) -> Wiring:
    """Return the wiring of a generator for its arguments, costs (``@``) included.

    Raises:
        ValueError: The arguments do not fit. The message states the expected form.
    """
    sizes, sign, costs = arguments.partition("@")
    wiring = generator.make(sizes)
    if not sign:
        return wiring
    return replace(
        wiring, dimensions=apply_costs(wiring.dimensions, costs), costs="costs from its name"
    )


def generate_topology(text: str) -> Topology:
    """Return the topology of ``name:arguments``.

    Raises:
        UnknownNameError: No generator has this name.
        ParameterError: The arguments do not fit.
    """
    name, _, arguments = text.partition(":")
    by_name = {g.name: g for g in _GENERATORS}
    if name not in by_name:
        hint = f"the generators are {', '.join(g.example for g in _GENERATORS)}"
        raise unknown_name("topology generator", name, by_name, hint)
    generator = by_name[name]
    try:
        wiring = make_wiring(generator, arguments)
    except ValueError as error:
        example = generator.example + (COST_EXAMPLE if "@" in arguments else "")
        raise ParameterError(
            f"topology {text!r}: {name} expects {error}, as in {example!r}"
        ) from error
    if not 2 <= wiring.ranks <= MAX_RANKS:
        raise ParameterError(
            f"topology {text!r} has {wiring.ranks} ranks, expected 2 to {MAX_RANKS}"
        )
    first = wiring.dimensions[0]
    return Topology(
        name=text,
        ranks=wiring.ranks,
        links=_links(text, wiring),
        budgets=wiring.budgets,
        switches=tuple(map(Switch, wiring.switches)),
        chassis=wiring.chassis,
        alpha_us=first.alpha_us,
        gb_per_s=first.gb_per_s,
        source=f"generated: {wiring.description or generator.description}; {wiring.costs}",
    )


def _links(text: str, wiring: Wiring) -> tuple[Link, ...]:
    pairs = list(islice(wiring.pairs, _MAX_PAIRS + 1))
    if len(pairs) > _MAX_PAIRS:
        raise ParameterError(
            f"topology {text!r}, of {wiring.ranks} ranks, has more than {_MAX_PAIRS} joined pairs, "
            "which this version does not build: give fewer ranks"
        )
    kinds = {edge: kind for a, b, kind in pairs for edge in ((a, b), (b, a))}
    kinds |= {(a, b): kind for a, b, kind in wiring.one_way}
    dimensions = wiring.dimensions
    return tuple(
        Link(a, b, dimensions[kind].lanes, dimensions[kind].alpha_us, dimensions[kind].gb_per_s)
        for (a, b), kind in kinds.items()
    )
