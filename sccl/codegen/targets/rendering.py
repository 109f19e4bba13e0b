"""Compute the values of the templates and render them. Templates contain only text and loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from sccl.codegen.bundle import ROOTED, Bundle, BundleEntry, LoweredAlgorithm
from sccl.codegen.hazards import program_sites
from sccl.codegen.ir import Buffer, Instruction, Landing, Op, Program, RankProgram, Slot
from sccl.codegen.protocol import PROTOCOL, find_neighbors
from sccl.core.files.disk import data_dir
from sccl.core.sizes import ITEM_BYTES
from sccl.core.topology import ASCENDING, BusIds
from sccl.errors import ParameterError

if TYPE_CHECKING:
    import jinja2

BUFFERS = {Buffer.INPUT: "in", Buffer.OUTPUT: "out", Buffer.SCRATCH: "scratch"}

MAX_NUMBER = 2**16 - 2
"""Largest number in a field of an instruction. The next number means "none"."""

INDEX_BITS = 14
"""Number of bits of a slot's number. The other two bits of its field give the buffer."""

_NAMES = {
    "int8": ("std::int8_t", "MPI_INT8_T"),
    "uint8": ("std::uint8_t", "MPI_UINT8_T"),
    "int16": ("std::int16_t", "MPI_INT16_T"),
    "uint16": ("std::uint16_t", "MPI_UINT16_T"),
    "int32": ("std::int32_t", "MPI_INT32_T"),
    "uint32": ("std::uint32_t", "MPI_UINT32_T"),
    "int64": ("std::int64_t", "MPI_INT64_T"),
    "uint64": ("std::uint64_t", "MPI_UINT64_T"),
    "float16": ("Half", "MPI_DATATYPE_NULL"),
    "bfloat16": ("BFloat", "MPI_DATATYPE_NULL"),
    "float32": ("float", "MPI_FLOAT"),
    "float64": ("double", "MPI_DOUBLE"),
}

TYPES = {name.upper(): (ITEM_BYTES[name], *types) for name, types in _NAMES.items()}
"""Bytes, C++ type and MPI type of each element type."""


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    import jinja2  # noqa: PLC0415 - only code generation needs it, and loading it takes time

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("codegen_templates")),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - C++, not HTML, and names are already slugs
    )


def render(template: str, values: Mapping[str, Any]) -> str:
    """Render a template of ``codegen_templates``. An unknown name in it is an error."""
    return _environment().get_template(template).render(values)


