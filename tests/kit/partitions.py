"""Machines as wide both ways, and all partitions of ranks."""

from __future__ import annotations

from collections.abc import Iterator

from sccl.core.topology import Link, Topology


def build_machine(ranks: int, lanes: dict[tuple[int, int], int]) -> Topology:
    """Return a machine of links as wide both ways."""
    both = {**lanes, **{(v, u): n for (u, v), n in lanes.items()}}
    links = tuple(Link(u, v, n, 1.0, 10.0) for (u, v), n in sorted(both.items()))
    return Topology("mine", ranks, links, 1.0, 10.0)


def partitions(ranks: list[int]) -> Iterator[list[list[int]]]:
    """Yield all ways to put ranks into groups."""
    if not ranks:
        yield []
        return
    first, *rest = ranks
    for groups in partitions(rest):
        yield [[first], *groups]
        for i, group in enumerate(groups):
            yield [*groups[:i], [first, *group], *groups[i + 1 :]]
