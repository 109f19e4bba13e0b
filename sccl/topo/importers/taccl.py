"""Read profiles of machines for TACCL: the cost of a chunk on each kind of link, by chunk size.

Costs are microseconds times a factor that keeps them integral: published profiles have 1 for chunks
of 1 MB, 10 for 32 KB and 100 for 1 KB. Their betas are consistent if a KB is a 1024th of a MB, and
match the paper's 46 us/MB if a MB is 10^6 bytes. The links of GPUs are ``links[dst][src]`` if the
file has them. Otherwise they are chosen on TACCL's command line, and the number of betas determines
them. Two betas mean NDv2, with a DGX-1's links. One beta means GPUs at a switch, or linked pairwise
if the name contains a GPU model that is never used with switches. ``invbws`` are alpha + beta, and
ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import permutations
from typing import Annotated

import msgspec
from msgspec import Meta

from sccl.core.formatting import format_count
from sccl.core.topology import Budget, Link, Topology, check_cost, per_rank_budgets
from sccl.errors import FormatError
from sccl.topo.chassis_network import NetworkCards, Nic, join_chassis
from sccl.topo.importers.common.contract import Hints, Imported
from sccl.topo.importers.common.gpus import find_gpu
from sccl.topo.importers.common.unused_fields import decoded_json, unused_field_paths, unused_line

NAME = "taccl"
ABOUT = "profile of a machine for TACCL"
SOURCE = "microsoft/taccl, taccl/examples/topo and taccl/topologies/generic.py"
EXAMPLE = (
    '{"name": "pair_1MB", "gpus_per_node": 4, "nics_per_node": 2, "alpha": 0.5,\n'
    ' "node_betas_list": [8], "node_invbws_list": [8],\n'
    ' "remote_alpha": 2.5, "remote_beta": 100, "remote_invbw": 102}\n'
)

MAX_RANKS = 1024

_NDV2 = (
    ((0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7)),
    ((0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6)),
)
"""Pairs with two NVLinks, and with one (taccl/topologies/generic.py, ndv2)."""

_SIZES = {"KB": 1e6 / 1024, "MB": 1e6, "GB": 1e6 * 1024}
_SCALES = {"1KB": 100.0, "32KB": 10.0, "1MB": 1.0}

_Count = Annotated[int, Meta(ge=0, le=MAX_RANKS)]
_Lanes = Annotated[
    list[Annotated[list[_Count], Meta(max_length=MAX_RANKS)]], Meta(max_length=MAX_RANKS)
]
_Costs = Annotated[
    list[Annotated[list[float], Meta(max_length=MAX_RANKS)]], Meta(max_length=MAX_RANKS)
]
_List = Annotated[list[float], Meta(max_length=MAX_RANKS)]


class _File(msgspec.Struct, frozen=True):
    gpus_per_node: Annotated[int, Meta(ge=2, le=MAX_RANKS)]
    alpha: float
    name: str = ""
    node_betas_list: _List | None = None
    node_invbws_list: _List | None = None
    links: _Lanes | None = None
    betas: _Costs | None = None
    nics_per_node: _Count = 0
    remote_alpha: float | None = None
    remote_beta: float | None = None
    remote_invbw: float | None = None


@dataclass(frozen=True, slots=True)
class Units:
    """The units of the numbers in a profile.

    Attributes:
        size: Size of the profiled chunk, bytes.
        scale: Factor from microseconds to the profile's costs.
        alpha_us: Latency of links within the node, microseconds.
    """

    size: float
    scale: float
    alpha_us: float
    assumed: tuple[str, ...]

    def gb_per_s(self, beta: float, field: str) -> float:
        """Return the bandwidth for the cost of a chunk, to 3 digits after the point.

        Raises:
            FormatError: The cost is not positive.
        """
        if not 0 < beta < 1e6 * self.scale:
            raise FormatError(
                f"{field} is {beta:g}, expected a cost of more than 0, and less than a second"
            )
        return round(self.size * self.scale / beta / 1000, 3)


def sniff(text: str) -> bool:
    """Return whether a text has the fields of such a profile."""
    head = text[:65536]
    return '"gpus_per_node"' in head and ('"node_betas_list"' in head or '"betas"' in head)


def read(text: str, hints: Hints) -> Imported:
    """Return the machine that a text describes: one node.

    Raises:
        InputError: The text is no such profile.
    """
    file = _decode_profile(text)
    check_cost("", file.alpha, 1.0, error=FormatError, names=("alpha", ""))
    units = units_of(file.name, file.alpha)
    _check_left_out(file, units)
    links, budgets, joined, assumed = _node_links(file, units)
    topology = Topology(
        name=file.name or hints.name,
        ranks=file.gpus_per_node,
        links=links,
        alpha_us=units.alpha_us,
        gb_per_s=max((link.gb_per_s for link in links), default=1.0),
        budgets=budgets,
        source=f"imported: {ABOUT}",
    )
    nics, remote = _read_nics(file, units)
    rates = ", ".join(f"{speed:.4g}" for speed in sorted({k.gb_per_s for k in links}))
    understood = (
        f"{file.gpus_per_node} GPUs, {joined}",
        f"{len(links)} links of {rates} GB/s a lane and {units.alpha_us:g} us",
        *remote,
        *unused_line(unused_field_paths(decoded_json(text), _File)),
    )
    return Imported(topology, understood, (*units.assumed, *assumed), nics)


def machine_of_profile(text: str, nodes: int, name: str) -> Topology:
    """Return the machine with ``nodes`` nodes that a profile describes.

    Each GPU reaches every GPU of other nodes. The GPUs at one NIC share its bandwidth in each
    direction. A sketch selects the connections to use.

    Args:
        name: name of a node, if the file has none.

    Raises:
        InputError: The text is no such profile, or it has no inter-node data while ``nodes`` > 1.
    """
    imported = read(text, Hints(name))
    if nodes == 1:
        return imported.topology
    file = _decode_profile(text)
    lacking = [
        field
        for field, value in (
            ("nics_per_node", file.nics_per_node or None),
            ("remote_alpha", file.remote_alpha),
            ("remote_beta", file.remote_beta),
        )
        if value is None
    ]
    if lacking:
        raise FormatError(
            f"{lacking[0]} is missing, which {nodes} nodes need for their network: add it, or "
            "import one node"
        )
    nic = imported.nics[0]
    assert nic.gb_per_s is not None
    assert nic.alpha_us is not None
    cards = NetworkCards(tuple(nic.ranks for nic in imported.nics), nic.gb_per_s, nic.alpha_us)
    return join_chassis(imported.topology, nodes, "full", cards)


def _decode_profile(text: str) -> _File:
    """Return the fields of a profile.

    Raises:
        FormatError: The text is no profile.
    """
    try:
        return msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FormatError(
            f"no profile of TACCL ({error}); expected {_parse_error_text()}"
        ) from error


def units_of(name: str, alpha: float) -> Units:
    """Return the units of the costs of a profile.

    Args:
        name: Name of the profile, with the size of the profiled chunk.
        alpha: Latency of links within the node, in the units of the profile.

    Raises:
        FormatError: The name states a size of 0.
    """
    named = re.search(r"(\d{1,6})([KMG]B)", name)
    size = int(named[1]) * _SIZES[named[2]] if named else _SIZES["MB"]
    label = named[0] if named else "1MB"
    why = "from its name" if named else "its name has no size"
    assumed = [f"costs apply to chunks of {label} ({why}; 1 MB = 10^6 bytes)"]
    if not size:
        raise FormatError(f"name {name!r} has chunks of {label}, expected a size above 0")
    scale = _SCALES.get(label, 1.0)
    assumed.append(
        f"costs are microseconds times {scale:g}, as in TACCL's profiles of {label}; otherwise "
        "change the file that -o writes"
    )
    return Units(size, scale, alpha / scale, tuple(assumed))


def _check_left_out(file: _File, units: Units) -> None:
    """Check the ignored costs too, since an invalid cost shows that a profile was not measured.

    Raises:
        FormatError: A cost is not positive.
    """
    for i, cost in enumerate(file.node_invbws_list or ()):
        units.gb_per_s(cost, f"node_invbws_list[{i}]")
    for name, remote in (("remote_beta", file.remote_beta), ("remote_invbw", file.remote_invbw)):
        if remote is not None:
            units.gb_per_s(remote, name)


_NodeLinks = tuple[tuple[Link, ...], tuple[Budget, ...], str, tuple[str, ...]]
"""Links, budgets, a line for ``understood``, and the assumptions."""


def _node_links(file: _File, units: Units) -> _NodeLinks:
    if file.links is not None:
        return _custom_links(file, units), (), "links from the matrix 'links'", ()
    betas = file.node_betas_list or []
    if not betas:
        raise FormatError(
            "node_betas_list is missing, the cost of a chunk on the links of a node: give it, or "
            "the matrices 'links' and 'betas'"
        )
    if file.node_invbws_list is not None and len(file.node_invbws_list) != len(betas):
        raise FormatError(
            f"node_invbws_list has {len(file.node_invbws_list)} entries, expected {len(betas)}: "
            "one for each of node_betas_list"
        )
    ranks = file.gpus_per_node
    speeds = [units.gb_per_s(beta, f"node_betas_list[{i}]") for i, beta in enumerate(betas)]
    if len(betas) == 1:
        edges = list(permutations(range(ranks), 2))
        links = tuple(Link(a, b, 1, units.alpha_us, speeds[0]) for a, b in edges)
        if gpu := _direct_board_gpu(file.name, ranks):
            assumed = f"one beta: a link between each pair, because {gpu}s are connected directly"
            return links, (), "each joined with each", (assumed,)
        assumed = "one beta: each GPU's link to a switch, as in TACCL's DGX2"
        budgets = per_rank_budgets(edges, 1, 1) if ranks > 2 else []
        return links, tuple(budgets), "each joined with each", (assumed,)
    if len(betas) != 2 or ranks != 8:
        raise FormatError(
            f"{len(betas)} node_betas_list for {ranks} GPUs: expected one beta, two for the 8 GPUs "
            "of an NDv2, or the matrices 'links' and 'betas'"
        )
    assumed = "two betas: for pairs with two NVLinks and for pairs with one NVLink of an NDv2"
    pairs = ((a, b, i) for i, pairs in enumerate(_NDV2) for a, b in pairs)
    links = tuple(
        Link(src, dst, 1, units.alpha_us, speeds[i])
        for a, b, i in pairs
        for src, dst in ((a, b), (b, a))
    )
    return links, (), "joined as in an NDv2", (assumed,)


def _direct_board_gpu(name: str, ranks: int) -> str:
    """Return the GPU model in a profile's name if its boards join all GPUs directly."""
    gpu = find_gpu(name)
    direct = gpu is not None and not gpu.on_switches and ranks - 1 <= (gpu.peers or gpu.links)
    return gpu.name if gpu is not None and direct else ""


