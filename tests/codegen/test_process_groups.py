"""Generated code of process groups: ranks of others pass chunks on, and every byte is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from sccl.codegen.project_writer import generate, write_project
from sccl.collectives import resolve_collective
from sccl.core.algorithm import Algorithm
from sccl.core.instance import SweepRange
from sccl.solvers.effort import Effort
from sccl.synth.allreduce.pareto_search import find_frontier
from sccl.synth.common.settings import Settings
from sccl.topo import resolve_topology as machine
from sccl.topo.symmetry.expansion import expand_algorithm
from tests.kit.projects import emulation, launch, loopback, make, mpich

NAMES = {
    "allgather@0-1/2-3": "custom_allgather_0_1_2_3",
    "allreduce@0,2/3,1": "custom_allreduce_0_2_3_1",
    "broadcast@0-1:1+scatter@2,3:3": "custom_broadcast_0_1_1_scatter_2_3_3",
    "alltoall@0,1,3": "custom_alltoall_0_1_3",
}
"""Collectives in groups of four ranks, and their names in C."""


def in_groups() -> list[Algorithm]:
    """Return algorithms of minimum R/C of each, whose chunks go by way of other groups."""
    full, quick = machine("full:4"), Settings("cpsat", Effort(20.0, 0), no_store=True)
    found = []
    for text in NAMES:
        frontier = find_frontier(full, resolve_collective(text, 4), SweepRange(1, 6), quick)
        every = [point.algorithm for one in frontier.classes for point in one.points]
        own = [one for one in every if one is not None and one.collective.name == text]
        found.append(expand_algorithm(min(own, key=lambda one: one.bandwidth_cost)))
    return found


def test_each_uses_links_of_other_groups() -> None:
    for text, algorithm in zip(NAMES, in_groups(), strict=True):
        moved = {(s.src, s.dst) for s in algorithm.sends}
        pairs = {
            (src, dst)
            for held, wanted in algorithm.collective.chunk_classes()
            for src in held
            for dst in wanted | held
        }
        assert moved - pairs, text


def test_processes_have_what_their_group_makes(tmp_path: Path) -> None:
    write_project(tmp_path / "p", generate(in_groups(), "host"))
    make(tmp_path / "p", "CXXFLAGS=-O0", "bench", "libsccl.so")
    command = [str(tmp_path / "p" / "bench"), "--each", "--repeat", "0", "--counts", "17,5001"]
    done = launch(mpich(), 4, command)
    assert done.returncode == 0, done.stderr
    assert "WRONG" not in done.stderr
    assert "data of all sizes right" in done.stdout
    for name in NAMES.values():
        assert f"# sccl {name}, 4 ranks" in done.stdout


@pytest.mark.nightly
def test_kernels_do_too(tmp_path: Path) -> None:
    write_project(tmp_path / "p", generate(in_groups(), "cuda"))
    make(tmp_path / "p", "emulated", emulation())
    done = loopback(tmp_path / "p" / "emulated", "--counts", "1,1000")
    assert done.returncode == 0, done.stderr
    for name in NAMES.values():
        assert f"# sccl {name}, 4 ranks" in done.stdout
