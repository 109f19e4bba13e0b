"""Chakra execution traces (MLCommons), those of 2023 without a first record, too.

A node computes or calls a collective, and names the nodes whose results it needs. Here they come in
an order in which that is so: collectives as soon as they can, and before each node waits for the
collectives that it needs, also by way of what the host does. Where any node is of a device, what
the host does takes no time. JSON forms of them do not tell how large collectives are.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sccl.core.workload_ops import MOST_ELEMENTS, MOST_US, ROOTED
from sccl.errors import FormatError, TooLargeError
from sccl.workloads.readers.contract import MAX_EVENTS, MAX_RANKS, NO_MARKS, WantedStep
from sccl.workloads.readers.protocol_buffers import LENGTH, VARINT, fields, messages, numbers
from sccl.workloads.readers.rank_trace import Awaited, Call, Kernel, RankTrace, TraceEvent

NAME = "chakra"
ABOUT = "Chakra execution traces of MLCommons (.et)"
SOURCE = "et_def.proto of MLCommons Chakra, 0.0.4 to 1.0.0, and of 2023"

EXAMPLE = bytes.fromhex(
    "070a05302e302e342108001209636f6d70757465203018043809520e0a0969735f6370755f6f70d80100"
    "430801120c636f6c6c656374697665203118072a0100520e0a0969735f6370755f6f70d80100520d0a09"
    "636f6d6d5f747970654800520d0a09636f6d6d5f73697a654840"
)
"""A record of the version, 9 us of computation, and an allreduce of 64 bytes that waits for it."""

_ID, _NAME, _TYPE, _CONTROL, _DATA, _MICROS, _ATTRIBUTE = 1, 2, 3, 4, 5, 7, 10
_ATTRIBUTE_NAME, _ATTRIBUTE_TEXT = 1, 29
_COMPUTE, _COLLECTIVE = 4, 7
_KINDS = {5: "send", 6: "receive"}
_COLLECTIVES = (
    *("allreduce", "reduce", "allgather", "gather", "scatter", "broadcast", "alltoall"),
    "reducescatter",
)
_MOST_NEEDED = 2**22
"""Collectives that nodes need, of all nodes together."""

_THREAD = "main"
_GROUP = re.compile(rb"[0-9]{1,7}(,[0-9]{1,7}){0,65535}")
_RANK = re.compile(r"\.([0-9]{1,7})\.et(\.gz)?$")


@dataclass(slots=True)
class _Node:
    """A node, as far as it is read.

    Attributes:
        data: nodes whose results it needs; some may not be in the file.
        control: nodes that come before it, or that it is a part of.
        group: the ranks that it is among, where sccl has written it; empty: not told.
    """

    number: int = 0
    name: str = ""
    kind: int = 0
    micros: int = 0
    data: list[int] = field(default_factory=list)
    control: list[int] = field(default_factory=list)
    attributes: dict[str, int] = field(default_factory=dict)
    group: tuple[int, ...] = ()

    @property
    def on_host(self) -> bool:
        """Return whether the host does it."""
        return bool(self.attributes.get("is_cpu_op", 0))


def sniff(content: bytes) -> bool:
    """Return whether one of the first two messages is a node, with its name and its kind."""
    if content[:1] in b"{[":
        return b'"workload_graph"' in content
    try:
        for number, message in enumerate(messages(content, "")):
            if _is_node(message, ""):
                return True
            if number:
                break
    except FormatError:
        pass
    return False


def _is_node(message: bytes, where: str) -> bool:
    kinds = [value for number, _, value in fields(message, where) if number == _TYPE]
    return len(kinds) == 1 and isinstance(kinds[0], int) and 1 <= kinds[0] <= 16


def read(content: bytes, where: str, wanted: WantedStep) -> RankTrace:
    """Return what a rank does, by the nodes of its trace.

    Raises:
        InputError: it is no such trace, is cut off, or has sends between two ranks.
    """
    wanted.place([], where)
    if content[:1] in b"{[":
        raise FormatError(
            f"{where}: this form of Chakra, JSON, does not tell how large collectives are: give "
            "the .et that it was made of"
        )
    nodes = _nodes(content, where)
    if not any(node.data for node in nodes.values()):
        for node in nodes.values():  # those of 2023 have all that they name there
            node.data = node.control
    on_device = any(node.kind == _COMPUTE and not node.on_host for node in nodes.values())
    told = _RANK.search(where)
    rank = int(told[1]) if told and int(told[1]) < MAX_RANKS else None
    return RankTrace(
        where=where,
        format=NAME,
        events=tuple(_events(nodes, where, on_device=on_device)),
        rank=rank,
        main=_THREAD,
        timed=True,
        assumed=(NO_MARKS, "of a collective that tells no ranks it is taken to be of all of them"),
    )


def _nodes(content: bytes, where: str) -> dict[int, _Node]:
    found: dict[int, _Node] = {}
    for number, message in enumerate(messages(content, where)):
        if number > MAX_EVENTS:
            raise TooLargeError(f"{where}: it has more than {MAX_EVENTS} nodes: trace fewer steps")
        if not number and not _is_node(message, where):
            continue  # the version, and what else is told of the whole
        node = _node(message, f"{where}, record {number}")
        if node.number in found:
            raise FormatError(f"{where}, record {number}: node {node.number} is there twice")
        found[node.number] = node
    return found


def _node(message: bytes, where: str) -> _Node:
    node = _Node()
    for number, kind, value in fields(message, where):
        if number in (_CONTROL, _DATA):
            (node.data if number == _DATA else node.control).extend(numbers(value, where))
        elif number == _ATTRIBUTE and isinstance(value, bytes):
            _add_attribute(node, value, where)
        elif number == _NAME and isinstance(value, bytes):
            node.name = value[:200].decode(errors="replace")
        elif kind == VARINT and isinstance(value, int):
            if number == _ID:
                node.number = value
            elif number == _TYPE:
                node.kind = value
            elif number == _MICROS:
                node.micros = value
    if node.kind in _KINDS:
        raise FormatError(
            f"{where}: it is a {_KINDS[node.kind]} between two ranks, and collectives are read: "
            "give the trace of a training job, not that of an algorithm"
        )
    if node.micros > MOST_US:
        raise FormatError(f"{where}: it takes {node.micros} us, expected up to {MOST_US:g}")
    return node


def _add_attribute(node: _Node, message: bytes, where: str) -> None:
    """Keep an attribute that is a number or a truth value, whichever its type, and the group."""
    name, number, text = "", None, b""
    for field_number, kind, value in fields(message, where):
        if field_number == _ATTRIBUTE_NAME and kind == LENGTH and isinstance(value, bytes):
            name = value.decode(errors="replace")
        elif kind == VARINT and isinstance(value, int):
            number = value
        elif field_number == _ATTRIBUTE_TEXT and isinstance(value, bytes):
            text = value
    if name == "group_ranks" and _GROUP.fullmatch(text):
        node.group = tuple(map(int, text.split(b",")))
    elif name:
        node.attributes[name] = number or 0  # a truth value that is false may be left out


def _events(nodes: Mapping[int, _Node], where: str, *, on_device: bool) -> Iterator[TraceEvent]:
    """Yield what nodes do, in an order in which each comes after those that it names."""
    needs: dict[int, frozenset[int]] = {}
    named = 0
    for node in _in_order(nodes, where):
        called = frozenset().union(*(needs[one] for one in node.data if one in needs))
        named += len(called)
        if named > _MOST_NEEDED:
            raise TooLargeError(f"{where}: its nodes need too many collectives: trace fewer steps")
        host = node.on_host and (on_device or node.kind == _COLLECTIVE)
        if host or node.kind not in (_COMPUTE, _COLLECTIVE):
            needs[node.number] = called
            continue
        for one in sorted(called):
            yield Awaited(_THREAD, one)
        if node.kind == _COLLECTIVE:
            yield _call(node, where)
            needs[node.number] = frozenset((node.number,))
        else:
            stream = "host" if node.on_host else str(node.attributes.get("tid", "npu"))
            yield Kernel(_THREAD, stream, float(node.micros))
            needs[node.number] = frozenset()


def _call(node: _Node, where: str) -> Call:
    kind, size = node.attributes.get("comm_type", 0), node.attributes.get("comm_size")
    if size is None or not 0 <= size <= MOST_ELEMENTS:
        raise FormatError(
            f"{where}: node {node.number}, {node.name!r:.60}: its comm_size is {size}, expected "
            "bytes"
        )
    if kind >= len(_COLLECTIVES):
        known = ", ".join(f"{number} {name}" for number, name in enumerate(_COLLECTIVES))
        raise FormatError(f"{where}: node {node.number}: its comm_type is {kind}, not of {known}")
    took = float(node.micros) if node.micros else None
    collective, root = _COLLECTIVES[kind], node.attributes.get("root")
    rooted = root is not None and root < len(node.group) and collective in ROOTED
    return Call(
        _THREAD,
        collective,
        "uint8",
        given=size,
        got=size,
        request=node.number,
        duration_us=took,
        group=node.group,
        group_size=len(node.group),
        root=root if rooted else None,
    )


def _in_order(nodes: Mapping[int, _Node], where: str) -> Iterator[_Node]:
    """Yield nodes after those that they name, the lowest number first, but collectives at once.

    Raises:
        FormatError: nodes wait for one another.
    """
    before: dict[int, list[int]] = defaultdict(list)
    waits: dict[int, int] = {}
    for node in nodes.values():
        known = {one for one in node.data if one in nodes}
        waits[node.number] = len(known)
        for one in known:
            before[one].append(node.number)
    ready = [_key(nodes[number]) for number, left in waits.items() if not left]
    heapq.heapify(ready)
    done = 0
    while ready:
        node = nodes[heapq.heappop(ready)[1]]
        done += 1
        yield node
        for number in before[node.number]:
            waits[number] -= 1
            if not waits[number]:
                heapq.heappush(ready, _key(nodes[number]))
    if done < len(nodes):
        left = sorted(number for number, count in waits.items() if count)[:8]
        raise FormatError(
            f"{where}: nodes wait for one another, among {', '.join(map(str, left))}: each has to "
            "come after those that it names"
        )


def _key(node: _Node) -> tuple[bool, int]:
    return node.kind != _COLLECTIVE or node.on_host, node.number
