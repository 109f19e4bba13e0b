"""Host projects: built, run and preloaded, with MPICH and Open MPI."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sccl.codegen import projects as codegen
from sccl.codegen.project_writer import generate, write_project
from sccl.codegen.projects import write_project_of
from sccl.collectives import named_spec
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import TooLargeError
from sccl.runtime.mpi import Mpi
from tests.kit import tacos
from tests.kit.easy_algorithms import bundle_for, frontier
from tests.kit.hard_algorithms import FOUR, MATRIX, Hard, load
from tests.kit.nightly import is_night, times
from tests.kit.paths import PROGRAMS
from tests.kit.projects import (
    COMBINING,
    FLOATS,
    INTEGERS,
    OPS,
    include_flags,
    launch,
    loopback,
    make,
    mpich,
    open_mpi,
    project,
    python_of,
    tool,
    with_small_slots,
)
from tests.kit.schedules import together_around

EVERY = (*COMBINING, "allgather", "alltoall", "broadcast", "gather", "scatter")

QUICK = ("--repeat", "1", "--batch-ms", "1")

COUNTS = "1,17,1000,70001"
"""Elements of a block: parts that are empty, that fit beside their flag, and several pieces."""

DIRECT = "16384"
"""SCCL_REACH values that disable both direct paths between ranks, on any machine."""

FLAVOURS = {"mpich": mpich, "openmpi": open_mpi}


def bench(
    directory: Path, mpi: Mpi, ranks: int, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return launch(mpi, ranks, [str(directory / "bench"), *arguments], **environment)


@pytest.mark.parametrize(
    ("flavour", "ranks", "largest"),
    [
        ("mpich", 4, 5001),
        ("openmpi", 3, 70001),
        *(
            pytest.param("mpich", ranks, largest, marks=pytest.mark.nightly)
            for ranks, largest in ((2, 70001), (3, 70001), (8, 5001))
        ),
    ],
)
def test_every_program_between_processes(flavour: str, ranks: int, largest: int) -> None:
    """With the roots of the algorithms, then with another, first out of place, then in place.

    Eight ranks, which share few cores, use the second path with few elements.
    """
    mpi = FLAVOURS[flavour]()
    directory = project(ranks, mpi)
    counts = f"17,{largest}"
    others = ["--in-place", "--root", str(ranks - 1), "--counts", "17" if ranks == 8 else counts]
    for arguments in (["--counts", counts], others):
        done = bench(directory, mpi, ranks, "--each", "--repeat", "0", *arguments)
        assert done.returncode == 0, done.stderr
        assert "WRONG" not in done.stderr
        for name in EVERY:
            assert f"# sccl {name}, {ranks} ranks" in done.stdout


@pytest.mark.parametrize("ranks", [3, 4, pytest.param(8, marks=pytest.mark.nightly)])
def test_every_program_between_threads(ranks: int) -> None:
    done = loopback(project(ranks, mpich()), "--counts", COUNTS)
    assert done.returncode == 0, done.stderr
    for name in EVERY:
        assert f"# sccl {name}, {ranks} ranks" in done.stdout


def test_schedules_are_run_by_their_steps(tmp_path: Path) -> None:
    """One with joint chunks, one through a switch, by three processes."""
    up = [Link(rank, 3, 1, 0.25, 25.0) for rank in range(3)]
    down = [Link(3, rank, 1, 0.5, 25.0) for rank in range(3)]
    hub = Topology("hub", 3, (*up, *down), 0.25, 25.0, switches=(Switch("hub"),))
    through = tacos.schedule(tacos.found(hub, named_spec("allgather", 3)))
    given = {"together.json": together_around(3, 25_000), "through.json": through}
    write_project_of(given, tmp_path / "p", "host")
    make(tmp_path / "p", "bench", "libsccl.so")
    done = bench(tmp_path / "p", mpich(), 3, "--each", "--repeat", "0", "--counts", "17,5001")
    assert done.returncode == 0, done.stderr
    assert "WRONG" not in done.stderr
    assert "# sccl allgather, 3 ranks" in done.stdout


def test_too_large_bundle_is_rejected_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On 256 ranks 261,120 sends took 21 GB before there was a word of it."""
    given = {"ring.json": load(MATRIX[0])}
    sends = given["ring.json"].num_sends
    monkeypatch.setattr(codegen, "MAX_SENDS", sends)
    write_project_of(given, tmp_path / "p", "host")
    monkeypatch.setattr(codegen, "MAX_SENDS", sends - 1)
    with pytest.raises(TooLargeError, match=f"ring.json has {sends} sends, more than the limit"):
        write_project_of(given, tmp_path / "q", "host")
    assert not (tmp_path / "q").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("hard", [h for h in MATRIX if h.topology == "ndv2x2"], ids=str)
