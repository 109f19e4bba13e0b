"""Find calls of collectives and waits for them among the events of Kineto.

A call or wait is a node ``record_param_comms`` with its properties, which may contain an event of
the backend, such as ``nccl:all_to_all``. Gloo has only the event of the backend. It is on a thread
of Gloo, and begins after the calling operator (``c10d::alltoall_base_``). Newer operators record
whether they are asynchronous. For older ones the trace does not show that a synchronous call blocks
its thread.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sccl.errors import FormatError
from sccl.training.traces.readers.common.contract import PeerEnd, TracedCall, TracedWait
from sccl.training.traces.readers.common.kineto_events import (
    EventArguments,
    LaunchedKernel,
    ProfiledEvent,
)
from sccl.training.traces.readers.common.torch_names import (
    BARRIER,
    COMM_NODE,
    WAIT,
    check_group_size,
    collective_of,
    count_before_ellipsis,
    count_elements,
    dtype_of,
    is_backend_call,
    is_send,
    is_synchronous,
    parse_count,
    parse_integers,
    peer_index,
    required_collective,
    value_of,
)

_REDUCTION = re.compile(r"_(Sum|Prod|Min|Max|Avg|MinMax|PreMulSum|SumPostDiv)(_|\(|$)")
REDUCTIONS = {"Sum": "sum", "Prod": "prod", "Min": "min", "Max": "max", "Avg": "avg"}
_INEXACT = {"MinMax": "max", "PreMulSum": "sum", "SumPostDiv": "avg"}
"""Reductions that workloads lack (minimum or maximum, prescaled, divided), and their
substitutes."""
REDUCTIONS |= _INEXACT
_BUCKETS = "torch::autograd::AccumulateGrad"
"""Name of events around the calls by which DistributedDataParallel reduces ready gradients."""

_OPERATORS = "c10d::"
_MAX_NESTING = 8
"""Largest number of nested events that are examined."""


Window = tuple[float, float]
"""Begin (inclusive) and end (exclusive) in microseconds."""


@dataclass(frozen=True, slots=True)
class _CallEvidence:
    """The events of a call or a wait.

    Attributes:
        node: Event of the call or wait.
        named: Event of the backend, with the name of the collective. None: not in the trace.
        operator: Operator of c10d that made the call. None: not in the trace.
    """

    node: ProfiledEvent
    named: ProfiledEvent | None
    operator: ProfiledEvent | None


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call or a wait, with the begin and end of its event in microseconds."""

    begin: float
    end: float
    event: TracedCall | TracedWait


def host_calls(
    host: Sequence[ProfiledEvent],
    kernels: Sequence[LaunchedKernel],
    window: Window,
    groups: Mapping[str, tuple[int, ...]],
    where: str,
) -> list[HostCall]:
    """Return calls of collectives and waits for them within a window, in order.

    Args:
        host: All events of the host.
        kernels: Kernels of collectives, in order of launch.
        window: Begin and end of the step, in microseconds.
        groups: Ranks of process groups, by name.
        where: Name of the trace, for messages.

    Raises:
        FormatError: A call lacks data.
    """
    buckets: dict[str, list[ProfiledEvent]] = defaultdict(list)
    for event in host:
        if _BUCKETS in event.name:
            buckets[str(event.tid)].append(event)
    launched: dict[str, list[LaunchedKernel]] = defaultdict(list)
    for kernel in kernels:
        launched[kernel.thread].append(kernel)
    by_thread: dict[str, list[tuple[HostCall, bool]]] = defaultdict(list)
    for made in _find_call_evidence(host):
        node = made.node
        if not window[0] <= node.ts < window[1]:
            continue
        thread = str(node.tid)
        action = _build_call(node, made.named, thread, where)
        if isinstance(action, TracedCall):
            action = _with_kernels(action, _kernels_during(launched[thread], node))
            action = _with_group(action, node.args, groups, where)
            action = replace(action, bucket=bool(_enclosing_events(buckets[thread], node)))
        at_once = isinstance(action, TracedCall) and _is_synchronous(made.operator, where)
        by_thread[thread].append((HostCall(node.ts, node.end, action), at_once))
    calls = [
        host_call
        for thread_calls in by_thread.values()
        for host_call in _add_implicit_waits(thread_calls)
    ]
    return sorted(calls, key=lambda call: call.begin)


