"""The SAT backend: the time-indexed model for fixed rounds per step, on CaDiCaL through PySAT.

With the rounds fixed, every constraint is a cardinality. All vectors (r_0, ..., r_{S-1}) are tried
in turn, up to symmetry: the first satisfiable one answers; if none is, the instance is refuted.

CaDiCaL cannot be interrupted through PySAT, so it works in a child process.
"""

from __future__ import annotations

import time

from sccl.backends.child import Child
from sccl.backends.limits import Limits
from sccl.core.answer import Answer, Sat, Unsat
from sccl.core.instance import Instance
from sccl.encode import Model, decode, encode, round_vectors

SOLVER = "cadical195"


def answer(instance: Instance, limits: Limits) -> Answer:
    """Return CaDiCaL's answer, worked out in a child process."""
    with Child("cadical", instance, limits) as child:
        return child.answer()


def answer_here(instance: Instance, _limits: Limits) -> Answer:
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
