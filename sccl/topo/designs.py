"""List names of networks with a given number of ranks and links per rank, by family.

The families have known good collectives: Kautz and de Bruijn graphs, circulants and other Cayley
graphs, grids, HyperX, and Slim Fly. Other networks are built from smaller ones (Zhao et al., NSDI
2025): line graphs, degree expansions, Cartesian powers and products. Because there are many Cayley
graphs, their generators are drawn at random from the seed, and the graphs with the most ranks
within the fewest hops are kept.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from math import gcd, isqrt

from sccl.core.topology import MAX_RANKS

DRAWN_PER_GROUP = 60
"""Number of generator sets to draw for each group."""
SELECTED_PER_GROUP = 3
"""Number of drawn generator sets to keep for each group."""
_MAX_GROUPS = 24


@dataclass(frozen=True, slots=True)
class NetworkSize:
    """The size of a network.

    Attributes:
        ranks: Number of ranks.
        degree: Number of links out of each rank, and into it.
    """

    ranks: int
    degree: int


def moore_steps(wanted: NetworkSize) -> int:
    """Return the minimum number of steps in which any network of this size can reach all ranks.

    After s steps a rank's chunk is on at most 1 + d + ... + d^s ranks (Moore bound).
    """
    steps = reached = 0
    while reached + 1 < wanted.ranks:
        steps += 1
        reached = min(reached + wanted.degree**steps, wanted.ranks)
    return steps


def basic_designs(wanted: NetworkSize, seed: int) -> Iterator[str]:
    """Yield names of networks of a size that are not built from smaller networks."""
    n, d = wanted.ranks, wanted.degree
    if d == n - 1:
        yield f"full:{n}"
    if 1 < d < n:
        yield f"kautz:{d}x{n}"
        yield f"debruijn:{d}x{n}"
    if n == 2**d:
        yield f"hypercube:{d}"
    if d % 2 == 0:
        yield from _tori(n, d // 2)
        yield from _circulants(n, d // 2, seed)
    yield from _hyperx(n, d)
    q = isqrt(n // 2)
    if (
        2 * q * q == n
        and q > 2
        and all(q % k for k in range(2, q))
        and 2 * d in (3 * q - 1, 3 * q + 1)
    ):
        yield f"slimfly:{q}"
    yield from _cayley_graphs(n, d, seed)


def composite_designs(wanted: NetworkSize) -> Iterator[tuple[str, tuple[NetworkSize, ...]]]:
    """Yield constructions of a network of a size from smaller networks.

    A construction is a name with a ``{}`` for each smaller network, and the sizes of these
    networks.
    """
    n, d = wanted.ranks, wanted.degree
    if d > 1 and n % d == 0 and n // d > d:
        yield "linegraph:{}", (NetworkSize(n // d, d),)
    for number in range(2, d + 1):
        if d % number == 0 and n % number == 0 and n // number > 1:
            yield f"copies:{number}:{{}}", (NetworkSize(n // number, d // number),)
    for exponent in (2, 3):
        root = round(n ** (1 / exponent))
        if d % exponent == 0 and root**exponent == n and root > 2:
            yield f"power:{exponent}:{{}}", (NetworkSize(root, d // exponent),)
    for first in range(2, isqrt(n) + 1):
        if n % first == 0:
            for links in range(1, d):
                if links < first and d - links < n // first:
                    parts = (NetworkSize(first, links), NetworkSize(n // first, d - links))
                    yield "product:{}_x_{}", parts


def _factorizations(n: int, count: int, lower_bound: int) -> Iterator[tuple[int, ...]]:
    """Yield ascending factorizations of n into ``count`` factors >= ``lower_bound``."""
    if count == 1:
        if n >= lower_bound:
            yield (n,)
        return
    for side in range(lower_bound, n + 1):
        if side**count > n:
            return
        if n % side == 0:
            yield from ((side, *rest) for rest in _factorizations(n // side, count - 1, side))


def _tori(n: int, dimensions: int) -> Iterator[str]:
    for sides in _factorizations(n, dimensions, 3):
        yield f"torus:{'x'.join(map(str, sides))}" if len(sides) > 1 else f"ring:{n}"


def _hyperx(n: int, degree: int) -> Iterator[str]:
    for dimensions in range(2, degree + 1):
        for sides in _factorizations(n, dimensions, 2):
            if sum(sides) - dimensions == degree:
                yield f"hyperx:{'x'.join(map(str, sides))}"


def _circulants(n: int, count: int, seed: int) -> Iterator[str]:
    """Yield circulants with ``count`` offsets, the best of enumerated and drawn sets of offsets."""
    half = (n - 1) // 2
    if count > half:
        return
    drawn = random.Random(f"{seed} circulant {n} {count}")  # noqa: S311 - no secret
    sets = {
        (1, *rest) for rest in islice(combinations(range(2, half + 1), count - 1), DRAWN_PER_GROUP)
    }
    if count == 2:
        root = isqrt(max((n - 2) // 2, 1))  # minimum diameter (Wong and Coppersmith 1974)
        sets |= {(root, root + 1)} if root + 1 <= half else set()
    if count == 1:
        sets = {(1,)}
    else:
        sets |= {
            tuple(sorted(drawn.sample(range(1, half + 1), count))) for _ in range(DRAWN_PER_GROUP)
        }
    best = sorted(
        (reach, offsets)
        for offsets in sorted(sets)
        if gcd(n, *offsets) == 1
        and (reach := _unreached_counts(n, 1, 1, [(o % n, 0) for a in offsets for o in (a, -a)]))
    )
    for _, offsets in best[:SELECTED_PER_GROUP]:
        yield f"circulant:{n}:{','.join(map(str, offsets))}"


def _cayley_graphs(n: int, degree: int, seed: int) -> Iterator[str]:
    """Yield Cayley graphs of groups with n elements, with one-way or two-way links."""
    if degree >= n or n > MAX_RANKS:
        return
    for m, k, turn in islice(_groups(n), _MAX_GROUPS):
        drawn = random.Random(f"{seed} cayley {m} {k} {turn} {degree}")  # noqa: S311 - no secret
        sets = set()
        for _ in range(DRAWN_PER_GROUP):
            picked = {divmod(e, k) for e in drawn.sample(range(1, n), min(degree, n - 1))}
            sets.add(tuple(sorted(picked)))
        best = sorted(
            (reach, leads)
            for leads in sorted(sets)
            if (reach := _unreached_counts(m, k, turn, list(leads))) is not None
        )
        sign = f"^{turn}" if turn != 1 else ""
        for _, leads in best[:SELECTED_PER_GROUP]:
            yield f"cayley:{m}x{k}{sign}:{','.join(f'{i}.{j}' for i, j in leads)}"


def _groups(n: int) -> Iterator[tuple[int, int, int]]:
    """Yield (M, K, R) of groups with n elements, the cyclic group first."""
    yield n, 1, 1
    for k in range(2, n):
        if n % k == 0:
            m = n // k
            turns = [r for r in range(1, min(m, 64)) if gcd(r, m) == 1 and pow(r, k, m) == 1 % m]
            turns += [m - 1] if m > 64 and k % 2 == 0 else []
            yield from ((m, k, turn) for turn in turns[:3])


def _unreached_counts(
    m: int, k: int, turn: int, leads: list[tuple[int, int]]
) -> tuple[int, ...] | None:
    """Return the number of elements that are not reached after each step, None if some never are.

    The first entry is the number of steps. So the tuples sort by steps, then by elements left.
    """
    powers = [pow(turn, j, m) for j in range(k)]
    seen, layer, left = {(0, 0)}, {(0, 0)}, m * k - 1
    remaining = []
    while left:
        layer = {((i + powers[j] * a) % m, (j + b) % k) for i, j in layer for a, b in leads} - seen
        if not layer:
            return None
        seen |= layer
        left -= len(layer)
        remaining.append(left)
    return (len(remaining), *remaining)
