"""Model, read and write MSCCL programs in XML: thread blocks and their steps.

Source: microsoft/msccl 2023-09 ``src/graph/topo.cc`` and ``src/graph/xml.cc``, Azure/
msccl-executor-nccl 2024-12 and ROCm/rccl 2024-10 ``src/misc/msccl/msccl_parser.cc``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

from sccl.errors import FormatError, TooLargeError
from sccl.topo.importers.common.unused_fields import unused_attributes, unused_line

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_ELEMENTS = 2**19
"""Maximum number of elements of a file. A million steps take minutes."""

MAX_COUNT = 128
"""Maximum number of chunks of a step that is read. Runtimes support up to 71."""

MAX_CHUNKS = 2**22
"""Maximum number of chunks of all buffers together, and of all moves of steps."""

UNMOVED = 2**12
"""Number of chunks of all ranks that a file may have regardless of its steps. Unmoved chunks only
cost time.
"""

SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
LOCAL = frozenset({"cpy", "re", "nop"})
TYPES = SENDS | RECEIVES | LOCAL
REDUCES = frozenset({"rrs", "rrc", "rrcs", "re"})
BUFFERS = {"i": "input", "o": "output", "s": "scratch"}


ATTRIBUTES = {
    "algo": frozenset(
        {"name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace", "outofplace"}
        | {"minBytes", "maxBytes"}
    ),
    "gpu": frozenset({"id", "i_chunks", "o_chunks", "s_chunks"}),
    "tb": frozenset({"id", "send", "recv", "chan"}),
    "step": frozenset(
        {"s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"}
    ),
}
"""Known attributes, by element."""

_BEGINNING = rb"\s*(<\?xml[^>]*>\s*)?(<!--(?:(?!-->).)*-->\s*)*<algo[\s>]"


@dataclass(frozen=True, slots=True)
class MscclStep:
    """A step of a thread block, with offsets in chunks.

    Attributes:
        dep: The (thread block, step) that must end before. None: none.
        signals: Whether other steps may wait for it.
    """

    type: str
    src: tuple[str, int]
    dst: tuple[str, int]
    count: int
    dep: tuple[int, int] | None
    signals: bool


@dataclass(frozen=True, slots=True)
class MscclBlock:
    """A thread block, which sends to one rank, and receives from one rank (-1: none)."""

    send: int
    recv: int
    channel: int
    steps: tuple[MscclStep, ...]


@dataclass(frozen=True, slots=True)
class MscclGpu:
    """The program of a rank, and the chunks of its buffers."""

    inputs: int
    outputs: int
    scratch: int
    blocks: tuple[MscclBlock, ...]


@dataclass(frozen=True, slots=True)
class MscclProgram:
    """A program.

    Attributes:
        chunks: Number of chunks of the larger buffer (``nchunksperloop``).
        unused: Line that lists ignored elements and attributes, if there are any.
    """

    attributes: Mapping[str, str]
    chunks: int
    gpus: tuple[MscclGpu, ...]
    unused: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return len(self.gpus)

    def blocks(self) -> Iterator[tuple[int, int, MscclBlock]]:
        """Yield (rank, number, thread block)."""
        for rank, gpu in enumerate(self.gpus):
            for number, block in enumerate(gpu.blocks):
                yield rank, number, block


def split_to_single_chunks(program: MscclProgram) -> MscclProgram:
    """Return the program as runtimes execute it if only one chunk fits a slot of a queue.

    A step of several chunks then moves them one after another, each with its own slot, so it may
    wait for the other end between them.
    """
    gpus = tuple(
        replace(gpu, blocks=tuple(_split_block(gpu, block) for block in gpu.blocks))
        for gpu in program.gpus
    )
    return replace(program, gpus=gpus)


def _split_block(gpu: MscclGpu, block: MscclBlock) -> MscclBlock:
    steps: list[MscclStep] = []
    for step in block.steps:
        dep = step.dep
        if dep is not None and dep[0] < len(gpu.blocks):
            before = gpu.blocks[dep[0]].steps[: dep[1] + 1]
            dep = (dep[0], sum(max(1, prior.count) for prior in before) - 1)
        last = max(1, step.count) - 1
        for j in range(last + 1):
            src, dst = ((at[0], at[1] + j) for at in (step.src, step.dst))
            count, first = min(step.count, 1), dep if j == 0 else None
            steps.append(MscclStep(step.type, src, dst, count, first, step.signals and j == last))
    return replace(block, steps=tuple(steps))


def format_program(program: MscclProgram) -> str:
    """Return the XML of a program for all runtimes' parsers, without declaration and tabs."""
    return "".join(_xml_lines(program))


