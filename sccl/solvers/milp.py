"""Solve mixed-integer programs with SCIP, HiGHS or Gurobi through OR-Tools MathOpt.

The solver runs in a child process. A program is built with the functions of
:mod:`sccl.solvers.lp`, or converted from a CP-SAT model that uses only sums and clauses. SCIP runs
in one thread with a limit on search nodes, so the same program and budget give the same values
under any load. HiGHS and Gurobi have only a time limit. A run that reaches its time limit returns
no values. Gurobi is available if the user has installed it with its license. HiGHS, PDLP and Gurobi
solve linear programs in the same way.

SCIP's interrupter is not used, because it breaks SCIP's event handler. HiGHS does not run in the
calling process, because there it ignores interrupts and fails with a limit on nodes. CP-SAT does
not solve programs with continuous variables, because it is slow for them (17 s compared with 0.1 s
for 14 of 40).
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING

from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt

from sccl.errors import SolverError, ToolError
from sccl.solvers.child_task import Child
from sccl.solvers.effort import Effort

if TYPE_CHECKING:
    from sccl.solvers.cpsat import CpModel

_NODES_PER_UNIT = 100  # search nodes of SCIP per unit of the budget

_INFINITE_BOUND = 2**62
"""Absolute value from which CP-SAT's limits of a sum mean infinity."""

_SECONDS_PER_UNIT = 5.0
"""Seconds per unit of the budget, for solvers without a limit on nodes."""


class Engine(StrEnum):
    """The available MILP and LP solvers."""

    SCIP = "scip"
    HIGHS = "highs"
    PDLP = "pdlp"
    GUROBI = "gurobi"


_MISSING_LIBRARY = "bad_function_call"
"""OR-Tools' error text when it calls a library that is not installed."""

_TYPES = {
    Engine.SCIP: mathopt.SolverType.GSCIP,
    Engine.HIGHS: mathopt.SolverType.HIGHS,
    Engine.PDLP: mathopt.SolverType.PDLP,
    Engine.GUROBI: mathopt.SolverType.GUROBI,
}


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a search.

    Attributes:
        has_solution: Whether the search has found a solution.
        is_optimal: Whether the solution is optimal within the gap.
        is_infeasible: Whether the program is proved infeasible.
        objective: Objective of the solution, meaningless without one.
        bound: Bound on the objective, meaningless without a solution.
        units: Units of the budget spent, converted from nodes or seconds.
    """

    has_solution: bool
    is_optimal: bool
    is_infeasible: bool
    objective: float
    bound: float
    units: float
    _values: dict[str, float]

    def value(self, variable: mathopt.Variable) -> float:
        """Return the value of a variable. Integer values may be off by SCIP's tolerance, 1e-6."""
        return self.value_by_index(variable.id)

    def value_by_index(self, variable: int) -> float:
        """Return the value of a variable by its number."""
        return self._values.get(str(variable), 0.0)


def solve(
    model: mathopt.Model, effort: Effort, gap: float = 0.0, engine: Engine = Engine.SCIP
) -> Result:
    """Solve a program with SCIP, or another engine, within a budget.

    Args:
        model: program.
        effort: budget and seed.
        gap: relative gap between objective and bound at which the search may end.
        engine: solver.

    Raises:
        SolverError: the process failed, for example because the objective is unbounded.
        ToolError: the process cannot be started, or the engine is not available.
    """
    nodes, seconds = None, effort.timeout_s
    if effort.units is not None and engine is Engine.SCIP:
        nodes = max(1, int(effort.units * _NODES_PER_UNIT))
    elif effort.units is not None:
        seconds = min(effort.units * _SECONDS_PER_UNIT, effort.seconds)
    with Child(f"the solver {engine}", __name__, effort.seed, nodes, gap, engine.value) as child:
        try:
            reply = child.reply(model.export_model().SerializeToString(), seconds)
        except TimeoutError:
            units = effort.units or 0.0
            return Result(
                has_solution=False,
                is_optimal=False,
                is_infeasible=False,
                objective=0,
                bound=0,
                units=units,
                _values={},
            )
    answer = json.loads(reply)
    if "problem" in answer:
        raise ToolError(f"the solver {engine} cannot be used: {answer['problem']}")
    reached, took_s, has_solution, optimal, refuted, objective, bound, values = answer["result"]
    units = reached / _NODES_PER_UNIT if engine is Engine.SCIP else took_s / _SECONDS_PER_UNIT
    return Result(has_solution, optimal, refuted, objective, bound, units, values)


