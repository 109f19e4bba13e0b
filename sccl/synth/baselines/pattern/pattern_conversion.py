"""Convert patterns to plans that can be verified: on all pairs of ranks, or on a machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Algorithm, make_send
from sccl.core.arrays import AnyIntArray
from sccl.core.clock import Clock, StepAlignment
from sccl.core.schedule import Schedule
from sccl.core.topology import Link, Topology
from sccl.errors import CollectiveError, TopologyError
from sccl.judge import require_valid
from sccl.synth.baselines.pattern.send_pattern import Pattern
from sccl.topo import resolve_topology
from sccl.transform.retime import SteppedSends, schedule_sends

MAX_INTERPRETED_SENDS = 2**14
"""Sends that Python verifies in less time than compiled code takes to load."""


def verify_pattern(pattern: Pattern) -> Pattern:
    """Return a pattern if it passes verification. Its hops may join any ranks.

    Raises:
        JudgeError: The pattern does not satisfy its collective.
    """
    p = pattern
    if p.num_sends >= MAX_INTERPRETED_SENDS:
        from sccl.judge.execution_arrays import is_satisfied  # noqa: PLC0415 - loads Numba
        from sccl.judge.steps_arrays import step_transfers  # noqa: PLC0415

        if is_satisfied(p.collective, step_transfers(p.step, p.chunk, p.src, p.dst, p.reduce)):
            return p
    require_valid(_build_algorithm(p, _hop_topology(p)), "a classical algorithm")
    return p


def _hop_topology(pattern: Pattern) -> Topology:
    """Return the machine with one link for each hop of a pattern."""
    ranks = pattern.collective.ranks
    hops = np.unique(pattern.src.astype(np.int64) * ranks + pattern.dst).tolist()
    links = tuple(Link(hop // ranks, hop % ranks, 1, 1.0, 1.0) for hop in hops)
    return Topology("the hops of a pattern", ranks, links, 1.0, 1.0)


def to_logical_algorithm(pattern: Pattern) -> Algorithm:
    """Return a pattern as an algorithm for the machine with links between all pairs of ranks.

    It is not verified.

    Raises:
        ParameterError: There are more ranks than such a machine may have.
    """
    return _build_algorithm(pattern, resolve_topology(f"full:{pattern.collective.ranks}"))


def to_algorithm(pattern: Pattern, topology: Topology) -> Algorithm:
    """Return a pattern whose hops are links of a machine as its algorithm, verified.

    A step has as many rounds as its fullest link or budget needs.

    Raises:
        CollectiveError: the pattern is for another number of ranks.
        TopologyError: a hop is no link of the machine.
        JudgeError: the pattern fails verification.
    """
    _check_ranks(pattern, topology)
    return require_valid(_build_algorithm(pattern, topology), "a classical algorithm")


def to_schedule(
    pattern: Pattern,
    topology: Topology,
    clock: Clock,
    stepping: StepAlignment = StepAlignment.PIPELINED,
) -> Schedule:
    """Return a pattern with its times on a machine, not verified.

    Hops that are no links take shortest paths, on which they share links with others.

    Args:
        clock: clock of this machine, for the chunks of the pattern.

    Raises:
        CollectiveError: the pattern is for another number of ranks.
        UnreachableError: no path of links leads to the destination of a hop.
        ParameterError: it may take more ticks than the limit.
        TooLargeError: ranks exchange partial results such that no order of links is possible.
    """
    _check_ranks(pattern, topology)
    p = pattern
    sends = SteppedSends(p.collective, p.step, p.chunk, p.src, p.dst, p.reduce)
    return schedule_sends(sends, topology, clock, stepping)


def _check_ranks(pattern: Pattern, topology: Topology) -> None:
    if pattern.collective.ranks != topology.ranks:
        raise CollectiveError(
            f"the pattern is for {pattern.collective.ranks} ranks, topology {topology.name!r} has "
            f"{topology.ranks}"
        )


def _build_algorithm(pattern: Pattern, topology: Topology) -> Algorithm:
    columns = (pattern.chunk, pattern.src, pattern.dst, pattern.step)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    sends = (
        make_send(*row, reduce=r) for row, r in zip(rows, pattern.reduce.tolist(), strict=True)
    )
    return Algorithm(topology, pattern.collective, rounds_per_step(pattern, topology), tuple(sends))


def rounds_per_step(pattern: Pattern, topology: Topology) -> tuple[int, ...]:
    """Return the number of rounds of each step of a pattern on a machine, at least 1.

    Raises:
        TopologyError: A hop is not a link of the machine.
    """
    links = hop_links(pattern, topology)
    number = {link.edge: i for i, link in enumerate(topology.links)}
    load = np.zeros((len(number), pattern.steps), dtype=np.int64)
    np.add.at(load, (links, pattern.step), 1)
    rounds = np.ones(pattern.steps, dtype=np.int64)
    for constraint in topology.constraints():
        used = sum(load[number[edge]] for edge in constraint.edges)
        rounds = np.maximum(rounds, -(-used // constraint.chunks_per_round))
    return tuple(rounds.tolist())


def hop_links(pattern: Pattern, topology: Topology) -> NDArray[np.int64]:
    """Return the index in ``topology.links`` of the link of each send.

    Raises:
        TopologyError: A hop is not a link of the machine.
    """
    places = link_indices(pattern.src, pattern.dst, topology)
    missing = np.flatnonzero(places < 0)
    if len(missing):
        row = int(missing[0])
        raise TopologyError(
            f"step {pattern.step[row]} sends from rank {pattern.src[row]} to {pattern.dst[row]}, "
            f"and topology {topology.name!r} has no link between them: give a machine with this "
            "link, or use 'sccl synth', which routes such sends along paths of links"
        )
    return places


def is_direct(pattern: Pattern, topology: Topology) -> bool:
    """Return whether all hops of a pattern are links of a machine."""
    return bool((link_indices(pattern.src, pattern.dst, topology) >= 0).all())


def link_indices(src: AnyIntArray, dst: AnyIntArray, topology: Topology) -> NDArray[np.int64]:
    """Return the indices in ``topology.links`` of links with these ends, or -1."""
    nodes = topology.ranks + len(topology.switches)
    codes = np.array([link.src * nodes + link.dst for link in topology.links], dtype=np.int64)
    wanted = np.asarray(src, dtype=np.int64) * nodes + dst  # links are sorted by their ends
    places = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
    return np.where(codes[places] == wanted, places, -1)