def _find_call_evidence(host: Sequence[ProfiledEvent]) -> Iterator[_CallEvidence]:
    """Yield the events of each call and wait. Calls of Gloo are matched with their operators."""
    threads: dict[str, list[ProfiledEvent]] = defaultdict(list)
    operators: list[ProfiledEvent] = []
    for event in host:
        if event.name == COMM_NODE or is_backend_call(event.name):
            threads[str(event.tid)].append(event)
        elif event.name.startswith(_OPERATORS):
            operators.append(event)
    backend_calls: list[ProfiledEvent] = []
    for events in threads.values():
        for node, named in _call_nodes(events):
            if node.name == COMM_NODE:
                near = _enclosing_events(operators, node)
                yield _CallEvidence(node, named, next((o for o in near if o.tid == node.tid), None))
            else:
                backend_calls.append(node)
    waiting: dict[str, deque[ProfiledEvent]] = defaultdict(deque)
    for operator in operators:
        waiting[_event_word(operator)].append(operator)
    for node in sorted(backend_calls, key=lambda event: event.ts):
        queue = waiting[_event_word(node)]
        if queue and queue[0].ts <= node.ts:  # Gloo's threads start calls in order
            operator = queue.popleft()
            yield _CallEvidence(operator, node, operator)
        else:
            yield _CallEvidence(node, None, None)


def _event_word(event: ProfiledEvent) -> str:
    return BARRIER if BARRIER in event.name else collective_of(event.name) or ""


def _add_implicit_waits(thread_calls: list[tuple[HostCall, bool]]) -> list[HostCall]:
    """Return the calls and waits of a thread, with added waits for synchronous calls."""
    thread_calls.sort(key=lambda pair: pair[0].begin)
    calls: list[HostCall] = []
    for place, (call, at_once) in enumerate(thread_calls):
        calls.append(call)
        following = thread_calls[place + 1][0].event if place + 1 < len(thread_calls) else None
        if at_once and not isinstance(following, TracedWait):
            wait = TracedWait(call.event.thread, call.event.request)
            calls.append(HostCall(call.end, call.end, wait))
    return calls


def _is_synchronous(operator: ProfiledEvent | None, where: str) -> bool:
    if operator is None:
        return False
    place = f"{where}: the operator at {operator.ts:.3f} us"
    return is_synchronous(value_of(operator.args.concrete, place))


def _enclosing_events(outer: list[ProfiledEvent], inner: ProfiledEvent) -> list[ProfiledEvent]:
    """Return the events during which another event begins, the innermost first."""
    before = bisect_right(outer, inner.ts, key=lambda event: event.ts)
    near = outer[max(0, before - _MAX_NESTING) : before]
    return [event for event in reversed(near) if inner.ts <= event.end]


def _call_nodes(events: list[ProfiledEvent]) -> list[tuple[ProfiledEvent, ProfiledEvent | None]]:
    """Return the calls and waits of a thread, each with the backend's event inside it."""
    nodes: list[tuple[ProfiledEvent, ProfiledEvent | None]] = []
    for event in events:
        if event.name != COMM_NODE and nodes and event.ts <= nodes[-1][0].end:
            nodes[-1] = (nodes[-1][0], nodes[-1][1] or event)
        else:
            nodes.append((event, None))
    return nodes


def _kernels_during(kernels: list[LaunchedKernel], node: ProfiledEvent) -> list[LaunchedKernel]:
    begin = bisect_left(kernels, node.ts, key=lambda kernel: kernel.launched)
    return kernels[begin : bisect_right(kernels, node.end, key=lambda kernel: kernel.launched)]


def _with_kernels(call: TracedCall, ran: list[LaunchedKernel]) -> TracedCall:
    """Return a call with the duration and the reduction operator from its kernels."""
    reduction = next((match[1] for kernel in ran if (match := _REDUCTION.search(kernel.name))), "")
    took = sum(kernel.duration_us for kernel in ran) if ran else None
    return replace(call, duration_us=took, reduce=REDUCTIONS.get(reduction, ""))


def _with_group(
    call: TracedCall, args: EventArguments, groups: Mapping[str, tuple[int, ...]], where: str
) -> TracedCall:
    """Complete a call with the ranks of its process group if its own list is truncated or missing.

    Raises:
        FormatError: The truncated list and the process group differ.
    """
    ranks = groups.get(call.group_name, ())
    text = value_of(args.group, where)
    seen = count_before_ellipsis(text)
    if call.group or call.group_size not in (0, len(ranks)) or not ranks:
        return replace(call, cut_group=bool(seen) and call.first_stride is None)
    shown = parse_integers(str(text).partition("...")[0].rstrip(" ,") + "]") if seen else ()
    if shown != ranks[: len(shown)]:
        raise FormatError(
            f"{where}: process group {call.group_name!r:.40} begins with ranks {shown[:4]} in a "
            f"call and with {ranks[:4]} in pg_config: give the trace as it was written"
        )
    return replace(call, group=ranks, group_size=len(ranks))


def inexact_reduction(kernel: str) -> str:
    """Return the reduction in a kernel's name if workloads lack it. Empty: they have it."""
    match = _REDUCTION.search(kernel)
    return match[1] if match and match[1] in _INEXACT else ""


