"""Machine code of generated kernels: compile it, disassemble it, and report violations in it.

NVIDIA's opcodes name the scope of a flag's access (``ST.E.64.STRONG.SYS``). AMD's do not, so code
for AMD's GPUs is compiled with line numbers: an instruction belongs to the primitive of ``gpu.hpp``
whose lines it comes from.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.kit.projects import include_flags, mpich, tool

NEED_NVCC = "install the CUDA toolkit"
NEED_HIPCC = "apt-get install hipcc rocm-device-libs libamdhip64-dev"

VECTORS = 4
"""Loads of 16 bytes that a thread has in flight at least. With two, a block reaches 8 to 15 GB/s by
estimate, and a lane of NVLink has 25 GB/s."""

KERNELS = "run_collective"
"""The kernel of users, which has the same functions as `run_loopback`."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of a GPU.

    Attributes:
        opcode: Name with its modifiers, as the disassembler prints it.
        operands: Everything behind the opcode.
        primitive: Function of ``gpu.hpp`` that it comes from, empty where that is unknown.
    """

    opcode: str
    operands: str = ""
    primitive: str = ""

    @property
    def text(self) -> str:
        """Return the opcode and its operands."""
        return f"{self.opcode} {self.operands}"


Blocks = tuple[tuple[Instruction, ...], ...]
"""The basic blocks of a function, in the order of their addresses."""

Functions = Mapping[str, Blocks]
"""The functions of a kernel by their mangled names."""


def wheel_program(place: str, wheel: str) -> str:
    """Return a program of one of NVIDIA's wheels, or skip visibly.

    Args:
        place: path below ``nvidia`` in the folder of installed packages.
        wheel: name of the package, for the sentence of the skip.
    """
    path = Path(sysconfig.get_path("purelib"), "nvidia", place)
    if not path.exists():
        pytest.skip(f"no {path.name} of {wheel}: run make test-rest, which installs it")
    return str(path)


def run_tool(*words: str, cwd: Path | None = None) -> str:
    """Run a program that has to succeed and return all it printed."""
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, check=False, env=mpich().environment()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def write_kernels(project: Path) -> Path:
    """Write a source that has the kernels of a project and nothing for the host."""
    source = project / "kernels.cpp"
    source.write_text('#include "machine.hpp"\n')
    return source


def compile_cuda(source: Path, into: Path, arch: str, form: str) -> tuple[Path, str]:
    """Compile device code as the Makefile of a project does.

    Args:
        source: file of a CUDA project.
        into: folder of the compiled file.
        arch: ``sm_90`` or ``compute_75``.
        form: ``cubin`` or ``ptx``.

    Returns:
        The compiled file, and the report of the assembler on registers.
    """
    made = into / f"{source.stem}.{form}"
    words = [tool("nvcc", NEED_NVCC), "-O3", "-std=c++17", "-x", "cu", f"-arch={arch}", f"-{form}"]
    report = run_tool(
        *(*words, "-ccbin", mpich().compiler, "-Xptxas", "-v", source.name, "-o", str(made)),
        cwd=source.parent,
    )
    return made, report


def compile_hip(source: Path, into: Path, arch: str) -> Path:
    """Compile device code as the Makefile of a project does, with line numbers."""
    made = into / f"{source.stem}.code"
    words = [tool("hipcc", NEED_HIPCC), "-O3", "-std=c++17", f"--offload-arch={arch}"]
    words += ["-gline-tables-only", "--cuda-device-only", "--no-gpu-bundle-output"]
    words += [*include_flags(mpich()), "-x", "hip", "-c", source.name, "-o", str(made)]
    run_tool("env", "HIP_PLATFORM=amd", *words, cwd=source.parent)
    return made


def spilled(report: str) -> set[str]:
    """Return the functions for which the assembler of CUDA stored registers in memory."""
    found = re.findall(
        r"Function properties for (\S+)\n.*?(\d+) bytes spill stores, (\d+) bytes spill loads",
        report,
    )
    assert found, "the assembler reported no function"
    return {name for name, stores, loads in found if stores != "0" or loads != "0"}


def nvidia_functions(cubin: Path, kernel: str = KERNELS) -> Functions:
    """Disassemble a kernel of NVIDIA's, function by function."""
    program = wheel_program("cu13/bin/nvdisasm", "nvidia-cuda-nvdisasm")
    text = run_tool(program, "-c", str(cubin))
    (section,) = re.findall(
        rf"^\.text\.\w*{kernel}\w*:\n(.*?)(?=^\t\.section|\Z)", text, re.MULTILINE | re.DOTALL
    )
    parts = re.split(
        r"^\$[^$\n]+\$(\w+):$|^\$__internal_\d+_\$(\w+):$", section, flags=re.MULTILINE
    )
    names = [kernel] + [a or b for a, b in zip(parts[1::3], parts[2::3], strict=True)]
    return {name: _nvidia_blocks(body) for name, body in zip(names, parts[0::3], strict=True)}