def template_values(bundle: Bundle, slices: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return the values of the templates that all targets share."""
    programs = list(iterate_programs(bundle))
    layouts = [p.layout for _, _, p in programs]
    lines = [line for _, _, p in programs for line in program_sites(p).values()]
    blocks = max(1, *(len(r.blocks) for _, _, p in programs for r in p.ranks))
    rows = _program_tables(bundle, blocks)
    return {
        "ranks": bundle.ranks,
        "flags": max(1, *(p.flags for _, _, p in programs)),
        "slots": max(1, *(p.scratch_slots for _, _, p in programs)),
        "blocks": blocks,
        "steps": max(p.steps for _, _, p in programs),
        **_gpu_identities(bundle.bus_ids),
        "data": max(s.period for s in layouts),
        "patterns": max(len(b) for s in layouts for b in (*s.inputs, *s.outputs)),
        "neighbours": _neighbor_rows(bundle.ranks, [p for _, _, p in programs]),
        "copies": PROTOCOL.copies,
        "behind": [(mode.upper(), epochs) for mode, epochs in PROTOCOL.behind.items()],
        "selection": str(bundle.selection()),
        "types": list(TYPES),
        "type_bytes": _c_list(size for size, _, _ in TYPES.values()),
        "type_names": ", ".join(f'"{name.lower()}"' for name in TYPES),
        "cpp_types": [cpp for _, cpp, _ in TYPES.values()],
        "mpi_types": ", ".join(mpi for *_, mpi in TYPES.values()),
        "index_bits": INDEX_BITS,
        "programs": rows,
        "lines": max(1, *(len(b["lines"]) for p in rows for r in p["ranks"] for b in r["blocks"])),
        "arrivals": 1 + max((len(line.arrivals) for line in lines), default=0),
        "collectives": _collective_values(bundle, slices or {}),
        "names": [entry.identifier for entry in bundle.entries],
        "functions": [_function_values(entry) for entry in bundle.entries],
    }


def _neighbor_rows(ranks: int, programs: Iterable[Program]) -> list[str]:
    near = find_neighbors(programs, ranks)
    return [_c_list(b in near[a] for b in range(ranks)) for a in range(ranks)]


def iterate_programs(bundle: Bundle) -> Iterable[tuple[BundleEntry, LoweredAlgorithm, Program]]:
    """Yield every program in the order of the numbers that generated code gives them."""
    for entry in bundle.entries:
        for lowered in entry.algorithms:
            yield entry, lowered, lowered.eager
            yield entry, lowered, lowered.direct


def _gpu_identities(bus_ids: BusIds) -> dict[str, str]:
    # The topology reader has checked the bus ids, so they need no quoting.
    if bus_ids == ASCENDING:
        return {"numbering": "ascending", "bus_ids": ""}
    listed = ", ".join(f'"{bus_id}"' for bus_id in bus_ids)
    return {"numbering": "bus_ids" if bus_ids else "unstated", "bus_ids": listed}


def _c_list(numbers: Iterable[int]) -> str:
    return ", ".join(str(int(n)) for n in numbers)


@dataclass(frozen=True, slots=True)
class _InstructionRow:
    """A row of the table of instructions.

    Attributes:
        about: Pattern chunk of the block that the instruction moves.
        peer: Rank, or block of a wait for another block.
        flag: Flag, or mark that is published or awaited.
        into: Written slot.
        source: Read slot.
        other: Second read slot, flag of a credit, or part of a wait for another block.
        parts: Number of parts of a block.
    """

    code: str
    step: int
    about: int = 0
    peer: int = 0
    flag: int = 0
    part: int = 0
    into: Slot | None = None
    source: Slot | None = None
    other: Slot | int | None = None
    parts: int = 1

    def render_row(self) -> str:
        """Format the row for generated code.

        Raises:
            ParameterError: A number does not fit into its field.
        """
        numbers = {"step": self.step, "peer": self.peer, "flag": self.flag, "part": self.part}
        fields = [str(_check_limit(name, number, MAX_NUMBER)) for name, number in numbers.items()]
        slots = [self._slot_text(which) for which in (self.into, self.source, self.other)]
        return ", ".join((self.code, *fields, *slots))

    def _slot_text(self, which: Slot | int | None) -> str:
        if isinstance(which, int):
            return str(_check_limit("flag", which, MAX_NUMBER))
        if which is None:
            return "none" if self.code in (Op.SEND, "onward") else "0"
        units = 1 if which.buffer is Buffer.SCRATCH else self.parts
        number = _check_limit("slot", which.index // units, 2**INDEX_BITS - 1)
        return f"{BUFFERS[which.buffer]} | {number}"


def _check_limit(name: str, number: int, cap: int) -> int:
    if number > cap:
        raise ParameterError(
            f"an algorithm needs {name} {number}, and generated code counts to {cap}: give one of "
            "fewer chunks"
        )
    return number


def _program_tables(bundle: Bundle, most_blocks: int) -> list[dict[str, Any]]:
    """Return the rows of all instructions, with the offsets of each thread block."""
    rows, total = [], 0
    for number, (_, lowered, program) in enumerate(iterate_programs(bundle)):
        ranks = []
        for rank, rank_program in enumerate(program.ranks):
            blocks = _block_rows(program, rank_program)
            begins = list(accumulate(map(len, blocks), initial=total))
            total = begins[-1]
            ranks.append(
                {
                    "number": rank,
                    "blocks": [
                        {
                            "number": b,
                            "lines": [line.render_row() for line in lines],
                            "about": "".join(f"{line.about}, " for line in lines),
                        }
                        for b, lines in enumerate(blocks)
                    ],
                    "begins": _c_list(begins + [total] * (most_blocks + 1 - len(begins))),
                }
            )
        landing = "direct" if program.landing is Landing.OUTPUT else "eager"
        rows.append({"number": number, "label": lowered.label, "landing": landing, "ranks": ranks})
    return rows


def _block_rows(program: Program, rank_program: RankProgram) -> list[list[_InstructionRow]]:
    """Return the rows of each thread block: instructions, waits and published marks."""
    marks = _published_marks(rank_program)
    blocks = []
    for number, block in enumerate(rank_program.blocks):
        lines: list[_InstructionRow] = []
        opened: set[int] = set()
        for index, line in enumerate(block.instructions):
            part = program.layout.part(line.chunk)
            for b, i in line.after:
                other_part = program.layout.part(rank_program.blocks[b].instructions[i].chunk)
                lines.append(
                    _InstructionRow(
                        "after", line.step, peer=b, flag=marks[b, i], part=part, other=other_part
                    )
                )
            setting = line.sets()
            if setting is not None and setting[0] not in opened:
                opened.add(setting[0])
                lines.append(_InstructionRow("open", line.step, peer=setting[0]))
            lines.append(_instruction_line(program, line))
            for peer, flag, slot in line.arrivals:
                lines.append(
                    _InstructionRow(
                        "arrival", line.step, peer=peer, flag=flag, part=part, other=slot
                    )
                )
            if line.next_peer is not None:
                peer, flag = line.next_peer, line.next_flag or 0
                lines.append(
                    _InstructionRow(
                        "onward", line.step, peer=peer, flag=flag, part=part, other=line.credit
                    )
                )
            if (number, index) in marks:
                lines.append(
                    _InstructionRow("publish", line.step, flag=marks[number, index], part=part)
                )
        blocks.append(lines)
    return blocks


def _published_marks(rank_program: RankProgram) -> dict[tuple[int, int], int]:
    """Number the instructions of each block that other blocks wait for: 1, 2, ..."""
    awaited = sorted({address for _, line in rank_program.instructions() for address in line.after})
    marks: dict[tuple[int, int], int] = {}
    count: dict[int, int] = {}
    for block, index in awaited:
        count[block] = count.get(block, 0) + 1
        marks[block, index] = count[block]
    return marks


def _instruction_line(program: Program, line: Instruction) -> _InstructionRow:
    return _InstructionRow(
        line.op.value,
        line.step,
        about=line.chunk % program.layout.period,
        peer=line.peer or 0,
        flag=line.flag or 0,
        part=program.layout.part(line.chunk),
        into=line.dst,
        source=line.src,
        other=line.credit if line.op is Op.SEND else line.other,
        parts=program.layout.parts,
    )


def _collective_values(bundle: Bundle, slices: Mapping[str, int]) -> list[dict[str, Any]]:
    number = 0
    rows = []
    for entry in bundle.entries:
        algorithms = []
        for lowered in entry.algorithms:
            layout = lowered.eager.layout
            programs = []
            for program in (lowered.eager, lowered.direct):
                programs.append(_program_row(number, program, slices.get(lowered.label, 1)))
                number += 1
            algorithms.append(
                {
                    "label": lowered.label,
                    "root": lowered.algorithm.collective.root or 0,
                    "steps": lowered.algorithm.steps,
                    "links": _neighbor_rows(bundle.ranks, [lowered.eager, lowered.direct]),
                    "programs": programs,
                    "inputs": [_format_row(blocks) for blocks in layout.inputs],
                    "outputs": [_format_row(blocks) for blocks in layout.outputs],
                    "straight": _direct_blocks(lowered),
                }
            )
        rows.append(
            {
                "identifier": entry.identifier,
                "combining": int(entry.combining),
                "rooted": int(entry.rooted),
                "algorithms": algorithms,
            }
        )
    return rows


def _direct_blocks(lowered: LoweredAlgorithm) -> list[list[str]]:
    """Return tables of the block that each rank sends to each rank in a rooted one-step algorithm.

    Both tables are by source and target. The first one has the block's number among the input
    blocks of the source, and the second one among the output blocks of the target. -1: no block.
    Other algorithms have no tables.
    """
    algorithm, layout = lowered.algorithm, lowered.eager.layout
    if algorithm.steps > 1 or algorithm.collective.name not in ROOTED:
        return []
    pairs = [[set(held) & set(wanted) for wanted in layout.outputs] for held in layout.inputs]
    sent = [
        [layout.inputs[giver].index(*block) if block else -1 for block in row]
        for giver, row in enumerate(pairs)
    ]
    taken = [
        [layout.outputs[taker].index(*block) if block else -1 for taker, block in enumerate(row)]
        for row in pairs
    ]
    return [[_c_list(row) for row in side] for side in (sent, taken)]


def _format_row(blocks: tuple[int, ...]) -> str:
    return f"{len(blocks)}, {{{_c_list(blocks)}}}"


def _program_row(number: int, program: Program, slices: int) -> dict[str, Any]:
    layout = program.layout
    saved = []
    for rank, rank_program in enumerate(program.ranks):
        blocks = {index // layout.parts for index in rank_program.saves}
        saved.append(_c_list(b in blocks for b in range(len(layout.inputs[rank]))))
    return {
        "number": number,
        "parts": layout.parts,
        "uses_scratch": int(program.scratch_slots > 0),
        "slices": slices,
        "slots": _c_list(rank_program.scratch_slots for rank_program in program.ranks),
        "blocks": _c_list(len(rank_program.blocks) for rank_program in program.ranks),
        "saved": saved,
    }


def _function_values(entry: BundleEntry) -> dict[str, str]:
    """Return the C function of a collective: its parameters and the arguments of its call."""
    both = "const void *send, void *recv"
    buffers = "void *buffer" if entry.identifier == "broadcast" else both
    op = ", sccl_op op" if entry.combining else ""
    root = ", int root" if entry.rooted else ""
    passed = "buffer, buffer" if entry.identifier == "broadcast" else "send, recv"
    return {
        "name": entry.identifier,
        "parameters": f"{buffers}, size_t count, sccl_type type{op}{root}, sccl_comm comm",
        "arguments": f"{passed}, count, type, {'op' if op else 'SCCL_SUM'}, "
        f"{'root' if root else '0'}, comm",
    }
