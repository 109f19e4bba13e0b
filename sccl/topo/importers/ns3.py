"""Read topologies of ns-3 in the format of HPCC, ASTRA-sim and SimAI.

The first line contains the numbers of nodes, switches and links (in SimAI: nodes, GPUs per server,
NVSwitches, other switches, links, and the GPU model). The second line lists the nodes that are
switches. Each further line is a two-way link: source, destination, rate, latency, error rate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from sccl.core.formatting import format_count
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import FormatError, TooLargeError
from sccl.topo.importers.common.contract import Hints, Imported
from sccl.topo.importers.common.gpus import find_gpu

NAME = "ns3"
ABOUT = "topology of ns-3, in the format of HPCC, ASTRA-sim and SimAI"
SOURCE = "astra-sim/astra-network-ns3; alibaba-edu/High-Precision-Congestion-Control; aliyun/SimAI"
EXAMPLE = (
    "5 1 4\n4\n"
    "0 4 400Gbps 0.0005ms 0\n1 4 400Gbps 0.0005ms 0\n"
    "2 4 200Gbps 1us 0\n3 4 200Gbps 1us 0\n"
)

MAX_RANKS = 65_536
MAX_LINKS = 2**20

_HEADER = re.compile(
    r"\d{1,9}(?:[ \t]+\d{1,9}){2}|\d{1,9}(?:[ \t]+\d{1,9}){4}[ \t]+[A-Za-z]\w*(?:[ \t]+\d+)?"
)
_VALUE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,2})?)([A-Za-z/]*)")
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PREFIXES |= {f"{p}i": 1024.0 ** (i + 1) for i, p in enumerate("KMGT")}
_RATES = {
    f"{prefix}{unit}": factor * of / 1e9
    for prefix, factor in _PREFIXES.items()
    for unit, of in (("bps", 0.125), ("b/s", 0.125), ("Bps", 1.0), ("B/s", 1.0))
} | {"": 0.125e-9}
"""Units of ns-3's DataRate in 10^9 bytes per second."""
_TIMES = {"s": 1e6, "": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3, "ps": 1e-6, "fs": 1e-9}
"""Units of ns-3's Time in microseconds."""


@dataclass(frozen=True, slots=True)
class _Header:
    """The content of the first line. Only SimAI writes the last four fields."""

    nodes: int
    switches: int
    links: int
    gpus_per_server: int
    gpu: str


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    words: tuple[str, ...]

    def refuse(self, why: str) -> NoReturn:
        """Raise an error with the line number.

        Raises:
            FormatError: always.
        """
        raise FormatError(f"line {self.number}: {why}")


def sniff(text: str) -> bool:
    """Return whether a text starts with such counts, followed by numbers."""
    lines = [line.strip() for line in text[:4096].splitlines() if line.strip()]
    return len(lines) > 1 and _HEADER.fullmatch(lines[0]) is not None and lines[1][0].isdigit()


def read(text: str, hints: Hints) -> Imported:
    """Return the machine that a text describes.

    Raises:
        InputError: The text is no such topology, or exceeds the limits.
    """
    lines = [
        _Line(number, words)
        for number, line in enumerate(text.splitlines(), 1)
        if (words := tuple(line.split("//")[0].split()))
    ]
    if not lines:
        raise FormatError(f"nothing is written, expected {_format_hint()}")
    header = _header(lines[0])
    switches, rest = _switches(lines[1:], header)
    pairs, lossy = _pairs(rest[: header.links], header)
    ranks = [node for node in range(header.nodes) if node not in switches]
    number = {node: i for i, node in enumerate((*ranks, *switches))}
    per, links = header.gpus_per_server, []
    for (a, b), (gb_per_s, alpha_us, lanes) in pairs.items():
        for src, dst in ((a, b), (b, a)):
            links.append(Link(number[src], number[dst], lanes, alpha_us, gb_per_s))
    if not links:
        raise FormatError("there are no links, expected at least one")
    first = links[0]
    topology = Topology(
        name=hints.name,
        ranks=len(ranks),
        links=tuple(links),
        alpha_us=first.alpha_us,
        gb_per_s=first.gb_per_s,
        switches=tuple(Switch(f"node {node}") for node in switches),
        chassis=tuple(tuple(range(i, min(i + per, len(ranks)))) for i in range(0, len(ranks), per))
        if 0 < per < len(ranks)
        else (),
        labels=tuple(map(str, ranks)) if ranks != list(range(len(ranks))) else (),
        source=f"imported: {ABOUT}",
    )
    said = (*_understood_notes(header, topology, pairs), *_trailing_notes(rest[header.links :]))
    assumed = (*_assumption_notes(topology, lossy), *_rate_warnings(header, topology))
    return Imported(topology, said, assumed)


def _header(line: _Line) -> _Header:
    if not _HEADER.fullmatch(" ".join(line.words)):
        line.refuse(f"expected the numbers of nodes, switches and links, such as {_format_hint()}")
    numbers = [int(word) for word in line.words if word.isdigit()]
    nodes, per, nvswitches, switches, links = (
        (numbers[0], 0, 0, *numbers[1:3]) if len(line.words) == 3 else numbers[:5]
    )
    gpu = "" if len(line.words) == 3 else line.words[5]
    header = _Header(nodes, nvswitches + switches, links, per, gpu)
    if nodes - header.switches > MAX_RANKS or header.switches > MAX_RANKS or links > MAX_LINKS:
        raise TooLargeError(
            f"line {line.number}: {nodes} nodes and {links} links, expected at most {MAX_RANKS} "
            f"ranks, as many switches and {MAX_LINKS} links"
        )
    if nodes - header.switches < 2:
        line.refuse(f"{header.switches} of {nodes} nodes are switches, expected 2 or more others")
    return header


