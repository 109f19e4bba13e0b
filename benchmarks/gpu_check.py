"""Check generated code on one GPU in ten minutes.

``build`` makes a folder. ``run`` needs this folder, a GPU with its driver, and Python::

    python -m benchmarks.gpu_check build FOLDER
    python3 FOLDER/gpu_check.py run

``run`` goes through its parts in order, each with a limit of its own, and writes ``gpu_check.txt``
and ``gpu_check.json`` after every part. Exit code 0: all parts are right, 1: a part is not, 2: bad
input, 3: there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
LIMIT_S = 590.0
"""Seconds of a whole run: machines are lent for commands of ten minutes."""

GRACE_S = 2.0
"""Seconds, within the limit of a part, between the request to end and the end."""

RIGHT = r"# data of all sizes right"
ODD = "1,33,1000,20001,300001"
"""Counts of elements that leave remainders in slices, vectors, and words."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the check.

    Attributes:
        name: Name in the results.
        limit_s: Time limit in seconds.
        words: Command. Its first word is a program in the folder or on the path.
        expected: Regular expressions that its output must match.
        environment: Additional environment variables.
        needs: Name of an earlier part that must be right.
    """

    name: str
    limit_s: float
    words: tuple[str, ...]
    expected: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of a part.

    Attributes:
        state: ``right``, ``wrong``, ``late`` (time limit), ``no GPU``, ``no program``, or
            ``not run`` (a part that it needs was not right).
        exit_code: Exit code. None: the part was not started or was stopped.
        figures: Lines of JSON in its output.
        output: Output of both streams together.
    """

    name: str
    state: str
    seconds: float
    limit_s: float
    words: tuple[str, ...]
    exit_code: int | None
    figures: list[Any]
    output: str


def list_parts(scratch: str) -> tuple[Part, ...]:
    """Return the parts in order. Their limits add up to less than ten minutes.

    Args:
        scratch: Folder for the sockets and logs of MPS.
    """
    loopback = ("bench", "--loopback")
    once = (*loopback, "allreduce", "--repeat", "0", "--counts", "1000")
    patient = {"SCCL_TIMEOUT": "20"}  # tools and time slices slow kernels down
    ranks = ("mpi/bin/mpiexec.hydra", "-n", "8", "./bench")
    shared = {"SCCL_SHARE_GPU": "1", "SCCL_DEBUG": "1", **patient}
    mps = {"CUDA_MPS_PIPE_DIRECTORY": scratch, "CUDA_MPS_LOG_DIRECTORY": scratch}
    started, quitting = "begin of MPS", "echo quit | nvidia-cuda-mps-control"
    query = "name,driver_version,compute_mode,mig.mode.current,clocks.sm,clocks.mem"
    sections = ("SpeedOfLight", "WarpStateStats", "MemoryWorkloadAnalysis")
    profiled = ["-k", "regex:run_loopback", "-c", "2", "--clock-control", "none"]
    profiled += [word for section in sections for word in ("--section", section)]
    figures = (*loopback, "allreduce", "--sizes", "16M:16M", "--repeat", "1", "--no-check")
    return (
        Part("machine", 10, ("gpu_check", "machine")),
        Part("driver", 10, ("nvidia-smi", f"--query-gpu={query}", "--format=csv")),
        Part("order", 40, ("gpu_check", "order")),
        Part("stale copies", 30, ("gpu_check", "stale")),
        Part("speed of a block", 20, ("gpu_check", "speed")),
        Part("two processes", 40, ("gpu_check", "pair", "200")),
        *(
            Part(
                f"loopback, {name}",
                25,
                (*loopback, "--repeat", "0", "--counts", ODD, "--select", _select(letter)),
                (RIGHT,),
            )
            for name, letter in (("packets", "p"), ("eager", "e"), ("direct", "d"))
        ),
        *(
            Part(
                tool,
                limit,
                ("compute-sanitizer", "--tool", tool, "./bench", *once[1:]),
                (RIGHT, rf"{summary} SUMMARY: 0 "),
                patient,
            )
            for tool, limit, summary in (
                ("memcheck", 45, "ERROR"),
                ("synccheck", 25, "ERROR"),
                ("racecheck", 25, "RACECHECK"),
            )
        ),
        Part(
            "times", 55, (*loopback, "--sizes", "64:64M", "--repeat", "3", "--no-check", "--json")
        ),
        Part(
            "stalls", 40, ("ncu", *profiled, "./bench", *figures[1:]), (r"run_loopback",), patient
        ),
        Part(
            "eight processes",
            55,
            (*ranks, "allreduce", "--repeat", "0", "--counts", "1000"),
            (RIGHT, r"served by "),
            shared,
        ),
        Part(started, 10, ("nvidia-cuda-mps-control", "-d"), (), mps),
        Part("two processes, MPS", 20, ("gpu_check", "pair", "20000"), (), mps, started),
        Part(
            "eight processes, MPS",
            40,
            (*ranks, "--each", "--repeat", "0", "--counts", "33,20001"),
            (RIGHT, r"served by "),
            {**shared, **mps},
            started,
        ),
        Part(
            "times of processes, MPS",
            30,
            (*ranks, "--sizes", "64:4M", "--repeat", "3", "--no-check", "--json"),
            (),
            {**shared, **mps},
            started,
        ),
        Part("end of MPS", 10, ("sh", "-c", quitting), (), mps, started),
    )


