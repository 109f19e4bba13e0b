"""Verify long algorithms with the rules of the step verifier, in columns and by a compiled loop.

The result is only valid or invalid. The step verifier words the violations.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Algorithm, Send
from sccl.core.arrays import IntArray
from sccl.core.topology import Topology
from sccl.judge import unrouted_steps


class SendColumns(NamedTuple):
    """The sends of an algorithm, in their order."""

    step: IntArray
    chunk: IntArray
    src: IntArray
    dst: IntArray
    reduce: NDArray[np.bool_]


def send_columns(sends: tuple[Send, ...]) -> SendColumns:
    """Return sends as columns."""

    def column(name: str, kind: type[Any]) -> NDArray[Any]:
        return np.fromiter(map(attrgetter(name), sends), kind, len(sends))

    step, chunk, src, dst = (column(name, np.int64) for name in ("step", "chunk", "src", "dst"))
    return SendColumns(step, chunk, src, dst, column("reduce", np.bool_))


def is_valid(algorithm: Algorithm) -> bool:
    """Return whether the judge of steps finds nothing wrong with an algorithm.

    Raises:
        TooLargeError: there are more chunks than can be told apart by who has and wants them.
    """
    collective, ranks = algorithm.collective, algorithm.topology.ranks
    if collective.ranks != ranks or min(algorithm.rounds_per_step, default=1) < 1:
        return False
    try:
        sends = send_columns(algorithm.sends)
    except OverflowError:  # no valid number has more than 64 bits
        return False
    ends = (algorithm.steps, collective.num_chunks, ranks, ranks)
    for column, end in zip(sends[:4], ends, strict=True):
        if len(column) and not 0 <= column.min() <= column.max() < end:
            return False
    if not _is_within_links(algorithm, sends):
        return False
    return unrouted_steps.is_valid(collective, *sends)


def _is_within_links(algorithm: Algorithm, sends: SendColumns) -> bool:
    """Return whether all sends are over links, and no step sends more than its rounds let pass."""
    topology = algorithm.topology
    nodes = topology.ranks + len(topology.switches)
    links = np.array([k.src * nodes + k.dst for k in topology.links], np.int64)  # ascend
    edges = sends.src * nodes + sends.dst
    link = np.minimum(np.searchsorted(links, edges), len(links) - 1)
    if (links[link] != edges).any():
        return False
    pairs, loads = np.unique(link * algorithm.steps + sends.step, return_counts=True)
    link, step = np.divmod(pairs, algorithm.steps)
    max_rounds = algorithm.num_sends  # no step sends more
    rounds = np.array([min(r, max_rounds) for r in algorithm.rounds_per_step], np.int64)
    lanes = np.array([k.lanes for k in topology.links], np.int64)
    if (loads > lanes[link] * rounds[step]).any():
        return False
    return not topology.budgets or _is_within_budgets(topology, link, step, loads, rounds)


def _is_within_budgets(
    topology: Topology, link: IntArray, step: IntArray, loads: IntArray, rounds: IntArray
) -> bool:
    """Return whether links that share a budget keep within it.

    Args:
        link: that are used,
        step: when,
        loads: and by how many sends.
    """
    place = {k.edge: i for i, k in enumerate(topology.links)}
    members = sorted((place[e], i) for i, b in enumerate(topology.budgets) for e in b.edges)
    of, budget = np.array(members, np.int64).reshape(-1, 2).T
    first = np.searchsorted(of, np.arange(len(place) + 1))
    many = np.diff(first)[link]
    row = np.repeat(np.arange(len(link)), many)
    within = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
    held_by = budget[first[link[row]] + within]
    both, of_both = np.unique(held_by * len(rounds) + step[row], return_inverse=True)
    used = np.bincount(of_both, weights=loads[row])  # exact: far fewer than 2^53
    held_by, step = np.divmod(both, len(rounds))
    limits = np.array([b.chunks_per_round for b in topology.budgets], np.int64)
    return bool((used <= limits[held_by] * rounds[step]).all())
