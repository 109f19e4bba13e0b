"""Refutations of formulas with a DRAT proof, by CaDiCaL through PySAT, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from sccl.errors import SolverError
from sccl.solvers.processes import last_line, start

_SOLVER = "cadical195"


@dataclass(frozen=True, slots=True)
class Refutation:
    """What came of an attempt to refute a formula.

    Attributes:
        proof: in DRAT, as text, that the formula has no model; None: it has one, or nothing is
            known.
        conflicts: that the search met.
    """

    proof: str | None
    conflicts: int


def refutation(dimacs: str, most_conflicts: int) -> Refutation:
    """Return a refutation of a formula, if one is found.

    Args:
        most_conflicts: of the search: the same on every machine, as seconds would not be.

    Raises:
        SolverError: the process broke.
    """
    pipe = subprocess.PIPE
    with start(__name__, most_conflicts, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            reply, complaint = process.communicate(dimacs.encode())
        finally:
            process.kill()
    if process.returncode != 0:
        last = last_line(complaint)
        raise SolverError(f"the prover ended with exit code {process.returncode}: {last}")
    head, _, proof = reply.decode().partition("\n")
    verdict, conflicts = head.split()
    return Refutation(proof if verdict == "unsat" else None, int(conflicts))


def main(most_conflicts: int) -> None:
    """Read DIMACS on stdin; write verdict, conflicts and proof on stdout: what the child does."""
    from pysat.solvers import Solver  # noqa: PLC0415 - only the child process needs it

    lines = (line for line in sys.stdin.read().splitlines() if line and line[0] not in "pc")
    clauses = [[int(word) for word in line.split()[:-1]] for line in lines]  # a 0 ends each
    with Solver(name=_SOLVER, bootstrap_with=clauses, with_proof=True) as solver:
        solver.conf_budget(most_conflicts)
        satisfiable = solver.solve_limited()
        verdict = {True: "sat", False: "unsat", None: "unknown"}[satisfiable]
        sys.stdout.write(f"{verdict} {solver.accum_stats()['conflicts']}\n")
        if satisfiable is False:
            sys.stdout.writelines(line + "\n" for line in solver.get_proof())
