"""Machine code of CUDA and HIP projects: order of flags, width of loops, registers, a V100."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from sccl.codegen.project_writer import generate, write_project
from sccl.codegen.targets.codegen_options import CodegenOptions
from sccl.codegen.targets.gpu import THREADS
from tests.kit import once
from tests.kit.hard_algorithms import Hard, load_all
from tests.kit.machine_code import (
    amd_functions,
    amd_stream_violations,
    amd_violations,
    compile_cuda,
    compile_hip,
    nvidia_functions,
    nvidia_violations,
    run_tool,
    spilled,
    wheel_program,
    write_kernels,
)

ROWS = (Hard("dgx1", "allgather", (2, 2, 3)), Hard("dgx1", "reduce", (6, 3, 5), root=3))
"""Algorithms that compile in seconds, with every call of a machine."""

PTX_OF_CUDA_12_9 = (8, 8)


def build_kernels(target: str, *, types: str = r"\w+", transport: str = "kernel") -> Path:
    """Return the source of the kernels of a project.

    Args:
        target: ``cuda`` or ``hip``.
        types: pattern of the element types whose reductions are compiled.
        transport: ``kernel`` or ``dma``.
    """

    def fill(directory: Path) -> None:
        files = generate(load_all(ROWS), target, CodegenOptions(transport=transport))
        others = rf"    case SCCL_(?!{types}:)\w+: return combine.*\n"
        combine = re.sub(others, "", files["combine.hpp"])
        write_project(directory, files | {"combine.hpp": combine})
        write_kernels(directory)

    return once.folder(f"kernels-{target}-{transport}-{types}", fill) / "kernels.cpp"


def change_template(source: Path, into: Path, file: str, old: str, new: str) -> Path:
    """Copy a project with a changed line, and return the source of its kernels."""
    shutil.copytree(source.parent, into)
    text = (into / file).read_text()
    changed, count = re.subn(old, new, text)
    assert count, f"{file} has no {old}"
    (into / file).write_text(changed)
    return into / source.name


def test_v100_code_is_assembled_without_spills(tmp_path: Path) -> None:
    """CUDA 13 has no sm_70: its PTX for the oldest architecture is assembled by CUDA 12.9."""
    assembler = wheel_program("cuda_nvcc/bin/ptxas", "nvidia-cuda-nvcc-cu12")
    assert "release 12.9" in run_tool(assembler, "--version")
    ptx, _ = compile_cuda(build_kernels("cuda"), tmp_path, "compute_75", "ptx")
    text = ptx.read_text()
    version = re.search(r"^\.version (\d+)\.(\d+)$", text, re.MULTILINE)
    assert version
    known = min(PTX_OF_CUDA_12_9, (int(version[1]), int(version[2])))
    text = text.replace(version[0], ".version {}.{}".format(*known), 1)
    text, count = re.subn(r"^\.target sm_75$", ".target sm_70", text, flags=re.MULTILINE)
    assert count == 1
    ptx.write_text(text)
    report = run_tool(assembler, "-O3", "-arch=sm_70", "-v", str(ptx), "-o", str(tmp_path / "v100"))
    assert "for 'sm_70'" in report
    assert spilled(report) == set()
    registers = [int(used) for used in re.findall(r"Used (\d+) registers", report)]
    assert len(registers) == 3
    assert max(registers) * THREADS <= 65536


def test_nvidia_code_keeps_the_rules(tmp_path: Path) -> None:
    cubin, report = compile_cuda(build_kernels("cuda"), tmp_path, "sm_90", "cubin")
    assert spilled(report) == set()
    for kernel in ("run_collective", "run_loopback"):
        assert list(nvidia_violations(nvidia_functions(cubin, kernel))) == []


def test_amd_code_keeps_the_rules(tmp_path: Path) -> None:
    """Spills of AMD's code are counted where it is compiled as users compile it."""
    source = build_kernels("hip")
    code = compile_hip(source, tmp_path, "gfx906")
    assert list(amd_violations(amd_functions(code, source.with_name("gpu.hpp")))) == []


