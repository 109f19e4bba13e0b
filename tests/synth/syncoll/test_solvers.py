"""Every solver against the bank of known verdicts, the limits, and each other's model counts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sccl.collectives import named_spec
from sccl.core.answer import Sat, Unknown, Unsat
from sccl.core.instance import Instance
from sccl.errors import JudgeError, ParameterError, UnknownNameError
from sccl.synth.syncoll import solve
from sccl.synth.syncoll.encoding_time_indexed import count_variables, encode
from sccl.topo import resolve_topology
from sccl.topo.symmetry.group_choice import candidate_groups
from tests.kit.solver_cases import BANK, Case, check_backend

SENT = [
    case
    for case in BANK
    if (case.topology, case.collective, case.steps)
    in {("ring:4", "allgather", 2), ("full:4", "allreduce", 2), ("z52-pcie", "allgather", 3)}
]
"""What is also sent to child processes: sat and unsat, one machine or two halves, a bus."""


HARD_FOR_Z3 = {("alltoall", 3), ("alltoall", 2), ("allgather", 6)}
"""Collectives and rounds on DGX-1 that it takes seconds for, and the others a part of one."""


def asked() -> Iterator[Any]:
    for case, solver in product(BANK, solve.names()):
        hard = case.topology == "dgx1" and (case.collective, case.rounds) in HARD_FOR_Z3
        marks = [pytest.mark.nightly] if hard and solver == "z3" else []
        yield pytest.param(solver, case, id=f"{case}-{solver}", marks=marks)


@pytest.mark.parametrize(("solver", "case"), list(asked()))
def test_backend_gives_known_verdict(solver: str, case: Case) -> None:
    check_backend(solver, case, here=True)


@pytest.mark.parametrize("solver", ["cadical", "z3"])
@pytest.mark.parametrize("case", SENT, ids=str)
def test_solvers_in_processes_of_their_own_say_the_same(solver: str, case: Case) -> None:
    check_backend(solver, case)


def test_every_backend_is_registered() -> None:
    """What answers an instance in this room is found by its name."""
    folder = Path(solve.__file__).parent
    answers = {
        f"sccl.synth.syncoll.{path.stem}"
        for path in folder.glob("*.py")
        if "\ndef answer(instance: Instance, effort: Effort)" in path.read_text()
    }
    assert answers == set(solve._MODULES.values())


@pytest.mark.parametrize("solver", solve.names())
def test_a_timeout_is_unknown(solver: str) -> None:
    instance = Case("dgx1", "broadcast", 14, 3, 5, False, "").question.instances[0]
    answer = solve.solve(instance, solver, solve.Effort(timeout_s=0.05))
    assert isinstance(answer, Unknown)
    assert "timeout" in str(answer.reason) or "canceled" in str(answer.reason)


def test_wrong_algorithms_never_leave_the_face(monkeypatch: pytest.MonkeyPatch) -> None:
    from sccl.synth.syncoll import solve_cpsat

    instance = Case("ring:4", "allgather", 1, 2, 2, True, "").question.instances[0]
    monkeypatch.setattr(solve, "_AFTER_GREEDY", ())
    good = solve.solve(instance)
    assert isinstance(good, Sat)
    from dataclasses import replace

    broken = replace(good, algorithm=replace(good.algorithm, sends=good.algorithm.sends[1:]))
    monkeypatch.setattr(solve_cpsat, "answer", lambda _instance, _limits: broken)
    with pytest.raises(JudgeError, match="cpsat"):
        solve.solve(instance, "cpsat")


def test_unknown_solver_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'cpsat'"):
        solve.check_name("cp-sat")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e12])
def test_timeouts_must_be_positive(seconds: float) -> None:
    with pytest.raises(ParameterError, match="timeout"):
        solve.Effort(timeout_s=seconds)


def test_solvers_do_not_load_one_another() -> None:
    code = (
        "import sys; from sccl.synth.syncoll import solve; from sccl.cli import main;"
        "assert not {'ortools', 'z3', 'pysat', 'pysmt'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_the_greedy_finds_takes_no_solver_to_be_loaded() -> None:
    """Neither NumPy nor OR-Tools: loading them takes longer than the search, and all else."""
    code = (
        "import sys; from sccl.cli.main import app;"
        "words = 'solve --collective broadcast --topo dgx1 --chunks 6 --steps 3 --rounds 3';"
        "done = app([*words.split(), '--no-store'], standalone_mode=False);"
        "assert done == 0, done;"
        "assert not {'numpy', 'ortools', 'flint', 'igraph', 'altair'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("solver", solve.names())
def test_what_is_far_too_large_is_unknown_at_once(solver: str) -> None:
    instance = Case("dgx1", "allgather", 100_000, 3, 116_667, True, "").question.instances[0]
    answer = solve.solve(instance, solver)
    assert isinstance(answer, Unknown)
    assert "too large" in str(answer.reason)


def test_size_counts_the_variables() -> None:
    for case in BANK:
        for instance in case.question.instances:
            assert count_variables(instance) == len(encode(instance).transfers)


@pytest.mark.parametrize(
    ("machine", "collective", "numbers", "why"),
    [
        ("torus:16x16", "allgather", (4, 16, 254), "R is at least 255"),
        ("mesh:16x16", "allgather", (2, 29, 255), "30 links away from rank 255"),
        ("dragonfly:16x17", "allgather", (1, 3, 16), "R is at least 271/16"),
    ],
)
def test_where_no_solver_is_asked_bounds_refute(
    machine: str, collective: str, numbers: tuple[int, int, int], why: str
) -> None:
    topology, (c, s, r) = resolve_topology(machine), numbers
    asked = Instance(topology, named_spec(collective, topology.ranks).at(c), s, r)
    answer = solve.solve(asked, groups=candidate_groups(topology, asked.collective, "auto"))
    assert isinstance(answer, Unsat)
    assert why in answer.evidence
