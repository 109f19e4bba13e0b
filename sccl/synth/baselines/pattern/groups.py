"""Patterns in process groups: each by itself, on the links that its own ranks have, all at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import lcm

import numpy as np

from sccl.collectives import in_each_group
from sccl.core.topology import Topology
from sccl.synth.baselines.pattern.combine import Maker, cut
from sccl.synth.baselines.pattern.noun import Pattern, check_rows, pattern_of
from sccl.synth.contract import Request
from sccl.topo.degrade import without


def grouped(request: Request, makers: Callable[[str], Maker], pieces: int) -> Pattern:
    """Return the patterns of an algorithm in each of several groups, as one pattern.

    Args:
        request: of a collective in groups, or of several.
        makers: from the name of a collective to the function that makes its pattern.

    Raises:
        CollectiveError: the algorithm does not define it, or it is not of groups alone.
        InputError: it does not support that number of ranks.
    """
    spec = request.spec
    made: list[tuple[Pattern, int, tuple[int, ...]]] = []
    for own, ranks in in_each_group(spec):
        asked = replace(request, topology=_alone(request.topology, ranks), spec=own, limits=None)
        length = own.pattern_chunks * (spec.unit // own.unit)  # of it in the pattern of the whole
        made.append((makers(own.name)(asked, pieces), length, ranks))
    whole = spec.at(lcm(spec.unit, *(pattern.collective.chunks for pattern, _, _ in made)))
    first, columns = 0, []
    for one, length, ranks in made:
        times, order = whole.chunks // one.collective.chunks, np.array(ranks)
        check_rows(one.num_sends * times, whole)
        p = cut(one, times)
        chunk = first + p.chunk % length + spec.pattern_chunks * (p.chunk // length)
        columns.append((p.step, chunk, order[p.src], order[p.dst], p.reduce))
        first += length
    step, chunk, src, dst, reduce = map(np.concatenate, zip(*columns, strict=True))
    return pattern_of(whole, step=step, chunk=chunk, src=src, dst=dst, reduce=reduce)


def _alone(topology: Topology, ranks: tuple[int, ...]) -> Topology:
    """Return the machine that the ranks of a group make up by themselves."""
    others = set(range(topology.ranks)).difference(ranks)
    return without(topology, ranks=others) if others else topology
