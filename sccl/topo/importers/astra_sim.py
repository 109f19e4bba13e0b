"""Read networks of ASTRA-sim's analytical backend: one kind of wiring for each dimension.

The first coordinate of a rank varies fastest. ``Ring`` is a cycle, ``FullyConnected`` joins all
pairs, and ``Switch`` joins all ranks to a switch. Bandwidth and latency are per link and direction,
so a path over a switch takes two latencies. Bandwidths are multiples of 2^30 bytes per second.
Older files contain the same in JSON (``topologies-per-dim``).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from math import prod
from typing import Annotated

import msgspec
from msgspec import Meta

from sccl.core.formatting import format_count
from sccl.core.topology import Link, Switch, Topology, check_cost
from sccl.errors import FormatError, TooLargeError
from sccl.topo.importers.common.contract import Hints, Imported
from sccl.topo.importers.common.plain_yaml import Node, parse_yaml, to_struct
from sccl.topo.importers.common.unused_fields import unused_field_paths, unused_line

NAME = "astra-sim"
ABOUT = "network of ASTRA-sim's analytical backend"
SOURCE = "astra-sim/astra-sim, examples/network/analytical; astra-sim/astra-network-analytical"
EXAMPLE = (
    "topology: [ Ring, Switch ]\n"
    "npus_count: [ 4, 2 ]\n"
    "bandwidth: [ 50.0, 25.0 ]  # GB/s\n"
    "latency: [ 500.0, 1000.0 ]  # ns\n"
)

MAX_DIMENSIONS = 8
MAX_RANKS = 65_536
MAX_PAIRS = 2**19
"""Maximum number of pairs of linked nodes."""

_GIB = 2**30 / 1e9
_KINDS = {
    "Ring": "Ring",
    "FullyConnected": "FullyConnected",
    "AllToAll": "FullyConnected",  # its name in files of 2020
    "Switch": "Switch",
}

_List = Annotated[list[str], Meta(min_length=1, max_length=MAX_DIMENSIONS)]
_Counts = Annotated[
    list[Annotated[int, Meta(ge=1, le=MAX_RANKS)]], Meta(min_length=1, max_length=MAX_DIMENSIONS)
]
_Numbers = Annotated[list[float], Meta(min_length=1, max_length=MAX_DIMENSIONS)]


class _File(msgspec.Struct, frozen=True):
    topology: _List | str
    npus_count: _Counts
    bandwidth: _Numbers
    latency: _Numbers


class _OlderFile(msgspec.Struct, frozen=True, rename="kebab"):
    topologies_per_dim: _List
    units_count: _Counts
    links_count: _Counts
    link_bandwidth: _Numbers
    link_latency: _Numbers


class _Dimension(msgspec.Struct, frozen=True):
    kind: str
    size: int
    lanes: int
    alpha_us: float
    gb_per_s: float

    def pairs(self, group: list[int], switch: int) -> Iterator[tuple[int, int]]:
        """Yield the nodes that are joined of a group of ranks along it."""
        if self.kind == "Switch":
            return ((rank, switch) for rank in group)
        if self.kind == "Ring" and self.size > 2:
            return zip(group, [*group[1:], group[0]], strict=True)
        return combinations(group, 2)


def sniff(text: str) -> bool:
    """Return whether a text contains the fields of such a network."""
    head = text[:65536]
    return ("npus_count" in head and "topology" in head) or (
        "topologies-per-dim" in head and "units-count" in head
    )


def read(text: str, hints: Hints) -> Imported:
    """Return the machine that a text describes.

    Raises:
        InputError: The text is no such network, or exceeds the limits.
    """
    node = parse_yaml(text)
    older = isinstance(node, dict) and "topologies-per-dim" in node
    dimensions = _dimensions_from_older(node) if older else _dimensions_from_file(node)
    ranks = prod(d.size for d in dimensions)
    if ranks > MAX_RANKS:
        raise TooLargeError(f"npus_count makes {ranks} ranks, expected at most {MAX_RANKS}")
    links, switches = _wire_dimensions(dimensions, ranks)
    first = dimensions[0]
    inner = first.size if len(dimensions) > 1 and first.kind != "Ring" else 0
    starts = range(0, ranks if inner else 0, inner or 1)
    topology = Topology(
        name=hints.name,
        ranks=ranks,
        links=links,
        switches=switches,
        alpha_us=first.alpha_us,
        gb_per_s=first.gb_per_s,
        chassis=tuple(tuple(range(at, at + inner)) for at in starts),
        source=f"imported: {ABOUT}",
    )
    unused = unused_line(unused_field_paths(node, _OlderFile if older else _File))
    understood = (*_understood_notes(dimensions, topology), *unused)
    return Imported(topology, understood, _assumption_notes(dimensions, older=older))


def _dimensions_from_file(node: Node) -> tuple[_Dimension, ...]:
    file = to_struct(
        node, _File, "topology, npus_count, bandwidth and latency: " + _parse_error_text(EXAMPLE)
    )
    kinds = [file.topology] if isinstance(file.topology, str) else file.topology
    _check_lengths(len(kinds), file.npus_count, "npus_count")
    _check_lengths(len(kinds), file.bandwidth, "bandwidth")
    _check_lengths(len(kinds), file.latency, "latency")
    each = zip(kinds, file.npus_count, file.latency, file.bandwidth, strict=True)
    return tuple(
        _dimension(i, kind, size, 1, (latency, bandwidth))
        for i, (kind, size, latency, bandwidth) in enumerate(each)
    )


def _dimensions_from_older(node: Node) -> tuple[_Dimension, ...]:
    file = to_struct(node, _OlderFile, "the fields of ASTRA-sim's JSON of 2020 and 2021")
    kinds = file.topologies_per_dim
    for name, values in (
        ("units-count", file.units_count),
        ("links-count", file.links_count),
        ("link-bandwidth", file.link_bandwidth),
        ("link-latency", file.link_latency),
    ):
        _check_lengths(len(kinds), values, name)
    dimensions = []
    for i, kind in enumerate(kinds):
        size, links = file.units_count[i], file.links_count[i]
        neighbors = {"Ring": min(2, size - 1), "Switch": 1}.get(kind, size - 1)
        if neighbors < 1 or links % neighbors:
            raise FormatError(
                f"links-count[{i}] is {links} for {kind} of {size}, expected a multiple of the "
                f"{neighbors} neighbors"
            )
        costs = file.link_latency[i], file.link_bandwidth[i]
        dimensions.append(_dimension(i, kind, size, links // neighbors, costs))
    return tuple(dimensions)


def _check_lengths(expected: int, values: list[int] | list[float], name: str) -> None:
    if len(values) != expected:
        raise FormatError(
            f"{name} has {len(values)} entries, expected {expected}: one for each of topology"
        )


def _dimension(i: int, kind: str, size: int, lanes: int, costs: tuple[float, float]) -> _Dimension:
    latency, bandwidth = costs
    if kind not in _KINDS:
        raise FormatError(
            f"topology[{i}] is {kind!r}, which is not read: expected one of {', '.join(_KINDS)}"
        )
    if size < 2:
        raise FormatError(f"npus_count[{i}] is {size}, expected 2 or more: leave the dimension out")
    names = (f"latency[{i}]", f"bandwidth[{i}]")
    check_cost("", latency, bandwidth, error=FormatError, names=names)
    return _Dimension(_KINDS[kind], size, lanes, latency / 1000, round(bandwidth * _GIB, 9))


def _wire_dimensions(
    dimensions: tuple[_Dimension, ...], ranks: int
) -> tuple[tuple[Link, ...], tuple[Switch, ...]]:
    """Return the links and switches of all dimensions.

    Raises:
        TooLargeError: There are too many.
    """
    pairs = list(islice(_pairs(dimensions, ranks), MAX_PAIRS + 1))
    if len(pairs) > MAX_PAIRS:
        raise TooLargeError(f"more than {MAX_PAIRS} joined pairs, the most that is read")
    links = tuple(
        Link(src, dst, d.lanes, d.alpha_us, d.gb_per_s)
        for a, b, i in pairs
        for d in (dimensions[i],)
        for src, dst in ((a, b), (b, a))
    )
    names = (
        Switch(f"dimension {i + 1}, {n}")
        for i, d in enumerate(dimensions)
        if d.kind == "Switch"
        for n in range(ranks // d.size)
    )
    return links, tuple(names)


def _pairs(dimensions: tuple[_Dimension, ...], ranks: int) -> Iterator[tuple[int, int, int]]:
    switch, stride = ranks, 1
    for i, d in enumerate(dimensions):
        for start in range(ranks):
            if start // stride % d.size == 0:
                group = list(range(start, start + stride * d.size, stride))
                yield from ((a, b, i) for a, b in d.pairs(group, switch))
                switch += d.kind == "Switch"
        stride *= d.size


def _understood_notes(dimensions: tuple[_Dimension, ...], topology: Topology) -> tuple[str, ...]:
    lines = [
        f"dimension {i}: {d.kind} of {d.size}, {d.lanes} of {d.gb_per_s:.6g} GB/s and "
        f"{d.alpha_us:g} us a link and direction"
        for i, d in enumerate(dimensions, 1)
    ]
    lines.append(
        f"{format_count(topology.ranks, 'rank')}, {format_count(len(topology.links), 'link')} and "
        f"{format_count(len(topology.switches), 'switch')}"
    )
    return tuple(lines)


def _assumption_notes(dimensions: tuple[_Dimension, ...], *, older: bool) -> tuple[str, ...]:
    lines = ["a GB/s of the file is 2^30 bytes per second, as ASTRA-sim reads it: 1.073742 GB/s"]
    if any(d.kind == "Switch" for d in dimensions):
        lines.append(
            "latency counts per link, so a path over a switch takes two latencies, as in ASTRA-sim"
        )
    if older:
        lines.append("links-count is spread over the neighbors")
    return tuple(lines)


def _parse_error_text(text: str) -> str:
    return "; ".join(line.split("  #")[0] for line in text.splitlines())
