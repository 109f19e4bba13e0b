"""Mixed-integer programs on SCIP through OR-Tools MathOpt, in a child process.

A program is built with the words of :mod:`sccl.solvers.lp`. Nodes of the search tree end it, in one
thread, so the same program and effort give the same values on any load; time that runs out leaves
none. Tried and lost: SCIP's interrupter, which breaks its event handler, and HiGHS, which hears
none and fails with a limit of nodes (so a child, which is ended); CP-SAT (17 s in place of 0.1 s
with 14 of 40 variables that are not whole).
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt

from sccl.solvers.child import Child
from sccl.solvers.effort import Effort

_NODES = 100  # of a unit of effort


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a search.

    Attributes:
        found: whether there are values to be read.
        optimal: whether they are the best, but for the gap.
        refuted: whether it is proved that there are none.
        objective: of the values; without them it says nothing.
        bound: what no values are better than; likewise.
    """

    found: bool
    optimal: bool
    refuted: bool
    objective: float
    bound: float
    _values: dict[str, float]

    def value(self, variable: mathopt.Variable) -> float:
        """Return the value of a variable; a whole one's may be off by SCIP's tolerance, 1e-6."""
        return self._values[str(variable.id)]


_NOTHING = Result(found=False, optimal=False, refuted=False, objective=0, bound=0, _values={})


def solve(model: mathopt.Model, effort: Effort, gap: float = 0.0) -> Result:
    """Return what SCIP finds within an effort.

    Args:
        gap: how much better than the values the bound may be when the search ends, relative.

    Raises:
        SolverError: the process broke, as when the objective has no bound.
        ToolError: it cannot be started.
    """
    nodes = None if effort.units is None else max(1, int(effort.units * _NODES))
    with Child("the MILP solver", __name__, effort.seed, nodes, gap) as child:
        try:
            reply = child.reply(model.export_model().SerializeToString(), effort.timeout_s)
        except TimeoutError:
            return _NOTHING
    return Result(*json.loads(reply))


def main(seed: int, nodes: int | None, gap: float) -> None:
    """Solve the program on stdin; write a result on stdout: what the child process does."""
    proto = model_pb2.ModelProto.FromString(sys.stdin.buffer.read())
    parameters = mathopt.SolveParameters(
        threads=1, random_seed=seed, node_limit=nodes, relative_gap_tolerance=gap
    )
    model = mathopt.Model.from_model_proto(proto)
    result = mathopt.solve(model, mathopt.SolverType.GSCIP, params=parameters)
    end, why = result.termination, mathopt.TerminationReason
    if end.reason not in {why.OPTIMAL, why.FEASIBLE, why.INFEASIBLE, why.NO_SOLUTION_FOUND}:
        raise ValueError(f"it ends with {end.reason.name.lower()}")
    found, bounds = result.has_primal_feasible_solution(), end.objective_bounds
    values = {x.id: value for x, value in result.variable_values().items()} if found else {}
    costs = (bounds.primal_bound, bounds.dual_bound) if found else (0, 0)
    verdict = (found, end.reason is why.OPTIMAL, end.reason is why.INFEASIBLE)
    sys.stdout.write(json.dumps([*verdict, *costs, values]))