def test_amd_flags_of_streams_await_the_flush(tmp_path: Path) -> None:
    """The flag is in memory of the host. A flush of the peer's memory takes another way there."""
    source = build_kernels("hip", types="FLOAT32", transport="dma")
    awaits = ("machine.hpp", r", await_host_path\(flush\)", "")
    broken = change_template(source, tmp_path / "p", *awaits)
    expected = "set_word does not await the flush before store_flag"
    for path, violations in ((source, []), (broken, [expected])):
        code = compile_hip(path, tmp_path, "gfx906")
        functions = amd_functions(code, path.with_name("gpu.hpp"), "set_word")
        assert list(amd_stream_violations(functions)) == violations


NVIDIA_FAULTS = {
    "relaxed flag": (
        *("gpu.hpp", r"st\.release\.sys\.u64", "st.relaxed.sys.u64"),
        r"send.* has no fence of scope SYS",
    ),
    "flag of GPU scope": (
        *("gpu.hpp", r"st\.release\.sys\.u64", "st.release.gpu.u64"),
        r"credit sets no flag of system scope",
    ),
    "relaxed flag of the same GPU": (
        *("gpu.hpp", r"st\.release\.gpu\.u64", "st.relaxed.gpu.u64"),
        r"publish.* has no fence of scope GPU",
    ),
    "plain flag of the same GPU": (
        *("gpu.hpp", r"st\.release\.gpu\.u64", "st.u64"),
        r"publish sets no flag of GPU scope",
    ),
    "relaxed count": (
        *("gpu.hpp", r"atom\.acq_rel\.gpu", "atom.relaxed.gpu"),
        r"leave.* has no fence of scope GPU",
    ),
    "data through the cache of constants": (
        *("combine.hpp", r"return \*reinterpret_cast<const Vector \*>\(from\);"),
        "const uint4 v = __ldg((const uint4 *)from); return {v.x, v.y, v.z, v.w};",
        r"send.* reads memory through the cache of constants",
    ),
    "one vector at a time": (
        *("combine.hpp", r"i \+ 3 \* stride < cut\.vectors", "false"),
        r"copy\w* has [0-3] loads of 16 bytes in flight, expected 4",
    ),
    "one vector of each chunk at a time": (
        *("combine.hpp", r"&& sizeof\(T\) < 4 \? 2 : 4;", "? 1 : 1;"),
        r"combine_as\w* has [0-3] loads of 16 bytes in flight, expected 4",
    ),
    "one vector of chunks whose addresses differ": (
        *("combine.hpp", r"for \((; i \+ \(FLIGHT<T>)", r"if (Unit == 16) for (\1"),
        r"combine_as\w* has \d loads of 4 or 8 bytes in flight, expected 16",
    ),
}
"""Changes of a file (pattern and text), and the violation that each has to cause."""


@pytest.mark.parametrize("fault", NVIDIA_FAULTS)
def test_fault_in_nvidia_code_is_reported(tmp_path: Path, fault: str) -> None:
    *change, expected = NVIDIA_FAULTS[fault]
    source = change_template(build_kernels("cuda", types="FLOAT32"), tmp_path / "p", *change)
    functions = nvidia_functions(compile_cuda(source, tmp_path, "sm_90", "cubin")[0])
    assert any(re.search(expected, each) for each in nvidia_violations(functions))


def test_spills_of_nvidia_code_are_reported(tmp_path: Path) -> None:
    change = ("gpu.hpp", r"__launch_bounds__\((\d+), 1\)", r"__launch_bounds__(\1, 4)")
    source = change_template(build_kernels("cuda", types="FLOAT32"), tmp_path / "p", *change)
    assert spilled(compile_cuda(source, tmp_path, "sm_90", "cubin")[1])


