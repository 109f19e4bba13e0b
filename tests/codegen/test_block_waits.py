"""Thread blocks of a rank wait for one another only as often as links and steps justify."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sccl.codegen import hazards
from sccl.codegen.ir import Landing, Op, RankProgram
from sccl.codegen.passes import compile_program
from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Sat
from sccl.synth.syncoll import solve
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform import build_question, solve_question
from tests.kit.easy_algorithms import frontier
from tests.kit.hard_algorithms import MATRIX, Hard, load

WAITS_PER_LINK_AND_STEP = 3.0
"""Most lines `after` and `publish` of a rank, divided by its links and by the steps. A wait takes
about 0.4 us by estimate, so this bounds the waits of a step to some microseconds. The largest value
is 2.5, of the alltoall of 24 chunks on dgx1."""


def find_waits(own: RankProgram, steps: int) -> float:
    """Return how often blocks wait for blocks, by link and step."""
    lines = [line for _, line in own.instructions()]
    afters = [address for line in lines for address in line.after]
    sends = {told[0] for line in lines if line.op is not Op.CREDIT and (told := line.sets())}
    receives = {arrival.peer for line in lines for arrival in line.receives()}
    links = len(sends) + len(receives)
    return (len(afters) + len(set(afters))) / max(1, links * steps)


def find_most_waits(algorithm: Algorithm, landing: Landing) -> float:
    program = compile_program(algorithm, landing, serial=False)
    return max(find_waits(own, program.steps) for own in program.ranks)


def solve_direct_allgather(chunks: int) -> Algorithm:
    """Return an allgather on eight H100 in one step, as `sccl pareto` has it for large sizes."""
    instance = build_question(
        resolve_topology("dgx-h100"), named_spec("allgather", 8), chunks, 1, 7
    )
    answer = solve_question(instance, solve.solve)
    assert isinstance(answer, Sat)
    return expand_algorithm(answer.algorithm)


@pytest.mark.parametrize("hard", MATRIX, ids=str)
def test_hard_algorithms_wait_seldom(hard: Hard) -> None:
    for landing in Landing:
        assert find_most_waits(load(hard), landing) <= WAITS_PER_LINK_AND_STEP


@pytest.mark.parametrize("collective", ["allreduce", "reduce", "reducescatter"])
def test_reductions_on_h100_wait_seldom(collective: str) -> None:
    for algorithm in frontier("dgx-h100", collective):
        for landing in Landing:
            assert find_most_waits(algorithm, landing) <= WAITS_PER_LINK_AND_STEP


def test_limit_on_waits_rejects_dependencies_of_own_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place, a copy of a rank's own input touches nothing, so no send has to wait for it."""
    algorithm = solve_direct_allgather(18)
    assert find_most_waits(algorithm, Landing.OUTPUT) == 0
    monkeypatch.setattr(hazards, "Op", SimpleNamespace(COPY=None, CREDIT=Op.CREDIT))
    assert find_most_waits(algorithm, Landing.OUTPUT) > WAITS_PER_LINK_AND_STEP
