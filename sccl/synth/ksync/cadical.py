"""The SAT backend: the time-indexed model for fixed rounds per step, on CaDiCaL through PySAT.

With the rounds fixed, every constraint is a cardinality. All vectors (r_0, ..., r_{S-1}) are tried
in turn, up to symmetry: the first satisfiable one answers; if none is, the instance is refuted.

CaDiCaL cannot be interrupted through PySAT, so it works in a child process.
"""

from __future__ import annotations

import time

from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.instance import Instance
from sccl.solvers.effort import Effort
from sccl.synth.ksync.child import Child
from sccl.synth.ksync.model import Model, decode, encode
from sccl.synth.round_vectors import round_vectors

SOLVER = "cadical195"
CONFLICTS = 20_000
"""Of a unit of effort."""


def answer(instance: Instance, effort: Effort) -> Answer:
    """Return CaDiCaL's answer, worked out in a child process."""
    with Child("cadical", instance, effort) as child:
        return child.answer()


def answer_here(instance: Instance, effort: Effort) -> Answer:
    """Return CaDiCaL's answer, worked out in this process, however long it takes."""
    begin = time.perf_counter()
    left = None if effort.units is None else int(effort.units * CONFLICTS)
    model = encode(instance)
    if model.impossible:
        return Unsat(model.impossible, "cadical", time.perf_counter() - begin)
    tried = 0
    for rounds in round_vectors(instance):
        tried += 1
        satisfiable, chosen, conflicts = _solve(model, rounds, left)
        if satisfiable:
            found = decode(model, chosen, rounds)
            return Sat(found, "cadical", time.perf_counter() - begin)
        left = None if left is None else left - conflicts
        if satisfiable is None or (left is not None and left <= 0):
            text = f"nothing found with an effort of {effort.units:g}"
            return Unknown(text, "cadical", time.perf_counter() - begin)
    text = f"CaDiCaL refuted each of {tried} round vectors (up to symmetry)"
    return Unsat(text, "cadical", time.perf_counter() - begin)


def _solve(
    model: Model, rounds: tuple[int, ...], most_conflicts: int | None
) -> tuple[bool | None, list[int], int]:
    """Return whether there is a solution with these rounds per step, its true variables, conflicts.

    None: there were too many conflicts to say.
    """
    from pysat.solvers import Solver  # noqa: PLC0415 - only the child process needs it

    with Solver(name=SOLVER, bootstrap_with=clauses(model, rounds)) as solver:
        if most_conflicts is not None:
            solver.conf_budget(most_conflicts)
        satisfiable = solver.solve_limited() if most_conflicts is not None else solver.solve()
        conflicts = int(solver.accum_stats()["conflicts"])
        true = set(solver.get_model() if satisfiable else ())  # without what no clause mentions
        chosen = [i for i in range(len(model.transfers)) if i + 1 in true]
        return satisfiable, chosen, conflicts


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