def _nvidia_blocks(body: str) -> Blocks:
    blocks: list[list[Instruction]] = [[]]
    for line in body.splitlines():
        if line.startswith(".L"):
            blocks.append([])
        elif parsed := re.match(r"\s+/\*\w+\*/\s+(?:@!?\w+ )?([A-Z][\w.]*)\s*(.*?) ?;", line):
            blocks[-1].append(Instruction(parsed[1], parsed[2]))
            if re.match(r"BRA|BRX|RET|EXIT|CALL|JMP", parsed[1]):
                blocks.append([])
    return tuple(tuple(block) for block in blocks if block)


def amd_functions(code: Path, header: Path, kernel: str = KERNELS) -> Functions:
    """Disassemble an AMD kernel and its callees.

    Args:
        code: Compiled file.
        header: ``gpu.hpp`` of its compilation.
        kernel: Name of the kernel.
    """
    text = run_tool(tool("llvm-objdump", "apt-get install llvm"), "-d", "-l", str(code))
    primitives = _primitives(header.read_text())
    parts = re.split(r"^\w+ <(\w+)>:$", text, flags=re.MULTILINE)
    found = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        if "Machine" in name or "combine" in name or kernel in name:
            found[name] = _amd_blocks(name, body, primitives)
    assert found
    return found


def _primitives(header: str) -> dict[int, str]:
    """Return which function of ``gpu.hpp`` each of its lines belongs to."""
    owner, owners = "", {}
    for number, line in enumerate(header.splitlines(), 1):
        if begun := re.match(r"SCCL_DEVICE \w[\w ]*?[ *](\w+)\(", line):
            owner = begun[1]
        elif re.match(r"\S", line) and not line.startswith(("}", "#")):
            owner = ""
        owners[number] = owner
    return owners


def _amd_blocks(name: str, body: str, primitives: Mapping[int, str]) -> Blocks:
    leaders = {int(place, 16) for place in re.findall(rf"<{name}\+0x(\w+)>", body)}
    blocks: list[list[Instruction]] = [[]]
    primitive, first = "", None
    for line in body.splitlines():
        if place := re.match(r"; \S*?([^/\s]+):(\d+)$", line):
            primitive = primitives.get(int(place[2]), "") if place[1] == "gpu.hpp" else ""
        elif parsed := re.match(r"\t(\w+)\s*(.*?)\s*// (\w+):", line):
            at = int(parsed[3], 16)
            first = at if first is None else first
            if at - first in leaders:
                blocks.append([])
            blocks[-1].append(Instruction(parsed[1], parsed[2], primitive))
            if re.match(r"s_c?branch|s_setpc|s_swappc|s_endpgm", parsed[1]):
                blocks.append([])
    return tuple(tuple(block) for block in blocks if block)


SENDERS = ("send", "recv_reduce_send", "credit", "tell", "next")
"""Functions of Machine that set a flag of a peer."""

FLUSHING = ("send", "recv_reduce_send")
"""Functions of Machine that write data at a peer: with a flag behind it, and in packets."""


def nvidia_violations(functions: Functions) -> Iterator[str]:
    """Yield the violations in code for NVIDIA's GPUs, a sentence each."""
    for name, blocks in functions.items():
        code = [instruction for block in blocks for instruction in block]
        if "run_block" not in name:  # it reads the instructions of the program, which nobody writes
            yield from (
                f"{name} reads memory through the cache of constants: {instruction.text}"
                for instruction in code
                if re.match(r"LDG?\b.*CONSTANT", instruction.opcode)
            )
        for place, instruction in enumerate(code):
            scope = re.match(r"(?:ST\.E\.64|ATOMG?\..*64)\.STRONG\.(SYS|GPU)", instruction.opcode)
            if scope and not _is_fenced(code[:place], scope[1]):
                yield f"{name} has no fence of scope {scope[1]} before {instruction.text}"
    for sender in SENDERS:
        if not _count(functions, sender, r"ST\.E\.64\.STRONG\.SYS"):
            yield f"{sender} sets no flag of system scope"
    if not _count(functions, "publish", r"ST\.E\.64\.STRONG\.GPU"):
        yield "publish sets no flag of GPU scope"
    if not _count(functions, "leave", r"ATOMG?\..*64\.STRONG\.GPU"):
        yield "leave counts without GPU scope"
    yield from _narrow_loops(functions, r"LDG?\.E\.128$", r"LDG?\.E(?:\.64)?$")


