"""Read topologies in the algorithms that TACCL saves: equal nodes, each with the links of one node.

``node_links[dst][src]`` lists the links of a node, and ``node_invbws[dst][src]`` the time of the
profiled chunk over each, alpha included. ``internode_conn`` maps a GPU to the GPUs of every other
node that it sends to. With more than two nodes, all connections from a GPU to other nodes share the
bandwidth of one, and so do all connections into it. The GPUs of a switch in ``local_switches``
share their links to and from it.

Source: microsoft/taccl, taccl/topologies/topology.py and taccl/serialization.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import Annotated

import msgspec
from msgspec import Meta

from sccl.core.formatting import format_count
from sccl.core.ids import Edge, Rank
from sccl.core.topology import Budget, Link, Topology, check_cost, per_rank_budgets
from sccl.errors import FormatError, TooLargeError
from sccl.topo.importers.common.contract import Hints, Imported
from sccl.topo.importers.common.unused_fields import decoded_json, unused_field_paths, unused_line
from sccl.topo.importers.taccl import MAX_RANKS, Units, units_of

MAX_LINKS = 2**20
"""Maximum number of links of all nodes together."""

_ALPHA_US = 0.7
"""Latency of links within a node: the file does not state it (TACCL, Table 1)."""

_FIELD = re.compile(r'"node_links"\s*:')

_Gpu = Annotated[int, Meta(ge=0, lt=MAX_RANKS)]
_Row = Annotated[list[float], Meta(max_length=MAX_RANKS)]
_Matrix = Annotated[list[_Row], Meta(max_length=MAX_RANKS)]


class _Topology(msgspec.Struct, frozen=True):
    copies: Annotated[int, Meta(ge=1, le=MAX_RANKS)]
    ngpus_per_node: Annotated[int, Meta(ge=1, le=MAX_RANKS)]
    node_links: _Matrix
    node_invbws: _Matrix
    name: str = ""
    remote_invbw: float = -1
    remote_alpha: float = -1
    remote_beta: float = -1
    internode_conn: dict[str, list[_Gpu]] = {}
    local_switches: list[list[_Gpu]] = []


class _Algorithm(msgspec.Struct, frozen=True):
    topology: _Topology


def is_of_taccl(text: str) -> bool:
    """Return whether a text has the field that only TACCL's topologies have."""
    return bool(_FIELD.search(text))


def read(text: str, hints: Hints) -> Imported:
    """Return the machine of a topology, or of the topology in an algorithm.

    Raises:
        InputError: The text is no such topology, or exceeds the limits.
    """
    node = decoded_json(text)
    is_algorithm = isinstance(node, dict) and "topology" in node
    try:
        if is_algorithm:
            file = msgspec.convert(node, _Algorithm).topology
        else:
            file = msgspec.convert(node, _Topology)
    except msgspec.ValidationError as error:
        raise FormatError(f"no topology of TACCL ({error}): check the field") from error
    _check(file)
    alpha_us = _ALPHA_US if hints.alpha_us is None else hints.alpha_us
    units = units_of(file.name, 0.0)
    local = {link.edge: link for link in _local(file, units, alpha_us)}
    remote = {link.edge: link for link in _remote(file, units)}
    topology = Topology(
        name=file.name or hints.name,
        ranks=file.copies * file.ngpus_per_node,
        links=(*local.values(), *remote.values()),
        alpha_us=alpha_us,
        gb_per_s=max((link.gb_per_s for link in local.values()), default=1.0),
        budgets=tuple(_budgets(file, remote)),
        source="imported: topology of an algorithm of TACCL",
    )
    names = unused_field_paths(
        node, _Algorithm if is_algorithm else _Topology, frozenset({"sccl_type"})
    )
    unused = (name for name in names if not is_algorithm or name.startswith("topology."))
    understood = (
        f"{format_count(file.copies, 'node')} of {format_count(file.ngpus_per_node, 'GPU')}",
        f"{format_count(len(local), 'link')} within nodes, {len(remote)} between them",
        *unused_line(unused),
    )
    assumed = list(units.assumed)
    if hints.alpha_us is None:
        assumed.append(
            f"alpha within nodes is {alpha_us:g} us (TACCL, Table 1), which the costs of links "
            "include; --alpha-us changes it"
        )
    return Imported(topology, understood, tuple(assumed))


