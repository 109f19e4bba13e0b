"""Refutations of formulas with a DRAT proof, by CaDiCaL through PySAT, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

from sccl.errors import SolverError
from sccl.verify.drat import parse_dimacs

_PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from sccl.backends.prover import main
main()
"""
_SOLVER = "cadical195"


def refutation(dimacs: str, timeout_s: float) -> str | None:
    """Return a DRAT proof, as text, that a formula has no model; None if it has one.

    Raises:
        TimeoutError: neither was found in time.
        SolverError: the process broke.
    """
    try:
        done = subprocess.run(  # noqa: S603 - this very program
            [sys.executable, "-P", "-c", _PROGRAM, json.dumps(list(filter(None, sys.path)))],
            input=dimacs,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"no refutation within {timeout_s:g} s") from error
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise SolverError(f"the prover ended with exit code {done.returncode}: {last[0]}")
    verdict, _, proof = done.stdout.partition("\n")
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