def _is_fenced(before: list[Instruction], scope: str) -> bool:
    """Return whether a fence comes before, with no access to memory behind it."""
    wanted = "SYS" if scope == "SYS" else "(?:SYS|GPU)"
    for instruction in reversed(before):
        if re.match(rf"MEMBAR\.(?:ALL|SC)\.{wanted}", instruction.opcode):
            return True
        if re.match(r"(?:LDG?|STG?|ATOMG?|REDG?|CALL|BAR|MEMBAR)\.", instruction.opcode):
            return False
    return False


def _count(functions: Functions, method: str, opcode: str) -> int:
    """Return how many instructions of a method of Machine have such an opcode."""
    (blocks,) = (
        blocks for name, blocks in functions.items() if re.search(rf"Machine\d+{method}E", name)
    )
    return sum(bool(re.match(opcode, each.opcode)) for block in blocks for each in block)


def _narrow_loops(functions: Functions, wide: str, narrow: str = "") -> Iterator[str]:
    """Yield functions that move data with too few loads in flight.

    Args:
        wide: Pattern of the opcode of a load of 16 bytes.
        narrow: Pattern of those of 4 and 8 bytes, for chunks whose addresses differ modulo 16.
            AMD's GPUs load 16 bytes there, too.
    """
    for name, blocks in functions.items():
        if re.search(r"Machine\d+(?:send|copy)E|combine_as", name):
            for load, size, expected in ((wide, "16", VECTORS), (narrow, "4 or 8", 4 * VECTORS)):
                most = (
                    max(count_loads_in_flight(block, load) for block in blocks)
                    if load
                    else expected
                )
                if most < expected:
                    yield f"{name} has {most} loads of {size} bytes in flight, expected {expected}"


def count_loads_in_flight(block: tuple[Instruction, ...], load: str) -> int:
    """Return the most loads of a block that are issued before it waits for the first of them.

    NVIDIA's code waits where it uses a register that a load fills, AMD's at ``s_waitcnt``.

    Args:
        block: Instructions of a basic block.
        load: Pattern of the opcode of a load.
    """
    most, pending = 0, list[set[int]]()
    for each in block:
        left = re.search(r"vmcnt\((\d+)\)", each.operands)
        if each.opcode == "s_waitcnt" and left:
            pending = pending[max(0, len(pending) - int(left[1])) :]
        used = _registers(each.operands)
        done = [number for number, filled in enumerate(pending, 1) if filled & used]
        pending = pending[max(done, default=0) :]
        if re.match(load, each.opcode):
            first = min(_registers(each.operands.split(",")[0]))
            pending.append(set(range(first, first + _loaded_registers(each.opcode))))
        most = max(most, len(pending))
    return most


def _loaded_registers(opcode: str) -> int:
    """Return how many registers a load fills."""
    return 4 if opcode.endswith(("128", "x4")) else 2 if opcode.endswith("64") else 1


def _registers(operands: str) -> set[int]:
    """Return the numbers of the vector registers that operands name."""
    ranges = [*re.findall(r"\bv\[(\d+):(\d+)\]", operands)]
    ranges += [(number, number) for number in re.findall(r"\b[Rv](\d+)\b", operands)]
    return {number for first, last in ranges for number in range(int(first), int(last) + 1)}


