"""Allgather that is optimal in both costs on 8 to 1,024 ranks, with and without symmetry."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks.process import measure
from benchmarks.timing import Verdict
from sccl.collectives import named_spec
from sccl.core.instance import Instance
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.syncoll.encoding_symmetric import PathRestriction, encode_orbits
from sccl.synth.syncoll.encoding_time_indexed import count_variables
from sccl.topo import resolve_topology
from sccl.topo.symmetry.group_choice import candidate_groups

FAMILIES: dict[str, tuple[str, ...]] = {
    "torus": ("4x2", "4x4", "8x4", "8x8", "16x8", "16x16", "32x16", "32x32"),
    "hypercube": ("3", "4", "5", "6", "7", "8", "9", "10"),
}
SMOKE: dict[str, tuple[str, ...]] = {"hypercube": ("3",)}
_GROWS_FROM = 64  # ranks. Below this size the process start dominates


@dataclass(frozen=True, slots=True)
class ScaleSpec:
    """Parameters of an allgather that meets both lower bounds."""

    family: str
    topology: str
    ranks: int
    chunks: int
    steps: int
    rounds: int
    symmetry: str

    @property
    def series(self) -> str:
        """Return the name of its line in the chart."""
        return series_of(self.family, self.symmetry)


def series_of(family: str, symmetry: str) -> str:
    """Return the name of the chart line for a family of machines."""
    return f"{family}, {'no symmetry' if symmetry == 'none' else 'symmetry'}"


@dataclass(frozen=True, slots=True)
class ScaleResult:
    """Measurement of ``sccl solve``.

    Attributes:
        variables: Number of variables in the solved model.
        seconds: Median wall-clock time of the whole process.
        memory_mb: Peak memory, in MB.
        runs: Wall-clock time of each run, in seconds.
    """

    spec: ScaleSpec
    verdict: Verdict
    variables: int
    seconds: float
    memory_mb: float
    runs: tuple[float, ...]


def spec_of(family: str, sides: str, symmetry: str) -> ScaleSpec:
    """Return the fewest chunks and rounds that meet both lower bounds of an allgather."""
    topology = resolve_topology(f"{family}:{sides}")
    bounds = lower_bounds(topology, named_spec("allgather", topology.ranks))
    chunks = bounds.bandwidth.denominator
    while chunks * bounds.bandwidth < bounds.steps:
        chunks += bounds.bandwidth.denominator
    rounds = int(chunks * bounds.bandwidth)
    assert Fraction(rounds, chunks) == bounds.bandwidth
    return ScaleSpec(family, topology.name, topology.ranks, chunks, bounds.steps, rounds, symmetry)


def run(
    families: dict[str, tuple[str, ...]], timeout_s: float, repeat: int
) -> Iterator[ScaleResult]:
    """Yield the results. A series of sizes ends at its first unsolved machine."""
    for family, sizes in families.items():
        for symmetry in ("auto", "none"):
            for sides in sizes:
                result = solve(spec_of(family, sides, symmetry), timeout_s, repeat)
                yield result
                if result.verdict != "sat":
                    break


def solve(spec: ScaleSpec, timeout_s: float, repeat: int) -> ScaleResult:
    """Measure one machine through the command-line interface."""
    arguments = ("solve", "--collective", "allgather", "--topo", spec.topology, "--json")
    numbers = ("--chunks", spec.chunks, "--steps", spec.steps, "--rounds", spec.rounds)
    options = ("--symmetry", spec.symmetry, "--timeout", timeout_s, "--no-store")
    runs = []
    for _ in range(repeat):
        runs.append(measure(*arguments, *(str(x) for x in (*numbers, *options))))
        answer = json.loads(runs[-1].text)
        if answer["answer"] != "sat":
            break
    ordered = sorted(runs, key=lambda r: r.seconds)
    return ScaleResult(
        spec,
        answer["answer"],
        _variables(spec, answer.get("group")),
        ordered[len(runs) // 2].seconds,
        max(r.memory_mb for r in runs),
        tuple(r.seconds for r in runs),
    )


def _variables(spec: ScaleSpec, group_name: str | None) -> int:
    topology = resolve_topology(spec.topology)
    collective = named_spec("allgather", spec.ranks).at(spec.chunks)
    instance = Instance(topology, collective, spec.steps, spec.rounds)
    for group in candidate_groups(topology, collective, spec.symmetry):
        if group.name == group_name:
            return len(encode_orbits(instance, group.generators, PathRestriction.LAYERED).transfers)
    return count_variables(instance)


def growth(results: Sequence[ScaleResult]) -> dict[str, float]:
    """Return, by series, the exponent of the time in the number of ranks (least squares)."""
    exponents = {}
    for series in dict.fromkeys(r.spec.series for r in results):
        large = [
            (math.log(r.spec.ranks), math.log(r.seconds))
            for r in results
            if r.spec.series == series and r.spec.ranks >= _GROWS_FROM and r.verdict == "sat"
        ]
        if len(large) > 2:
            ranks, seconds = zip(*large, strict=True)
            exponents[series] = round(float(np.polyfit(ranks, seconds, 1)[0]), 2)
    return exponents
