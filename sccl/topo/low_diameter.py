"""Networks of small degree and diameter: generators that :mod:`.generators` lists.

Kautz and de Bruijn graphs are directed. A Cayley graph is undirected if its set of generators
contains all inverses. Links from a rank to itself are omitted, and parallel links become lanes of
one link.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations, product
from math import gcd

from sccl.core.topology import MAX_RANKS
from sccl.topo.wiring import (
    Dimension,
    WiredPair,
    Wiring,
    check_ranks,
    parse_sides,
    single_dimension,
)

_MAX_LINKS = 2**20


def kautz(text: str) -> Wiring:
    """Return the generalized Kautz graph: links from v to -d v - 1, ..., -d v - d, modulo ranks.

    For any number of ranks it has the smallest known diameter (Imase and Itoh, IEEE Transactions on
    Computers, 1981 and 1983). With d^k + d^(k-1) ranks it is the Kautz graph.
    """
    degree, ranks = _parse_degree_and_ranks(text)
    steps = ((v, (-degree * v - a) % ranks) for v in range(ranks) for a in range(1, degree + 1))
    return _directed_wiring(ranks, steps)


def de_bruijn(text: str) -> Wiring:
    """Return the generalized de Bruijn graph: links from v to d v, ..., d v + d - 1, modulo ranks.

    With d^k ranks it is the de Bruijn graph, whose ranks are words of k letters and whose links
    shift a word by one letter (Imase and Itoh, IEEE Transactions on Computers, 1981, and Reddy,
    Pradhan and Kuhl, 1980).
    """
    degree, ranks = _parse_degree_and_ranks(text)
    steps = ((v, (degree * v + a) % ranks) for v in range(ranks) for a in range(degree))
    return _directed_wiring(ranks, steps)


def _parse_degree_and_ranks(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,6})", text)
    if not match or int(match[1]) >= int(match[2]):
        raise ValueError("degree x ranks, with more ranks than the degree, such as 2x12")
    degree, ranks = int(match[1]), check_ranks([int(match[2])])
    if degree * ranks > _MAX_LINKS:
        raise ValueError(f"at most {_MAX_LINKS} links in all")
    return degree, ranks


def _directed_wiring(ranks: int, steps: Iterable[tuple[int, int]]) -> Wiring:
    """Return the wiring of one-way links. Parallel links become lanes of one link."""
    lanes = Counter((a, b) for a, b in steps if a != b)
    if not lanes:
        raise ValueError("a graph with links between different ranks")
    wide = sorted(set(lanes.values()))
    dimensions = tuple(Dimension(f"links of {n} lanes" if n > 1 else "links", n) for n in wide)
    edges = tuple((a, b, wide.index(n)) for (a, b), n in lanes.items())
    return Wiring(ranks, (), dimensions, one_way=edges)


def cayley(text: str) -> Wiring:
    """Return the Cayley graph of a group ``MxK`` or ``MxK^R``, with the given generators.

    Elements are (i, j), i modulo M and j modulo K, with (i, j)(k, l) = (i + R^j k, j + l). R is 1
    by default, and the group is then abelian. With K = 2 and R = M - 1 it is dihedral. Rank i K + j
    is the element (i, j). Links are directed: ``8x1:1.0`` is a one-way ring, and ``8x1:1.0,7.0``
    goes both ways.
    """
    group, _, generators = text.partition(":")
    m, k, turn = _parse_group(group)
    ranks = check_ranks((m, k))
    if not re.fullmatch(r"[0-9]{1,5}\.[0-9]{1,5}(,[0-9]{1,5}\.[0-9]{1,5}){0,99}", generators):
        raise ValueError("a group, a colon and generators such as 5x4^2:1.0,0.1")
    leads = [(int(i), int(j)) for i, j in (g.split(".") for g in generators.split(","))]
    if len(leads) * ranks > _MAX_LINKS:
        raise ValueError(f"at most {_MAX_LINKS} links in all")
    for i, j in leads:
        if i >= m or j >= k or not (i or j):
            raise ValueError(f"generators below {m}.{k} other than 0.0")
    powers = [pow(turn, j, m) for j in range(k)]
    steps = (
        (i * k + j, (i + powers[j] * a) % m * k + (j + b) % k)
        for i, j in product(range(m), range(k))
        for a, b in leads
    )
    return _directed_wiring(ranks, steps)


def _parse_group(text: str) -> tuple[int, int, int]:
    """Parse M, K and R of a group ``MxK`` or ``MxK^R``."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})(?:\^([0-9]{1,5}))?", text)
    if not match:
        raise ValueError("group sizes, with ^R for a semidirect product")
    m, k, turn = int(match[1]), int(match[2]), int(match[3] or "1")
    if gcd(turn, m) != 1 or pow(turn, k, m) != 1 % m:
        raise ValueError(f"a group: {turn} to the power of {k} has to be 1 modulo {m}")
    return m, k, turn


