"""Read ForestColl's trees, along which the data of each GPU are sent to all others.

Source: liangyuRain/ForestColl (2025-04-22), ``spanning_trees_to_xml`` of ``pipeline_allgather.py``:
``Algo`` has ``nchunkspernode``, and a ``tree`` for each ``root`` and ``index``, which carries
``nchunks`` of these chunks. Each ``send`` has ``src``, ``dst``, and the ``path`` between them, over
switches. A node is a word or a printed Python tuple.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING

from sccl.collectives import named_spec
from sccl.core.ids import Edge, Rank
from sccl.core.topology import Budget, Topology
from sccl.errors import FormatError, TooLargeError
from sccl.formats.common.contract import ForeignPlan, FormatOptions, read_only
from sccl.formats.common.transfer_lists import (
    ASSUMED_MACHINE_NOTE,
    Flow,
    algorithm_of_flows,
    machine_of_edges,
)
from sccl.formats.msccl.msccl_program import parse_untrusted_xml
from sccl.topo.importers.common.unused_fields import unused_attributes, unused_line

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

NAME = "forestcoll"
ABOUT = "trees of ForestColl (read only)"
SOURCE = "liangyuRain/ForestColl (2025-04-22), pipeline_allgather.py"
TAKES = ()
BY_SIZE = False
MIXES = False

Options = FormatOptions
"""The format has no options."""

MAX_FLOWS = 2**20
"""Maximum number of sends of all chunks together."""

MAX_CHUNKS = 2**20
"""Largest number of chunks of a node."""

_ATTRIBUTES = {
    "Algo": frozenset({"nchunkspernode"}),
    "tree": frozenset({"root", "index", "nchunks", "height"}),
    "send": frozenset({"src", "dst", "path"}),
}
"""Known attributes, by element."""

_NODE = re.compile(r"\([^()]{1,80}\)|[^,()]{1,80}")


@dataclass(frozen=True, slots=True)
class _Tree:
    """A tree, and the number of its root's chunks that it carries.

    Attributes:
        paths: Path of each (src, dst), from the root on.
    """

    root: str
    chunks: int
    paths: Mapping[tuple[str, str], Sequence[str]]


write = read_only("forestcoll: trees are read, with 'sccl import'; nothing runs them")


def sniff(content: bytes) -> bool:
    """Return whether content begins like ForestColl's trees."""
    return bool(re.match(rb"\s*(<\?xml[^>]*>\s*)?<Algo\s+nchunkspernode=", content[:4096]))


