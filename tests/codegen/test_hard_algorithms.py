"""The hard algorithms have the features for which they are stored."""

from __future__ import annotations

import pytest

from sccl.core.algorithm import Algorithm
from sccl.core.files.algorithms import load_algorithm
from sccl.core.symmetric import SymmetricAlgorithm
from tests.kit.hard_algorithms import MATRIX, Hard, load, write


@pytest.mark.parametrize("hard", MATRIX, ids=str)
def test_each_has_steps_of_several_rounds(hard: Hard, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        write(hard)
    assert load(hard).rounds > hard.shape[1]


def test_no_file_is_left_over() -> None:
    kept = {hard.file for hard in MATRIX}
    assert len(kept) == len(MATRIX)
    assert kept == set(MATRIX[0].file.parent.iterdir())


def relays(algorithm: Algorithm) -> bool:
    """Return whether a rank passes on a chunk that it neither contributes to nor wants."""
    c = algorithm.collective
    return any(s.src not in c.holders(s.chunk) | c.destinations(s.chunk) for s in algorithm.sends)


def overlap(algorithm: Algorithm) -> bool:
    """Return whether some chunks are reduced in a step in which others are spread."""
    reducing = {s.step for s in algorithm.sends if s.reduce}
    return bool(reducing & {s.step for s in algorithm.sends if not s.reduce})


def one_way(algorithm: Algorithm) -> bool:
    return algorithm.topology.edges != algorithm.topology.reversed().edges


def test_together_they_have_every_feature() -> None:
    every = [load(hard) for hard in MATRIX]
    assert sum(len(set(a.rounds_per_step)) > 1 for a in every) > len(every) / 2  # uneven rounds
    assert any(max(k.lanes for k in a.topology.links) > 1 for a in every)
    assert any(a.topology.budgets and a.collective.combining for a in every)
    assert {a.collective.combining for a in every if relays(a)} == {True, False}
    assert {overlap(a) for a in every if a.collective.name == "allreduce"} == {True, False}
    assert {one_way(a) for a in every if a.collective.combining} == {True, False}
    assert any(a.collective.name == "some" for a in every if len(a.collective.holders(1)) > 1)
    rooted = {a.collective.name for a in every if a.collective.root}
    assert rooted == {"broadcast", "gather", "reduce", "scatter"}
    assert len({a.topology.ranks for a in every}) == 4
    files = [load_algorithm(hard.file)[0] for hard in MATRIX if hard.symmetric]
    assert files
    assert all(isinstance(a, SymmetricAlgorithm) for a in files)
