"""Read Chakra execution traces (MLCommons), including those of 2023 without a metadata record.

A node computes or calls a collective, and names the nodes that it depends on. Events are in a
topological order with collectives as early as possible. Before each event come waits for the
collectives that its node depends on, directly or through host nodes. If any node runs on a device,
host nodes take no time. Send and receive nodes are sends between two ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sccl.core.formatting import format_count
from sccl.core.graphs import topological_order
from sccl.errors import FormatError, TooLargeError
from sccl.training.files.chakra_records import COLLECTIVES, NodeKind, read_records
from sccl.training.traces.readers.common.chakra_nodes import (
    ChakraNode,
    is_json_of_chakra,
    is_node,
    read_nodes,
)
from sccl.training.traces.readers.common.contract import (
    MAX_RANKS,
    NO_MARKS,
    Kernel,
    PeerEnd,
    RankTrace,
    StepSelection,
    TracedCall,
    TracedWait,
    TraceEvent,
    list_names,
)
from sccl.training.types.workload_ops import MAX_ELEMENTS, ROOTED

NAME = "chakra"
ABOUT = "Chakra execution traces of MLCommons (.et, and as JSON)"
SOURCE = "et_def.proto of MLCommons Chakra, 0.0.4 to 1.0.0, and of 2023"

EXAMPLE = bytes.fromhex(
    "070a05302e302e342108001209636f6d70757465203018043809520e0a0969735f6370755f6f70d80100"
    "430801120c636f6c6c656374697665203118072a0100520e0a0969735f6370755f6f70d80100520d0a09"
    "636f6d6d5f747970654800520d0a09636f6d6d5f73697a654840"
)
"""A version record, 9 us of computation, and an allreduce of 64 bytes that depends on it."""

_CALLS = (NodeKind.SEND, NodeKind.RECEIVE, NodeKind.COLLECTIVE)
_MAX_DEPENDENCIES = 2**22
"""Largest total number of collectives that nodes depend on."""

_THREAD = "main"
_TEXT_WORKLOAD_PREFIX = "COMP_NODE_"
"""Prefix of node names from Chakra's converter for ASTRA-sim's text workloads."""

_RANK = re.compile(r"\.([0-9]{1,7})\.(et|json)(\.gz)?$")


def sniff(content: bytes) -> bool:
    """Return whether one of the first two records is a node."""
    if content.lstrip()[:1] in (b"{", b"["):
        return is_json_of_chakra(content)
    try:
        for number, record in enumerate(read_records(content, "")):
            if is_node(record):
                return True
            if number:
                break
    except FormatError:
        pass
    return False


def read(content: bytes, where: str, wanted: StepSelection) -> RankTrace:
    """Return the events of a rank from the nodes of its trace.

    Raises:
        InputError: The content is not such a trace, is truncated, or describes an algorithm.
    """
    wanted.find_index([], where)
    as_json = content.lstrip()[:1] in (b"{", b"[")
    nodes = read_nodes(content, where, as_json=as_json)
    follows_control = not any(node.data for node in nodes.values())
    if follows_control:
        for node in nodes.values():  # in 2023 all dependencies were control dependencies
            node.data = node.control
    on_device = any(node.kind == NodeKind.COMPUTE and not node.on_host for node in nodes.values())
    match = _RANK.search(where)
    rank = int(match[1]) if match and int(match[1]) < MAX_RANKS else None
    assumed = [NO_MARKS]
    host = [node for node in nodes.values() if node.on_host and node.kind == NodeKind.COMPUTE]
    if on_device and any(node.micros for node in host):
        assumed.append(f"host activity in {format_count(len(host), 'node')} is left out")
    computing = [
        node
        for node in nodes.values()
        if node.kind == NodeKind.COMPUTE and not (node.on_host and on_device)
    ]
    if untimed := sum(not node.micros for node in computing):
        assumed.append(
            f"{untimed} of {format_count(len(computing), 'piece')} of computation have no time: "
            "they "
            "take 0 us"
        )
    if named := sum(node.named_type for node in nodes.values()):
        assumed.append(f"the collective of {format_count(named, 'node')} is taken from their names")
    if any(node.name.startswith(_TEXT_WORKLOAD_PREFIX) for node in nodes.values()):
        assumed.append(
            "times are microseconds, as in Chakra; node names suggest a conversion from a text "
            "of ASTRA-sim, which may have kept nanoseconds"
        )
    return RankTrace(
        source=where,
        format=NAME,
        events=tuple(_events(nodes, where, on_device=on_device)),
        rank=rank,
        main=_THREAD,
        has_times=True,
        assumed=tuple(assumed),
        unread=tuple(_unused_fields(nodes, follows_control=follows_control)),
        shared_names=True,
    )


def _unused_fields(nodes: Mapping[int, ChakraNode], *, follows_control: bool) -> Iterator[str]:
    names = sorted({name for node in nodes.values() for name in node.unread})
    if names:
        yield f"attributes of nodes: {list_names(names)}"
    kinds = sum(
        node.kind not in (*_CALLS, NodeKind.COMPUTE, NodeKind.METADATA) for node in nodes.values()
    )
    if kinds:
        yield f"{format_count(kinds, 'node')} of other kinds, such as loads and stores of memory"
    missing = sum(number not in nodes for node in nodes.values() for number in node.data)
    if missing:
        yield f"{format_count(missing, 'name')} of dependencies on missing nodes"
    control = 0 if follows_control else sum(len(node.control) for node in nodes.values())
    if control:
        yield f"{format_count(control, 'name')} of nodes before others (control dependencies)"


def _events(
    nodes: Mapping[int, ChakraNode], where: str, *, on_device: bool
) -> Iterator[TraceEvent]:
    """Yield the events of nodes in topological order."""
    needs: dict[int, frozenset[int]] = {}
    named = 0
    for node in _topological_order(nodes, where):
        called = frozenset().union(*(needs[number] for number in node.data if number in needs))
        named += len(called)
        if named > _MAX_DEPENDENCIES:
            raise TooLargeError(f"{where}: its nodes need too many collectives: trace fewer steps")
        calls = node.kind in _CALLS
        if (node.on_host and (on_device or calls)) or not (calls or node.kind == NodeKind.COMPUTE):
            needs[node.number] = called
            continue
        for number in sorted(called):
            yield TracedWait(_THREAD, number)
        if calls:
            yield _build_call(node, where)
            needs[node.number] = frozenset((node.number,))
        else:
            stream = "host" if node.on_host else str(node.attributes.get("tid", "npu"))
            yield Kernel(_THREAD, stream, float(node.micros))
            needs[node.number] = frozenset()


def _build_call(node: ChakraNode, where: str) -> TracedCall:
    kind, size = node.attributes.get("comm_type"), node.attributes.get("comm_size")
    at = f"{where}: node {node.number}, {node.name!r:.60}"
    if size is None:
        raise FormatError(
            f"{at}: its size is not in the trace (comm_size): give the original .et file, or its "
            "JSON by chakra_jsonizer"
        )
    if not 0 <= size <= MAX_ELEMENTS:
        raise FormatError(f"{at}: its comm_size is {size}, expected bytes")
    if node.partial:
        raise FormatError(
            f"{at}: it runs in some dimensions of a machine (involved_dim), and the trace does "
            "not list their ranks: give a trace with named groups (pg_name)"
        )
    if node.kind != NodeKind.COLLECTIVE:
        return _build_send(node, size, at)
    if kind is None or kind >= len(COLLECTIVES):
        kinds = ", ".join(f"{number} {name}" for number, name in enumerate(COLLECTIVES))
        raise FormatError(f"{where}: node {node.number}: its comm_type is {kind}, not of {kinds}")
    took = float(node.micros) if node.micros else None
    collective, root = COLLECTIVES[kind], node.attributes.get("root")
    return TracedCall(
        _THREAD,
        collective,
        "uint8",
        input_elements=size,
        output_elements=size,
        request=node.number,
        duration_us=took,
        group=node.group,
        group_size=len(node.group),
        group_name=node.group_name,
        root=root if collective in ROOTED else None,
    )


def _build_send(node: ChakraNode, size: int, where: str) -> TracedCall:
    if "comm_type" in node.attributes:
        raise FormatError(
            f"{where}: it is a send between two ranks inside a collective: give the trace of a "
            "training job, not of an algorithm"
        )
    name = "comm_dst" if node.kind == NodeKind.SEND else "comm_src"
    peer = node.attributes.get(name)
    if peer is None or not 0 <= peer < MAX_RANKS:
        raise FormatError(f"{where}: its {name} is {peer}, expected a rank")
    return TracedCall(
        _THREAD,
        "broadcast",
        "uint8",
        input_elements=size,
        output_elements=size,
        request=node.number,
        duration_us=float(node.micros) if node.micros else None,
        root=0,
        end=PeerEnd(peer, sends=node.kind == NodeKind.SEND, in_job=True),
    )


def _topological_order(nodes: Mapping[int, ChakraNode], where: str) -> list[ChakraNode]:
    """Return nodes in topological order. Among ready nodes, collectives and low numbers come first.

    Raises:
        FormatError: Nodes form a dependency cycle.
    """
    before = {
        number: {predecessor for predecessor in node.data if predecessor in nodes}
        for number, node in nodes.items()
    }
    order = topological_order(before, key=lambda number: _issue_key(nodes[number]))
    if len(order) < len(nodes):
        left = sorted(nodes.keys() - order)[:8]
        raise FormatError(
            f"{where}: nodes form a dependency cycle, among them {', '.join(map(str, left))}: "
            "remove a dependency"
        )
    return [nodes[number] for number in order]


def _issue_key(node: ChakraNode) -> tuple[bool, int]:
    return node.kind not in _CALLS or node.on_host, node.number
