"""The SAT backend: the time-indexed model for fixed rounds per step, on CaDiCaL through PySAT.

With fixed rounds every constraint is a cardinality. All vectors (r_0, ..., r_{S-1}) are tried one
after the other, up to symmetry. The first satisfiable one gives the answer. If there is none, the
instance is refuted.

CaDiCaL cannot be interrupted through PySAT, so it runs in a child process.
"""

from __future__ import annotations

from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.instance import Instance
from sccl.solvers import sat
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.common.candidates import round_vectors
from sccl.synth.syncoll.encoding_time_indexed import TransferModel, decode, encode
from sccl.synth.syncoll.solver_process import SolverChild


def answer(instance: Instance, effort: Effort) -> Answer:
    """Return CaDiCaL's answer, computed in a child process."""
    with SolverChild("cadical", instance, effort) as child:
        return child.answer()


def answer_in_process(instance: Instance, effort: Effort) -> Answer:
    """Return CaDiCaL's answer, computed in this process, without a time limit."""
    spending = EffortMeter(effort)
    left = None if effort.units is None else int(effort.units * sat.CONFLICTS_PER_UNIT)
    model = encode(instance)
    if model.infeasible_reason:
        return Unsat(model.infeasible_reason, "cadical", spending.elapsed_seconds())
    tried = 0
    for rounds in round_vectors(instance):
        tried += 1
        result = sat.solve(build_clauses(model, rounds), left)
        if result.is_satisfiable:
            chosen = [i for i in range(len(model.transfers)) if i + 1 in result.true_variables]
            return Sat(decode(model, chosen, rounds), "cadical", spending.elapsed_seconds())
        left = None if left is None else left - result.conflicts
        if result.is_satisfiable is None or (left is not None and left <= 0):
            return Unknown(effort.exhausted_reason, "cadical", spending.elapsed_seconds())
    text = f"CaDiCaL refuted each of {tried} round vectors (up to symmetry)"
    return Unsat(text, "cadical", spending.elapsed_seconds())


def build_clauses(model: TransferModel, rounds: tuple[int, ...]) -> list[sat.Clause]:
    """Return the CNF of the model for given rounds. Variable i of the model is i + 1."""
    cnf: list[sat.Clause] = []
    top = len(model.transfers)

    def at_most(variables: tuple[int, ...], limit: int) -> None:
        """Add clauses for at most ``limit`` true variables."""
        nonlocal top
        coded, top = sat.at_most_clauses([i + 1 for i in variables], limit, top)
        cnf.extend(coded)

    cnf.extend([i + 1 for i in row] for row in model.exactly_one)
    for row in (*model.exactly_one, *model.at_most_one):
        at_most(row, 1)
    for i, providers in model.needs:
        cnf.append([-(i + 1), *(j + 1 for j in providers)])
    for capacity in model.capacities:
        at_most(capacity.transfers, capacity.chunks_per_round * rounds[capacity.step])
    return cnf