def _select(letter: str) -> str:
    return ";".join(f"{name}:0=0{letter}" for name in ("allgather", "allreduce"))


def run_part(part: Part, folder: Path, limit_s: float) -> Result:
    """Run one part and return its outcome."""
    local = folder / part.words[0]
    program = str(local) if local.exists() else shutil.which(part.words[0])
    begin = time.monotonic()
    if program is None:
        return _skip(part, "no program", f"no {part.words[0]} on this machine")
    if limit_s <= GRACE_S:
        return _skip(part, "late", "the time of the run is over")
    libraries = f"{folder / 'mpi' / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    settings = {"LD_LIBRARY_PATH": libraries, "SCCL_TIMEOUT": "5", **part.environment}
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            [program, *part.words[1:]],
            cwd=folder,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = _await_end(process, limit_s)
        output.seek(0)
        text = output.read()
    missing = [pattern for pattern in part.expected if not re.search(pattern, text)]
    state = "late" if code is None else "wrong" if code or missing else "right"
    if missing and state == "wrong":
        text += f"missing in the output: {', '.join(missing)}\n"
    seconds = round(time.monotonic() - begin, 2)
    return Result(part.name, state, seconds, part.limit_s, part.words, code, read_json(text), text)


def _skip(part: Part, state: str, why: str) -> Result:
    return Result(part.name, state, 0.0, part.limit_s, part.words, None, [], f"{why}\n")


