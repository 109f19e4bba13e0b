"""Find chunks that cannot reach a rank that wants them, and links that would help.

Synthesisers may detect in the middle of their work that a chunk cannot reach a rank, and most do
not know which: it is searched here, in case of such an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sccl.collectives import Spec
from sccl.core.ids import Edge
from sccl.core.topology import UNREACHED, Topology, distances
from sccl.core.words import counted
from sccl.errors import UnreachableError

_MOST_LINKS = 4
"""That are named: where these do not do, they are a beginning."""

_MOST_RANKS = 256
"""Limit on ranks for naming several links. Each rank may have a chunk that all others want, and
each added link needs another search.
"""

_Successors = tuple[tuple[int, ...], ...]


def unreached(topology: Topology, spec: Spec) -> UnreachableError | None:
    """Return the error that names the unreached chunks and helpful links. None: all are reached."""
    successors = topology.successors()
    first = gap = next(_gaps(successors, spec), None)
    if first is None:
        return None
    most = _MOST_LINKS if topology.ranks <= _MOST_RANKS else 1
    links: list[Edge] = []
    while gap is not None and len(links) < most:
        links.append(gap)
        gap = next(_gaps(_with(successors, links), spec), None) if most > 1 else gap
    for link in tuple(links) if gap is None else ():  # a later one may do what this one does
        others = [other for other in links if other != link]
        if next(_gaps(_with(successors, others), spec), None) is None:
            links = others
    named = ", ".join(f"{src}->{dst}" for src, dst in links)
    add = f"add links, as {named}" if gap else f"add {counted(len(links), 'link')}: {named}"
    return UnreachableError(
        f"topology {topology.name!r}: no path leads from rank {first[0]} to rank {first[1]}, "
        f"where {spec.name} needs its data: {add}"
    )


def _with(successors: _Successors, links: Sequence[Edge]) -> _Successors:
    more = [list(own) for own in successors]
    for src, dst in links:
        more[src].append(dst)
    return tuple(map(tuple, more))


def _gaps(successors: _Successors, spec: Spec) -> Iterator[Edge]:
    """Yield ranks, and those that want something of them to which no path leads."""
    known: dict[frozenset[int], list[int]] = {}
    for held, wanted in spec.at(spec.unit).classes():
        holders = frozenset(map(int, held))
        # what combines is wanted of each, else of any
        sources = [frozenset([rank]) for rank in sorted(holders)] if spec.combining else [holders]
        for source in sources:
            if source not in known:
                known[source] = distances(successors, source)
            far = known[source]
            yield from ((min(source), int(r)) for r in sorted(wanted) if far[r] == UNREACHED)
