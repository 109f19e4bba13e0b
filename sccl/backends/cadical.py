"""The SAT backend: the time-indexed model for fixed rounds per step, on CaDiCaL through PySAT.

With the rounds fixed, every constraint is a cardinality. All vectors (r_0, ..., r_{S-1}) are tried
in turn, up to symmetry: the first satisfiable one answers; if none is, the instance is refuted.

CaDiCaL cannot be interrupted through PySAT, so it works in a child process that is ended when time
is up or the user interrupts; question and answer travel as sccl's own JSON.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

import sccl
from sccl.backends.limits import Limits
from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.codec import (
    answer_of_wire,
    answer_to_wire,
    instance_of_wire,
    instance_to_wire,
    parse,
)
from sccl.core.instance import Instance
from sccl.core.wire import AnswerWire, InstanceWire
from sccl.encode import Model, decode, encode, round_vectors
from sccl.errors import InputError, SolverError

SOLVER = "cadical195"
_CHILD = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from sccl.backends.cadical import main
main()
"""


def answer(instance: Instance, limits: Limits) -> Answer:
    """Return CaDiCaL's answer, worked out in a child process."""
    begin = time.perf_counter()
    question = msgspec.json.encode(instance_to_wire(instance))
    paths = [str(Path(sccl.__file__).parents[1]), *filter(None, sys.path)]
    # -P: what lies in the user's folder must not be taken for a module. A new session: Ctrl-C
    # reaches this process alone, which then ends the child.
    child = subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-P", "-c", _CHILD, json.dumps(paths)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        reply, complaint = child.communicate(question, timeout=limits.timeout_s)
    except subprocess.TimeoutExpired:
        seconds = time.perf_counter() - begin
        return Unknown(f"timeout after {limits.timeout_s:g} s", "cadical", seconds)
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()
    if child.returncode != 0:
        last = complaint.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise SolverError(f"cadical ended with exit code {child.returncode}: {last[0]}")
    try:
        return answer_of_wire(parse(reply.decode(), AnswerWire, "cadical"), "cadical")
    except InputError as error:
        raise SolverError(f"cadical's answer cannot be read: {error}") from error


def answer_here(instance: Instance) -> Answer:
    """Return CaDiCaL's answer, worked out in this process, however long it takes."""
    begin = time.perf_counter()
    model = encode(instance)
    if model.impossible:
        return Unsat(model.impossible, "cadical", time.perf_counter() - begin)
    tried = 0
    for rounds in round_vectors(instance):
        tried += 1
        chosen = _solve(model, rounds)
        if chosen is not None:
            found = decode(model, chosen, rounds)
            return Sat(found, "cadical", time.perf_counter() - begin)
    text = f"CaDiCaL refuted each of {tried} round vectors (up to symmetry)"
    return Unsat(text, "cadical", time.perf_counter() - begin)


def _solve(model: Model, rounds: tuple[int, ...]) -> list[int] | None:
    """Return the true variables of a solution with these rounds per step, or None."""
    from pysat.solvers import Solver  # noqa: PLC0415 - only the child process needs it

    with Solver(name=SOLVER, bootstrap_with=clauses(model, rounds)) as solver:
        if not solver.solve():
            return None
        true = set(solver.get_model())  # lacks variables that no clause mentions
        return [i for i in range(len(model.transfers)) if i + 1 in true]


def clauses(model: Model, rounds: tuple[int, ...]) -> list[list[int]]:
    """Return the CNF of the model for these rounds per step; variable i of the model is i + 1.

    Cardinalities become sequential counters (Sinz 2005), which propagate as well as a totalizer
    and are smaller for the small bounds of small machines.
    """
    from pysat.card import CardEnc, EncType  # noqa: PLC0415 - only the child process needs it

    cnf: list[list[int]] = []
    top = len(model.transfers)

    def at_most(variables: tuple[int, ...], bound: int) -> None:
        nonlocal top
        if bound >= len(variables):
            return
        literals = [i + 1 for i in variables]
        coded = CardEnc.atmost(literals, bound=bound, top_id=top, encoding=EncType.seqcounter)
        cnf.extend(coded.clauses)
        top = max(top, coded.nv)

    cnf.extend([i + 1 for i in group] for group in model.exactly_one)
    for group in (*model.exactly_one, *model.at_most_one):
        at_most(group, 1)
    for i, providers in model.needs:
        cnf.append([-(i + 1), *(j + 1 for j in providers)])
    for capacity in model.capacities:
        at_most(capacity.transfers, capacity.chunks_per_round * rounds[capacity.step])
    return cnf


def main() -> None:
    """Answer the instance on stdin with an answer on stdout: what the child process does."""
    _end_with_parent()
    wire = parse(sys.stdin.read(), InstanceWire, "question")
    found = answer_here(instance_of_wire(wire, "question"))
    sys.stdout.buffer.write(msgspec.json.encode(answer_to_wire(found)))


def _end_with_parent() -> None:
    """Ask Linux to kill this process when its parent is gone, however that ended."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
