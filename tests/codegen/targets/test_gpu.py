"""CUDA and HIP projects: compiled, and their kernels run on threads of the host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sccl.codegen.project_writer import generate, write_project
from sccl.codegen.targets.codegen_options import MAX_PER_LINK, TRANSPORTS, CodegenOptions
from sccl.codegen.targets.gpu import link_slices
from sccl.collectives import collective_names
from sccl.topo import catalogue_names, resolve_topology
from sccl.topo.generators import generators
from tests.kit import once
from tests.kit.easy_algorithms import frontier, hop
from tests.kit.hard_algorithms import FOUR, SHORT, Hard, load, load_all
from tests.kit.litmus import primitives
from tests.kit.nightly import is_night, times
from tests.kit.paths import PROGRAMS, ROOT
from tests.kit.projects import (
    COMBINING,
    FLOATS,
    INTEGERS,
    OPS,
    emulation,
    include_flags,
    launch,
    loopback,
    make,
    mpich,
    tool,
    with_small_slots,
)

COMPILED = (
    Hard("dgx1", "allgather", (2, 2, 3)),
    Hard("dgx1", "reduce", (6, 3, 5), root=3),
)
"""Algorithms that nvcc and hipcc compile in seconds, with every call of a machine."""

LONG = tuple(h for h in SHORT if h.shape[0] in {2, 24})
"""Slow ones (a minute): allgather, gather, alltoall and an allreduce by trees."""

FEW = tuple(h for h in FOUR if h.collective in {"allreduce", "some"})

STRICT = {"cuda": "-Werror all-warnings -Xcompiler -Werror", "hip": "-Werror"}
"""Flags that turn warnings into errors, for code of the host and of GPUs."""


def test_compiled_project_has_every_call_of_a_machine() -> None:
    calls = [
        set(re.findall(r"{Code::(\w+),", generate(load_all(rows), "cuda")["steps.hpp"]))
        for rows in (COMPILED, SHORT)
    ]
    assert calls[0] == calls[1]


def project(
    directory: Path,
    target: str,
    rows: Sequence[Hard] = COMPILED,
    options: CodegenOptions | None = None,
) -> Path:
    write_project(directory, generate(load_all(rows), target, options))
    return directory


def compiled() -> Path:
    """Return nvcc's project, built for host threads by the first caller."""

    def fill(directory: Path) -> None:
        make(project(directory, "cuda"), "emulated", emulation())

    return once.folder("gpu-compiled", fill)


WIDTH = pytest.mark.parametrize(
    "rows", [COMPILED, pytest.param(LONG, marks=pytest.mark.nightly)], ids=["short", "long"]
)


def function(text: str, begin: str, end: str) -> str:
    """Return the last definition in compiled text whose first line and last line look so."""
    first = [found.start() for found in re.finditer(begin, text, re.MULTILINE)][-1]
    last = re.compile(end, re.MULTILINE).search(text, first)
    assert last
    return text[first : last.end()]


def in_order(text: str, *words: str) -> None:
    """Check that text has lines that match these patterns, one after the other."""
    at = 0
    for word in words:
        found = re.compile(word).search(text, at)
        assert found, f"{word} does not come where it has to in {words}"
        at = found.end()


def listed_by_nvcc() -> set[str]:
    """Return the architectures that nvcc makes code for."""
    words = [tool("nvcc", "install the CUDA toolkit"), "--list-gpu-code"]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def check_no_spills(report: str, archs: Sequence[str]) -> None:
    """Check the ptxas report of its code: these functions, and no spilled registers."""
    for arch in archs:
        assert f"for 'sm_{arch}'" in report
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert spills
    assert {n for pair in spills for n in pair} == {"0"}


