"""Find calls of collectives and waits for them among the events of Kineto.

Around each is a node ``record_param_comms`` with its properties, or it contains an event of the
backend, such as ``nccl:all_to_all``. Gloo has only that event, on its own thread, after the begin
of the calling operator (``c10d::alltoall_base_``). Newer operators record whether they are
asynchronous. Otherwise nothing shows that a synchronous call blocks its thread.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sccl.errors import FormatError
from sccl.workloads.readers.kineto_events import EventArguments, Launched, ProfiledEvent
from sccl.workloads.readers.rank_trace import Awaited, Call, OtherEnd
from sccl.workloads.readers.torch_names import (
    BARRIER,
    COMM_NODE,
    WAIT,
    checked_group,
    collective_of,
    dtype_of,
    elements_of_dims,
    is_backend_call,
    numbers_before_cut,
    numbers_of,
    place_of_other_end,
    required_collective,
    sends,
    value_of,
    waits_at_once,
    whole,
)

_REDUCTION = re.compile(r"_(Sum|Prod|Min|Max|Avg|MinMax|PreMulSum|SumPostDiv)(_|\(|$)")
REDUCTIONS = {"Sum": "sum", "Prod": "prod", "Min": "min", "Max": "max", "Avg": "avg"}
_INEXACT = {"MinMax": "max", "PreMulSum": "sum", "SumPostDiv": "avg"}
"""Reductions that are no operation of a workload: either of two, scaled before, divided after."""
REDUCTIONS |= _INEXACT
_BUCKETS = "torch::autograd::AccumulateGrad"
"""Around calls that DistributedDataParallel makes of gradients, as they are ready."""

_OPERATORS = "c10d::"
_NESTED = 8
"""Events, one in another: as many are looked at."""


Window = tuple[float, float]
"""From when, and until before when."""


@dataclass(frozen=True, slots=True)
class _Made:
    """The events of a call or a wait.

    Attributes:
        named: Event of the backend, with the name of the collective.
        operator: Operator of c10d that made it, if it is in the trace.
    """

    node: ProfiledEvent
    named: ProfiledEvent | None
    operator: ProfiledEvent | None


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call or a wait, and when its thread was busy with it."""

    begin: float
    end: float
    what: Call | Awaited


def host_calls(
    host: Sequence[ProfiledEvent],
    kernels: Sequence[Launched],
    window: Window,
    groups: Mapping[str, tuple[int, ...]],
    where: str,
) -> list[HostCall]:
    """Return calls of collectives and waits for them within a window, in order.

    Args:
        host: All events of the host.
        kernels: Kernels of collectives, in order of launch.
        groups: Ranks of process groups, by name.

    Raises:
        FormatError: A call lacks data.
    """
    buckets: dict[str, list[ProfiledEvent]] = defaultdict(list)
    for event in host:
        if _BUCKETS in event.name:
            buckets[str(event.tid)].append(event)
    launched: dict[str, list[Launched]] = defaultdict(list)
    for kernel in kernels:
        launched[kernel.thread].append(kernel)
    found: dict[str, list[tuple[HostCall, bool]]] = defaultdict(list)
    for made in _made(host):
        node = made.node
        if not window[0] <= node.ts < window[1]:
            continue
        thread = str(node.tid)
        what = _call(node, made.named, thread, where)
        if isinstance(what, Call):
            what = _with_kernels(what, _during(launched[thread], node))
            what = _with_group(what, node.args, groups, where)
            what = replace(what, bucket=bool(_enclosing(buckets[thread], node)))
        at_once = isinstance(what, Call) and _at_once(made.operator, where)
        found[thread].append((HostCall(node.ts, node.end, what), at_once))
    calls = [one for own in found.values() for one in _with_waits(own)]
    return sorted(calls, key=lambda call: call.begin)


def _made(host: Sequence[ProfiledEvent]) -> Iterator[_Made]:
    """Yield the calls and waits with their events. Those of Gloo come with their operators."""
    threads: dict[str, list[ProfiledEvent]] = defaultdict(list)
    operators: list[ProfiledEvent] = []
    for event in host:
        if event.name == COMM_NODE or is_backend_call(event.name):
            threads[str(event.tid)].append(event)
        elif event.name.startswith(_OPERATORS):
            operators.append(event)
    alone: list[ProfiledEvent] = []
    for events in threads.values():
        for node, named in _nodes(events):
            if node.name == COMM_NODE:
                near = _enclosing(operators, node)
                yield _Made(node, named, next((o for o in near if o.tid == node.tid), None))
            else:
                alone.append(node)
    waiting: dict[str, deque[ProfiledEvent]] = defaultdict(deque)
    for operator in operators:
        waiting[_word(operator)].append(operator)
    for node in sorted(alone, key=lambda event: event.ts):
        queue = waiting[_word(node)]
        if queue and queue[0].ts <= node.ts:  # threads of Gloo begin with calls as they came
            operator = queue.popleft()
            yield _Made(operator, node, operator)
        else:
            yield _Made(node, None, None)


