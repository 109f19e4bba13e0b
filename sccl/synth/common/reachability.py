"""Find chunks that cannot reach a destination, and links that would help.

Synthesizers may detect in the middle of their work that a chunk cannot reach a rank, and most do
not know which chunk it is. This module finds it after such an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sccl.collectives import Spec
from sccl.core.formatting import format_count
from sccl.core.graphs import UNREACHED, distances
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.errors import UnreachableError
from sccl.synth.limits import MAX_PROGRAM_RANKS

_Successors = tuple[tuple[int, ...], ...]


def unreachable_error(topology: Topology, spec: Spec) -> UnreachableError | None:
    """Return the error that names the unreached chunks and helpful links. None: all are reached."""
    successors = topology.successors()
    first = gap = next(_unreachable_pairs(successors, spec), None)
    if first is None:
        return None
    # A message names at most four.
    max_links = 4 if topology.ranks <= MAX_PROGRAM_RANKS else 1
    links: list[Edge] = []
    while gap is not None and len(links) < max_links:
        links.append(gap)
        gap = (
            next(_unreachable_pairs(_with_links(successors, links), spec), None)
            if max_links > 1
            else gap
        )
    for link in tuple(links) if gap is None else ():  # a later link may replace this one
        others = [other_link for other_link in links if other_link != link]
        if next(_unreachable_pairs(_with_links(successors, others), spec), None) is None:
            links = others
    named = ", ".join(f"{src}->{dst}" for src, dst in links)
    add = f"add links, as {named}" if gap else f"add {format_count(len(links), 'link')}: {named}"
    return UnreachableError(
        f"topology {topology.name!r}: no path leads from rank {first[0]} to rank {first[1]}, "
        f"where {spec.name} needs its data: {add}"
    )


def _with_links(successors: _Successors, links: Sequence[Edge]) -> _Successors:
    more = [list(targets) for targets in successors]
    for src, dst in links:
        more[src].append(dst)
    return tuple(map(tuple, more))


def _unreachable_pairs(successors: _Successors, spec: Spec) -> Iterator[Edge]:
    """Yield (source, destination) pairs with a demand but without a path."""
    distance_table: dict[frozenset[int], list[int]] = {}
    for held, wanted in spec.at(spec.unit).chunk_classes():
        holders = frozenset(map(int, held))
        # reductions need every holder, other chunks any holder
        sources = [frozenset([rank]) for rank in sorted(holders)] if spec.combining else [holders]
        for source in sources:
            if source not in distance_table:
                distance_table[source] = distances(successors, source)
            far = distance_table[source]
            yield from ((min(source), int(r)) for r in sorted(wanted) if far[r] == UNREACHED)
