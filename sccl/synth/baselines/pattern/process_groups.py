"""Patterns in process groups: all groups at once, each on the links among its own ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import lcm

import numpy as np

from sccl.collectives import group_specs
from sccl.core.topology import Topology
from sccl.synth.baselines.pattern.composition import PatternMaker, split_chunks
from sccl.synth.baselines.pattern.send_pattern import Pattern, build_pattern, check_rows
from sccl.synth.common.contract import Request
from sccl.topo.degrade import remove_parts


def pattern_in_groups(
    request: Request, makers: Callable[[str], PatternMaker], pieces: int
) -> Pattern:
    """Return the patterns of an algorithm in each of several groups, as one pattern.

    Args:
        request: Request for one or several collectives in groups.
        makers: Function from the name of a collective to the maker of its pattern.

    Raises:
        CollectiveError: The algorithm does not define the collective, or it has parts other than
            groups.
        InputError: The algorithm does not support the number of ranks.
    """
    spec = request.spec
    made: list[tuple[Pattern, int, tuple[int, ...]]] = []
    for group_spec, ranks in group_specs(spec):
        asked = replace(
            request,
            topology=_induced_machine(request.topology, ranks),
            spec=group_spec,
            limits=None,
        )
        length = group_spec.pattern_chunks * (spec.unit // group_spec.unit)  # chunks of the group
        made.append((makers(group_spec.name)(asked, pieces), length, ranks))
    collective = spec.at(lcm(spec.unit, *(pattern.collective.chunks for pattern, _, _ in made)))
    first, columns = 0, []
    for part, length, ranks in made:
        times, order = collective.chunks // part.collective.chunks, np.array(ranks)
        check_rows(part.num_sends * times, collective)
        p = split_chunks(part, times)
        chunk = first + p.chunk % length + spec.pattern_chunks * (p.chunk // length)
        columns.append((p.step, chunk, order[p.src], order[p.dst], p.reduce))
        first += length
    step, chunk, src, dst, reduce = map(np.concatenate, zip(*columns, strict=True))
    return build_pattern(collective, step=step, chunk=chunk, src=src, dst=dst, reduce=reduce)


def _induced_machine(topology: Topology, ranks: tuple[int, ...]) -> Topology:
    """Return the machine that consists of the ranks of a group."""
    others = set(range(topology.ranks)).difference(ranks)
    return remove_parts(topology, ranks=others) if others else topology
