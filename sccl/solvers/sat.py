"""CaDiCaL through PySAT: solutions of formulas, and refutations with a DRAT proof.

Its searches end after so many conflicts, which are the same on every machine, as seconds would not
be. It cannot be interrupted through PySAT: whoever has to be heard meanwhile asks it in a child
process. Only there is PySAT loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from sccl.solvers.child import Child

_SOLVER = "cadical195"

CONFLICTS = 20_000
"""Of a unit of effort."""

Clause = list[int]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a search.

    Attributes:
        satisfiable: None: there were too many conflicts to say.
        true: the variables that are true in the solution, without what no clause mentions.
        conflicts: that the search met.
        proof: in DRAT, its lines. If it was asked for and the formula has no model.
    """

    satisfiable: bool | None
    true: frozenset[int]
    conflicts: int
    proof: Sequence[str] = ()


def solve(
    clauses: list[Clause], most_conflicts: int | None = None, *, with_proof: bool = False
) -> Result:
    """Return what CaDiCaL says of a formula, in this process, however long it takes.

    Args:
        most_conflicts: of the search. None: no end.
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


def at_most(literals: Sequence[int], most: int, top: int) -> tuple[list[Clause], int]:
    """Return clauses that say that at most ``most`` literals are true, and the last variable.

    Sequential counters (Sinz 2005), which propagate as well as a totalizer and are smaller for the
    small bounds of small machines.

    Args:
        top: the last variable that is in use.
    """
    from pysat.card import CardEnc, EncType  # noqa: PLC0415 - only a child process needs it

    if most >= len(literals):
        return [], top
    coded = CardEnc.atmost(list(literals), bound=most, top_id=top, encoding=EncType.seqcounter)
    return coded.clauses, max(top, coded.nv)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of an attempt to refute a formula.

    Attributes:
        proof: in DRAT, as text, that the formula has no model. None: it has one, or nothing is
            known.
        conflicts: that the search met.
    """

    proof: str | None
    conflicts: int


def refutation(dimacs: str, most_conflicts: int) -> Attempt:
    """Return a refutation of a formula, if one is found. The search is in a child process.

    Raises:
        SolverError: the process broke.
        ToolError: it cannot be started.
    """
    with Child("the prover", __name__, most_conflicts) as child:
        reply = child.reply(dimacs.encode())
    head, _, proof = reply.decode().partition("\n")
    verdict, conflicts = head.split()
    return Attempt(proof if verdict == "unsat" else None, int(conflicts))


def main(most_conflicts: int) -> None:
    """Read DIMACS on stdin; write verdict, conflicts and proof on stdout: what the child does."""
    lines = (line for line in sys.stdin.read().splitlines() if line and line[0] not in "pc")
    clauses = [[int(word) for word in line.split()[:-1]] for line in lines]  # a 0 ends each
    result = solve(clauses, most_conflicts, with_proof=True)
    verdict = {True: "sat", False: "unsat", None: "unknown"}[result.satisfiable]
    sys.stdout.write(f"{verdict} {result.conflicts}\n")
    sys.stdout.writelines(line + "\n" for line in result.proof)