def _check(file: _Topology) -> None:
    """Check sizes of matrices, numbers of GPUs, and numbers of ranks and links.

    Raises:
        InputError: One is out of range.
    """
    gpus, nodes = file.ngpus_per_node, file.copies
    for name, matrix in (("node_links", file.node_links), ("node_invbws", file.node_invbws)):
        if [len(row) for row in matrix] != [gpus] * gpus:
            raise FormatError(f"{name} is no matrix of {gpus} rows and columns: one for each GPU")
    if len(file.local_switches) > 1:
        raise FormatError(
            f"local_switches has {len(file.local_switches)} switches that GPUs share, and one is "
            "read: give the XML that 'taccl ncclize' made of the algorithm"
        )
    goals = [gpu for gpus_of_switch in file.local_switches for gpu in gpus_of_switch]
    for source, others in file.internode_conn.items():
        if not re.fullmatch("[0-9]{1,4}", source):
            raise FormatError(f"internode_conn names GPU {source[:20]!r}, expected its number")
        goals += [int(source), *others]
    if goals and max(goals) >= gpus:
        raise FormatError(
            f"internode_conn or local_switches names GPU {max(goals)}, expected 0 to {gpus - 1}"
        )
    pairs = nodes * gpus * gpus + nodes * nodes * sum(map(len, file.internode_conn.values()))
    if nodes * gpus > MAX_RANKS or pairs > MAX_LINKS:
        raise TooLargeError(
            f"{nodes} nodes of {gpus} GPUs are more than {MAX_RANKS} ranks or {MAX_LINKS} links, "
            "which are read at most"
        )


def _local(file: _Topology, units: Units, alpha_us: float) -> Iterator[Link]:
    """Yield the links of all nodes. The bandwidth follows from the time of the profiled chunk.

    Raises:
        FormatError: The time of a link is not above alpha.
    """
    gpus, alpha = file.ngpus_per_node, alpha_us * units.scale
    for src, dst in permutations(range(gpus), 2):
        if not file.node_links[dst][src]:
            continue
        cost, field = file.node_invbws[dst][src], f"node_invbws[{dst}][{src}]"
        if cost <= alpha:
            raise FormatError(
                f"{field} is {cost:g}, expected more than the alpha of {alpha:g} that it includes: "
                "give a lower --alpha-us"
            )
        rate = units.gb_per_s(cost - alpha, field)
        for first in range(0, file.copies * gpus, gpus):
            yield Link(first + src, first + dst, 1, alpha_us, rate)


def _remote(file: _Topology, units: Units) -> Iterator[Link]:
    """Yield the links from each node to each other one.

    Raises:
        FormatError: Their cost is not above 0.
    """
    if file.copies == 1 or not any(file.internode_conn.values()):
        return
    check_cost("", file.remote_alpha, 1.0, error=FormatError, names=("remote_alpha", ""))
    rate, gpus = units.gb_per_s(file.remote_beta, "remote_beta"), file.ngpus_per_node
    for node, peer_node in permutations(range(file.copies), 2):
        for source, others in file.internode_conn.items():
            for goal in dict.fromkeys(others):
                src, dst = node * gpus + int(source), peer_node * gpus + goal
                yield Link(src, dst, 1, file.remote_alpha / units.scale, rate)


def _budgets(file: _Topology, remote: Iterable[Edge]) -> Iterator[Budget]:
    """Yield budgets of one chunk per round: of GPUs at a switch, and of links to other nodes."""
    for switch in file.local_switches:
        firsts = range(0, file.copies * file.ngpus_per_node, file.ngpus_per_node)
        edges = [
            (Rank(first + src), Rank(first + dst))
            for first in firsts
            for src, dst in permutations(dict.fromkeys(switch), 2)
            if file.node_links[dst][src]
        ]
        for budget in per_rank_budgets(edges, 1, 1):
            yield replace(budget, name=f"{budget.name} at the switch")
    if file.copies > 2:
        for budget in per_rank_budgets(remote, 1, 1):
            yield replace(budget, name=f"{budget.name}, other nodes")