@WIDTH
def test_nvcc_compiles_without_spills_and_16_bytes_wide(
    tmp_path: Path, rows: Sequence[Hard]
) -> None:
    archs = [a for a in ("100", "90", "80") if f"sm_{a}" in listed_by_nvcc()]
    archs = archs if rows == LONG else archs[-1:]
    directory = project(tmp_path / "p", "cuda", rows)
    extra = f"EXTRA={STRICT['cuda']} -Xptxas -v --keep -Xfatbin -compress=false"
    report = make(directory, f"ARCHS={' '.join(archs)}", extra)
    assert f"compiling communicator.cpp for {' '.join(f'sm_{a}' for a in archs)} and new" in report
    check_no_spills(report, archs)
    library = (directory / "libsccl.so").read_bytes()
    newest, *others = archs
    assert f".target sm_{newest}".encode() in library  # PTX, for GPUs newer than all
    assert not any(f".target sm_{a}".encode() in library for a in others)
    check_is_found_and_keeps_to_itself(directory)
    check_says_why_it_serves_nobody(directory)
    assert not re.search("compiling|linking", make(directory, f"ARCHS={' '.join(archs)}", extra))
    (kept,) = directory.glob(f"communicator.compute_{newest}.ptx" if others else "*r.ptx")
    ptx = kept.read_text()
    send, recv, send_on, publish = (
        function(ptx, rf"\.func .*Machine\d+{name}E", r"^\}")
        for name in ("send", "recv", "recv_reduce_send", "publish")
    )
    assert re.search(r"ld\.v4\.\w32", send)
    assert re.search(r"ld\.u64", send)  # where addresses differ by 8
    assert re.search(r"ld\.u32", send)
    assert re.search(r"st\.v4\.\w32", send)
    in_order(send, r"\bst\.v4", r"bar\.sync", r"st\.release\.sys\.u64")  # data, then the flag
    assert "st.relaxed.sys.v2.u64" in send
    assert "ld.relaxed.sys.v2.u64" in recv
    assert "ld.acquire.sys.u64" in recv
    assert "bar.red" in recv
    # From registers: words of packets, or the data for `combine`'s target, and then the flag.
    in_order(
        send_on, r"ld\.relaxed\.sys\.v2\.u64", r"12combine_wordE", r"st\.relaxed\.sys\.v2\.u64"
    )
    in_order(send_on, r"7combineE", r"bar\.sync", r"st\.release\.sys\.u64")
    in_order(publish, r"bar\.sync", r"st\.release\.gpu\.u64")
    atomic = (
        r"\b((?:ld|st|atom|red)\.(?:relaxed|acquire|release|acq_rel)\.\w+(?:\.add)?)(?:\.v2)?\.\w+ "
    )
    names = primitives((directory / "gpu.hpp").read_text(), "cuda").values()
    assert set(re.findall(atomic, ptx)) == {name for row in names for name in row}
    assert "membar" not in ptx
    assert "fence" not in ptx  # a release and an acquire order all that is needed


def check_is_found_and_keeps_to_itself(directory: Path) -> None:
    """Check that a library needs no LD_LIBRARY_PATH, and puts no runtime before a program's."""
    library = str(directory / "libsccl.so")
    words = {"env": ["env", "-u", "LD_LIBRARY_PATH", "ldd", library], "nm": ["nm", "-D", library]}
    found, names = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for command in words.values()
    )
    assert "not found" not in found
    assert "cudart" not in found
    defined = {line.split()[-1] for line in names.splitlines() if " T " in line}
    assert {name for name in defined if not name.startswith(("MPI_", "sccl_"))} == set()


def check_says_why_it_serves_nobody(directory: Path) -> None:
    """Check that one compiler's output is understood by the other's program: it sees no GPU."""
    hidden = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}
    done = launch(mpich(), 8, [str(directory / "bench")], **hidden)
    why = "rank 0 cannot take part: it sees no GPU"
    assert (done.returncode, done.stderr) == (1, f"bench: sccl cannot serve these ranks: {why}\n")


@pytest.mark.nightly
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nvcc_compiles_for_all_it_lists_without_warnings(tmp_path: Path, transport: str) -> None:
    archs = [a for a in ("70", "80", "90", "100") if f"sm_{a}" in listed_by_nvcc()]
    directory = project(tmp_path / "p", "cuda", LONG, CodegenOptions(transport=transport))
    report = make(directory, f"EXTRA={STRICT['cuda']} -Xptxas -v", "communicator.o", "bench.o")
    check_no_spills(report, archs)