def _switches(lines: list[_Line], header: _Header) -> tuple[list[int], list[_Line]]:
    """Return the switch nodes, which may span several lines, and the lines after them."""
    switches: list[int] = []
    for i, line in enumerate(lines):
        if len(switches) == header.switches:
            return switches, lines[i:]
        for word in line.words:
            if not word.isdigit() or len(word) > 9 or int(word) >= header.nodes:
                line.refuse(f"switch {word!r}, expected a node from 0 to {header.nodes - 1}")
            switches.append(int(word))
        if len(switches) > header.switches or len(set(switches)) != len(switches):
            line.refuse(
                f"expected {header.switches} different switches, the number in the first line"
            )
    if len(switches) != header.switches:
        raise FormatError(f"{len(switches)} switches are named, expected {header.switches}")
    return switches, []


_Pairs = dict[tuple[int, int], tuple[float, float, int]]
"""GB/s of a lane, latency in us, and number of lanes of each joined pair, the lower node first."""


def _pairs(lines: list[_Line], header: _Header) -> tuple[_Pairs, int]:
    """Return the links by pair of nodes, and the number of lossy links."""
    if len(lines) != header.links:
        raise FormatError(f"{len(lines)} links are there, expected {header.links} by line 1")
    pairs: _Pairs = {}
    lossy = 0
    for line in lines:
        if len(line.words) not in {4, 5}:
            line.refuse("expected source, destination, rate, latency and error rate of a link")
        a, b = sorted(_node(line, word, header) for word in line.words[:2])
        if a == b:
            line.refuse(f"a link from node {a} to itself: expected two nodes")
        speed = _value(line, line.words[2], _RATES, "rate such as 400Gbps")
        alpha_us = _value(line, line.words[3], _TIMES, "latency such as 0.0005ms")
        if not speed:
            line.refuse("a rate of 0, expected more: leave the link out")
        lossy += _value(line, (*line.words, "0")[4], {"": 1.0}, "error rate from 0 to 1") > 0
        entry = pairs.setdefault((a, b), (speed, alpha_us, 0))
        if entry[:2] != (speed, alpha_us):
            line.refuse(f"nodes {a} and {b} are joined twice, at different costs: leave one out")
        pairs[a, b] = (speed, alpha_us, entry[2] + 1)
    return pairs, lossy


def _trailing_notes(lines: list[_Line]) -> Iterator[str]:
    """Describe the lines after the links, which ns-3 ignores, too."""
    if lines:
        links = sum(len(line.words) in {4, 5} and line.words[0].isdigit() for line in lines)
        as_links = f", {links} of which look like links" if links else ""
        yield (
            f"not used: {format_count(len(lines), 'line')} from line {lines[0].number} "
            f"on{as_links}: "
            "line 1 counts fewer links"
        )


def _node(line: _Line, word: str, header: _Header) -> int:
    if not word.isdigit() or len(word) > 9 or int(word) >= header.nodes:
        line.refuse(f"node {word!r}, expected one from 0 to {header.nodes - 1}")
    return int(word)


def _value(line: _Line, word: str, units: dict[str, float], expected: str) -> float:
    match = _VALUE.fullmatch(word)
    if match is None or match[2] not in units:
        line.refuse(f"{word!r}, expected a {expected}")
    return float(match[1]) * units[match[2]]


def _understood_notes(header: _Header, topology: Topology, pairs: _Pairs) -> tuple[str, ...]:
    kinds = Counter((speed, alpha_us) for speed, alpha_us, _ in pairs.values())
    nodes = (
        f"{format_count(topology.ranks, 'rank')}, {format_count(len(topology.switches), 'switch')}"
    )
    lines = [f"{nodes}, {format_count(header.links, 'link')}"]
    lines += [
        f"{format_count(count, 'pair')} of nodes joined by {speed:g} GB/s and {alpha_us:g} us"
        for (speed, alpha_us), count in sorted(kinds.items(), reverse=True)[:8]
    ]
    if header.gpu:
        lines.append(f"GPUs are {header.gpu}, {header.gpus_per_server} a server")
    return tuple(lines)


def _assumption_notes(topology: Topology, lossy: int) -> tuple[str, ...]:
    lines = ["a link carries its rate both ways at once; two links of a pair are two lanes"]
    if topology.switches:
        lines.append("switches forward and hold nothing")
    if lossy:
        lines.append(f"no packet is lost, though {lossy} links have an error rate")
    return tuple(lines)


def _rate_warnings(header: _Header, topology: Topology) -> Iterator[str]:
    """Describe a link that is faster than all NVLinks of its GPU together."""
    gpu = find_gpu(header.gpu)
    if gpu is None or not gpu.links:
        return
    limit, links = gpu.links * gpu.gb_per_s, (k for k in topology.links if k.src < topology.ranks)
    fastest = max(links, key=lambda link: link.lanes * link.gb_per_s)
    if fastest.lanes * fastest.gb_per_s > limit:
        yield (
            f"questioned: a link of rank {fastest.src} carries "
            f"{fastest.lanes * fastest.gb_per_s:g} GB/s, and all {gpu.link}s of a GPU {gpu.name} "
            f"{limit:g}"
        )


def _format_hint() -> str:
    return " / ".join(EXAMPLE.splitlines()[:3])
