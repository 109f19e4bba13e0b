"""The order in which kernels read and write: each barrier, wait, and memory order is needed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from sccl.emit import EmitOptions, generate, write_project
from tests.kit import once
from tests.kit.matrix import FOUR, all_of
from tests.kit.mutants import Mutant, with_mutants
from tests.kit.nightly import times
from tests.kit.paths import PROGRAMS
from tests.kit.projects import include_flags, mpich, tool

HANG_S = 120
"""No run that ends takes a hundredth of it."""


def files_and_mutants() -> tuple[dict[str, str], list[Mutant]]:
    return with_mutants(generate(all_of(FOUR), "cuda", EmitOptions(3)))


def promises() -> Path:
    """Return the program that checks the primitives under the thread sanitizer."""

    def fill(directory: Path) -> None:
        write_project(directory / "p", files_and_mutants()[0])
        flags = (
            "-std=c++17 -O0 -g1 -Wall -Wextra -Werror -fsanitize=thread -DSCCL_EMULATED -pthread"
        )
        places = ["-I", str(directory / "p"), *include_flags(mpich())]
        words = [str(PROGRAMS / "promises.cpp"), "-o", str(directory / "promises")]
        subprocess.run([tool("g++", "install it"), *flags.split(), *places, *words], check=True)

    return once.folder("gpu-promises", fill) / "promises"


def run(threads: int, mutant: int = 0) -> subprocess.CompletedProcess[str]:
    """Run all sequences; the first race ends the program, and a hang raises TimeoutExpired."""
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
