"""A few algorithms that are hard to lower, generate and run: several uneven rounds in a step.

They are files in ``golden/algorithms``, because some take long to find. ``pytest --update-golden``
generates them again. Their loader verifies them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from sccl.collectives import named_spec, resolve_collective
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Answer, Sat
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.disk import slugify
from sccl.core.instance import Instance
from sccl.core.symmetric import AnyAlgorithm
from sccl.formats.files.plans import write_plan
from sccl.judge import violations
from sccl.synth.packing.by_steps.allreduce_trees import tree_frontier
from sccl.synth.syncoll import solve as syncoll_solve
from sccl.synth.syncoll import symmetric_search
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.topo.symmetry.group_choice import candidate_groups
from sccl.transform import build_question, compose, solve_question
from tests.kit.paths import GOLDEN

MACHINES = GOLDEN / "machines"
"""Machines and collectives that no catalogue has."""


@dataclass(frozen=True)
class Hard:
    """One of the algorithms.

    Attributes:
        topology: of the catalogue, of a generator, or the name of a file of ``golden/machines``.
        collective: likewise.
        shape: (C, S, R).
        halves: (S, R) of the reducescatter of an allreduce whose phases are not equal.
        trees: whether it is an allreduce in which some chunks go down while others go up.
        symmetric: whether the file holds one send of each orbit only.
    """

    topology: str
    collective: str
    shape: tuple[int, int, int]
    root: int | None = None
    halves: tuple[int, int] | None = None
    trees: bool = False
    symmetric: bool = False

    def __str__(self) -> str:
        chunks, steps, rounds = self.shape
        root = "" if self.root is None else f"-root{self.root}"
        return f"{self.collective}-{slugify(self.topology)}-c{chunks}-s{steps}-r{rounds}{root}"

    @property
    def file(self) -> Path:
        """Return where it lies."""
        return GOLDEN / "algorithms" / f"{self}.json"

    def find(self) -> AnyAlgorithm:
        """Return the algorithm, synthesised anew."""
        topology = resolve_topology(_custom(self.topology))
        if self.trees:
            points = tree_frontier(
                topology, named_spec("allreduce", topology.ranks), max_steps=self.shape[1]
            ).points
            return next(
                p.algorithm for p in points if p.algorithm and _shape(p.algorithm) == self.shape
            )
        chunks, steps, rounds = self.shape
        if self.halves is not None:
            s, r = self.halves
            first = Hard(self.topology, "reducescatter", (chunks, s, r)).find()
            then = (chunks // topology.ranks, steps - s, rounds - r)
            last = Hard(self.topology, "allgather", then).find()
            whole = named_spec("allreduce", topology.ranks).at(chunks)
            return compose(expand_algorithm(first), expand_algorithm(last), whole)
        spec = resolve_collective(_custom(self.collective), topology.ranks, self.root)
        effort = syncoll_solve.Effort(120)
        solve = partial(_symmetric if self.symmetric else syncoll_solve.solve, effort=effort)
        answer = solve_question(build_question(topology, spec, chunks, steps, rounds), solve)
        assert isinstance(answer, Sat), f"{self}: {answer}"
        return answer.algorithm


def _symmetric(instance: Instance, effort: syncoll_solve.Effort) -> Answer:
    known = candidate_groups(instance.topology, instance.collective, "auto")
    return symmetric_search.answer(instance, known, effort)


def _shape(algorithm: AnyAlgorithm) -> tuple[int, int, int]:
    return (algorithm.collective.chunks, algorithm.steps, algorithm.rounds)


def _custom(name: str) -> str:
    own = MACHINES / f"{name}.json"
    return str(own) if own.exists() else name


FOUR = (
    Hard("one-way", "allgather", (2, 3, 7)),
    Hard("one-way", "allgather", (3, 6, 10)),
    Hard("one-way", "allreduce", (8, 6, 14)),
    Hard("one-way", "alltoall", (4, 3, 7)),
    Hard("one-way", "reduce", (5, 4, 6), root=2),
    Hard("one-way", "broadcast", (2, 2, 4), root=3),
    Hard("one-way", "scatter", (8, 2, 4), root=3),
    Hard("one-way", "gather", (4, 2, 4), root=1),
    Hard("one-way", "reducescatter", (8, 3, 7)),
    Hard("one-way", "some", (2, 3, 4)),
    Hard("star:4", "ends", (3, 3, 7)),
)
"""One-way links, two lanes, a bus, chunks with several sources, and a star whose rank 0 relays."""

EIGHT = (
    Hard("dgx1", "allgather", (2, 2, 3)),
    Hard("dgx1", "allgather", (6, 3, 7)),
    Hard("dgx1", "alltoall", (24, 2, 8)),
    Hard("dgx1", "allreduce", (16, 4, 6)),
    Hard("dgx1", "allreduce", (24, 4, 8), trees=True),
    Hard("dgx1", "allreduce", (48, 5, 14), trees=True),
    Hard("dgx1", "allreduce", (48, 5, 16), halves=(2, 9)),
    Hard("dgx1", "reducescatter", (48, 3, 7)),
    Hard("dgx1", "broadcast", (6, 3, 5), root=5),
    Hard("dgx1", "reduce", (6, 3, 5), root=3),
    Hard("dgx1", "gather", (2, 2, 3), root=6),
    Hard("dgx1", "scatter", (16, 2, 3), root=1),
    Hard("z52", "allgather", (2, 4, 7)),
    Hard("z52-pcie", "alltoall", (8, 3, 16)),
)
"""The published ones of DGX-1 and Z52, allreduces by trees and of unequal phases, roots, PCIe."""

SHORT = tuple(h for h in EIGHT if h.topology == "dgx1" and h.shape[0] < 48)
"""Those of DGX-1 but for the longest, which are compiled and run on the host only."""

MORE = (
    Hard("torus:3x3", "alltoall", (9, 2, 3)),
    Hard("torus:4x4", "allgather", (4, 4, 15), symmetric=True),
    Hard("ndv2x2", "allgather", (2, 5, 19)),
)
"""Nine ranks, a written-out symmetric algorithm, and two chassis of 16 ranks."""

MATRIX = (*FOUR, *EIGHT, *MORE)


def rows(hards: Iterable[Hard]) -> list[Any]:
    """Return parameters of a test. Slow ones that duplicate a difficulty run only nightly."""
    late = {(48, 5, 14), (4, 4, 15)}
    marks = [pytest.mark.nightly]
    return [pytest.param(h, marks=marks * (h.shape in late)) for h in hards]


@cache
def load(hard: Hard) -> Algorithm:
    """Return an algorithm of the matrix, written out.

    Raises:
        AssertionError: the file holds another, or one that is wrong.
    """
    found, intact = load_algorithm(hard.file)
    assert intact
    assert violations(found) == []
    assert _shape(found) == hard.shape
    return expand_algorithm(found)


def load_all(rows: Iterable[Hard]) -> list[Algorithm]:
    """Return some algorithms of the matrix."""
    return [load(row) for row in rows]


def write(hard: Hard) -> None:
    """Find an algorithm again and write its file."""
    hard.file.parent.mkdir(parents=True, exist_ok=True)
    write_plan(hard.file, hard.find())
