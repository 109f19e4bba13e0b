"""Every solver: reproducible answers, limits on effort and time, and exceptions."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest
import z3

from sccl.errors import SolverError, ToolError
from sccl.solvers import cpsat, lp, milp, process_control, sat, smt
from sccl.solvers.child_task import Child
from sccl.solvers.effort import Effort, EffortMeter
from tests.kit.processes import Pipe, wait_for_end

# --- effort --------------------------------------------------------------------------------------


def test_remaining_effort_is_computed() -> None:
    spending = EffortMeter(Effort(None, seed=3, units=5.0))
    assert spending.remaining() == Effort(None, 3, 5.0)
    spending.units += 3.0
    assert spending.remaining() == Effort(None, 3, 2.0)
    assert spending.remaining(limit=0.5) == Effort(None, 3, 0.5)
    assert not spending.is_exhausted()
    spending.units += 2.0
    assert spending.is_exhausted()
    assert not spending.deadline_passed()


def test_time_that_has_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    spending = EffortMeter(Effort(60.0))
    now[0] += 45.0
    assert spending.remaining(limit=7.0) == Effort(15.0, 0, 7.0)
    now[0] += 15.0
    assert spending.deadline_passed()
    assert spending.remaining() is None
    assert not spending.is_exhausted()
    assert str(spending.effort.timeout_reason) == "timeout after 60 s"


# --- CP-SAT --------------------------------------------------------------------------------------


def pigeons(holes: int) -> tuple[cpsat.CpModel, list[cpsat.IntVar]]:
    """Return a model in which each of ``holes + 1`` pigeons has a hole, but for the last."""
    model = cpsat.CpModel()
    x = [[model.new_bool_var("") for _ in range(holes)] for _ in range(holes + 1)]
    for row in x:
        model.add_bool_or(row)
    for a, b in combinations(x, 2):
        for one, two in zip(a, b, strict=True):
            model.add_bool_or([~one, ~two])
    return model, [variable for row in x for variable in row]


@pytest.mark.parametrize("workers", [1, 8])
def test_cpsat_answers_alike_on_every_run(workers: int) -> None:
    answers = set()
    for _ in range(2):
        model = cpsat.CpModel()
        x = [model.new_int_var(0, 40, "") for _ in range(12)]
        for a, b, c in combinations(x, 3):
            model.add(a + 2 * b - c != 7)
        model.add(cpsat.LinearExpr.sum(x) == 111)
        result = cpsat.solve(model, Effort(seed=5, units=4.0), cpsat.Strategy(workers=workers))
        assert result.has_solution
        answers.add((*map(result.value, x), result.units))
    assert len(answers) == 1


def test_units_of_cpsat_are_no_seconds() -> None:
    parameters = cpsat._configure_solver(Effort(units=4.0), cpsat.Strategy()).parameters
    assert parameters.max_deterministic_time == 4.0
    assert parameters.max_time_in_seconds == math.inf


def test_cpsat_says_what_it_knows() -> None:
    model, x = pigeons(3)
    refuted = cpsat.solve(model, Effort(), cpsat.Strategy())
    assert (refuted.has_solution, refuted.is_optimal, refuted.is_infeasible) == (False, False, True)
    model = cpsat.CpModel()
    x = [model.new_bool_var("") for _ in range(4)]
    model.add(cpsat.LinearExpr.sum(x) == 3)
    model.minimize(8 * x[0] + 4 * x[1] + 2 * x[2] + x[3])
    best = cpsat.solve(model, Effort(), cpsat.Strategy())
    assert best.is_optimal
    assert best.true_variables(x) == [1, 2, 3]


@pytest.mark.parametrize("effort", [Effort(units=1e-6), Effort(timeout_s=1e-6)])
def test_cpsat_with_little_effort_does_not_know(effort: Effort) -> None:
    model, _ = pigeons(10)
    result = cpsat.solve(model, effort, cpsat.Strategy(linear=0, is_presolved=False))
    assert not result.has_solution
    assert not result.is_infeasible


def test_model_that_cpsat_rejects_is_a_defect() -> None:
    model = cpsat.CpModel()
    model.add(10**18 * model.new_int_var(0, 10**18, "") == 1)
    with pytest.raises(SolverError, match="this is a defect"):
        cpsat.solve(model, Effort(), cpsat.Strategy())


# --- linear programs -----------------------------------------------------------------------------


def diet() -> tuple[lp.Model, list[lp.Variable], lp.LinearConstraint]:
    model = lp.Model()
    x = [model.add_variable(lb=0.0) for _ in range(2)]
    row = model.add_linear_constraint(3.0 * x[0] + x[1] >= 1.0)
    model.minimize(lp.fast_sum(x))
    return model, x, row


def test_linear_programs_and_their_prices() -> None:
    model, x, row = diet()
    result = lp.solve(model)
    assert result is not None
    assert lp.to_fraction(result.dual_values(row)) == Fraction(1, 3)
    model.add_linear_constraint(x[0] + x[1] <= 0.0)
    assert lp.solve(model) is None


def test_program_that_grows_and_one_without_an_optimum() -> None:
    model, x, _ = diet()
    growing = lp.IncrementalProgram(model)
    assert growing.solve().objective_value() == pytest.approx(1 / 3)
    model.add_linear_constraint(x[0] <= 0.0)
    assert growing.solve().objective_value() == pytest.approx(1.0)
    model.add_linear_constraint(x[1] <= 0.5)
    with pytest.raises(SolverError, match="no solver finds the optimum"):
        growing.solve()


# --- mixed-integer programs ----------------------------------------------------------------------


def knapsack(number: int, *, most: float) -> tuple[lp.Model, list[lp.Variable]]:
    """Return a knapsack of things that are all nearly alike, one of which may be cut."""
    model = lp.Model()
    x = [model.add_variable(lb=0.0, ub=1.0, is_integer=i > 0) for i in range(number)]
    sizes = [20.0 + (i * i) % 17 for i in range(number)]
    for turn in range(3):
        sizes = [*sizes[5:], *sizes[:5]]
        load = lp.fast_sum([a * v for a, v in zip(sizes, x, strict=True)])
        model.add_linear_constraint(load <= most - turn)
    model.maximize(lp.fast_sum([(20.0 + (3 * i) % 11) * v for i, v in enumerate(x)]))
    return model, x


def test_integer_programs_solved_alike_on_every_run() -> None:
    model, x = knapsack(24, most=251.0)
    first, second = (milp.solve(model, Effort(seed=4, units=0.03)) for _ in range(2))
    assert first == second
    assert first.has_solution
    assert first.bound >= first.objective
    near = milp.solve(model, Effort(), gap=0.5)
    assert near.is_optimal
    assert near.objective <= near.bound <= 1.5 * near.objective
    assert all(abs(near.value(v) - round(near.value(v))) < 1e-5 for v in x[1:])


def test_integer_programs_without_values() -> None:
    model, x = knapsack(24, most=251.0)
    late = milp.solve(model, Effort(1e-3))
    assert (late.has_solution, late.is_optimal, late.is_infeasible) == (False, False, False)
    model.add_linear_constraint(2.0 * x[1] == 1.0)
    assert milp.solve(model, Effort()).is_infeasible
    endless = lp.Model()
    endless.maximize(endless.add_variable(lb=0.0, is_integer=True))
    with pytest.raises(SolverError, match="it ends with unbounded"):
        milp.solve(endless, Effort())


# --- formulas ------------------------------------------------------------------------------------


def holes(number: int) -> list[sat.Clause]:
    """Return the pigeonhole formula of n + 1 pigeons and n holes, which is unsatisfiable."""
    variable = {(p, h): p * number + h + 1 for p in range(number + 1) for h in range(number)}
    clauses = [[variable[p, h] for h in range(number)] for p in range(number + 1)]
    for h in range(number):
        clauses += [
            [-variable[p, h], -variable[q, h]] for p, q in combinations(range(number + 1), 2)
        ]
    return clauses


def test_formulas_solved_refuted_and_left() -> None:
    free = holes(4)[1:]
    assert sat.solve(free).is_satisfiable is True
    assert sat.solve(free) == sat.solve(free)
    refuted = sat.solve(holes(4), with_proof=True)
    assert refuted.is_satisfiable is False
    assert refuted.proof[-1] == "0"
    assert not sat.solve(holes(4)).proof
    left = sat.solve(holes(9), most_conflicts=5)
    assert left.is_satisfiable is None
    assert not left.true_variables


@pytest.mark.parametrize("bound", range(5))
def test_cardinalities(bound: int) -> None:
    for number in range(5):
        clauses, top = sat.at_most_clauses(range(1, 5), bound, 7)
        fixed = [[x] if x <= number else [-x] for x in range(1, 5)]
        assert sat.solve([*clauses, *fixed]).is_satisfiable is (number <= bound)
        assert top >= 7
        assert {abs(x) for clause in clauses for x in clause}.isdisjoint({5, 6, 7})


def test_prover_in_a_process_and_one_that_breaks() -> None:
    def dimacs(clauses: list[sat.Clause]) -> str:
        lines = [" ".join(map(str, [*clause, 0])) for clause in clauses]
        return "\n".join([f"p cnf 12 {len(lines)}", *lines]) + "\n"

    refuted = sat.find_refutation(dimacs(holes(3)), 1000)
    assert refuted.proof is not None
    assert refuted.proof.endswith("0\n")
    assert sat.find_refutation(dimacs(holes(3)), 1000) == refuted
    assert sat.find_refutation(dimacs(holes(3)[1:]), 1000).proof is None
    with pytest.raises(SolverError, match=r"the prover ended with exit code 1: ValueError"):
        sat.find_refutation("p cnf 1 1\nx 0\n", 1)


# --- Z3 ------------------------------------------------------------------------------------------


def smt_script(*constraints: str, names: Iterable[str]) -> str:
    """Return an SMT-LIB 2 script on Boolean variables."""
    declared = (f"(declare-fun {name} () Bool)" for name in names)
    asserted = (f"(assert {constraint})" for constraint in constraints)
    return "\n".join(["(set-logic QF_LIA)", *declared, *asserted, "(check-sat)"])


def smt_count(names: Iterable[str]) -> str:
    """Return how many variables are true, as an integer term."""
    return f"(+ {' '.join(f'(ite {name} 1 0)' for name in names)})"


def test_z3_returns_a_model_or_a_refutation() -> None:
    names = [f"x{i}" for i in range(6)]
    four, at_most_three = f"(= {smt_count(names)} 4)", f"(<= {smt_count(names)} 3)"
    result = smt.solve(smt_script(four, names=names), Effort(units=1.0))
    assert result.true_names is not None
    assert len(result.true_names & set(names)) == 4
    both = smt_script(four, at_most_three, names=names)
    assert smt.solve(both, Effort()) == smt.Result(None, is_infeasible=True, reason="")


def pigeons_in_holes() -> str:
    """Return a formula that is slow to refute for Z3: 13 pigeons in 12 holes."""
    name = {(p, h): f"p{p}h{h}" for p in range(13) for h in range(12)}
    homes = [f"(= {smt_count(name[p, h] for h in range(12))} 1)" for p in range(13)]
    rooms = [f"(<= {smt_count(name[p, h] for p in range(13))} 1)" for h in range(12)]
    return smt_script(*homes, *rooms, names=name.values())


@pytest.mark.parametrize(
    ("effort", "reason"), [(Effort(units=1e-9), "resource"), (Effort(1e-3), "cancel|timeout")]
)
def test_z3_with_little_effort_does_not_know(effort: Effort, reason: str) -> None:
    result = smt.solve(pigeons_in_holes(), effort)
    assert (result.true_names, result.is_infeasible) == (None, False)
    assert any(word in result.reason for word in reason.split("|")), result.reason


def test_z3_ends_when_it_has_lost_its_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does where the timer rings before the search has begun."""
    whole = z3.Solver.set

    def without_timeout(solver: z3.Solver, key: str, value: int) -> None:
        if key != "timeout":
            whole(solver, key, value)

    monkeypatch.setattr(z3.Solver, "set", without_timeout)
    result = smt.solve(pigeons_in_holes(), Effort(1e-3))
    assert result == smt.Result(None, is_infeasible=False, reason="timeout")