def _await_end(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """Return the exit code, or stop the process's whole session at the limit and return None."""
    for patience, number in ((limit_s - GRACE_S, signal.SIGTERM), (GRACE_S, signal.SIGKILL)):
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            _signal_session(process, number)
        except BaseException:  # an interrupt leaves nothing behind on the GPU
            _signal_session(process, signal.SIGKILL)
            raise
        else:
            return code if number is signal.SIGTERM else None
    process.wait()
    return None


def _signal_session(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def read_json(text: str) -> list[Any]:
    """Return the values of the lines that are JSON objects."""
    values = []
    for line in text.splitlines():
        with suppress(ValueError):
            values += [json.loads(line)] if line.startswith("{") else []
    return values


def run_parts(parts: Sequence[Part], folder: Path, into: Path) -> int:
    """Run all parts, write their results, and return the exit code."""
    begin = time.monotonic()
    results: list[Result] = []
    absent = ""
    for part in parts:
        remaining = LIMIT_S - (time.monotonic() - begin)
        if absent:
            result = _skip(part, "no GPU", f"no GPU, so this part was not run: {absent}")
        elif any(r.name == part.needs and r.state != "right" for r in results):
            result = _skip(part, "not run", f"it needs the part '{part.needs}', which is not right")
        else:
            result = run_part(part, folder, min(part.limit_s, remaining))
        if part.words[0] == "gpu_check" and result.exit_code == 3:
            absent = str(result.figures[0].get("error")) if result.figures else "none is seen"
            result = replace(result, state="no GPU")
        results.append(result)
        print(describe(result), flush=True)
        complete = len(results) == len(parts)
        write_results(results, into, time.monotonic() - begin, complete=complete)
    print(f"results: {into / 'gpu_check.txt'} and {into / 'gpu_check.json'}")
    states = {result.state for result in results}
    return 3 if absent else 0 if states == {"right"} else 1


def describe(result: Result) -> str:
    """Return a line about a result."""
    times = f"{result.seconds:7.2f} of {result.limit_s:g} s"
    return f"{result.name:<26}{result.state:<12}{times}"


def write_results(results: Sequence[Result], into: Path, seconds: float, *, complete: bool) -> None:
    """Write the text and the JSON file."""
    into.mkdir(parents=True, exist_ok=True)
    document = {
        "gpu_check": 1,
        "seconds": round(seconds, 2),
        "complete": complete,
        "parts": [asdict(result) for result in results],
    }
    _write_whole(into / "gpu_check.json", json.dumps(document, indent=1) + "\n")
    summary = "".join(f"{describe(result)}\n" for result in results)
    parts = [f"=== {describe(r)}\n$ {' '.join(r.words)}\n{r.output}" for r in results]
    _write_whole(into / "gpu_check.txt", "\n".join([summary, *parts]))


def _write_whole(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def build(folder: Path, algorithms: Path | None, arch: str) -> None:
    """Build all files that a run needs.

    Args:
        folder: New folder.
        algorithms: Folder of algorithms for eight ranks. None: synthesize algorithms for dgx-h100.
        arch: Number of the GPU's architecture, 90 for H100 and H200.
    """
    from sccl.runtime.mpi import find_mpi  # noqa: PLC0415 - a run has no sccl

    if folder.exists():
        raise SystemExit(f"{folder} exists already: give the name of a new folder")
    mpi = find_mpi()
    if mpi.open_mpi:
        raise SystemExit(f"{mpi.folder} has Open MPI: MPICH is needed (pip install mpich)")
    environment = mpi.environment()
    command = [sys.executable, "-m", "sccl"]
    with tempfile.TemporaryDirectory() as scratch:
        if algorithms is None:
            algorithms = Path(scratch, "found")
            for name in ("allgather", "allreduce"):
                wanted = ["--collective", name, "--topo", "dgx-h100", "--out", str(algorithms)]
                _build_step([*command, "pareto", *wanted], environment)
        project = Path(scratch, "project")
        generate = [str(algorithms), "--target", "cuda", "-o", str(project)]
        _build_step([*command, "codegen", *generate], environment)
        make = ["make", "-C", str(project), f"ARCHS={arch}", f"MPICXX={mpi.compiler}"]
        _build_step([*make, "libsccl.so", "bench"], environment)
        nvcc = ["nvcc", "-O3", "-std=c++17", f"-arch=sm_{arch}", "-cudart", "static"]
        nvcc += ["-ccbin", mpi.compiler, "-Xcompiler", "-Wall,-Wextra", "-I", str(project)]
        nvcc += [str(FOLDER / "gpu_check.cu"), "-o", str(project / "gpu_check"), "-ldl"]
        _build_step(nvcc, environment)
        collect_programs(project, mpi.folder, folder)
    print(f"built: python3 {folder / Path(__file__).name} run")


def collect_programs(project: Path, mpi: Path, folder: Path) -> None:
    """Copy programs, the parts of MPICH that they need, and this file into a new folder.

    Args:
        project: Folder of ``libsccl.so``, ``bench`` and ``gpu_check``.
        mpi: Folder of MPICH's commands.
        folder: New folder.
    """
    for place in ("mpi/bin", "mpi/lib"):
        (folder / place).mkdir(parents=True)
    for name in ("libsccl.so", "bench", "gpu_check"):
        shutil.copy2(project / name, folder)
    for name in ("mpiexec.hydra", "hydra_pmi_proxy"):
        shutil.copy2(mpi / name, folder / "mpi" / "bin")
    for library in _libraries_below(folder / "bench", mpi.parent):
        shutil.copy2(library, folder / "mpi" / "lib")
    shutil.copy2(__file__, folder)


def _build_step(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a command of the build, or end with its output."""
    print("$", " ".join(words), flush=True)
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit(f"no {words[0]} on this machine: the check is built with it") from None
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}{words[0]} failed: exit {done.returncode}")


def _libraries_below(program: Path, prefix: Path) -> list[Path]:
    """Return the shared libraries of a program that lie below a folder."""
    words = [shutil.which("ldd") or "ldd", str(program)]
    listed = subprocess.run(words, capture_output=True, text=True, check=True)
    paths = [Path(name) for name in re.findall(r"=> (/\S+)", listed.stdout)]
    return [path for path in paths if path.resolve().is_relative_to(prefix.resolve())]


def main() -> int:
    """Build or run the check, as the command line asks."""
    parser = argparse.ArgumentParser(description="Check generated code on one GPU.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    builder = verbs.add_parser("build", help="build all files of a run without a GPU")
    builder.add_argument("folder", type=Path, help="new folder")
    builder.add_argument("--algorithms", type=Path, help="algorithms for eight ranks (dgx-h100's)")
    builder.add_argument("--arch", default="90", help="architecture of the GPU (90)")
    runner = verbs.add_parser("run", help="run all parts on a GPU in ten minutes")
    runner.add_argument("--only", help="names of parts, separated by semicolons (all)")
    runner.add_argument(
        "-o", "--out", type=Path, default=FOLDER / "results", help="results' folder"
    )
    options = parser.parse_args()
    if options.verb == "build":
        build(options.folder, options.algorithms, options.arch)
        return 0
    if not (FOLDER / "gpu_check").exists():
        parser.error(f"{FOLDER} has no programs: run the copy of this file in a folder of 'build'")
    with tempfile.TemporaryDirectory() as scratch:
        parts = list_parts(scratch)
        names = [part.name for part in parts]
        only = options.only.split(";") if options.only else names
        if unknown := set(only) - set(names):
            parser.error(f"no parts {', '.join(sorted(unknown))}: expected one or more of {names}")
        return run_parts([part for part in parts if part.name in only], FOLDER, options.out)


if __name__ == "__main__":
    sys.exit(main())