def test_sixteen_ranks_as_threads(hard: Hard, tmp_path: Path) -> None:
    write_project(tmp_path / "p", generate([load(hard)], "host"))
    make(tmp_path / "p")
    done = loopback(tmp_path / "p", "--counts", "1,1000,70001")
    assert done.returncode == 0, done.stderr
    assert "# sccl allgather, 16 ranks" in done.stdout


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "some"])
def test_bundles_of_one_collective_compile_without_warnings(
    collective: str, tmp_path: Path
) -> None:
    (hard,) = [h for h in FOUR if h.collective == collective]
    write_project(tmp_path / "p", generate([load(hard)], "host"))
    make(tmp_path / "p", "CXXFLAGS=-O0 -Werror", "preload.o", "api.o")


BY_DAY = ("int8", "uint16", "int64", *FLOATS)
"""One type of each width, because the others only fill in other words of the same templates."""


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(t, marks=[pytest.mark.nightly] * (t not in BY_DAY))
        for t in (*INTEGERS, *FLOATS)
    ],
)
def test_every_type_and_reduction(dtype: str) -> None:
    """For 3 ranks, vectorized. By night also the product of 8, which overflows in a byte."""
    every = [(3, "sum", EVERY)] + [(3, op, COMBINING) for op in OPS if op != "sum"]
    if is_night() and dtype.endswith("int8"):
        every.append((8, "prod", COMBINING))
    for ranks, op, names in every:
        chosen = ["--type", dtype, "--op", op, "--counts", "1,33,5001"]
        done = loopback(project(ranks, mpich()), *names, *chosen)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("flavour", "reach"),
    [
        ("mpich", DIRECT),
        pytest.param("mpich", "0", marks=pytest.mark.nightly),
        pytest.param("openmpi", DIRECT, marks=pytest.mark.nightly),
        ("openmpi", "0"),  # reach is no matter of the MPI
    ],
    ids=["mpich-direct", "mpich-eager only", "openmpi-direct", "openmpi-eager only"],
)
def test_programs_under_preload_get_the_results_of_numpy(flavour: str, reach: str) -> None:
    mpi = FLAVOURS[flavour]()
    directory = project(4, mpi)
    program = str(PROGRAMS / "collectives_under_preload.py")
    done = launch(
        mpi,
        8,
        [python_of(mpi), program, str(times(500, by_day=60))],
        LD_PRELOAD=str(directory / "libsccl.so"),
        SCCL_DEBUG="1",
        SCCL_REACH=reach,
    )
    assert "all right" in done.stdout, done.stdout + done.stderr
    for name in ("allgather", "allreduce", "alltoall", "broadcast", "gather", "reducescatter"):
        assert f"sccl: {name} of " in done.stderr
    assert (", direct" in done.stderr) == (reach == DIRECT)
    assert "the communicator has 8 ranks, this project is for 4" in done.stderr
    assert "allreduce passed on: its element type or reduction is not supported" in done.stderr


IRREGULAR = ("allgatherv", "alltoallv", "barrier", "gatherv", "reducescatterv", "scatterv")


@pytest.mark.parametrize(
    ("flavour", "reach"),
    [
        ("mpich", DIRECT),
        ("openmpi", "0"),
        pytest.param("mpich", "0", marks=pytest.mark.nightly),
        pytest.param("openmpi", DIRECT, marks=pytest.mark.nightly),
    ],
)
def test_barriers_and_v_variants_under_preload(flavour: str, reach: str) -> None:
    mpi = FLAVOURS[flavour]()
    program = str(PROGRAMS / "irregular_under_preload.py")
    done = launch(
        mpi,
        8,
        [python_of(mpi), program, str(times(100, by_day=40))],
        LD_PRELOAD=str(project(4, mpi) / "libsccl.so"),
        SCCL_DEBUG="1",
        SCCL_REACH=reach,
    )
    assert "all right" in done.stdout, done.stdout + done.stderr
    for name in IRREGULAR:
        assert f"sccl: {name} served directly between ranks" in done.stderr
    for name in ("ibarrier", "iallgather", "ineighbor_alltoall"):
        assert f"sccl: {name} passed on: it does not block" in done.stderr
    assert "sccl: neighbor_allgather passed on: this project does not serve it" in done.stderr
    if flavour == "mpich":  # Open MPI 5 has those of MPI 3.1
        assert "sccl: barrier passed on: it is persistent" in done.stderr
    assert "barrier passed on: the communicator has 8 ranks, this project is for 4" in done.stderr


