"""Run every synthesizer once and store its output, for tests of reproducibility.

Usage: python synthesisers.py FOLDER SPEED, the speed of the clock, which must not matter.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.collectives import named_spec
from sccl.formats.files.plans import write_plan
from sccl.synth.packing.by_steps.round_steps import (
    multiply_out,
    round_to_multiple,
    round_to_palindrome,
)
from sccl.synth.packing.by_steps.solve import solve_packing
from sccl.synth.packing.problem import (
    build_allreduce_problem,
    build_packing_problem,
)
from sccl.synth.syncoll import solve
from sccl.topo import resolve_topology

ASKED = {
    "symmetric": ("alltoall", "torus:4x4", 16, 4, 8, "cpsat"),
    "symmetric-layered": ("allgather", "mesh:4x4", 2, 6, 15, "cpsat"),
    "symmetric-shortest": ("allgather", "torus:4x4x4", 2, 6, 21, "cpsat"),
} | {solver: ("allgather", "ring:5", 2, 3, 4, solver) for solver in solve.names()}

SWEPT = {
    "sweep": ("--collective", "allgather", "--topo", "dgx1", "--no-store"),
    "sweep-symmetric": ("--collective", "alltoall", "--topo", "torus:4x4", "--no-store"),
    "composed": ("--collective", "allreduce", "--topo", "ring:4", "--no-store", "--k", "2"),
    "certified": ("--collective", "broadcast", "--topo", "ring:4", "--k", "1", "--no-store"),
    "limit": ("--collective", "broadcast", "--topo", "dgx1", "--limit", "--max-steps", "3"),
    "limit-by-search": (
        "--collective",
        "broadcast",
        "--topo",
        "line:13",
        "--limit",
        "--max-steps",
        "13",
    ),
    "classes": ("--collective", "allreduce", "--topo", "ring:4", "--limit", "--max-steps", "4"),
}
PATIENT = ("--timeout", "1000000")
PACKED = ("broadcast", "dgx1", 4)
TREES = ("torus:3x3", 4)


def command_lines(folder: Path) -> list[tuple[str, ...]]:
    """Return the commands to run, each of which writes into the folder."""
    lines = []
    for name, (collective, machine, chunks, steps, rounds, solver) in ASKED.items():
        where = ("--collective", collective, "--topo", machine)
        size = ("--chunks", chunks, "--steps", steps, "--rounds", rounds)
        how = ("--solver", solver, "--no-store", *PATIENT, "-o", folder / f"{name}.json")
        lines.append(tuple(str(word) for word in ("solve", *where, *size, *how)))
    for name, words in SWEPT.items():
        proofs = ("--certify", str(folder / "proofs")) if name == "certified" else ()
        lines.append(("pareto", *words, *PATIENT, "--output", str(folder / name), *proofs))
    return lines


def pack(folder: Path) -> None:
    """Write results of packings alone: rounded trees and multiplied ones."""
    collective, machine, steps = PACKED
    topology = resolve_topology(machine)
    spec = named_spec(collective, topology.ranks)
    limit = solve_packing(build_packing_problem(topology, spec.at(spec.unit), steps))
    for name, algorithm in (
        ("whole", multiply_out(limit)),
        ("rounded", round_to_multiple(limit, 7)),
    ):
        assert algorithm is not None
        write_plan(folder / f"packed-{name}.json", algorithm)
    machine, steps = TREES
    topology = resolve_topology(machine)
    unit = named_spec("allreduce", topology.ranks).at(topology.ranks)
    found = round_to_palindrome(solve_packing(build_allreduce_problem(topology, unit, steps)))
    assert found is not None
    write_plan(folder / "trees.json", found)


def main(folder: Path) -> None:
    """Run all commands."""
    folder.mkdir(exist_ok=True)
    for words in command_lines(folder):
        done = CliRunner().invoke(app, words)
        if done.exit_code:
            raise SystemExit(f"{' '.join(words)}: exit code {done.exit_code}\n{done.output}")
    pack(folder)


if __name__ == "__main__":
    clock, speed = time.perf_counter, float(sys.argv[2])
    time.perf_counter = lambda: speed * clock()
    main(Path(sys.argv[1]))