# --- a child process -----------------------------------------------------------------------------


def main(how: str, path: str) -> None:
    """Be a child that echoes, breaks, or never answers."""
    import os

    question = sys.stdin.buffer.read()
    if how == "break":
        raise ValueError("no")
    if how == "hold":
        with Path(path).open("w") as file:
            file.write(f"{os.getpid()}\n")
        import signal

        signal.pause()
    sys.stdout.buffer.write(question[::-1])


def test_child_replies_or_breaks() -> None:
    with Child("echo", __name__, "echo", "") as child:
        assert child.reply(b"abc") == b"cba"
    broken = pytest.raises(SolverError, match=r"echo ended with exit code 1: ValueError: no")
    with Child("echo", __name__, "break", "") as child, broken:
        child.reply(b"")


def test_child_ends_when_its_time_or_its_context_does(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path / "pipe")
    late = pytest.raises(TimeoutError, match="held has not answered")
    with Child("held", __name__, "hold", str(tmp_path / "unread")) as child, late:
        child.reply(b"", timeout_s=0.01)
    with Child("held", __name__, "hold", str(pipe.path)) as child:
        assert child.process.stdin is not None
        child.process.stdin.close()
        number = int(pipe.line())
    wait_for_end(number)


def test_child_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(ToolError, match=r"cannot start the process of echo \(No such file"):
        Child("echo", __name__, "echo", "")


def test_process_whose_parent_has_gone_ends_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"from {process_control.__name__} import end_with; end_with(-1)"],
        check=False,
    )
    assert done.returncode == (1 if sys.platform == "linux" else 0)