AMD_FAULTS = {
    "relaxed flag": (
        *("gpu.hpp", r"(word, value, )__ATOMIC_RELEASE(, __HIP_MEMORY_SCOPE_SYSTEM)"),
        r"\1__ATOMIC_RELAXED\2",
        r"send.* does not await its writes before store_flag",
    ),
    "relaxed flag of the same GPU": (
        *("gpu.hpp", r"(word, value, )__ATOMIC_RELEASE(, __HIP_MEMORY_SCOPE_AGENT)"),
        r"\1__ATOMIC_RELAXED\2",
        r"publish.* does not await its writes before store_own",
    ),
    "waves that do not wait": (
        *("gpu.hpp", r"__builtin_amdgcn_fence\(__ATOMIC_RELEASE, \"\"\);", ""),
        r"send.* does not await the writes of all waves before store_flag",
    ),
    "data that is not flushed": (
        *("machine.hpp", r"if \(flushes\(peer\)\) flush_host_path\(view_\.flush\[peer\]\);", ""),
        r"send does not flush its data",
    ),
    "flush behind the flag": (
        *("machine.hpp", r"( +if \(flushes\(peer\)\) flush_host_path\(.*\);\n)( *store_flag.*\n)"),
        r"\2\1",
        r"send does not flush its data before store_flag",
    ),
    "packets that are not flushed": (
        *("machine.hpp", r"if \(SCCL_THREAD == 0 && flushes\(peer\)\) flush_host_path\(.*\);", ""),
        r"send does not flush its data and its packets",
    ),
    "packets that no wave awaits": (
        *("machine.hpp", r"if \(flushes\(peer\)\) fence_for_barrier\(\);", ""),
        r"send.* does not await the writes of all waves before flush_host_path",
    ),
    "offers that are not flushed": (
        *(
            "machine.hpp",
            r" +if \(flushes\(peer\)\) fence_for_barrier\(\), flush_host_path.*\n",
            "",
        ),
        r"next does not flush its offers$",
    ),
    "offers that are not awaited": (
        *("machine.hpp", r"fence_for_barrier\(\), flush_host_path", "flush_host_path"),
        r"next does not await its offers before flush_host_path",
    ),
    "packets of a sum that no wave awaits": (
        *("machine.hpp", r" +if \(flush\) fence_for_barrier\(\);\n", ""),
        r"recv_reduce_send.* does not await the writes of all waves before flush_host_path",
    ),
    "flag that not all waves await": (
        *("machine.hpp", r"(void announce\(.*\n) +fence_for_barrier\(\);\n", r"\1"),
        r"credit.* does not await the writes of all waves before store_flag",
    ),
    "mark that not all waves await": (
        *("machine.hpp", r"(void publish\(Epoch.*\n) +fence_for_barrier\(\);\n", r"\1"),
        r"publish.* does not await the writes of all waves before store_own",
    ),
    "entry that not all waves await": (
        *("machine.hpp", r"\n +fence_for_barrier\(\);(\n +if \(!together\(all\)\))", r"\1"),
        r"next.* does not await the writes of all waves before store_flag",
    ),
    "relaxed look at a flag": (
        *("gpu.hpp", r"(word, )__ATOMIC_ACQUIRE(, __HIP_MEMORY_SCOPE_SYSTEM)"),
        r"\1__ATOMIC_RELAXED\2",
        r"recv.* keeps stale data in its cache",
    ),
    "one vector at a time": (
        *("combine.hpp", r"i \+ 3 \* stride < cut\.vectors", "false"),
        r"copy\w* has [0-3] loads of 16 bytes in flight, expected 4",
    ),
    "one vector of each chunk at a time": (
        *("combine.hpp", r"&& sizeof\(T\) < 4 \? 2 : 4;", "? 1 : 1;"),
        r"combine_as\w* has [0-3] loads of 16 bytes in flight, expected 4",
    ),
}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, marks=[pytest.mark.nightly] * f.endswith("waves await")) for f in AMD_FAULTS],
)
def test_fault_in_amd_code_is_reported(tmp_path: Path, fault: str) -> None:
    *change, expected = AMD_FAULTS[fault]
    source = change_template(build_kernels("hip", types="FLOAT32"), tmp_path / "p", *change)
    code = compile_hip(source, tmp_path, "gfx906")
    functions = amd_functions(code, source.with_name("gpu.hpp"))
    assert any(re.search(expected, each) for each in amd_violations(functions))
