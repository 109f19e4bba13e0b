"""Encodings count: their models are exactly the schedules that brute force finds."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import z3
from ortools.sat.python import cp_model

from sccl.core.instance import Instance
from sccl.synth.common.candidates import round_vectors
from sccl.synth.syncoll import solve_cpsat
from sccl.synth.syncoll.encoding_qflia import encode as encode_qflia
from sccl.synth.syncoll.encoding_time_indexed import TransferModel, encode
from sccl.synth.syncoll.solve_cadical import build_clauses
from tests.kit.solver_cases import BANK, Case

Schedule = frozenset[tuple[int, int, int, int]]
"""Sends as (chunk, src, dst, step)."""

TINY = (
    Case("line:2", "allgather", 1, 1, 1, True, ""),
    Case("line:2", "broadcast", 2, 2, 3, True, ""),
    Case("line:3", "broadcast", 1, 2, 2, True, ""),
    Case("line:3", "broadcast", 2, 3, 3, True, ""),
    Case("ring:3", "broadcast", 1, 2, 2, True, ""),
    Case("ring:3", "broadcast", 2, 2, 3, True, ""),
    Case("ring:3", "gather", 1, 2, 2, True, ""),
    Case("ring:3", "gather", 1, 2, 3, True, ""),
    Case("ring:3", "allgather", 1, 1, 1, True, ""),
    Case("line:3", "scatter", 3, 2, 2, True, ""),
)


def brute_force(instance: Instance) -> set[tuple[Schedule, tuple[int, ...]]]:
    """Return every (T, Q) in which a chunk arrives at most once anywhere and never too late.

    Written from SCCL section 3.3 alone. A send counts only if it can matter: the chunk can still
    get from where it arrives to a rank that wants it.
    """
    c, t = instance.collective, instance.topology
    edges = sorted(t.edges)
    hops = {n: _hops(t.ranks, edges, n) for n in range(t.ranks)}

    def late(chunk: int, rank: int, step: int) -> bool:
        return all(step + 1 + hops[rank].get(w, 99) > instance.steps for w in c.destinations(chunk))

    per_chunk: list[list[Schedule]] = []
    for chunk in range(c.num_chunks):
        options = [
            (chunk, u, v, s)
            for u, v in edges
            for s in range(instance.steps)
            if v not in c.holders(chunk) and not late(chunk, v, s)
        ]
        per_chunk.append(
            [
                frozenset(sends)
                for n in range(t.ranks)
                for sends in itertools.combinations(options, n)
                if _chunk_is_right(instance, chunk, sends)
            ]
        )
    vectors = [
        q
        for q in itertools.product(range(1, instance.rounds + 1), repeat=instance.steps)
        if sum(q) == instance.rounds
    ]
    found = set()
    for choice in itertools.product(*per_chunk):
        sends = frozenset().union(*choice)
        found |= {(sends, q) for q in vectors if _within_budgets(instance, sends, q)}
    return found


def _hops(ranks: int, edges: list[tuple[int, int]], start: int) -> dict[int, int]:
    far = {start: 0}
    for _ in range(ranks):
        for u, v in edges:
            if u in far:
                far[v] = min(far.get(v, 99), far[u] + 1)
    return far


def _chunk_is_right(instance: Instance, chunk: int, sends: tuple[tuple[int, ...], ...]) -> bool:
    arrived = [v for _, _, v, _ in sends]
    if len(set(arrived)) < len(arrived):
        return False
    held: set[int] = set(instance.collective.holders(chunk))
    for step in range(instance.steps):
        now = [(u, v) for _, u, v, s in sends if s == step]
        if any(u not in held for u, _ in now):
            return False
        held |= {v for _, v in now}
    return instance.collective.destinations(chunk) <= held


def _within_budgets(instance: Instance, sends: Schedule, q: tuple[int, ...]) -> bool:
    return all(
        sum(1 for _, u, v, s in sends if s == step and (u, v) in constraint.edges)
        <= constraint.chunks_per_round * q[step]
        for constraint in instance.topology.constraints()
        for step in range(instance.steps)
    )


def as_schedule(model: TransferModel, chosen: list[int]) -> Schedule:
    """Return the sends of a solution."""
    picked = (model.transfers[i] for i in chosen)
    return frozenset((t.chunk, t.src, t.dst, t.step) for t in picked)


class _Collector(cp_model.CpSolverSolutionCallback):
    def __init__(self, problem: solve_cpsat._CpProblem) -> None:
        super().__init__()
        self.problem = problem
        self.found: list[tuple[Schedule, tuple[int, ...]]] = []

    def on_solution_callback(self) -> None:
        chosen = [i for i, x in enumerate(self.problem.transfer_vars) if self.boolean_value(x)]
        q = tuple(self.value(r) for r in self.problem.rounds)
        self.found.append((as_schedule(self.problem.model, chosen), q))


def solutions(instance: Instance, *, ordered: bool) -> list[tuple[Schedule, tuple[int, ...]]]:
    """Return all solutions of the default solver's model."""
    problem = solve_cpsat._build_cp_model(encode(instance, break_symmetry=ordered))
    collector = _Collector(problem)
    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False  # it would stay deadly after
    solver.parameters.enumerate_all_solutions = True
    solver.parameters.num_workers = 1
    solver.solve(problem.cp, collector)
    return collector.found


@pytest.mark.parametrize("case", TINY, ids=str)
def test_cpsat_models_are_the_schedules(case: Case) -> None:
    instance = case.question.instances[0]
    found = solutions(instance, ordered=False)
    assert len(found) == len(set(found))
    assert set(found) == brute_force(instance)