def hyperx(text: str) -> Wiring:
    """Return a HyperX: a grid in which all ranks of a line are joined (Ahn et al., SC 2009)."""
    sides = parse_sides(text)
    ranks = check_ranks(sides)
    if sum(side - 1 for side in sides) * ranks > _MAX_LINKS:
        raise ValueError(f"at most {_MAX_LINKS} links in all")
    names = (f"side {i} ({side})" for i, side in enumerate(sides, 1))
    return Wiring(ranks, _line_pairs(sides, ranks), tuple(Dimension(name) for name in names))


def _line_pairs(sides: tuple[int, ...], ranks: int) -> Iterator[WiredPair]:
    stride = ranks
    for dimension, side in enumerate(sides):
        stride //= side
        for rank in range(ranks):
            at = rank // stride % side
            yield from ((rank, rank + stride * (n - at), dimension) for n in range(at + 1, side))


def slim_fly(text: str) -> Wiring:
    """Return a Slim Fly: 2 q^2 ranks of diameter 2, with (3q - d) / 2 links, q = 4w + d, d = +-1.

    Its ranks are two halves of pairs (x, y) modulo a prime q. In the first half, ranks with the
    same x are joined if their y differ by a member of X, in the second half by a member of X'. Rank
    (x, y) of the first and (m, c) of the second are joined if y = m x + c (Besta and Hoefler, SC
    2014, after McKay, Miller and Siran).
    """
    if not re.fullmatch(r"[0-9]{1,3}", text) or not _is_odd_prime(q := int(text)):
        raise ValueError("an odd prime such as 5, of which there are 2 q^2 ranks")
    if 2 * q * q > MAX_RANKS:
        raise ValueError(f"a prime of which 2 q^2 is at most {MAX_RANKS}")
    first, second = _difference_sets(q)
    return Wiring(2 * q * q, single_dimension(_slim_fly_pairs(q, first, second)))


def _slim_fly_pairs(q: int, first: set[int], second: set[int]) -> Iterator[tuple[int, int]]:
    for half, differences in enumerate((first, second)):
        for x in range(q):
            start = (half * q + x) * q
            for a, b in combinations(range(q), 2):
                if (b - a) % q in differences:
                    yield start + a, start + b
    for x, m, c in product(range(q), repeat=3):
        yield x * q + (m * x + c) % q, (q + m) * q + c


def _difference_sets(q: int) -> tuple[set[int], set[int]]:
    """Return X and X': even and odd powers of a primitive root, each closed under negation."""
    root = next(g for g in range(1, q) if len({pow(g, e, q) for e in range(q - 1)}) == q - 1)
    powers = [pow(root, e, q) for e in range(q - 1)]
    if q % 4 == 1:
        return set(powers[0::2]), set(powers[1::2])
    half = (q - 1) // 2  # this power is -1 and odd: negatives of even powers are odd
    evens, odds = powers[0:half:2], powers[1:half:2]
    return (
        {p % q for x in evens for p in (x, -x)},
        {p % q for x in (*odds, powers[half]) for p in (x, -x)},
    )


def _is_odd_prime(n: int) -> bool:
    return n > 2 and all(n % k for k in range(2, int(n**0.5) + 1))
