"""Select recipes for a collective by its kind and the positions of its group on nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, groupby

from sccl.core.motif import Motif
from sccl.core.topology import Topology
from sccl.training.motifs.extents import execution_work

_MAX_WORK = 2**20
"""Largest cost of executing motifs in verification: a second or two."""

_MAX_SIZES = 200
"""Letters of sizes of groups: recipes of several levels are short enough to be read."""

_EIGHTHS = 8
"""Largest number of parts for lanes."""


def candidate_recipes(motif: Motif, node: str) -> Iterator[str]:
    """Yield recipes for a collective as one motif, those that come first are preferred.

    Args:
        node: how many ranks of its group follow one another on each node, as levels are told it.
            Empty: there are not several.
    """
    places, name, work = motif.max_group_size, motif.collective, max(1, execution_work(motif))
    yield "whole"
    if name == "allreduce":
        yield "ring"
    if node and name in {"allgather", "allreduce", "alltoall", "reducescatter"}:
        yield f"levels({node})"
    if node and name == "allreduce":
        yield f"tree({node})"
    if name == "alltoall":
        yield from (f"spline({parts})" for parts in (2, 4, 8) if parts <= places // 2)
    if name in {"broadcast", "reduce"}:
        yield "sag"
    segments = [count for count in (2, 4, 8) if count * work <= _MAX_WORK]
    yield from (f"seg({count})" for count in segments)
    if node and name in {"allgather", "allreduce", "alltoall", "reducescatter"}:
        yield from (f"levels({node}).seg({count})" for count in segments[:2])
    if name in {"broadcast", "gather", "scatter"} and places > 2:
        yield "spline(2)"
    if name in {"allgather", "reducescatter"} and places > 2:
        yield "sources(2)"


def lane_recipes(took: Mapping[str, int], levels: str = "") -> Iterator[str]:
    """Yield ways to divide a collective over channels: about as these are fast, and in eighths.

    Args:
        took: nanoseconds that the whole takes on each channel, by its name.
        levels: a rule that each lane of some is divided by in turn. Empty: none.
    """
    for channel, peer in combinations(took, 2):
        part = Fraction(took[peer], took[channel] + took[peer])
        middle = min(max(round(part * _EIGHTHS), 1), _EIGHTHS - 1)
        near = part.limit_denominator(_EIGHTHS)
        first = near if 0 < near < 1 else Fraction(middle, _EIGHTHS)
        around = [Fraction(k, _EIGHTHS) for k in (middle, middle + 1, middle - 1)]
        for one_part in dict.fromkeys((first, *around)):
            if 0 < one_part < 1:
                weights = one_part / (1 - one_part)
                lanes = f"lanes({channel}:{weights.numerator}, {peer}:{weights.denominator})"
                yield lanes
                if levels and one_part == first:
                    yield f"{lanes}.{levels}"


def node_level_sizes(groups: Iterable[Sequence[int]], machines: Iterable[Topology]) -> str:
    """Return the number of consecutive ranks of groups on each node, in the notation of levels.

    Args:
        machines: Machines, of which one may know the nodes.

    Returns:
        Such as ``8``, or ``3+5`` for nodes of different sizes. Empty: one rank per node, one node,
        or groups differ.
    """
    node: dict[int, int] = {}
    for machine in machines:
        if machine.chassis and not node:
            node = {rank: k for k, ranks in enumerate(machine.chassis) for rank in ranks}
    texts = set()
    for group in groups:
        runs = [(node_number, len(list(row))) for node_number, row in groupby(group, node.get)]
        sizes = [size for _, size in runs]
        again = len({node_number for node_number, _ in runs}) < len(runs)
        if len(runs) < 2 or max(sizes) < 2 or (again and len(set(sizes)) > 1):
            return ""
        alike = len({*sizes[:-1]}) == 1 and 2 <= sizes[-1] <= sizes[0]
        texts.add(str(sizes[0]) if alike else "+".join(map(str, sizes)))
    return texts.pop() if len(texts) == 1 and max(map(len, texts)) <= _MAX_SIZES else ""