def _xml_lines(program: MscclProgram) -> Iterator[str]:
    attributes = " ".join(f'{name}="{value}"' for name, value in program.attributes.items())
    yield f"<algo {attributes}>\n"
    for rank, gpu in enumerate(program.gpus):
        yield (
            f'  <gpu id="{rank}" i_chunks="{gpu.inputs}" o_chunks="{gpu.outputs}" '
            f's_chunks="{gpu.scratch}">\n'
        )
        for number, block in enumerate(gpu.blocks):
            yield (
                f'    <tb id="{number}" send="{block.send}" recv="{block.recv}" '
                f'chan="{block.channel}">\n'
            )
            for s, step in enumerate(block.steps):
                yield _step_line(s, step)
            yield "    </tb>\n"
        yield "  </gpu>\n"
    yield "</algo>\n"


def _step_line(s: int, step: MscclStep) -> str:
    block, index = step.dep or (-1, -1)
    return (
        f'      <step s="{s}" type="{step.type}" srcbuf="{step.src[0]}" srcoff="{step.src[1]}" '
        f'dstbuf="{step.dst[0]}" dstoff="{step.dst[1]}" cnt="{step.count}" depid="{block}" '
        f'deps="{index}" hasdep="{int(step.signals)}"/>\n'
    )


def is_program(content: bytes) -> bool:
    """Return whether content begins like an MSCCL program."""
    head = content[: 2**16].removeprefix(b"\xef\xbb\xbf")
    return bool(re.match(_BEGINNING, head, re.DOTALL))


def parse_program(content: bytes, where: str) -> MscclProgram:
    """Parse a program from XML.

    Raises:
        FormatError: The content is no program.
        TooLargeError: It exceeds the limits.
    """
    root = parse_untrusted_xml(content, where)
    if root.tag != "algo":
        raise FormatError(f"{where}: its element is <{root.tag[:40]}>, expected <algo>")
    chunks = _parse_number(root, "nchunksperloop", where, 1)
    gpus = root.findall("gpu")
    ranks = _parse_number(root, "ngpus", where, 1) if "ngpus" in root.attrib else len(gpus)
    if max(ranks, 1) * chunks > MAX_CHUNKS:
        raise TooLargeError(
            f"{where}: {ranks} ranks of {chunks} chunks; up to {MAX_CHUNKS} in all are read"
        )
    by_rank: dict[int, MscclGpu] = {}
    for element in gpus:
        rank = _parse_number(element, "id", f"{where}, gpu", 0)
        if rank in by_rank:
            raise FormatError(f"{where}: gpu {rank} is there twice, expected once")
        by_rank[rank] = _parse_gpu(element, f"{where}, gpu {rank}")
    if sorted(by_rank) != list(range(ranks)) or not ranks:
        raise FormatError(
            f"{where}: it has gpu {', '.join(map(str, sorted(by_rank)[:8]))} of {ranks}, expected "
            "each from 0 on once"
        )
    moved = sum(s.count for g in by_rank.values() for b in g.blocks for s in b.steps)
    if moved > MAX_CHUNKS:
        raise TooLargeError(f"{where}: steps move {moved} chunks; up to {MAX_CHUNKS} are read")
    if ranks * chunks > 4 * max(moved, UNMOVED):
        raise TooLargeError(
            f"{where}: {ranks} ranks of {chunks} chunks, and all steps together move {moved}: "
            "most would never be moved, so that it is not read"
        )
    unused = unused_line(unused_attributes(root, ATTRIBUTES))
    return MscclProgram(dict(root.attrib), chunks, tuple(by_rank[r] for r in range(ranks)), unused)


