"""Read text workloads of ASTRA-sim: a line per layer, with times and collectives of three passes.

A layer has a forward pass, and backward passes for gradients of its inputs and of its weights. Each
pass computes and then calls at most one collective. Model-parallel collectives are awaited
immediately in the forward pass, and before the next layer in the backward pass. Gradients of
weights are awaited in the forward pass of the next iteration. HYBRID_DLRM exchanges the lookups of
the first layer, and waits for them at the last bottom layer. A transformer with checkpoints repeats
the forward pass from a checkpoint during the backward pass.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from sccl.core.formatting import format_count
from sccl.errors import FormatError, TooLargeError
from sccl.training.traces.readers.common.contract import (
    MAX_RANKS,
    CallSpan,
    Kernel,
    RankTrace,
    StepSelection,
    TracedCall,
    TracedWait,
    TraceEvent,
)
from sccl.training.types.workload_ops import MAX_ELEMENTS

NAME = "astra"
ABOUT = "text workloads of ASTRA-sim, a line for each layer"
SOURCE = "ASTRA-sim 1.0 (2020 to 2022), as its Workload.cc reads them"
EXAMPLE = b"""DATA
2
conv1 -1 13003 NONE 0 12864 NONE 0 32291 ALLREDUCE 37632 3229
fc -1 7488 NONE 0 7488 NONE 0 3648 ALLREDUCE 65536 749
"""

MAX_LAYERS = 20_000
MAX_LINES = 2**19
"""Largest number of computations, calls, and waits of an iteration."""

_MODEL_FIRST = ("MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_TRANSFORMER")
_RECOMPUTING = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
_DLRM = ("HYBRID_DLRM", "HYBRID_DLRM_ENHANCED")
_MODES = ("DATA", *_MODEL_FIRST, _RECOMPUTING, *_DLRM)
_COLLECTIVES = {
    "ALLREDUCE": "allreduce",
    "ALLGATHER": "allgather",
    "REDUCESCATTER": "reducescatter",
    "ALLTOALL": "alltoall",
}
_HEAD = 2**17
"""Number of first bytes that must contain the first two lines."""

_THREAD, _STREAM = "main", "npu"
_MAX_TIME = 10**15
_UNITS = (
    "times are nanoseconds, as in ASTRA-sim (Chakra's converter interprets these files in "
    "microseconds)"
)
_COLUMNS = 11
_LAST_COLUMN = 12  # the time of weight updates, which is not used
_NO_DEPENDENCY = "-1"
_WORLD, _MODEL = "all_gpus", "model_parallel_NPU_group"
_SINGLE = frozenset({"pp", "vpp", "ep", "ga"})
"""SimAI's words for pipeline stages, virtual stages, expert parallelism, and gradient accumulation.
A value of 1 has no effect."""

_WORD = re.compile(r"([A-Za-z_][A-Za-z_0-9]*):([^:]*)(?=\s[A-Za-z_]|\s*$)")


@dataclass(frozen=True, slots=True)
class _Pass:
    """A pass of a layer: computation in nanoseconds, collective (or empty), and its bytes."""

    time: int
    collective: str
    size: int


@dataclass(frozen=True, slots=True)
class _Layer:
    forward: _Pass
    inputs: _Pass
    weights: _Pass


@dataclass(frozen=True, slots=True)
class _Header:
    """The first line.

    Attributes:
        mode: Kind of parallelism.
        model_ranks: Number of ranks that share a model. 0: unknown.
        bottom: Last bottom layer of a DLRM.
        checkpoints: Layers from which the forward pass can be repeated.
        initiators: Layers whose backward pass repeats the forward pass from a checkpoint.
        world: Number of ranks of the job. 0: unknown.
        unread: Unused words with their values.
    """

    mode: str
    model_ranks: int = 0
    bottom: int = 0
    checkpoints: frozenset[int] = frozenset()
    initiators: frozenset[int] = frozenset()
    world: int = 0
    unread: tuple[str, ...] = ()


_ProgramLine = tuple[str, int]
"""An action and its layer. The action is a pass, or ``call`` or ``wait`` and a pass.