def main(seed: int, nodes: int | None, gap: float, engine: str) -> None:
    """Read a program from stdin, solve it, and write the result to stdout (child process)."""
    proto = model_pb2.ModelProto.FromString(sys.stdin.buffer.read())
    model = mathopt.Model.from_model_proto(proto)
    try:
        result = mathopt.solve(
            model, _TYPES[Engine(engine)], params=_solver_parameters(seed, nodes, gap, engine)
        )
    except RuntimeError as error:  # raised if Gurobi's library or license is missing
        reason = "its library is missing" if _MISSING_LIBRARY in str(error) else str(error)
        problem = f"{reason}; give another one, or install it with its license"
        sys.stdout.write(json.dumps({"problem": problem}))
        return
    end, why = result.termination, mathopt.TerminationReason
    if end.reason not in {why.OPTIMAL, why.FEASIBLE, why.INFEASIBLE, why.NO_SOLUTION_FOUND}:
        raise ValueError(f"it ends with {end.reason.name.lower()}")
    has_solution, bounds = result.has_primal_feasible_solution(), end.objective_bounds
    values = (
        {x.id: value for x, value in result.variable_values().items() if value}
        if has_solution
        else {}
    )
    costs = (bounds.primal_bound, bounds.dual_bound) if has_solution else (0, 0)
    verdict = (has_solution, end.reason is why.OPTIMAL, end.reason is why.INFEASIBLE)
    took = (result.solve_stats.node_count, result.solve_stats.solve_time.total_seconds())
    sys.stdout.write(json.dumps({"result": [*took, *verdict, *costs, values]}))


def _solver_parameters(
    seed: int, nodes: int | None, gap: float, engine: str
) -> mathopt.SolveParameters:
    """Return the parameters of an engine. PDLP and HiGHS do not accept all of them."""
    if engine == Engine.PDLP:
        return mathopt.SolveParameters(threads=1)
    if engine == Engine.HIGHS:
        return mathopt.SolveParameters(random_seed=seed, relative_gap_tolerance=gap)
    return mathopt.SolveParameters(
        threads=1, random_seed=seed, node_limit=nodes, relative_gap_tolerance=gap
    )


def from_cpsat(model: CpModel) -> mathopt.Model:
    """Convert a CP-SAT model to an equivalent program, in which variables keep their numbers.

    Raises:
        SolverError: The model has a constraint other than sums and clauses. This is a defect.
    """
    program = mathopt.Model()
    proto = model.proto
    domains = [list(x.domain) for x in proto.variables]
    xs = [program.add_integer_variable(lb=float(low), ub=float(high)) for low, high in domains]

    def term(literal: int) -> mathopt.LinearExpression | mathopt.Variable:
        """Return the expression of a literal: a variable, or 1 minus it."""
        return xs[literal] if literal >= 0 else 1 - xs[-literal - 1]

    for constraint in proto.constraints:
        whether = [1 - term(literal) for literal in constraint.enforcement_literal]
        if constraint.has_bool_and():
            for literal in constraint.bool_and.literals:
                program.add_linear_constraint(mathopt.fast_sum([*whether, term(literal)]) >= 1)
        elif constraint.has_bool_or():
            terms = [*whether, *(term(literal) for literal in constraint.bool_or.literals)]
            program.add_linear_constraint(mathopt.fast_sum(terms) >= 1)
        elif constraint.has_at_most_one():
            program.add_linear_constraint(
                mathopt.fast_sum([term(literal) for literal in constraint.at_most_one.literals])
                <= 1
            )
        elif constraint.has_exactly_one():
            program.add_linear_constraint(
                mathopt.fast_sum([term(literal) for literal in constraint.exactly_one.literals])
                == 1
            )
        elif constraint.has_linear() and not whether and len(constraint.linear.domain) == 2:
            low, high = constraint.linear.domain
            program.add_linear_constraint(
                lb=float(low) if low > -_INFINITE_BOUND else -inf,
                ub=float(high) if high < _INFINITE_BOUND else inf,
                expr=mathopt.fast_sum(
                    [
                        c * xs[v]
                        for v, c in zip(
                            constraint.linear.vars, constraint.linear.coeffs, strict=True
                        )
                    ]
                ),
            )
        else:
            raise SolverError("the model has an unsupported constraint; this is a defect")
    if proto.has_objective():
        goal = proto.objective
        program.minimize(
            mathopt.fast_sum([c * xs[v] for v, c in zip(goal.vars, goal.coeffs, strict=True)])
        )
    return program