def _word(event: ProfiledEvent) -> str:
    return BARRIER if BARRIER in event.name else collective_of(event.name) or ""


def _with_waits(own: list[tuple[HostCall, bool]]) -> list[HostCall]:
    """Return the calls and waits of a thread, with waits for calls that are waited for at once."""
    own.sort(key=lambda pair: pair[0].begin)
    found: list[HostCall] = []
    for place, (call, at_once) in enumerate(own):
        found.append(call)
        following = own[place + 1][0].what if place + 1 < len(own) else None
        if at_once and not isinstance(following, Awaited):
            wait = Awaited(call.what.thread, call.what.request)
            found.append(HostCall(call.end, call.end, wait))
    return found


def _at_once(operator: ProfiledEvent | None, where: str) -> bool:
    if operator is None:
        return False
    place = f"{where}: the operator at {operator.ts:.3f} us"
    return waits_at_once(value_of(operator.args.concrete, place))


def _enclosing(outer: list[ProfiledEvent], inner: ProfiledEvent) -> list[ProfiledEvent]:
    """Return the events within which another began, the nearest first."""
    before = bisect_right(outer, inner.ts, key=lambda event: event.ts)
    near = outer[max(0, before - _NESTED) : before]
    return [event for event in reversed(near) if inner.ts <= event.end]


def _nodes(events: list[ProfiledEvent]) -> list[tuple[ProfiledEvent, ProfiledEvent | None]]:
    """Return the calls and waits of a thread, each with the event within it that has its name."""
    found: list[tuple[ProfiledEvent, ProfiledEvent | None]] = []
    for event in events:
        if event.name != COMM_NODE and found and event.ts <= found[-1][0].end:
            found[-1] = (found[-1][0], found[-1][1] or event)
        else:
            found.append((event, None))
    return found


def _during(kernels: list[Launched], node: ProfiledEvent) -> list[Launched]:
    begin = bisect_left(kernels, node.ts, key=lambda kernel: kernel.launched)
    return kernels[begin : bisect_right(kernels, node.end, key=lambda kernel: kernel.launched)]


def _with_kernels(call: Call, ran: list[Launched]) -> Call:
    """Return a call with the duration and the reduction operator from its kernels."""
    told = next((found[1] for one in ran if (found := _REDUCTION.search(one.name))), "")
    took = sum(one.duration_us for one in ran) if ran else None
    return replace(call, duration_us=took, reduce=REDUCTIONS.get(told, ""))


def _with_group(
    call: Call, args: EventArguments, groups: Mapping[str, tuple[int, ...]], where: str
) -> Call:
    """Return a call with the ranks of its group, where its own list is cut or there is none.

    Raises:
        FormatError: the two contradict one another.
    """
    ranks = groups.get(call.group_name, ())
    text = value_of(args.group, where)
    seen = numbers_before_cut(text)
    if call.group or call.group_size not in (0, len(ranks)) or not ranks:
        return replace(call, cut_group=bool(seen) and call.first_stride is None)
    shown = numbers_of(str(text).partition("...")[0].rstrip(" ,") + "]") if seen else ()
    if shown != ranks[: len(shown)]:
        raise FormatError(
            f"{where}: process group {call.group_name!r:.40} begins with ranks {shown[:4]} in a "
            f"call and with {ranks[:4]} in pg_config: give the trace as it was written"
        )
    return replace(call, group=ranks, group_size=len(ranks))


def inexact_reduction(kernel: str) -> str:
    """Return the reduction in a kernel's name that no workload has as such. Empty: none."""
    found = _REDUCTION.search(kernel)
    return found[1] if found and found[1] in _INEXACT else ""