A pass is ``forward``, ``inputs``, or ``weights``, and means its computation.
"""


def sniff(content: bytes) -> bool:
    """Return whether the first line is a kind of parallelism, and the second line a number."""
    lines = content[:_HEAD].split(b"\n", 2)
    words = lines[0].split() if len(lines) > 1 else []
    return bool(words) and words[0] in {m.encode() for m in _MODES} and lines[1].strip().isdigit()


def read(content: bytes, where: str, wanted: StepSelection) -> RankTrace:
    """Return the iteration of every rank.

    Raises:
        InputError: The content is not such a text, or a step is requested.
    """
    wanted.find_index([], where)
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: it is no text (byte {error.start} is not UTF-8)") from error
    header = _parse_header(lines[0] if lines else "", where)
    layers = _parse_layers(lines, where)
    for place in (header.bottom, *header.checkpoints, *header.initiators):
        if place >= len(layers):
            raise FormatError(f"{where}, line 1: there is no layer {place} of {len(layers)}")
    program = list(islice(_layer_program(header, len(layers)), MAX_LINES + 1))
    if len(program) > MAX_LINES:
        raise TooLargeError(
            f"{where}: it recomputes more layers than sccl reads: give fewer checkpoints"
        )
    assumed = [_UNITS]
    if header.mode.startswith("HYBRID_") and header.mode not in _DLRM and not header.model_ranks:
        assumed.append(
            "every collective has all ranks: the file does not divide ranks between models"
        )
    return RankTrace(
        source=where,
        format=NAME,
        events=tuple(_events(program, layers, header)),
        rank=0,
        main=_THREAD,
        has_times=True,
        assumed=tuple(assumed),
        unread=tuple(_unused_content(header, lines)),
        world=header.world,
        covers_all_ranks=True,
        model_ranks=header.model_ranks,
    )


def _parse_header(line: str, where: str) -> _Header:
    words = line.split()
    mode = words[0] if words else ""
    values = {name: value.strip() for name, value in _WORD.findall(line)}
    header = _parse_mode_header(line, words, mode, values, where)
    world = 0
    if _WORLD in values:
        world = _parse_number(values[_WORLD], MAX_RANKS, _WORLD, where, 1)
    used = {_WORLD} if mode in _DLRM else {_WORLD, _MODEL}
    used |= {"checkpoints", "checkpoint_initiates"} if mode == _RECOMPUTING else set()
    unread = [
        f"{name}: {value}"
        for name, value in values.items()
        if name not in used and not (name in _SINGLE and value == "1")
    ]
    named = {word for name, value in values.items() for word in (f"{name}:", *value.split())}
    first = 2 if mode in _DLRM else 1
    unread += [word for word in words[first:] if word not in named and ":" not in word]
    return replace(header, world=world, unread=tuple(unread))


def _parse_mode_header(
    line: str, words: list[str], mode: str, values: dict[str, str], where: str
) -> _Header:
    """Return the header fields of a kind of parallelism."""
    if mode not in _MODES:
        raise FormatError(
            f"{where}, line 1: it begins with {mode!r:.40}, expected one of {', '.join(_MODES)}"
        )
    if mode in _DLRM:
        bottom = words[1] if len(words) > 1 else ""
        return _Header(
            mode, bottom=_parse_number(bottom, MAX_LAYERS, "the last bottom layer", where, 1)
        )
    model = 0
    if _MODEL in values:
        model = _parse_number(values[_MODEL], MAX_RANKS, "ranks that share a model", where, 1)
    if mode != _RECOMPUTING:
        return _Header(mode, model)
    layers = [
        _parse_number_list(name, line, where) for name in ("checkpoints", "checkpoint_initiates")
    ]
    if layers[1] and (not layers[0] or min(layers[1]) <= min(layers[0])):
        raise FormatError(f"{where}, line 1: there is no checkpoint before layer {min(layers[1])}")
    return _Header(mode, model, checkpoints=layers[0], initiators=layers[1])


def _parse_number_list(name: str, line: str, where: str) -> frozenset[int]:
    """Return the numbers after a name. The first of them is their count."""
    match = re.search(rf"\b{name}:\s*([0-9 \t]*)", line)
    numbers = [int(word[:9]) for word in match[1].split()] if match else []
    if not numbers or len(numbers) != numbers[0] + 1:
        less = "fewer" if not numbers or len(numbers) < numbers[0] + 1 else "more"
        raise FormatError(f"{where}, line 1: {name} names {less} layers than its count")
    return frozenset(numbers[1:])


def _unused_content(header: _Header, lines: list[str]) -> Iterator[str]:
    if header.unread:
        words = ", ".join(f"{word!a:.42}"[1:-1] for word in header.unread)
        yield f"ignored words of line 1, which may change the behavior of ranks: {words}"
    rows = [line.split() for line in lines[2:] if line.strip()]
    if any(len(row) >= _LAST_COLUMN and row[_LAST_COLUMN - 1] != "0" for row in rows):
        yield "times of updates of weights (column 12)"
    if more := sum(len(row) > _LAST_COLUMN for row in rows):
        yield f"columns from 13 on of {format_count(more, 'layer')}"
    if named := sum(row[1] != _NO_DEPENDENCY for row in rows):
        yield f"dependencies of {format_count(named, 'layer')} (column 2)"


def _parse_layers(lines: list[str], where: str) -> list[_Layer]:
    count = _parse_number(
        lines[1].strip() if len(lines) > 1 else "", MAX_LAYERS, "layers", where, 2
    )
    rows = [(n, line.split()) for n, line in enumerate(lines[2:], start=3) if line.strip()]
    if len(rows) != count or not rows:
        raise FormatError(
            f"{where}: it states {count} layers and has {len(rows)}: it may be cut off"
        )
    return [_parse_layer(row, number, where) for number, row in rows]


def _parse_layer(row: list[str], number: int, where: str) -> _Layer:
    if len(row) < _COLUMNS:
        raise FormatError(
            f"{where}, line {number}: it has {len(row)} columns, expected {_COLUMNS} or more: "
            "name, dependency, and time, collective and size of each of three passes"
        )
    return _Layer(*(_parse_pass(row[at : at + 3], number, where) for at in (2, 5, 8)))


def _parse_pass(words: list[str], number: int, where: str) -> _Pass:
    time = _parse_number(words[0], _MAX_TIME, "a time", where, number)
    size = _parse_number(words[2], MAX_ELEMENTS, "a size", where, number)
    if words[1] == "NONE" or (words[1] in _COLLECTIVES and not size):
        return _Pass(time, "", 0)
    if words[1] not in _COLLECTIVES:
        expected = ", ".join(("NONE", *_COLLECTIVES))
        raise FormatError(f"{where}, line {number}: {words[1]!r:.40} is none of {expected}")
    return _Pass(time, _COLLECTIVES[words[1]], size)


def _parse_number(word: str, limit: int, label: str, where: str, line: int) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", word) or int(word) > limit:
        raise FormatError(f"{where}, line {line}: {label} is {word!r:.30}, expected 0 to {limit}")
    return int(word)


def _layer_program(header: _Header, layers: int) -> Iterator[_ProgramLine]:
    """Yield computations, calls, and waits, in order."""
    if header.mode == "DATA":
        yield from _data_parallel(layers)
    elif header.mode in _DLRM:
        yield from _dlrm_parallel(layers, header.bottom)
    else:
        yield from _model_parallel(layers, header)


def _data_parallel(layers: int) -> Iterator[_ProgramLine]:
    for layer in range(layers):
        yield from (("wait weights", layer), ("forward", layer))
    for layer in reversed(range(layers)):
        yield from (("weights", layer), ("call weights", layer))
        if layer:
            yield "inputs", layer


def _dlrm_parallel(layers: int, bottom: int) -> Iterator[_ProgramLine]:
    for layer in range(layers):
        yield "wait weights", layer
        if layer == bottom:
            yield "wait forward", 0
        yield "forward", layer
        if not layer:
            yield "call forward", 0
    for layer in reversed(range(layers)):
        if not layer:
            yield "wait inputs", 0
        yield from (("weights", layer), ("call weights", layer))
        if layer:
            yield "inputs", layer
        if layer == bottom + 1:
            yield "call inputs", 0


def _model_parallel(layers: int, header: _Header) -> Iterator[_ProgramLine]:
    checkpoints = sorted(header.checkpoints)
    for layer in range(layers):
        yield "wait weights", layer
        yield from _forward_pass(layer)
    for layer in reversed(range(layers)):
        if layer in header.initiators:
            begin = checkpoints[bisect_left(checkpoints, layer) - 1]
            for again in range(begin, layer):
                yield from _forward_pass(again)
        yield "inputs", layer
        if layer:
            yield "call inputs", layer
        yield "weights", layer
        if header.mode != "MODEL":
            yield "call weights", layer
        if layer:
            yield "wait inputs", layer


def _forward_pass(layer: int) -> Iterator[_ProgramLine]:
    yield from (("forward", layer), ("call forward", layer), ("wait forward", layer))


def _events(
    program: list[_ProgramLine], layers: list[_Layer], header: _Header
) -> Iterator[TraceEvent]:
    """Yield events. Waits for calls of the previous iteration use its request numbers."""
    lines = [
        line
        for line in program
        if " " not in line[0] or getattr(layers[line[1]], line[0].split()[1]).collective
    ]
    called = [line for line in lines if line[0].startswith("call")]
    each = len(called)
    ahead = {line[1]: n for n, line in enumerate(called) if line[0] == "call weights"}
    made: dict[_ProgramLine, int] = {}
    number = each
    for action, layer in lines:
        verb, _, name = action.partition(" ")
        if not name:
            yield Kernel(_THREAD, _STREAM, getattr(layers[layer], verb).time / 1000)
            continue
        layer_pass = getattr(layers[layer], name)
        if verb == "call":
            made[name, layer] = number
            yield TracedCall(
                _THREAD,
                layer_pass.collective,
                "uint8",
                layer_pass.size,
                request=number,
                span=_call_span(name, header),
            )
            number += 1
        elif (name, layer) in made:
            yield TracedWait(_THREAD, made[name, layer])
        elif name == "weights" and layer in ahead:
            yield TracedWait(_THREAD, ahead[layer])


def _call_span(name: str, header: _Header) -> CallSpan:
    if not header.model_ranks:
        return CallSpan.ALL
    return CallSpan.REPLICAS if name == "weights" else CallSpan.MODEL