def build_nvcc(path: Path, *archs: int) -> str:
    """Write a program that lists architectures as nvcc does, and return its path."""
    path.parent.mkdir(parents=True)
    lines = "".join(f"echo sm_{arch}\n" for arch in archs)
    path.write_text(f"#!/bin/sh\n{lines}")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("machine", ["without a toolkit for it", "with one"])
def test_makefile_picks_a_toolkit_for_a_v100(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    """The newest toolkit for all of ARCHS, with nvcc of the path first."""
    directory = project(tmp_path / "p", "cuda")
    nvcc = Path(build_nvcc(tmp_path / "new" / "nvcc", 75, 80, 90, 100))
    monkeypatch.setenv("PATH", f"{nvcc.parent}{os.pathsep}{os.environ['PATH']}")
    archs_of = {"9.2": (70,), "12.2": (70, 80, 90), "12.9": (70, 80, 90, 100)}
    toolkits = {
        version: build_nvcc(tmp_path / f"cuda-{version}" / "nvcc", *archs)
        for version, archs in archs_of.items()
        if machine == "with one"
    }
    words = ("-n", "communicator.o", f"TOOLKITS={' '.join(toolkits.values())}")
    picked = {
        (): "12.9",
        ("ARCHS=70",): "12.9",
        ("ARCHS=90 70",): "12.9",
        ("ARCHS=90",): None,
        ("ARCHS=120",): None,
        ("ARCHS=70", "GPUCXX=nvcc"): None,
    }
    for chosen, version in picked.items():
        printed = make(directory, *words, *chosen)
        compiler = toolkits.get(version or "", "nvcc")
        assert f"\n{compiler} -O3 " in printed, chosen
        note = f"note: nvcc has no sm_70, so {compiler} compiles; set GPUCXX for another\n"
        assert (note in printed) == (compiler != "nvcc"), chosen
        needs = "note: this nvcc has no sm_70; a V100 needs CUDA 12.9 or older, and a driver"
        lacks = compiler == "nvcc" and not {"ARCHS=90", "ARCHS=120"} & set(chosen)
        assert (needs in printed) == lacks, chosen


def test_pages_name_the_toolkit_of_a_v100() -> None:
    project_readme = generate(load_all(COMPILED), "cuda")["README.md"]
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/how-to/gpus.md")]
    for page in (*pages, project_readme):
        assert re.search(r"(DGX-1|V100)\W.*needs\W+CUDA 12\.9 or older", page, re.DOTALL)


def reloads(assembly: str) -> dict[str, int]:
    """Return the number of loads of spilled registers in each function for AMD's GPUs.

    Compilers count those of kernels alone, not of called functions. A function that returns
    restores its caller's registers, which does not count.
    """
    found = {}
    functions = re.findall(r"^(_Z\w+): .*?\n(.*?)^\.Lfunc_end", assembly, re.MULTILINE | re.DOTALL)
    for name, body in functions:
        blocks = re.split(r"^\.LBB\w+:", body, flags=re.MULTILINE)
        inside = [block for block in blocks if "s_setpc_b64" not in block]
        found[name] = sum(block.count("Folded Reload") for block in inside)
    return found


@WIDTH
def test_hipcc_compiles_without_spills_and_16_bytes_wide(
    tmp_path: Path, rows: Sequence[Hard]
) -> None:
    tool("hipcc", "apt-get install hipcc rocm-device-libs libamdhip64-dev")
    directory = project(tmp_path / "p", "hip", rows)
    archs = ("gfx906", "gfx90a") if rows == LONG else ("gfx906",)
    make(directory, f"EXTRA={STRICT['hip']} -save-temps", f"ARCHS={' '.join(archs)}")
    check_is_found_and_keeps_to_itself(directory)
    check_says_why_it_serves_nobody(directory)
    kept = {file.stem.split("-")[-1]: file for file in directory.glob("communicator-hip-*.s")}
    for arch in archs:
        assert set(reloads(kept[arch].read_text()).values()) == {0}, arch
    assembly = kept["gfx906"].read_text()
    assert "flat_load_dwordx4" in assembly
    assert "flat_store_dwordx4" in assembly
    send, recv = (
        function(assembly, rf"^_ZN4sccl7Machine4{name}E.*:", r"^\.Lfunc_end")
        for name in ("send", "recv")
    )
    # Every wave awaits its writes, then the barrier, and one of them sets the flag.
    in_order(send, "flat_store_dwordx4", r"vmcnt\(0\).*\s+s_barrier", "flat_store_dwordx2")
    in_order(recv, "flat_load_dwordx2 .* glc", r"vmcnt\(0\)", "buffer_wbinvl1_vol", "s_barrier")


@pytest.mark.parametrize(
    ("target", "compiler"),
    [("cuda", "nvcc"), ("hip", "hipcc")],
)
@pytest.mark.nightly
def test_copy_engines_transport_compiles(tmp_path: Path, target: str, compiler: str) -> None:
    tool(compiler, "see the README")
    directory = project(tmp_path / "p", target, FEW, CodegenOptions(transport="dma"))
    archs = ["ARCHS=90"] if target == "cuda" else []
    make(directory, *archs, f"EXTRA={STRICT[target]}", "communicator.o")
    assert (directory / "communicator.o").exists()


WAYS = {
    "four ranks, one block": (FOUR, CodegenOptions(1)),
    "four ranks, dma": (FOUR, CodegenOptions(transport="dma")),
    "eight ranks, three blocks": (SHORT, CodegenOptions(3)),
    "eight ranks, dma": (SHORT, CodegenOptions(transport="dma")),
}


EACH = [(*COMBINING, "--type", dtype, "--op", op) for dtype in (*FLOATS, *INTEGERS) for op in OPS]
"""Every type with every reduction."""

IN_TURN = [EACH[len(OPS) * i + i % len(OPS)] for i in range(len(EACH) // len(OPS))]
"""Every type with a reduction, and every reduction with types."""

TYPES_OF = {"four ranks, one block": IN_TURN[: times(4, by_day=2)], "four ranks, dma": EACH[:1]}
"""The table of types and reductions is one for all: one way goes through it, and one looks in."""

NIGHTLY = ("four ranks, dma", "eight ranks, three blocks", "eight ranks, dma")
"""Nothing that four ranks don't show is likely to show there, or, of dma, that processes don't."""


@pytest.mark.parametrize(
    "way", [pytest.param(w, marks=[pytest.mark.nightly] * (w in NIGHTLY)) for w in WAYS]
)
def test_kernels_on_threads(tmp_path: Path, way: str) -> None:
    """In loopback, where HIP and CUDA are the same text. Every algorithm runs, for every root.

    Ranks without work take part, too, because their peers still look.
    """
    rows, options = WAYS[way]
    directory = tmp_path / "p"
    idle = [hop()] if rows is FOUR else []
    write_project(directory, generate(load_all(rows) + idle, "cuda", options))
    make(directory, "emulated", emulation())
    chosen: list[tuple[str, ...]] = [("--counts", "1,1000,20001")]
    chosen += [(*words, "--counts", "5,1000") for words in TYPES_OF.get(way, [])]
    for number, words in enumerate(chosen):
        done = loopback(directory / "emulated", *words)
        assert done.returncode == 0, done.stderr
        assert ("# sccl custom_hop, 4 ranks" in done.stdout) == (bool(idle) and number == 0)


RACES = {
    # Odd ones, so that blocks lie oddly.
    "all": (["--counts", "99,2001" if is_night() else "401"], {}, 0),
    "a dead peer": (
        ["allgather", "allreduce", "--counts", "999"],
        {"SCCL_EMULATED_DEAD": "1", "SCCL_TIMEOUT": "0.05"},
        1,
    ),
    "numbers of packets begin anew": (
        ["allgather", "reduce", "--counts", "3,999"],
        {"SCCL_EMULATED_EPOCH": str(2**32 - 14)},
        0,
    ),
    "1,000 replays of one launch": (["allreduce", "--counts", "7", "--repeat", "100"], {}, 0),
    **{" ".join(kind): (["allreduce", *kind, "--counts", "33"], {}, 0) for _, _, _, *kind in EACH},
}
"""Runs under the thread sanitizer: words of the command line, environment, and result."""

OTHERS = [("hip", "kernel"), ("cuda", "dma"), ("hip", "dma")]
"""Targets and transports in addition to that of all runs."""


@pytest.mark.parametrize(
    ("run", "target", "transport"),
    [("all", "cuda", "kernel")]
    + [
        pytest.param(*row, marks=pytest.mark.nightly)
        for row in [
            *((run, "cuda", "kernel") for run in RACES if run != "all"),
            *(("all", *other) for other in OTHERS),
        ]
    ],
)
def test_kernels_have_no_race(run: str, target: str, transport: str) -> None:
    """Blocks of three threads, and slots so small that calls take several pieces.

    A slice must not touch another's part of a slot, even for chunks of unequal length.
    """

    def fill(directory: Path) -> None:
        flags = "-O0 -g1 -fsanitize=thread -DSCCL_NEAR=8 -DSCCL_SLICE_BYTES=64"
        files = generate(load_all(FOUR), target, CodegenOptions(3, transport))
        write_project(directory, with_small_slots(files, 192, None if transport == "dma" else 64))
        make(directory, "emulated", f"EMULATION_FLAGS={flags}")

    words, environment, code = RACES[run]
    directory = once.folder(f"gpu-races-{target}-{transport}", fill) / "emulated"
    settings = {"UCX_MEM_EVENTS": "no", "SCCL_EMULATED_THREADS": "3", **environment}
    done = loopback(directory, *words, **settings)
    assert "WARNING: ThreadSanitizer" not in done.stderr
    assert "WRONG" not in done.stderr
    assert done.returncode == code, done.stderr


FOUND_IN = dict.fromkeys(("dgx1", "z52", "z52-pcie", "dgx-h100"), collective_names())
FOUND_IN["ndv2x4"] = ("broadcast", "reduce")
"""Collectives whose algorithms are found at once, otherwise allgather and allreduce."""


WITHOUT_SWITCHES = [
    name
    for name in (*catalogue_names(), *(g.example for g in generators()))
    if not resolve_topology(name).switches
]


@pytest.mark.nightly
@pytest.mark.parametrize("machine", WITHOUT_SWITCHES)
def test_no_machine_needs_more_than_its_links(tmp_path: Path, machine: str) -> None:
    """Ranks that are no neighbors are unreachable in loopback, and neighbors have a link.

    By day other tests run DGX-1 and four ranks.
    """
    collectives = FOUND_IN.get(machine, ("allgather", "allreduce"))
    found = [a for c in collectives for a in frontier(machine, c)]
    write_project(tmp_path / "p", generate(found, "cuda"))
    links = {frozenset(link.edge) for link in found[0].topology.links}
    rows = neighbours_in((tmp_path / "p" / "tables.hpp").read_text())
    assert {frozenset((a, b)) for a, row in enumerate(rows) for b in row} <= links
    make(tmp_path / "p", "emulated", emulation())
    done = loopback(tmp_path / "p" / "emulated", "--counts", "1,1001")
    assert "WRONG" not in done.stderr
    assert done.returncode == 0, done.stderr


def neighbours_in(tables: str) -> list[list[int]]:
    """Return the neighbours of each rank, as generated code has them."""
    rows = re.search(r"neighbours\[RANKS\]\[RANKS\] = \{\n(.*?)\n\};", tables, re.DOTALL)
    assert rows
    marks = [re.findall(r"\d", row) for row in rows[1].splitlines()]
    return [[peer for peer, mark in enumerate(row) if mark == "1"] for row in marks]


@pytest.mark.parametrize("dead", [0, 5])
def test_dead_peer_ends_the_call_on_all_others(dead: int) -> None:
    """On DGX-1 two links may separate the dead rank and another, which still hears of it."""
    done = loopback(
        compiled() / "emulated",
        *("allgather", "--counts", "1000"),
        SCCL_EMULATED_DEAD=str(dead),
        SCCL_TIMEOUT="0.01",
    )
    assert done.returncode == 1
    alive = " ".join(str(rank) for rank in range(8) if rank != dead)
    assert re.search(r"rank \d waited for a peer for longer than SCCL_TIMEOUT", done.stderr)
    assert f"ended: ranks {alive}\n" in done.stderr


def test_copies_to_a_gpu_are_awaited(tmp_path: Path) -> None:
    """A bench that does not wait for them delivers the data of the call before."""
    directory = tmp_path / "p"
    shutil.copytree(compiled(), directory)
    text = (directory / "gpu.hpp").read_text()
    changed = text.replace(
        "gpu_copy(to, from, bytes, Stream{}) && gpu_sync(Stream{})",
        "gpu_copy(to, from, bytes, Stream{})",
    )
    assert changed != text
    (directory / "gpu.hpp").write_text(changed)
    make(directory, "emulated/bench", emulation())
    done = loopback(directory / "emulated", "allgather", "--counts", "1000")
    assert done.returncode != 0  # late copies may also hit memory that has been freed
    assert "allgather of 1000 bytes" in done.stderr
    assert "WRONG DATA" in done.stderr


def test_copies_and_reductions_at_every_offset(tmp_path: Path) -> None:
    """Stores are of 16 bytes, loads of words: none that a GPU refuses, none beside the data."""
    flags = ["-O1", "-std=c++17", "-DSCCL_EMULATED", "-pthread", "-Wall", "-Wextra", "-Werror"]
    checks = ["-fsanitize=address,alignment,shift", "-fno-sanitize-recover=all"]
    places = ["-I", str(compiled()), *include_flags(mpich())]
    command = ["g++", *flags, *checks, *places, str(PROGRAMS / "copies.cpp"), "-o", "copies"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "copies"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all are right\n"


def test_packets_are_not_mistaken_for_those_of_long_ago() -> None:
    """The 32-bit numbers of epochs wrap around in the first call in packets, the eleventh of all.

    Nothing was written there before, so all places hold the number 0.
    """
    before = 2**32 - 11
    done = loopback(compiled() / "emulated", "--counts", "1,999", SCCL_EMULATED_EPOCH=str(before))
    assert done.returncode == 0, done.stderr
    assert "WRONG" not in done.stderr


def test_thread_blocks_share_a_link_as_its_use_asks_for() -> None:
    """Two for a lane of 25 GB/s. Links of NVSwitch, which have 18, get as many as a step needs."""
    half, packed = load(Hard("dgx1", "allgather", (2, 2, 3))), load(COMPILED[1])
    assert link_slices(half, CodegenOptions()) == 4  # a step fills both lanes of a link
    assert link_slices(half, CodegenOptions(3)) == 3
    assert link_slices(half, CodegenOptions(transport="dma")) == 1
    for gb_per_s, blocks in ((1.0, 1), (6.0, 1), (12.5, 2), (450.0, MAX_PER_LINK)):
        links = tuple(replace(link, gb_per_s=gb_per_s) for link in half.topology.links)
        other = replace(half, topology=replace(half.topology, links=links))
        assert link_slices(other, CodegenOptions()) == blocks
    lanes = tuple(replace(link, lanes=18) for link in half.topology.links)
    wide = replace(half, topology=replace(half.topology, links=lanes))
    assert link_slices(wide, CodegenOptions()) == link_slices(half, CodegenOptions())
    tables = generate([half, packed], "cuda")["tables.hpp"]
    assert [int(n) for n in re.findall(r"\{\d+, \d+, [01], (\d+),\n", tables)] == [
        link_slices(a, CodegenOptions()) for a in (half, packed) for _ in range(2)
    ]


def test_thread_blocks_of_a_link_can_be_fewer() -> None:
    """The minimum of all ranks' wishes, for every compiled architecture."""
    words = [str(compiled() / "emulated" / "bench"), "allgather", "--repeat", "0"]
    for wish, told in (("2", 2), ("99", 4), ("x", 4)):
        settings = {"SCCL_SLICES": wish, "SCCL_DEBUG": "1"}
        done = launch(mpich(), 8, [*words, "--counts", "1000"], **settings)
        assert done.returncode == 0, done.stderr
        assert f", thread blocks of a link: {told}\n" in done.stderr
        assert ("SCCL_SLICES=x is not a number of thread blocks" in done.stderr) == (wish == "x")


def test_links_slower_than_those_that_are_not_used_are_reported() -> None:
    """GPUs 0 and 1 of this DGX-1 have PCIe between them, as on machines that permute bus ids."""
    links = ",".join(f"{a}-{b}" for b in range(8) for a in range(b))
    words = [str(compiled() / "emulated" / "bench"), "allgather", "--repeat", "0"]
    settings = {"SCCL_DEBUG": "1", "SCCL_EMULATED_LINKS": links}
    for pcie, ranks in (("0-1", [0, 1]), ("0-5", [])):  # these have no link in the machine's file
        done = launch(mpich(), 8, [*words, "--counts", "10"], **settings, SCCL_EMULATED_PCIE=pcie)
        assert done.returncode == 0, done.stderr
        reported = re.findall(
            r"slow link: .* of rank (\d) to GPU .* of rank (\d), but", done.stderr
        )
        assert sorted(int(rank) for rank, _ in reported) == ranks
        assert all({int(end) for end in pair} == {0, 1} for pair in reported)
    quiet = {**settings, "SCCL_DEBUG": "0", "SCCL_EMULATED_PCIE": "0-1"}
    done = launch(mpich(), 8, [*words, "--counts", "10"], **quiet)
    assert (done.returncode, done.stderr) == (0, "")


MASKS = """
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
using Stream = const std::uint32_t *;  // its mask of three words, if it has one
bool gpu_try(bool good) { return good; }
bool hipGetDevice(int *device) { return *device = 0, true; }
constexpr int hipDeviceAttributeMultiprocessorCount = 0;
bool hipDeviceGetAttribute(int *count, int, int) { return *count = 60, true; }
bool hipExtStreamGetCUMask(Stream stream, std::size_t words, std::uint32_t *mask) {
  return stream && words >= 3 && (std::copy(stream, stream + 3, mask), true);
}
FUNCTION
int main() {
  const std::uint32_t masks[][3] = {{0xff, 0, 0}, {~0u, 1, 0}, {~0u, ~0u, ~0u}, {0, 0, 0}};
  for (Stream mask : masks) std::printf("%d ", gpu_processors(mask));
  std::printf("%d", gpu_processors(nullptr));
}
"""


def test_masks_of_compute_units_are_counted(tmp_path: Path) -> None:
    """Up to all cores of the GPU, which is the default without a mask or if the GPU is unknown."""
    header = generate(load_all(COMPILED), "hip")["gpu.hpp"]
    counted = function(header, r"^inline int gpu_processors", r"^\}")
    (tmp_path / "masks.cpp").write_text(MASKS.replace("FUNCTION", counted))
    command = ["g++", "-std=c++17", "-Wall", "-Werror", "masks.cpp", "-o", "masks"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "masks"], capture_output=True, text=True, check=True)
    assert done.stdout == "8 33 60 60 60"


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_errors_of_the_program_are_left_to_it(target: str) -> None:
    """An error is taken back only after a call of the library that failed."""
    header = generate(load_all(COMPILED), target)["gpu.hpp"]
    assert header.count("GetLastError()") == 1
    assert re.search(r"Success\) return true;\n.*\n.*GetLastError\(\)", header)


def test_flags_of_amd_gpus_are_uncached_where_that_exists(tmp_path: Path) -> None:
    (tmp_path / "gpu.hpp").write_text(generate(load_all(COMPILED), "hip")["gpu.hpp"])
    for option, memory in (("-DhipDeviceMallocUncached=0x3", "0x3"), ("-O0", "0x1")):
        command = ["g++", "-E", "-P", "-x", "c++", "-D__HIP_PLATFORM_AMD__", option, "gpu.hpp"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        if "hip/hip_runtime.h: No such file" in done.stderr:
            pytest.skip("no header of HIP: apt-get install libamdhip64-dev")
        assert f"hipExtMallocWithFlags(at, bytes, {memory})" in done.stdout


def test_neighbours_are_those_of_the_links_that_are_used() -> None:
    rows = neighbours_in(generate(load_all(COMPILED), "cuda")["tables.hpp"])
    links = {link.edge for link in load_all(COMPILED)[0].topology.links}
    assert {(a, b) for a, row in enumerate(rows) for b in row} == links
