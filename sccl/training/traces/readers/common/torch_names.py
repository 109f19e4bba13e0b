"""Translate names of collectives and types, and parse arguments, in traces of PyTorch."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import msgspec

from sccl.errors import FormatError
from sccl.training.traces.readers.common.contract import MAX_DEPTH

WAIT = "wait"
STEP = re.compile(r"ProfilerStep\s?#([0-9]{1,9})")
"""Name of the event around a step."""
COMM_NODE = "record_param_comms"
BACKENDS = ("nccl:", "gloo:", "mpi:", "ucc:", "rccl:")
_OTHER_BACKEND = re.compile(r"[A-Za-z]\w{0,31}:\w")
"""Prefix of events of other backends, such as ``hccl:allgather`` and ``xccl:all_reduce``."""

_COLLECTIVES = {
    "allreduce": "allreduce allreducecoalesced",
    "allgather": "allgather allgatherbase allgatherinto allgatherintotensor allgathersingle "
    "allgathercoalesced allgatherintotensorcoalesced allgatherv",
    "reducescatter": "reducescatter reducescatterbase reducescattertensor reducescattersingle "
    "reducescattercoalesced reducescattertensorcoalesced reducescatterv",
    "alltoall": "alltoall alltoallv alltoallbase alltoallsingle",
    "broadcast": "broadcast broadcastoop",
    "reduce": "reduce reduceoop",
    "gather": "gather",
    "scatter": "scatter",
}
_COLLECTIVE_BY_WORD = {word: name for name, words in _COLLECTIVES.items() for word in words.split()}
BARRIER = "barrier"
"""Name of a barrier. It is read as an allreduce of one element, as NCCL implements it."""

SENDS = {"send": True, "isend": True, "recv": False, "irecv": False}
"""Names of both ends of a send between two ranks, and whether the caller sends. A send is read as a
broadcast."""

_DTYPES = {
    "int8": "signed char|char|int8",
    "uint8": "unsigned char|byte|uint8",
    "int16": "short|short int|int16",
    "uint16": "unsigned short|uint16",
    "int32": "int|int32",
    "uint32": "unsigned int|uint32",
    "int64": "long|long int|long long|int64",
    "uint64": "unsigned long|uint64",
    "float16": "half|c10::half|float16",
    "bfloat16": "bfloat16|c10::bfloat16",
    "float32": "float|float32",
    "float64": "double|float64",
    "bool": "bool",
    "float8-e4m3": "float8_e4m3fn|c10::float8_e4m3fn|float8_e4m3fnuz",
    "float8-e5m2": "float8_e5m2|c10::float8_e5m2|float8_e5m2fnuz",
    "complex64": "complexfloat|c10::complex<float>",
    "complex128": "complexdouble|c10::complex<double>",
}
_ENDS = re.compile(r"\s[0-9]{1,9}\s*(?:->|<-)\s*([0-9]{1,9})$")
_DTYPE_BY_WORD = {word: name for name, words in _DTYPES.items() for word in words.split("|")}


def is_send(name: str) -> bool | None:
    """Return whether a name is a send (True) or a receive (False) between two ranks.

    None: neither.
    """
    return SENDS.get(_ENDS.sub("", name.rpartition(":")[2].strip().lower()))


def is_backend_call(name: str) -> bool:
    """Return whether an event is a backend's call: a known backend, or a known collective."""
    if name.startswith(BACKENDS):
        return True
    is_known = collective_of(name) is not None or is_send(name) is not None
    return is_known and _OTHER_BACKEND.match(name) is not None


def peer_index(name: str) -> int | None:
    """Return the peer in a name such as ``nccl:send 0->1``. None: the name has no peer."""
    match = _ENDS.search(name)
    return int(match[1]) if match else None


def collective_of(name: str) -> str | None:
    """Return the collective of a PyTorch name, with or without a backend. None: none."""
    word = name.rpartition(":")[2].replace("_", "").lower()
    return "allreduce" if word == BARRIER else _COLLECTIVE_BY_WORD.get(word)