def _custom_links(file: _File, units: Units) -> tuple[Link, ...]:
    ranks, lanes, betas = file.gpus_per_node, file.links or [], file.betas or []
    for name, matrix in (("links", lanes), ("betas", betas)):
        rows: list[int] = [len(row) for row in matrix]
        if rows != [ranks] * ranks:
            raise FormatError(f"{name} is no matrix of {ranks} rows and columns: one for each GPU")
    return tuple(
        Link(src, dst, lanes[dst][src], units.alpha_us, speed)
        for dst in range(ranks)
        for src in range(ranks)
        if lanes[dst][src]
        for speed in (units.gb_per_s(betas[dst][src], f"betas[{dst}][{src}]"),)
    )


def _read_nics(file: _File, units: Units) -> tuple[tuple[Nic, ...], tuple[str, ...]]:
    """Return the network cards, each with its share of the GPUs, and lines for ``understood``."""
    count, ranks = file.nics_per_node, file.gpus_per_node
    if count < 1 or file.remote_beta is None or file.remote_alpha is None:
        return (), ()
    if ranks % count and count % ranks:
        raise FormatError(f"nics_per_node is {count}, expected a divisor of {ranks} GPUs")
    check_cost("", file.remote_alpha, 1.0, error=FormatError, names=("remote_alpha", ""))
    speed = units.gb_per_s(file.remote_beta, "remote_beta")
    alpha_us = file.remote_alpha / units.scale
    each = max(1, ranks // count)
    nics = tuple(
        Nic(f"nic {i}", tuple(range(first, first + each)), speed, alpha_us)
        for i in range(count)
        for first in (i * ranks // count // each * each,)
    )
    line = f"{format_count(count, 'NIC')} of {speed:.4g} GB/s and {alpha_us:g} us to other nodes"
    return nics, (f"{line}; --nodes and --network join nodes over them",)


def _parse_error_text() -> str:
    return " ".join(EXAMPLE.split())
