"""Parse ranks and links in user input: by number, or by the machine's labels.

Numbers are always rank numbers. Labels may be numbers too, on a machine with removed ranks. Such a
label never refers to another rank than the number does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.errors import ParameterError, unknown_name

_NUMBER = re.compile(r"-?[0-9]{1,7}")


@dataclass(frozen=True, slots=True)
class LinkName:
    """A link in user input.

    Attributes:
        both_ways: Whether the link includes its reverse, if there is one.
        lanes: Number of its lanes. None: all of them.
    """

    src: int
    dst: int
    both_ways: bool
    lanes: int | None

    def edges(self, topology: Topology) -> tuple[Edge, ...]:
        """Return the named links of a machine. If none exists, return the first, to fail later."""
        directions = [(self.src, self.dst), (self.dst, self.src)][: 2 if self.both_ways else 1]
        return tuple(edge for edge in directions if edge in topology.edges) or (directions[0],)


def parse_rank(topology: Topology, name: str | int) -> int:
    """Parse a rank from a number or label. The caller checks the range of a number.

    Raises:
        UnknownNameError: No rank has this name.
        ParameterError: Several ranks have it, or a number is the label of another rank only.
    """
    if isinstance(name, int):
        return name
    if _NUMBER.fullmatch(name):
        number = int(name)
        if number not in range(topology.ranks) and name in topology.labels:
            raise ParameterError(
                f"topology {topology.name!r} has no rank {number}, expected 0 to "
                f"{topology.ranks - 1}; the one labeled {name!r} is rank "
                f"{topology.labels.index(name)}"
            )
        return number
    rank = _labeled_node(topology, name)
    if rank is None or rank >= topology.ranks:
        last = topology.ranks - 1
        labels = (
            f" or their labels, {_example_names(topology)}"
            if topology.labels
            else "; it has no labels"
        )
        hint = f"the ranks of {topology.name!r} are 0 to {last}{labels}"
        raise unknown_name("rank", name, topology.labels, hint)
    return rank


def parse_link(topology: Topology, text: str) -> LinkName:
    """Parse a link ``0-4`` (both ways), ``0>4`` or ``0->4``, with ``:n`` for n of its lanes.

    Raises:
        UnknownNameError: An end is unknown.
        ParameterError: The text has another form, or is ambiguous.
    """
    readings = list(dict.fromkeys(_interpretations(topology, text)))
    if len(readings) > 1:
        meanings = " or ".join(f"{r.src} to {r.dst}" for r in readings)
        raise ParameterError(f"link {text!r} can be read as {meanings}: give the ranks by number")
    if readings:
        return readings[0]
    body = re.sub(r":[0-9]+$", "", text)
    ends = re.split(r"->|-|>", body)
    if len(ends) != 2 or not all(ends):
        raise ParameterError(
            f"link {text!r} is not of the form 0-4 (both ways) or 0>4 (one way), ranks by number "
            "or label, with :1 at its end for one lane of it"
        )
    for end in ends:
        if _node_number(topology, end) is None:
            _refuse_lanes(topology, text)
            parse_rank(topology, end)
    raise ParameterError(f"link {text!r}: expected 0-4, 0>4 or 0-4:1")


def _refuse_lanes(topology: Topology, text: str) -> None:
    """Raise an error if only the number of lanes makes a link's name invalid.

    Raises:
        ParameterError: The number of lanes is invalid, and the rest is a link.
    """
    link, colon, lanes = text.rpartition(":")
    if colon and any(_interpretations(topology, link)):
        raise ParameterError(
            f"link {text!r}: the number of lanes is {lanes!r}, expected a whole number such as "
            f"in {link + ':1'!r}"
        )


@dataclass(frozen=True, slots=True)
class LinkSelection:
    """Links with all or some of their lanes.

    Attributes:
        complete_links: Links with all their lanes.
        lanes: Number of selected lanes of each other link.
    """

    complete_links: frozenset[Edge]
    lanes: dict[Edge, int]


def parse_links(topology: Topology, names: Iterable[str | LinkName]) -> LinkSelection:
    """Parse the names of links of a machine with :func:`parse_link`.

    Raises:
        InputError: a name means no rank, or several.
    """
    entire: set[Edge] = set()
    lanes: dict[Edge, int] = {}
    for name in names:
        link = parse_link(topology, name) if isinstance(name, str) else name
        for edge in link.edges(topology):
            if link.lanes is None:
                entire.add(edge)
            else:
                lanes[edge] = lanes.get(edge, 0) + link.lanes
    return LinkSelection(
        frozenset(entire), {edge: n for edge, n in lanes.items() if edge not in entire}
    )


def parse_added_lanes(topology: Topology, names: Iterable[str | LinkName]) -> dict[Edge, int]:
    """Parse the number of added lanes of each link, one by default.

    Raises:
        InputError: a name means no rank, or several.
    """
    lanes: dict[Edge, int] = {}
    for name in names:
        link = parse_link(topology, name) if isinstance(name, str) else name
        directions = [(link.src, link.dst), (link.dst, link.src)][: 2 if link.both_ways else 1]
        for edge in directions:
            lanes[edge] = lanes.get(edge, 0) + (1 if link.lanes is None else link.lanes)
    return lanes


def _interpretations(topology: Topology, text: str) -> Iterator[LinkName]:
    """Yield the possible meanings of a text. Labels may contain the separators."""
    bodies: list[tuple[str, int | None]] = [(text, None)]
    if tail := re.fullmatch(r"(.+):([0-9]{1,7})", text, re.DOTALL):
        bodies.append((tail[1], int(tail[2])))
    for body, lanes in bodies:
        for sign in re.finditer(r"->|-|>", body):
            src, dst = (
                _node_number(topology, body[: sign.start()]),
                _node_number(topology, body[sign.end() :]),
            )
            if src is not None and dst is not None:
                yield LinkName(src, dst, sign[0] == "-", lanes)


def _node_number(topology: Topology, name: str) -> int | None:
    """Return the node with a number, a label, or the name of a switch, None if there is none."""
    return int(name) if re.fullmatch(r"[0-9]{1,7}", name) else _labeled_node(topology, name)


def _labeled_node(topology: Topology, name: str) -> int | None:
    names = [*map(topology.label, range(topology.ranks)), *(s.name for s in topology.switches)]
    nodes = [node for node, label in enumerate(names) if label == name]
    if len(nodes) > 1:
        raise ParameterError(
            f"topology {topology.name!r} calls {len(nodes)} nodes {name!r}, {nodes[0]} and "
            f"{nodes[1]} among them: give the number"
        )
    return nodes[0] if nodes else None


def _example_names(topology: Topology) -> str:
    shown = ", ".join(map(repr, topology.labels[:8]))
    return f"{shown}, ..." if len(topology.labels) > 8 else shown