def _call(
    node: ProfiledEvent, named: ProfiledEvent | None, thread: str, where: str
) -> Call | Awaited:
    """Return the call or the wait of a node.

    Args:
        named: Event inside it with the name of its collective, if there is one.

    Raises:
        FormatError: It is a call of something that is no collective, or unknown.
    """
    args = node.args
    place = f"{where}: the call at {node.ts:.3f} us"
    concrete = value_of(args.concrete, place)
    told = value_of(args.collective, place) or _name_among(concrete)
    if told is None and node.name != COMM_NODE:
        told = node.name
    if told is None and named is not None:
        told = named.name
    if told is None and elements_of_dims(value_of(args.dims, place)) is not None:
        raise FormatError(
            f"{place} has no name: also give the execution trace of the rank, or use a profiler "
            "that records shapes"
        )
    if told is None or told == WAIT:
        return Awaited(thread, _request(concrete))
    collective = required_collective(str(told), place)
    call = Call(thread, collective, "", request=_request(concrete))
    if (sending := sends(str(told))) is not None:
        end = _other_end(args, named, place, gives=sending)
        call = replace(call, end=end, root=0)
    fields = named.args if named is not None and named.args.dims else args
    return _told(_described(call, fields, place), args, place)


def _name_among(concrete: object) -> str | None:
    words = [w for w in concrete if isinstance(w, str)] if isinstance(concrete, list) else []
    known = (w for w in words if w == WAIT or (w and (collective_of(w) or sends(w) is not None)))
    return next(known, None)


def _other_end(
    args: EventArguments, named: ProfiledEvent | None, place: str, *, gives: bool
) -> OtherEnd:
    """Return the other end of a send: by metadata, by the backend's name, or by the inputs.

    Raises:
        FormatError: none of them tells it.
    """
    told = whole(value_of(args.taker if gives else args.giver, place))
    if told is not None:
        return OtherEnd(told, gives, in_job=True)
    at = None if named is None else place_of_other_end(named.name)
    concrete = value_of(args.concrete, place)
    name = _name_among(concrete)
    if at is None and isinstance(concrete, list) and name in concrete[1:]:
        at = whole(concrete[concrete.index(name, 1) - 1])
    if at is None:
        raise FormatError(
            f"{place} does not name its peer: also give the execution trace of the rank"
        )
    return OtherEnd(at, gives)


def _request(concrete: object) -> int | None:
    """Return the number of a call, which stands three before its name where inputs are recorded."""
    name = _name_among(concrete)
    if not isinstance(concrete, list) or name not in concrete[3:]:
        return None
    return whole(concrete[concrete.index(name, 3) - 3])


def _described(call: Call, fields: EventArguments, place: str) -> Call:
    """Return a call with the dimensions and types of its tensors."""
    elements = elements_of_dims(value_of(fields.dims, place))
    types = value_of(fields.types, place)
    word = types[0] if isinstance(types, list) and types and isinstance(types[0], str) else ""
    return replace(
        call,
        given=elements,
        dtype=dtype_of(word, place) if word and word != "TensorList" else "",
    )


def _told(call: Call, args: EventArguments, place: str) -> Call:
    """Return a call with the metadata of collectives. Without metadata it is unchanged.

    Raises:
        FormatError: The type of its elements is missing.
    """
    word = value_of(args.dtype, place)
    dtype = dtype_of(word, place) if isinstance(word, str) and word else call.dtype
    if not dtype:
        raise FormatError(
            f"{place} does not give its elements: profile with record_shapes=True, or also give "
            "the execution trace of the rank"
        )
    given = whole(value_of(args.given, place))
    group = numbers_of(value_of(args.group, place))
    size = checked_group(group, whole(value_of(args.group_size, place)), place)
    splits_unknown = ""
    splits = value_of(args.gives, place)
    if call.collective == "alltoall" and (told := numbers_before_cut(splits)):
        splits_unknown = f"splits of an alltoall are cut after {told} of {size or 'all'}"
    elif call.collective == "alltoall" and splits is None:
        splits_unknown = "an alltoall has no splits"
    first, stride = (whole(value_of(raw, place)) for raw in (args.first, args.stride))
    return replace(
        call,
        dtype=dtype,
        given=call.given if given is None else given,
        got=whole(value_of(args.got, place)),
        group_name=str(value_of(args.group_name, place) or ""),
        group=group,
        first_stride=None if first is None or not stride else (first, stride),
        group_size=size,
        root=whole(value_of(args.root, place)) if call.end is None else 0,
        gives=numbers_of(value_of(args.gives, place)),
        gets=numbers_of(value_of(args.gets, place)),
        splits_unknown=splits_unknown,
    )
