"""Run CaDiCaL through PySAT: find solutions of formulas, and refutations with a DRAT proof.

Searches have a limit on conflicts. Unlike a limit on seconds, it gives the same result on every
machine. PySAT cannot be interrupted, so interruptible callers run it in a child process. PySAT is
loaded only there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from sccl.solvers.child_task import Child

_SOLVER = "cadical195"

CONFLICTS_PER_UNIT = 20_000
"""Conflicts per unit of the budget."""

Clause = list[int]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a search.

    Attributes:
        is_satisfiable: whether the formula has a solution. None: the limit on conflicts was
            reached.
        true_variables: true variables of the solution, without variables that occur in no clause.
        conflicts: number of conflicts in the search.
        proof: lines of the DRAT proof, if requested and the formula is unsatisfiable.
    """

    is_satisfiable: bool | None
    true_variables: frozenset[int]
    conflicts: int
    proof: Sequence[str] = ()


def solve(
    clauses: list[Clause], most_conflicts: int | None = None, *, with_proof: bool = False
) -> Result:
    """Solve a formula with CaDiCaL in this process, without a time limit.

    Args:
        clauses: formula in conjunctive normal form.
        most_conflicts: limit on conflicts. None: no limit.
        with_proof: whether to record a DRAT proof.
    """
    from pysat.solvers import Solver  # noqa: PLC0415 - only a child process needs it

    with Solver(name=_SOLVER, bootstrap_with=clauses, with_proof=with_proof) as solver:
        if most_conflicts is not None:
            solver.conf_budget(most_conflicts)
        satisfiable = solver.solve_limited() if most_conflicts is not None else solver.solve()
        return Result(
            satisfiable,
            frozenset(x for x in solver.get_model() if x > 0) if satisfiable else frozenset(),
            int(solver.accum_stats()["conflicts"]),
            solver.get_proof() if with_proof and satisfiable is False else (),
        )


def at_most_clauses(literals: Sequence[int], limit: int, top: int) -> tuple[list[Clause], int]:
    """Return clauses that allow at most ``limit`` true literals, and the last variable in use.

    The encoding is the sequential counter (Sinz 2005). It propagates as well as a totalizer and is
    smaller for the small limits of small machines.

    Args:
        literals: literals to count.
        limit: maximum number of true literals.
        top: last variable in use before.
    """
    from pysat.card import CardEnc, EncType  # noqa: PLC0415 - only a child process needs it

    if limit >= len(literals):
        return [], top
    coded = CardEnc.atmost(list(literals), bound=limit, top_id=top, encoding=EncType.seqcounter)
    return coded.clauses, max(top, coded.nv)


@dataclass(frozen=True, slots=True)
class RefutationAttempt:
    """The result of an attempt to refute a formula.

    Attributes:
        proof: DRAT proof that the formula is unsatisfiable. None: it is satisfiable, or the result
            is unknown.
        conflicts: number of conflicts in the search.
    """

    proof: str | None
    conflicts: int


def find_refutation(dimacs: str, most_conflicts: int) -> RefutationAttempt:
    """Search for a refutation of a formula, in a child process.

    Args:
        dimacs: formula in DIMACS format.
        most_conflicts: limit on conflicts.

    Raises:
        SolverError: the process failed.
        ToolError: the process cannot be started.
    """
    with Child("the prover", __name__, most_conflicts) as child:
        reply = child.reply(dimacs.encode())
    head, _, proof = reply.decode().partition("\n")
    verdict, conflicts = head.split()
    return RefutationAttempt(proof if verdict == "unsat" else None, int(conflicts))


def main(most_conflicts: int) -> None:
    """Read DIMACS from stdin, write verdict, conflicts and proof to stdout (child process)."""
    lines = (line for line in sys.stdin.read().splitlines() if line and line[0] not in "pc")
    clauses = [[int(word) for word in line.split()[:-1]] for line in lines]  # without the final 0
    result = solve(clauses, most_conflicts, with_proof=True)
    verdict = {True: "sat", False: "unsat", None: "unknown"}[result.is_satisfiable]
    sys.stdout.write(f"{verdict} {result.conflicts}\n")
    sys.stdout.writelines(line + "\n" for line in result.proof)