def amd_violations(functions: Functions) -> Iterator[str]:
    """Yield the violations in code for gfx906, a sentence each."""
    for name, blocks in functions.items():
        code = [instruction for block in blocks for instruction in block]
        for place, each in enumerate(code):
            flag = each.primitive in {"store_flag", "store_own"} and "store" in each.opcode
            if flag and not _is_awaited(code[:place], each.primitive):
                yield f"{name} does not await its writes before {each.primitive}: {each.text}"
            flush = each.primitive == "flush_host_path" and "store" in each.opcode
            if (flag or flush) and not _is_awaited_by_all(code[:place]):
                yield f"{name} does not await the writes of all waves before {each.primitive}"
        for block in blocks:
            for place, each in enumerate(block):
                if each.primitive == "load_flag" and "load" in each.opcode:
                    yield from _stale_reads(name, block[place:])
    for method, primitive in [*((m, "store_flag") for m in SENDERS), ("publish", "store_own")]:
        (blocks,) = (b for n, b in functions.items() if re.search(rf"Machine\d+{method}E", n))
        if not any(each.primitive == primitive for block in blocks for each in block):
            yield f"{method} sets no flag by {primitive}"
    for method in FLUSHING:
        (blocks,) = (b for n, b in functions.items() if re.search(rf"Machine\d+{method}E", n))
        primitives = [e.primitive for block in blocks for e in block if "store" in e.opcode]
        if primitives.count("flush_host_path") != 2:
            yield f"{method} does not flush its data and its packets"
        if ["flush_host_path", "store_flag"] not in map(list, pairwise(primitives)):
            yield f"{method} does not flush its data before store_flag"
    yield from _unflushed_offers(functions)
    yield from _narrow_loops(functions, r"(?:flat|global)_load_dwordx4$")


def _unflushed_offers(functions: Functions) -> Iterator[str]:
    """Yield violations in the flush of the words that a rank writes before it enters a call."""
    (blocks,) = (b for n, b in functions.items() if re.search(r"Machine\d+nextE", n))
    code = [each for block in blocks for each in block]
    flushes = [
        place
        for place, each in enumerate(code)
        if each.primitive == "flush_host_path" and "store" in each.opcode
    ]
    if not flushes:
        yield "next does not flush its offers"
    if not all(_is_awaited(code[:place], "fence_for_barrier") for place in flushes):
        yield "next does not await its offers before flush_host_path"


def amd_stream_violations(functions: Functions) -> Iterator[str]:
    """Yield what is wrong in the kernel that sets a flag for a stream, a sentence each."""
    (blocks,) = (blocks for name, blocks in functions.items() if "set_word" in name)
    used = [
        (each.primitive, "load" in each.opcode)
        for block in blocks
        for each in block
        if re.match(MEMORY, each.opcode)
    ]
    if used != [("flush_host_path", False), ("await_host_path", True), ("store_flag", False)]:
        yield "set_word does not await the flush before store_flag"
    code = [each for block in blocks for each in block]
    for place, each in enumerate(code):
        flag = each.primitive == "store_flag" and "store" in each.opcode
        if flag and not _is_awaited(code[:place], "store_flag"):
            yield "set_word does not await its accesses before store_flag"


MEMORY = r"(?:flat|global|buffer)_(?:load|store|atomic)"


def _is_awaited(before: list[Instruction], primitive: str) -> bool:
    """Return whether a wave awaits all its writes, and accesses no memory behind that.

    Args:
        before: Instructions up to the access that has to come later.
        primitive: Function that has to be the one that waits. A wait for the value of a load is one
            for writes, too, but another order of instructions may move it.
    """
    for each in reversed(before):
        waits = each.opcode == "s_waitcnt" and "vmcnt(0)" in each.operands
        if waits and each.primitive == primitive:
            return True
        if re.match(MEMORY, each.opcode):
            return False
    return False


def _is_awaited_by_all(before: list[Instruction]) -> bool:
    """Return whether all waves await their writes before the last barrier, where there is one."""
    barriers = [i for i, each in enumerate(before) if each.opcode == "s_barrier"]
    return not barriers or _is_awaited(before[: barriers[-1]], "fence_for_barrier")


def _stale_reads(name: str, block: tuple[Instruction, ...]) -> Iterator[str]:
    """Yield loads of a flag that are not followed by an invalidation of the caches."""
    load, *behind = block
    if "glc" not in load.operands:
        yield f"{name} reads a flag from its cache: {load.text}"
    opcodes = [
        each.text for each in behind if re.match(rf"s_waitcnt|buffer_wbinvl1|{MEMORY}", each.opcode)
    ]
    if not re.match(r"s_waitcnt .*vmcnt\(0\).*\nbuffer_wbinvl1", "\n".join(opcodes)):
        yield f"{name} keeps stale data in its cache behind {load.text}"