def required_collective(name: str, where: str) -> str:
    """Return the collective of a PyTorch name. For a send or receive it is a broadcast.

    Raises:
        FormatError: The collective is not supported.
    """
    collective = "broadcast" if is_send(name) is not None else collective_of(name)
    if collective is None:
        raise FormatError(
            f"{where}: {name!r:.60} is no collective that is read: expected one of "
            f"{', '.join(_COLLECTIVES)}, or send and recv"
        )
    return collective


def dtype_of(word: str, where: str) -> str:
    """Return the element type of a PyTorch name, such as ``Tensor(long int)`` or ``Half``.

    Raises:
        FormatError: The type is unknown.
    """
    inner = re.search(r"Tensor\(([^()]*)\)", word)
    dtype = _DTYPE_BY_WORD.get((inner[1] if inner else word).strip().lower())
    if dtype is None:
        raise FormatError(
            f"{where}: the element type is {word!r:.60}, expected a type such as float, Half or "
            "long"
        )
    return dtype


def value_of(raw: msgspec.Raw | bytes | str, where: str) -> Any:
    """Return the decoded value of a field: nested lists and numbers. None: it is empty.

    Raises:
        FormatError: The field is not JSON, or lists are nested too deeply.
    """
    if not raw:
        return None
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise FormatError(f"{where}: an argument is not JSON ({str(error)[:80]})") from error
    if _depth(value) > MAX_DEPTH:
        raise FormatError(f"{where}: lists lie more than {MAX_DEPTH} deep in one another")
    return value


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level and depth <= MAX_DEPTH:
        level = [
            inner
            for item in level
            if isinstance(item, (list, dict))
            for inner in (item if isinstance(item, list) else item.values())
        ]
        depth += 1
    return depth


def is_synchronous(inputs: object) -> bool:
    """Return whether an operator of c10d is synchronous: its last Boolean input is false.

    Older operators have no such input.
    """
    values = inputs if isinstance(inputs, list) else []
    flags = [value for value in values if value in ("True", "False") or isinstance(value, bool)]
    return bool(flags) and str(flags[-1]) == "False"


def parse_count(value: object) -> int | None:
    """Return a nonnegative integer, also from text. None: the value is not one."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    return None


def parse_integers(value: object) -> tuple[int, ...]:
    """Return a list of nonnegative integers, also from text. Empty: the value is not one."""
    if isinstance(value, str) and re.fullmatch(r"\[[0-9, ]*\]", value):
        value = [int(word) for word in re.findall("[0-9]{1,18}", value)]
    if not isinstance(value, list):
        return ()
    numbers = [parse_count(item) for item in value]
    return tuple(item for item in numbers if item is not None) if None not in numbers else ()


def count_before_ellipsis(value: object) -> int:
    """Return the number of elements of a truncated list before its ellipsis. 0: not truncated.

    The profiler of PyTorch writes the first 30 elements of a list, and for ranks also the last one.
    """
    if not isinstance(value, str) or "..." not in value:
        return 0
    return len(re.findall("[0-9]+", value.partition("...")[0]))


def check_group_size(ranks: tuple[int, ...], size: int | None, where: str) -> int:
    """Return the size of a group from its size or its ranks. 0: both are unknown.

    Raises:
        FormatError: The size and the number of ranks differ.
    """
    if ranks and size and len(ranks) != size:
        raise FormatError(
            f"{where}: a group has {size} ranks by its size, and {len(ranks)} are listed: give "
            "the trace as it was written"
        )
    return size or len(ranks)


def count_elements(dims: object) -> int | None:
    """Return the elements of a tensor with dimensions, or of nested lists. None: no tensor."""
    if not isinstance(dims, list) or not dims:
        return None
    if len(dims) <= MAX_DEPTH and all(parse_count(dim) is not None for dim in dims):
        return prod(dims)
    counts = [n for n in map(count_elements, dims) if n is not None]
    return sum(counts) if counts else None
