"""Refutations of formulas with a DRAT proof, by CaDiCaL through PySAT, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from sccl.core.process import last_line, start
from sccl.errors import SolverError
from sccl.verify.drat import parse_dimacs

_SOLVER = "cadical195"


def refutation(dimacs: str, timeout_s: float) -> str | None:
    """Return a DRAT proof, as text, that a formula has no model; None if it has one.

    Raises:
        TimeoutError: neither was found in time.
        SolverError: the process broke.
    """
    pipe = subprocess.PIPE
    with start(__name__, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            reply, complaint = process.communicate(dimacs.encode(), timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"no refutation within {timeout_s:g} s") from error
        finally:
            process.kill()
    if process.returncode != 0:
        last = last_line(complaint)
        raise SolverError(f"the prover ended with exit code {process.returncode}: {last}")
    verdict, _, proof = reply.decode().partition("\n")
    return proof if verdict == "unsat" else None


def main() -> None:
    """Read DIMACS on stdin; write the verdict and the proof on stdout: what the child does."""
    from pysat.solvers import Solver  # noqa: PLC0415 - only the child process needs it

    clauses = [list(clause) for clause in parse_dimacs(sys.stdin.read())]
    with Solver(name=_SOLVER, bootstrap_with=clauses, with_proof=True) as solver:
        if solver.solve():
            sys.stdout.write("sat\n")
            return
        sys.stdout.write("unsat\n")
        sys.stdout.writelines(line + "\n" for line in solver.get_proof())