def read(content: bytes, where: str) -> ForeignPlan:
    """Return the allgather along trees, where each chunk advances by one hop per step.

    Raises:
        InputError: The file is invalid, the trees do not carry all chunks, or they exceed the
            limits.
    """
    root = parse_untrusted_xml(content, where)
    chunks = _parse_number(root, "nchunkspernode", where)
    trees = [
        _parse_tree(element, f"{where}, tree {i}") for i, element in enumerate(root.findall("tree"))
    ]
    nodes = sorted({tree.root for tree in trees}, key=_natural_key)
    _check_trees(trees, nodes, chunks, where)
    unit = gcd(*(tree.chunks for tree in trees))
    if sum(tree.chunks // unit * len(tree.paths) for tree in trees) > MAX_FLOWS:
        raise TooLargeError(f"{where}: chunks are sent over {MAX_FLOWS} times, which are read")
    rank = {node: number for number, node in enumerate(nodes)}
    collective = named_spec("allgather", len(nodes)).at(chunks // unit)
    machine = _machine(trees, rank)
    flows = list(_flows(trees, rank, unit))
    algorithm = algorithm_of_flows(machine, collective, flows)
    about = f"{len(trees)} trees of ForestColl: allgather of {len(nodes)} GPUs, {len(flows)} sends"
    notes = [
        ASSUMED_MACHINE_NOTE,
        "trees became steps: a chunk is forwarded in the step after its arrival",
    ]
    if machine.budgets:
        notes.append(f"{len(machine.budgets)} hops of several paths are shared, as one lane each")
    if nodes != [str(number) for number in range(len(nodes))]:
        notes.append(f"rank 0 is {nodes[0]}, rank {len(nodes) - 1} is {nodes[-1]}")
    notes += unused_line(unused_attributes(root, _ATTRIBUTES))
    return ForeignPlan(algorithm, about, tuple(notes))


def _parse_tree(element: Element, where: str) -> _Tree:
    """Return a tree with its sends in order of dependencies.

    Raises:
        FormatError: It is no tree.
    """
    root = element.get("root", "")
    below: dict[str, list[list[str]]] = defaultdict(list)
    sends = element.findall("send")
    for hop in sends:
        path = _NODE.findall(hop.get("path", ""))
        if (path[:1], path[-1:]) != ([hop.get("src")], [hop.get("dst")]) or len(path) < 2:
            raise FormatError(
                f"{where}: a send from {hop.get('src', '')[:40]!r} to "
                f"{hop.get('dst', '')[:40]!r}has a path with other ends: expected a path from the "
                "first to the second"
            )
        below[path[0]].append(path)
    paths: dict[tuple[str, str], Sequence[str]] = {}
    reached = [root]
    for node in reached:  # grows while it is walked
        for path in below.pop(node, ()):
            paths[node, path[-1]] = path
            reached.append(path[-1])
    if len(paths) < len(sends) or len(set(reached)) < len(reached):
        raise FormatError(f"{where}: its sends are no tree from {root[:40]!r}, expected one")
    return _Tree(root, _parse_number(element, "nchunks", where), paths)


def _check_trees(trees: Sequence[_Tree], nodes: Sequence[str], chunks: int, where: str) -> None:
    """Check that each node's trees carry all of its chunks, and only to known nodes.

    Raises:
        FormatError: They do not.
    """
    if len(nodes) < 2:
        raise FormatError(
            f"{where}: trees with {len(nodes)} roots, expected roots on two or more GPUs"
        )
    carried = dict.fromkeys(nodes, 0)
    for tree in trees:
        carried[tree.root] += tree.chunks
        if unknown := [dst for _, dst in tree.paths if dst not in carried]:
            raise FormatError(
                f"{where}: a tree leads to {unknown[0][:40]!r}, which has no tree: expected a "
                "tree of each GPU, as in an allgather"
            )
    for node, count in carried.items():
        if count != chunks:
            raise FormatError(
                f"{where}: trees of {node[:40]!r} carry {count} chunks, expected the {chunks} of "
                "nchunkspernode"
            )


def _parse_number(element: Element, name: str, where: str) -> int:
    text = element.get(name, "")
    if not re.fullmatch("[0-9]{1,7}", text) or not 1 <= int(text) <= MAX_CHUNKS:
        raise FormatError(
            f"{where}: {name} is {text[:20]!r}, expected a whole number from 1 to {MAX_CHUNKS}"
        )
    return int(text)


def _natural_key(node: str) -> list[tuple[int, str]]:
    """Return a sort key of nodes that compares numbers in their names as numbers."""
    parts = re.findall(r"[0-9]{1,9}|[^0-9]+", node)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _machine(trees: Sequence[_Tree], rank: Mapping[str, int]) -> Topology:
    """Return the machine of the paths. Paths over one hop share its bandwidth."""
    over: dict[tuple[str, str], set[Edge]] = defaultdict(set)
    edges: set[tuple[int, int]] = set()
    for tree in trees:
        for (src, dst), path in tree.paths.items():
            edge = (Rank(rank[src]), Rank(rank[dst]))
            edges.add(edge)
            for hop in pairwise(path):
                over[hop].add(edge)
    machine = machine_of_edges(f"forestcoll-{len(rank)}", len(rank), sorted(edges))
    shared = [
        Budget(f"{src} to {dst}", tuple(sorted(users)), 1)
        for (src, dst), users in sorted(over.items())
        if len(users) > 1
    ]
    return replace(machine, budgets=tuple(shared))


def _flows(trees: Sequence[_Tree], rank: Mapping[str, int], unit: int) -> Iterator[Flow]:
    """Yield the sends of every chunk, tree by tree, from the root on."""
    sent = dict.fromkeys(rank, 0)
    for tree in trees:
        first, root = sent[tree.root], rank[tree.root]
        sent[tree.root] += tree.chunks // unit
        for src, dst in tree.paths:
            for chunk in range(first, sent[tree.root]):
                yield chunk * len(rank) + root, rank[src], rank[dst]
