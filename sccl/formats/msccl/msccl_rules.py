"""Check the requirements of each runtime of MSCCL programs: limits, vocabulary, and parser.

Source: see :mod:`sccl.formats.msccl.msccl_program`. Limits are constants of these files, and of
``msccl.h``, ``msccl_struct.h`` and ``collectives.h`` next to them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sccl.formats.msccl.msccl_program import MscclProgram, MscclStep

MAX_NAME = 254
"""Maximum number of bytes of a name or a value in XML (MAX_STR_LEN 255)."""

MAX_ATTRIBUTES = 16
MAX_CHILDREN = 1024
MAX_NODES = 4096
"""Maximum number of nodes of an element, and of a rank's part of the file (xml.h)."""

MAX_COUNT = 71
"""Maximum number of chunks of a step (MSCCL_MAX_COUNT 72, exclusive)."""

MAX_OFFSET = 2**15 - 1
"""Largest offset of a chunk in its buffer (int16)."""

MAX_DEP_BLOCK = 127
"""Maximum number of a thread block that others wait for (int8)."""

BLOCKS_PER_CHANNEL = 32
"""Maximum number of thread blocks that send, and that receive, over a channel
(MSCCL_MAX_NUM_THREAD_BLOCKS_PER_CHANNEL).
"""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime for MSCCL programs.

    Attributes:
        collectives: Supported collectives, in its spelling.
        required: Required attributes of ``algo``. Without them it rejects a file, sometimes
            silently.
        blocks: Largest number of thread blocks of a rank.
        steps: Largest number of steps of a thread block.
        last_byte: Whether ``maxBytes`` is inclusive.
    """

    name: str
    about: str
    collectives: tuple[str, ...]
    required: tuple[str, ...]
    blocks: int
    channels: int
    steps: int
    last_byte: bool


_NAMED = ("proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace")
_SIZED = ("outofplace", "minBytes", "maxBytes")
_RCCL_COLLECTIVES = (
    *("reduce", "broadcast", "allreduce", "reducescatter", "allgather", "send", "recv"),
    *("gather", "scatter", "alltoall", "alltoallv"),
)
_RUNTIMES = (
    Runtime(
        "msccl",
        "microsoft/msccl 2023-09",
        ("allreduce", "allgather", "reduce", "broadcast", "alltoall", "reduce_scatter", "custom"),
        ("name", *_NAMED),
        blocks=216,
        channels=32,
        steps=256,
        last_byte=False,
    ),
    Runtime(
        "azure",
        "Azure/msccl-executor-nccl 2024-12",
        _RCCL_COLLECTIVES,
        (*_NAMED, *_SIZED),
        blocks=1024,
        channels=32,
        steps=64,
        last_byte=True,
    ),
    Runtime(
        "rccl",
        "ROCm/rccl of ROCm 6.0 to 7.12",
        _RCCL_COLLECTIVES,
        (*_NAMED, *_SIZED),
        blocks=64,
        channels=32,
        steps=64,
        last_byte=True,
    ),
)
RUNTIMES = {runtime.name: runtime for runtime in _RUNTIMES}
"""Channels of RCCL: 32 in ROCm 6.0, 64 in 6.1, 128 from 6.2 on."""


def find_violations(program: MscclProgram, content: bytes, runtime: Runtime) -> list[str]:
    """Return violations of a runtime's rules as sentences, each kind once, with its position."""
    rules = [
        *_lexical_violations(content),
        *_header_violations(program, runtime),
        *_size_violations(program, runtime),
    ]
    for rank, gpu in enumerate(program.gpus):
        where = f"gpu {rank}"
        nodes = 2 + len(gpu.blocks) + sum(len(block.steps) for block in gpu.blocks)
        if nodes > MAX_NODES:
            rules.append(f"{where}: {nodes} elements, and {MAX_NODES} are read of a rank")
        if len(gpu.blocks) > min(runtime.blocks, MAX_CHILDREN):
            rules.append(f"{where}: {len(gpu.blocks)} thread blocks, at most {runtime.blocks}")
        rules += _channel_violations(program, rank)
    for rank, number, block in program.blocks():
        where = f"gpu {rank}, tb {number}"
        if not 0 <= block.channel < runtime.channels:
            rules.append(f"{where}: chan is {block.channel}, expected 0 to {runtime.channels - 1}")
        if len(block.steps) > runtime.steps:
            rules.append(f"{where}: {len(block.steps)} steps, at most {runtime.steps}")
        for peer in (block.send, block.recv):
            if peer == rank or peer >= program.ranks:
                rules.append(f"{where}: its peer is {peer}, expected another rank, or -1")
        rules += _step_violations(program, rank, number)
    return list(_first_of_kind(rules))


def _first_of_kind(texts: list[str]) -> Iterator[str]:
    """Yield the first sentence of each kind, with the number of further ones."""
    kinds: Counter[str] = Counter(re.sub(r"-?\d+", "#", text) for text in texts)
    for text in texts:
        kind = re.sub(r"-?\d+", "#", text)
        if more := kinds.pop(kind, 0) - 1:
            if more > 0:
                yield f"{text} ({more} more like it)"
        elif more == 0 and kind not in kinds:
            yield text


