"""The order in which kernels and streams work: each barrier, wait, event, and order is needed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from sccl.codegen.project_writer import generate, write_project
from sccl.codegen.targets.codegen_options import CodegenOptions
from tests.kit import once
from tests.kit.hard_algorithms import FOUR, load_all
from tests.kit.mutants import GROUP, MACHINE, Mutant, with_mutants, with_stream_mutants
from tests.kit.nightly import times
from tests.kit.paths import PROGRAMS
from tests.kit.projects import include_flags, launch, loopback, make, mpich, tool, with_small_slots

HANG_S = 120
"""No run that ends takes a hundredth of it."""


def files_and_mutants() -> tuple[dict[str, str], list[Mutant]]:
    return with_mutants(generate(load_all(FOUR), "cuda", CodegenOptions(3)))


def promises() -> Path:
    """Return the program that checks the primitives under the thread sanitizer."""

    def fill(directory: Path) -> None:
        write_project(directory / "p", files_and_mutants()[0])
        flags = (
            "-std=c++17 -O0 -g1 -Wall -Wextra -Werror -DSCCL_EMULATED -pthread "
            "-fsanitize=thread,bounds -fno-sanitize-recover=bounds"
        )
        places = ["-I", str(directory / "p"), *include_flags(mpich())]
        words = [str(PROGRAMS / "promises.cpp"), "-o", str(directory / "promises")]
        subprocess.run([tool("g++", "install it"), *flags.split(), *places, *words], check=True)

    return once.folder("gpu-promises", fill) / "promises"


def run(threads: int, mutant: int = 0) -> subprocess.CompletedProcess[str]:
    """Run all sequences. The first race ends the program, and a hang raises TimeoutExpired."""
    settings = {
        "SCCL_EMULATED_THREADS": str(threads),
        "SCCL_MUTANT": str(mutant),
        "TSAN_OPTIONS": "halt_on_error=1:atexit_sleep_ms=0",
    }
    return subprocess.run(
        [str(promises())],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )


def test_primitives_keep_their_promises() -> None:
    for _ in range(times(5, by_day=1)):
        for threads in (1, 2, 3, 5):
            done = run(threads)
            assert (done.returncode, done.stdout) == (0, "all are kept\n"), done.stderr


def is_caught(mutant: Mutant) -> bool:
    """Return whether a race is reported, a result is wrong, threads part, or the run hangs."""
    try:
        done = run(3, mutant.number)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def test_each_barrier_and_each_order_is_needed() -> None:
    files, mutants = files_and_mutants()
    barriers = sum(": barrier" in mutant.name for mutant in mutants)
    assert files["machine.hpp"].count("SCCL_BARRIER()") == barriers
    assert len(mutants) > 30
    survivors = [mutant.name for mutant in mutants if not is_caught(mutant)]
    assert survivors == [], "delete them, or add sequences to promises.cpp that fail without them"


NEVER_NEEDED = "&control(rank_)->ended"
"""A thread that looks for late peers rests once this word is set: that changes no result."""


def stream_files(transport: str) -> tuple[dict[str, str], list[Mutant]]:
    """Return a project whose streams have mutants: copy engines, or common parts."""
    files = generate(load_all(FOUR), "cuda", CodegenOptions(1, transport))
    own = transport == "dma"
    short = with_small_slots(files, 192, None if own else 64)
    return with_stream_mutants(short, (MACHINE,) if own else GROUP)


def streams(transport: str) -> Path:
    """Return the emulated library of such a project, built for the thread sanitizer."""

    def fill(directory: Path) -> None:
        write_project(directory, stream_files(transport)[0])
        flags = "-O0 -g1 -fsanitize=thread -DSCCL_SLICE_BYTES=64"
        make(directory, "emulated", f"EMULATION_FLAGS={flags}")
        into = directory / "emulated"
        words = [*flags.split(), "-std=c++17", "-DSCCL_EMULATED", "-rdynamic", "-pthread"]
        words = [mpich().compiler, *words, "-I", str(directory)]
        linked = ["-L", str(into), "-lsccl", "-Wl,-rpath,$ORIGIN", "-o", str(into / "user")]
        subprocess.run([*words, str(PROGRAMS / "on_emulated_gpus.cpp"), *linked], check=True)
        if transport == "dma":
            source = str(PROGRAMS / "promises_of_streams.cpp")
            subprocess.run([*words, source, "-o", str(into / "promises")], check=True)

    return once.folder(f"gpu-streams-{transport}", fill) / "emulated"


LATE = {"SCCL_EMULATED_LAZY": "1"}
RUNS: dict[str, tuple[tuple[str, dict[str, str]], ...]] = {
    "dma": (
        ("calls_follow_one_another", LATE),
        ("unlike_memory", {}),
        ("refusal_waits", {"SCCL_TIMEOUT": "1"}),
        ("loopback", {}),
        ("promises", {}),
    ),
    "kernel": (
        ("calls_follow_one_another", {}),
        ("default_streams", {}),
        ("counts_in_a_row", LATE),
    ),
}
"""Programs that show the order of streams, with their settings."""


def failures(transport: str, mutant: int = 0) -> list[str]:
    """Return the programs that fail with a mutant: on all ranks, or on one of several processes."""
    folder = streams(transport)
    settings = {
        "SCCL_EMULATED_THREADS": "1",
        "SCCL_TIMEOUT": "2" if mutant else "60",
        "UCX_MEM_EVENTS": "no",
        "TSAN_OPTIONS": "halt_on_error=1:atexit_sleep_ms=0",
    }
    one = f"[ $MPI_LOCALRANKID != 1 ] || export SCCL_MUTANT={mutant}"
    found = []
    for name, further in RUNS[transport]:
        own = settings | further
        if name == "loopback":
            done = loopback(folder, "--counts", "401", **own, SCCL_MUTANT=str(mutant))
        elif name == "promises":
            done = launch(mpich(), 1, [str(folder / name)], **own, SCCL_MUTANT=str(mutant))
        else:
            shell = ["sh", "-c", f'{one}; exec "$@"', "sh", str(folder / "user"), name]
            done = launch(mpich(), 4, shell, **own)
        if done.returncode:
            found.append(f"{name}: {done.stderr}")
        if found and mutant:
            break
    return found


@pytest.mark.parametrize("transport", ["dma", pytest.param("kernel", marks=pytest.mark.nightly)])
def test_each_event_and_each_flag_of_streams_is_needed(transport: str) -> None:
    files, mutants = stream_files(transport)
    for name in (MACHINE,) if transport == "dma" else GROUP:
        assert re.findall(r"(?<!\|\| )gpu_(?:record|follow)\(.*", files[name]) == []
    assert failures(transport) == []
    needed = [mutant for mutant in mutants if NEVER_NEEDED not in mutant.name]
    survivors = [mutant.name for mutant in needed if not failures(transport, mutant.number)]
    assert survivors == []