def parse_untrusted_xml(content: bytes, where: str) -> Element:
    """Parse untrusted XML, and return its root element.

    Raises:
        FormatError: The content is not XML, or has entities or a document type.
        TooLargeError: It has too many elements.
    """
    from defusedxml.common import DefusedXmlException  # noqa: PLC0415 - only where XML is read
    from defusedxml.ElementTree import fromstring  # noqa: PLC0415

    if content.count(b"<") > 2 * MAX_ELEMENTS:
        raise TooLargeError(f"{where}: more than {MAX_ELEMENTS} elements, which is not read")
    try:
        root: Element = fromstring(content, forbid_dtd=True)
    except ParseError as error:
        raise FormatError(f"{where}: not XML: {error}") from error
    except (DefusedXmlException, ValueError, LookupError) as error:
        raise FormatError(
            f"{where}: its XML has entities, a document type or an encoding that is not read; "
            "expected plain elements"
        ) from error
    return root


def _parse_gpu(element: Element, where: str) -> MscclGpu:
    blocks: dict[int, MscclBlock] = {}
    for child in element.findall("tb"):
        number = _parse_number(child, "id", f"{where}, tb", 0)
        if number in blocks:
            raise FormatError(f"{where}: tb {number} is there twice, expected once")
        blocks[number] = _parse_block(child, f"{where}, tb {number}")
    if sorted(blocks) != list(range(len(blocks))):
        raise FormatError(f"{where}: its tb are {sorted(blocks)[:8]}, expected 0, 1, ...")
    return MscclGpu(
        _parse_number(element, "i_chunks", where, 0),
        _parse_number(element, "o_chunks", where, 0),
        _parse_number(element, "s_chunks", where, 0),
        tuple(blocks[n] for n in range(len(blocks))),
    )


def _parse_block(element: Element, where: str) -> MscclBlock:
    steps: list[MscclStep] = []
    for child in element.findall("step"):
        number = _parse_number(child, "s", where, 0)
        if number != len(steps):
            raise FormatError(f"{where}: s is {number}, expected {len(steps)}: steps in order")
        steps.append(_parse_step(child, f"{where}, step {number}"))
    return MscclBlock(
        _parse_number(element, "send", where, -1),
        _parse_number(element, "recv", where, -1),
        _parse_number(element, "chan", where, -1),
        tuple(steps),
    )


def _parse_step(element: Element, where: str) -> MscclStep:
    kind = element.get("type", "")
    if kind not in TYPES:
        raise FormatError(
            f"{where}: type is {kind[:20]!r}, expected one of {', '.join(sorted(TYPES))}"
        )
    places = []
    for side in ("src", "dst"):
        buffer = element.get(f"{side}buf", "")
        if buffer not in BUFFERS:
            raise FormatError(f"{where}: {side}buf is {buffer[:20]!r}, expected i, o or s")
        places.append((buffer, _parse_number(element, f"{side}off", where, -1)))
    block, index = (_parse_number(element, name, where, -1) for name in ("depid", "deps"))
    count = _parse_number(element, "cnt", where, 0)
    if count > MAX_COUNT:
        raise TooLargeError(
            f"{where}: cnt is {count}; runtimes take up to 71, and up to {MAX_COUNT} are read"
        )
    return MscclStep(
        kind,
        places[0],
        places[1],
        count,
        (block, index) if block >= 0 else None,
        _parse_number(element, "hasdep", where, 0) > 0,
    )


def _parse_number(element: Element, name: str, where: str, lower_bound: int) -> int:
    text = element.get(name)
    if text is None:
        raise FormatError(f"{where}: <{element.tag}> has no attribute {name}, expected a number")
    if not re.fullmatch(r"-?[0-9]{1,9}", text) or int(text) < lower_bound:
        raise FormatError(
            f"{where}: {name} is {text[:20]!r}, expected a whole number of at least {lower_bound}"
        )
    return int(text)