@pytest.mark.parametrize("case", TINY, ids=str)
def test_cnf_models_are_the_schedules(case: Case) -> None:
    from pysat.solvers import Solver

    instance = case.question.instances[0]
    model = encode(instance, break_symmetry=False)
    found = set()
    for q in _all_vectors(instance):
        projected = range(1, len(model.transfers) + 1)
        with Solver(name="cadical195", bootstrap_with=build_clauses(model, q)) as solver:
            while solver.solve():
                values = solver.get_model()
                found.add((as_schedule(model, [i - 1 for i in projected if values[i - 1] > 0]), q))
                solver.add_clause([-values[i - 1] for i in projected])
    assert found == brute_force(instance)


def renamed(instance: Instance, sends: Schedule) -> Iterator[Schedule]:
    """Yield a schedule with chunks of one class renamed in every way."""
    classes = [chunks for chunks in instance.collective.chunk_classes().values() if len(chunks) > 1]
    for orders in itertools.product(*map(itertools.permutations, classes)):
        name = {a: b for old, new in zip(classes, orders, strict=True)
                for a, b in zip(old, new, strict=True)}  # fmt: skip
        yield frozenset((name.get(c, c), *rest) for c, *rest in sends)  # type: ignore[misc]


@pytest.mark.parametrize("case", [c for c in TINY if c.chunks > 1], ids=str)
def test_ordered_models_are_all_schedules_but_for_names(case: Case) -> None:
    instance = case.question.instances[0]
    found = solutions(instance, ordered=True)
    every = {(other, q) for sends, q in found for other in renamed(instance, sends)}
    assert every == brute_force(instance)


def _all_vectors(instance: Instance) -> list[tuple[int, ...]]:
    every = itertools.product(range(1, instance.rounds + 1), repeat=instance.steps)
    return [q for q in every if sum(q) == instance.rounds]


@pytest.mark.parametrize("case", TINY, ids=str)
def test_models_of_qflia_are_the_schedules(case: Case) -> None:
    """C1 to C6 of the paper, each model once."""
    instance = case.question.instances[0]
    encoding, context = encode_qflia(instance), z3.Context()
    solver = z3.Solver(ctx=context)
    solver.add(z3.parse_smt2_string(encoding.text, ctx=context))
    names = [*encoding.sends, *itertools.chain.from_iterable(encoding.extra_rounds)]
    variables = {name: z3.Bool(name, context) for name in names}
    schedules: list[tuple[Schedule, tuple[int, ...]]] = []
    while solver.check() == z3.sat:
        model = solver.model()
        values = {
            name: z3.is_true(model.eval(variable, model_completion=True))
            for name, variable in variables.items()
        }
        algorithm = encoding.decode({name for name, value in values.items() if value})
        sends = frozenset((s.chunk, s.src, s.dst, s.step) for s in algorithm.sends)
        schedules.append((sends, algorithm.rounds_per_step))
        solver.add(z3.Or([variables[name] != value for name, value in values.items()]))
    assert len(schedules) == len(set(schedules))
    assert set(schedules) == brute_force(instance)


@pytest.mark.parametrize("case", [c for c in BANK if c.chunks > 1][:12], ids=str)
def test_ordering_chunks_loses_no_verdict(case: Case) -> None:
    for instance in case.question.instances:
        verdicts = set()
        for ordered in (False, True):
            model = encode(instance, break_symmetry=ordered)
            if model.infeasible_reason:
                verdicts.add("INFEASIBLE")
                continue
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            solver.parameters.catch_sigint_signal = False  # it would stay deadly after
            status = solver.solve(solve_cpsat._build_cp_model(model).cp)
            verdicts.add("INFEASIBLE" if status == cp_model.INFEASIBLE else "sat")
        assert verdicts == {"sat" if case.sat else "INFEASIBLE"}


def test_round_vectors_cover_all_up_to_reversal() -> None:
    one_way = Case("dgx1", "allgather", 1, 3, 6, True, "").question.instances[0]
    assert sorted(round_vectors(one_way)) == sorted(_all_vectors(one_way))
    both_ways = Case("dgx1", "alltoall", 8, 3, 6, True, "").question.instances[0]
    kept = set(round_vectors(both_ways))
    assert {min(q, q[::-1]) for q in _all_vectors(both_ways)} == kept


SOLVE_WITH_PYSMT = """
import sys
from pysmt.shortcuts import Solver
from pysmt.smtlib.parser import SmtLibParser
with open(sys.argv[1]) as text:
    script = SmtLibParser().get_script(text)
with Solver(name="z3") as solver:
    print(solver.is_sat(script.get_last_formula()))
"""


@pytest.mark.parametrize(
    "case",
    [
        Case("ring:4", "allgather", 1, 2, 2, True, ""),
        Case("ring:4", "allgather", 1, 1, 3, False, ""),
        Case("z52-pcie", "broadcast", 1, 3, 3, True, ""),
        Case("star:4", "broadcast", 3, 1, 2, False, ""),
    ],
    ids=str,
)
def test_smtlib_text_is_the_problem(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "problem.smt2"
    path.write_text(encode_qflia(case.question.instances[0]).text)
    done = subprocess.run(
        [sys.executable, "-c", SOLVE_WITH_PYSMT, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == str(case.sat), done.stderr
    assert "(set-logic QF_LIA)" in path.read_text()