def _lexical_violations(content: bytes) -> Iterator[str]:
    text = content.decode("utf-8", "replace")
    if text.lstrip().startswith("<?"):
        yield "it begins with an XML declaration, at which parsers stop: take the line away"
    plain = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    if "\t" in plain:
        yield "it has tabs, which parsers do not skip: write spaces"
    tags = re.findall(r"<[^>]*>", plain)
    if any("\n" in tag for tag in tags):
        yield "an element spans several lines, which parsers do not read: write it on one"
    if any(re.search(r'\s=|=\s|="[^"]*"\s\s+\w|\'', tag) for tag in tags):
        yield "an element has spaces around = or several between attributes, or single quotes"
    if any(tag.count("=") > MAX_ATTRIBUTES for tag in tags):
        yield f"an element has over {MAX_ATTRIBUTES} attributes"
    if re.search(rf'"[^"]{{{MAX_NAME + 1},}}"', plain):
        yield f"a value has over {MAX_NAME} characters"


def _header_violations(program: MscclProgram, runtime: Runtime) -> Iterator[str]:
    attrs = program.attributes
    for name in runtime.required:
        if name not in attrs:
            yield f"algo has no attribute {name}, without which the runtime ignores the file"
    if attrs.get("proto", "Simple") not in {"Simple", "LL", "LL128"}:
        yield f"proto is {attrs['proto'][:20]!r}, expected Simple, LL or LL128"
    collective = attrs.get("coll", "")
    if collective not in runtime.collectives:
        yield f"coll is {collective[:20]!r}, expected one of {', '.join(runtime.collectives)}"
    channels = 1 + max((block.channel for *_, block in program.blocks()), default=0)
    if attrs.get("nchannels") != str(channels):
        yield f"nchannels is {attrs.get('nchannels', '')[:20]!r}, and thread blocks use {channels}"
    if attrs.get("inplace") == "0" and attrs.get("outofplace") == "0":
        yield "inplace and outofplace are both 0, so no call uses the file"


def _size_violations(program: MscclProgram, runtime: Runtime) -> Iterator[str]:
    bounds = []
    for name in ("minBytes", "maxBytes"):
        text = program.attributes.get(name, "0" if name == "minBytes" else str(2**27))
        if not re.fullmatch(r"[0-9]{1,19}", text):
            yield f"{name} is {text[:20]!r}, expected a whole number"
            return
        bounds.append(int(text))
    min_bytes, max_bytes = bounds
    if not runtime.last_byte and max_bytes <= min_bytes:
        yield f"maxBytes is {max_bytes}, which is exclusive, so it matches no size"
    if runtime.last_byte and 0 < max_bytes < min_bytes:
        yield f"maxBytes is {max_bytes}, below minBytes, so no call uses the file"
    if runtime.last_byte:
        return
    factors = {"allgather": (program.ranks, 1), "reduce_scatter": (1, program.ranks)}
    i, o = factors.get(program.attributes.get("coll", ""), (1, 1))
    for rank, gpu in enumerate(program.gpus):
        for label, size in (("i_chunks", gpu.inputs * i), ("o_chunks", gpu.outputs * o)):
            if size and size != program.chunks:
                text = f"gpu {rank}: {label} stand for {size} chunks"
                yield f"{text}, and nchunksperloop is {program.chunks}"


def _channel_violations(program: MscclProgram, rank: int) -> Iterator[str]:
    for side in ("send", "recv"):
        blocks = program.gpus[rank].blocks
        used = Counter((b.channel, getattr(b, side)) for b in blocks if getattr(b, side) >= 0)
        for (channel, peer), count in used.items():
            if count > 1:
                text = f"gpu {rank}: {count} thread blocks {side} over channel {channel}"
                yield f"{text} with rank {peer}, at most one may"
        for channel, count in Counter(channel for channel, _ in used).items():
            if count > BLOCKS_PER_CHANNEL:
                text = f"gpu {rank}: {count} thread blocks {side} over channel {channel}"
                yield f"{text}, at most {BLOCKS_PER_CHANNEL}"


def _step_violations(program: MscclProgram, rank: int, number: int) -> Iterator[str]:
    blocks = program.gpus[rank].blocks
    steps = blocks[number].steps
    for s, step in enumerate(steps):
        where = f"gpu {rank}, tb {number}, step {s}"
        if step.count > MAX_COUNT or (step.count < 1 and step.type != "nop"):
            yield f"{where}: cnt is {step.count}, expected 1 to {MAX_COUNT}"
        if max(step.src[1], step.dst[1]) + step.count > MAX_OFFSET:
            yield f"{where}: its chunks go beyond {MAX_OFFSET}"
        yield from (f"{where}: {text}" for text in _out_of_bounds(program, rank, step))
        if step.dep is None:
            continue
        block, index = step.dep
        if block > MAX_DEP_BLOCK:
            yield f"{where}: it waits for thread block {block}, at most {MAX_DEP_BLOCK} can be"
        others = blocks[block].steps if block < len(blocks) else ()
        if 0 <= index < len(others) and not others[index].signals:
            yield f"{where}: it waits for a step whose hasdep is 0"
        if step.type == "nop" and (s + 1 == len(steps) or steps[s + 1].dep is None):
            yield f"{where}: a nop that waits, before a step that does not, is no chain"


def _out_of_bounds(program: MscclProgram, rank: int, step: MscclStep) -> Iterator[str]:
    """Describe accesses of a step beyond its rank's buffers."""
    gpu = program.gpus[rank]
    sizes = {"i": gpu.inputs, "o": gpu.outputs, "s": gpu.scratch}
    reads = step.type in {"s", "rrs", "rrc", "rrcs", "re", "cpy"}
    writes = step.type in {"r", "rcs", "rrc", "rrcs", "re", "cpy"}
    for used, (buffer, offset) in ((reads, step.src), (writes, step.dst)):
        if used and not (offset >= 0 and offset + step.count <= sizes[buffer]):
            yield f"chunks {offset} to {offset + step.count - 1} of {buffer}, of {sizes[buffer]}"