def _build_call(
    node: ProfiledEvent, named: ProfiledEvent | None, thread: str, where: str
) -> TracedCall | TracedWait:
    """Return the call or the wait of a node.

    Args:
        named: Event inside the node with the name of the collective. None: there is none.

    Raises:
        FormatError: The call is not a known collective.
    """
    args = node.args
    place = f"{where}: the call at {node.ts:.3f} us"
    concrete = value_of(args.concrete, place)
    name = value_of(args.collective, place) or _find_name(concrete)
    if name is None and node.name != COMM_NODE:
        name = node.name
    if name is None and named is not None:
        name = named.name
    if name is None and count_elements(value_of(args.dims, place)) is not None:
        raise FormatError(
            f"{place} has no name: also give the execution trace of the rank, or use a profiler "
            "that records shapes"
        )
    if name is None or name == WAIT:
        return TracedWait(thread, _request_number(concrete))
    collective = required_collective(str(name), place)
    call = TracedCall(thread, collective, "", request=_request_number(concrete))
    if (sending := is_send(str(name))) is not None:
        end = _find_peer(args, named, place, gives=sending)
        call = replace(call, end=end, root=0)
    fields = named.args if named is not None and named.args.dims else args
    return _apply_metadata(_apply_tensor_types(call, fields, place), args, place)


def _find_name(concrete: object) -> str | None:
    words = [w for w in concrete if isinstance(w, str)] if isinstance(concrete, list) else []
    names = (w for w in words if w == WAIT or (w and (collective_of(w) or is_send(w) is not None)))
    return next(names, None)


def _find_peer(
    args: EventArguments, named: ProfiledEvent | None, place: str, *, gives: bool
) -> PeerEnd:
    """Return the peer of a send from metadata, from the backend's name, or from the inputs.

    Raises:
        FormatError: The peer is unknown.
    """
    rank = parse_count(value_of(args.taker if gives else args.giver, place))
    if rank is not None:
        return PeerEnd(rank, gives, in_job=True)
    at = None if named is None else peer_index(named.name)
    concrete = value_of(args.concrete, place)
    name = _find_name(concrete)
    if at is None and isinstance(concrete, list) and name in concrete[1:]:
        at = parse_count(concrete[concrete.index(name, 1) - 1])
    if at is None:
        raise FormatError(
            f"{place} does not name its peer: also give the execution trace of the rank"
        )
    return PeerEnd(at, gives)


def _request_number(concrete: object) -> int | None:
    """Return the request number, which is the third input before the name. None: unknown."""
    name = _find_name(concrete)
    if not isinstance(concrete, list) or name not in concrete[3:]:
        return None
    return parse_count(concrete[concrete.index(name, 3) - 3])


def _apply_tensor_types(call: TracedCall, fields: EventArguments, place: str) -> TracedCall:
    elements = count_elements(value_of(fields.dims, place))
    types = value_of(fields.types, place)
    word = types[0] if isinstance(types, list) and types and isinstance(types[0], str) else ""
    return replace(
        call,
        input_elements=elements,
        dtype=dtype_of(word, place) if word and word != "TensorList" else "",
    )


def _apply_metadata(call: TracedCall, args: EventArguments, place: str) -> TracedCall:
    """Return a call with the metadata of collectives. Without metadata it is unchanged.

    Raises:
        FormatError: The element type is missing.
    """
    word = value_of(args.dtype, place)
    dtype = dtype_of(word, place) if isinstance(word, str) and word else call.dtype
    if not dtype:
        raise FormatError(
            f"{place} does not give its elements: profile with record_shapes=True, or also give "
            "the execution trace of the rank"
        )
    elements = parse_count(value_of(args.given, place))
    group = parse_integers(value_of(args.group, place))
    size = check_group_size(group, parse_count(value_of(args.group_size, place)), place)
    splits_unknown = ""
    splits = value_of(args.gives, place)
    if call.collective == "alltoall" and (count := count_before_ellipsis(splits)):
        splits_unknown = f"splits of an alltoall are cut after {count} of {size or 'all'}"
    elif call.collective == "alltoall" and splits is None:
        splits_unknown = "an alltoall has no splits"
    first, stride = (parse_count(value_of(raw, place)) for raw in (args.first, args.stride))
    return replace(
        call,
        dtype=dtype,
        input_elements=call.input_elements if elements is None else elements,
        output_elements=parse_count(value_of(args.got, place)),
        group_name=str(value_of(args.group_name, place) or ""),
        group=group,
        first_stride=None if first is None or not stride else (first, stride),
        group_size=size,
        root=parse_count(value_of(args.root, place)) if call.end is None else 0,
        send_splits=parse_integers(value_of(args.gives, place)),
        receive_splits=parse_integers(value_of(args.gets, place)),
        splits_unknown=splits_unknown,
    )