@pytest.mark.parametrize("reach", [DIRECT, pytest.param("0", marks=pytest.mark.nightly)])
def test_counts_are_given_at_run_time(reach: str) -> None:
    """The C API gets other counts in each call, and MPI's own calls are the reference."""
    mpi = mpich()
    words = [sys.executable, str(PROGRAMS / "counts_by_c_api.py")]
    words += [str(project(4, mpi) / "libsccl.so"), str(times(400, by_day=60))]
    done = launch(mpi, 4, words, SCCL_REACH=reach, SCCL_DEBUG="1")
    assert "all right" in done.stdout, done.stdout + done.stderr
    for name in IRREGULAR:
        told = f"sccl: {name} served directly between ranks"
        assert (told in done.stderr) == (name != "barrier")


def test_thread_sanitizer_finds_no_race_in_exchanges(tmp_path: Path) -> None:
    """Headers alone, without an MPI library: ranks are threads, lengths random."""
    mpi = mpich()
    program = tmp_path / "exchange"
    words = ["-std=c++17", "-O1", "-g1", "-fsanitize=thread", "-Wno-tsan", "-fwrapv", "-pthread"]
    source = str(PROGRAMS / "exchange_in_threads.cpp")
    headers = [f"-I{project(4, mpi)}", *include_flags(mpi)]
    command = [tool("g++", "install it"), *words, *headers, source, "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [str(program), str(times(100))], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout == "all right\n", done.stderr
    assert "WARNING: ThreadSanitizer" not in done.stderr


@pytest.mark.nightly
def test_more_bytes_than_an_int_counts() -> None:
    mpi = mpich()
    directory = project(2, mpi)
    done = launch(
        mpi,
        2,
        [sys.executable, str(PROGRAMS / "huge_broadcast.py")],
        LD_PRELOAD=str(directory / "libsccl.so"),
        SCCL_DEBUG="2",
    )
    assert "all right" in done.stdout, done.stdout + done.stderr
    served = re.findall(r"broadcast of (\d+) bytes served by .*, (direct|eager)", done.stderr)
    assert served == [("2200000000", "direct"), ("2200000000", "eager")]


def test_osu_form() -> None:
    mpi = mpich()
    done = bench(project(3, mpi), mpi, 3, "allgather", "--sizes", "1:4", *QUICK)
    header, *rows, last = filter(None, done.stdout.splitlines()[2:])
    assert last == "# data of all sizes right"
    assert header.split() == ["#", "Size", "Avg", "Latency(us)"]
    assert [row.split()[0] for row in rows] == ["1", "2", "4"]
    assert all(float(row.split()[1]) > 0 for row in rows)


def test_wrong_number_of_ranks() -> None:
    mpi = mpich()
    directory = project(3, mpi)
    done = bench(directory, mpi, 2)
    assert "started with 2 ranks, this project is for 3" in done.stderr
    program = str(PROGRAMS / "c_api.py")
    done = launch(mpi, 2, [sys.executable, program, str(directory / "libsccl.so")])
    assert "1 the communicator has 2 ranks, this project is for 3" in done.stdout, done.stderr


def test_ranks_on_several_hosts_are_passed_on() -> None:
    """MPICH has a mode in which every rank seems to be on a separate host."""
    mpi = mpich()
    library = str(project(4, mpi) / "libsccl.so")
    environment = {"MPIR_CVAR_NOLOCAL": "1", "SCCL_DEBUG": "1"}
    program = (
        "import numpy as np; from mpi4py import MPI; c = MPI.COMM_WORLD; a = np.zeros(4, 'i4'); "
        "c.Allgather(np.array([c.rank], 'i4'), a); assert list(a) == [0, 1, 2, 3]"
    )
    done = launch(mpi, 4, [sys.executable, "-c", program], LD_PRELOAD=library, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("allgather passed on: its ranks are on several hosts") == 4
    done = launch(
        mpi, 4, [sys.executable, str(PROGRAMS / "c_api.py"), library], MPIR_CVAR_NOLOCAL="1"
    )
    assert "1 its ranks are on several hosts" in done.stdout


def test_c_api() -> None:
    mpi = mpich()
    library = str(project(4, mpi) / "libsccl.so")
    done = launch(mpi, 4, [sys.executable, str(PROGRAMS / "c_api.py"), library])
    assert "all right" in done.stdout, done.stdout + done.stderr


def test_call_without_elements_reports_that_a_rank_has_left(tmp_path: Path) -> None:
    """Ranks are threads of this process, which no MPI has brought together."""
    write_project(tmp_path / "p", generate([frontier("ring:3", "allgather")[0]], "host"))
    make(tmp_path / "p", "CXXFLAGS=-O0", "libsccl-plain.so")
    library = ctypes.CDLL(str(tmp_path / "p" / "libsccl-plain.so"))
    library.sccl_explain.restype = ctypes.c_char_p
    exchange_type = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
    )
    contributions = [b""] * 3
    barrier = threading.Barrier(3)

    def join(rank: int) -> ctypes.c_void_p:
        def exchange(_: object, mine: int, everybody: int, size: int) -> int:
            contributions[rank] = ctypes.string_at(mine, size)
            barrier.wait()
            ctypes.memmove(everybody, b"".join(contributions), 3 * size)
            barrier.wait()
            return 0

        comm = ctypes.c_void_p()
        callback = exchange_type(exchange)
        assert library.sccl_join(rank, callback, None, None, ctypes.byref(comm)) == 0
        return comm

    with ThreadPoolExecutor(3) as pool:
        comms = list(pool.map(join, range(3)))
    send, recv = ctypes.create_string_buffer(8), ctypes.create_string_buffer(24)

    def gather(count: int) -> int:
        return int(library.sccl_allgather(send, recv, ctypes.c_size_t(count), 0, comms[0]))

    assert gather(0) == 0
    for comm in comms[1:]:
        library.sccl_leave(comm)
    assert gather(8) == 3
    assert gather(0) == 3
    assert library.sccl_explain().endswith(b"has left")
    library.sccl_leave(comms[0])


def test_bad_selection_is_reported() -> None:
    mpi = mpich()
    directory = project(3, mpi)
    done = bench(
        directory, mpi, 3, "allgather", "--sizes", "1:1", *QUICK, SCCL_SELECT="allgather:7"
    )
    assert "SCCL_SELECT is not understood" in done.stderr
    assert done.returncode == 0


def processes_of(program: Path) -> list[int]:
    """Return the processes that run a program."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile
            continue
        if words[0] == os.fsencode(program):
            found.append(int(place.name))
    return found


def test_killed_rank_leaves_nothing_behind() -> None:
    mpi = mpich()
    directory = project(4, mpi)
    before = set(os.listdir("/dev/shm"))  # noqa: S108, PTH208
    command = [*mpi.launcher(4), str(directory / "bench"), "--repeat", "9"]
    running = subprocess.Popen(
        command, env=mpi.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert running.stdout is not None
    assert any("1" in line for line in running.stdout)  # it is at work
    os.kill(max(processes_of(directory / "bench")), signal.SIGKILL)
    running.wait(timeout=60)
    left = {n for n in set(os.listdir("/dev/shm")) - before if "sccl" in n}  # noqa: S108, PTH208
    assert left == set()


def test_thread_sanitizer_finds_no_race(tmp_path: Path) -> None:
    """All ranks as threads, without an MPI library, whose own hooks break under the sanitizer."""
    mpi = mpich()
    directory = tmp_path / "p"
    write_project(directory, with_small_slots(generate(bundle_for(4), "host"), 16384))
    includes = " ".join(include_flags(mpi))
    words = [f"MPICXX=g++ {includes}", "CXXFLAGS=-O0 -g1 -fsanitize=thread -Wno-tsan"]
    objects = [
        f"{name}.o" for name in ("api", "communicator", "preload", "passed", "irregular", "bench")
    ]
    make(directory, *words, *objects)
    symbols = subprocess.run(
        [tool("nm", "install binutils"), "-u", *(str(directory / o) for o in objects)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    missing = sorted({w for w in symbols.split() if w.startswith(("MPI_", "PMPI_"))})
    stub = directory / "stub.c"
    stub.write_text(
        "".join(
            f"__attribute__((weak)) void {name}(void) {{ __builtin_trap(); }}\n" for name in missing
        )
    )
    compiler = tool("gcc", "install it")
    subprocess.run([compiler, "-fPIC", "-c", str(stub), "-o", f"{directory}/stub.o"], check=True)
    make(directory, *words, f"LDFLAGS=-fsanitize=thread {directory}/stub.o")
    done = loopback(directory, "--counts", "1,1000,10001")
    assert done.returncode == 0, done.stderr
    assert "WARNING: ThreadSanitizer" not in done.stderr
