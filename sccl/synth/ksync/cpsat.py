"""The default solver: the time-indexed model on OR-Tools CP-SAT.

No one setting is good at everything, so three take turns, each with a budget of *deterministic*
time that grows from turn to turn; together with interleaved workers this makes the answer the same
on every run of one version. Measured on the rows of SCCL Table 4 (two cores):

* ``dive``: one worker, no LP. Finds most algorithms and refutes allgather on DGX-1 at once; misses
  alltoall (24, 8, 8) in 60 s, and with the LP the 4x4 torus (4, 4, 15) too.
* ``mix``: eight interleaved workers, among them feasibility jump, which finds alltoall (24, 8, 8)
  as soon as it starts; takes 7 s for broadcast (18, 5, 5), where ``dive`` takes 0.3 s.
* ``refute``: one worker with all of the LP, interchangeable chunks ordered. Refutes broadcast
  (14, 3, 5) in 0.2 s, which the others do not in 20 s, and (18, 3, 7) in 2.5 s, which without the
  LP takes 13 s; ten times slower than ``mix`` at finding allgather (6, 7, 7).

Tried and lost: two free-running workers (as fast, but another algorithm on every run); probing and
symmetry detection in presolve (6.1 s against 1.7 s on alltoall (24, 8, 8)).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from ortools.sat.python import cp_model

from sccl.core.algorithm import Algorithm
from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.instance import Instance
from sccl.errors import SolverError
from sccl.solvers.effort import Effort
from sccl.solvers.interrupt import run_interruptible
from sccl.synth.ksync.model import Model, decode, encode


@dataclass(frozen=True, slots=True)
class _Turn:
    """One attempt: on which model, with how many workers and how much LP, for how long.

    Attributes:
        ordered: whether interchangeable chunks are ordered.
        linear: CP-SAT's linearization_level, 0 to 2.
        budget: deterministic time, a unit of CP-SAT's near a second.
    """

    ordered: bool
    workers: int
    linear: int
    budget: float


def _turns(instance: Instance) -> Iterator[_Turn]:
    """Yield turns without end; with many interchangeable chunks refutations need order early."""
    interchangeable = max(len(chunks) for chunks in instance.collective.classes().values())
    many = interchangeable >= instance.collective.ranks
    for n in count():
        scale = 4.0**n
        dive = _Turn(ordered=False, workers=1, linear=0, budget=0.2 * scale)
        mix = _Turn(ordered=False, workers=8, linear=1, budget=0.6 * scale)
        refute = _Turn(ordered=True, workers=1, linear=2, budget=(4.0 if many else 0.6) * scale)
        yield from (dive, refute, mix) if many else (dive, mix, refute)


def answer(instance: Instance, effort: Effort) -> Answer:
    """Return CP-SAT's answer."""
    begin, spent = time.perf_counter(), 0.0
    built: dict[bool, _Problem] = {}
    for each in _turns(instance):
        turn = each
        if effort.units is not None and spent >= effort.units:
            text = f"nothing found with an effort of {effort.units:g}"
            return Unknown(text, "cpsat", time.perf_counter() - begin)
        if effort.units is not None:
            turn = replace(turn, budget=min(turn.budget, effort.units - spent))
        spent += turn.budget
        if turn.ordered not in built:
            model = encode(instance, break_symmetry=turn.ordered)
            if model.impossible:
                return Unsat(model.impossible, "cpsat", time.perf_counter() - begin)
            built[turn.ordered] = _build(model)
        left = None
        if effort.timeout_s is not None:
            left = effort.timeout_s - (time.perf_counter() - begin)
            if left <= 0:
                break
        found = _take(turn, built[turn.ordered], effort.seed, left)
        if isinstance(found, Algorithm):
            return Sat(found, "cpsat", time.perf_counter() - begin)
        if found == cp_model.INFEASIBLE:
            text = "CP-SAT proved the time-indexed model infeasible"
            return Unsat(text, "cpsat", time.perf_counter() - begin)
    return Unknown(f"timeout after {effort.timeout_s:g} s", "cpsat", time.perf_counter() - begin)


def _take(
    turn: _Turn, problem: _Problem, seed: int, left_s: float | None
) -> Algorithm | cp_model.CpSolverStatus:
    """Return an algorithm, INFEASIBLE, or UNKNOWN if the turn's budget is used up."""
    solver = _solver(turn, seed, left_s)
    status = run_interruptible(partial(solver.solve, problem.cp), solver.stop_search)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        chosen = [i for i, x in enumerate(problem.chosen) if solver.boolean_value(x)]
        return decode(problem.model, chosen, [solver.value(r) for r in problem.rounds])
    if status not in (cp_model.INFEASIBLE, cp_model.UNKNOWN):
        raise SolverError(f"CP-SAT rejects the model ({status}); this is a defect")
    return status


def _solver(turn: _Turn, seed: int, left_s: float | None) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    if left_s is not None:
        solver.parameters.max_time_in_seconds = left_s
    solver.parameters.max_deterministic_time = turn.budget
    solver.parameters.random_seed = seed
    solver.parameters.num_workers = turn.workers
    solver.parameters.interleave_search = turn.workers > 1
    solver.parameters.linearization_level = turn.linear
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    solver.parameters.catch_sigint_signal = False
    return solver


@dataclass(frozen=True, slots=True)
class _Problem:
    model: Model
    cp: cp_model.CpModel
    chosen: list[cp_model.IntVar]
    rounds: list[cp_model.IntVar]


def _build(model: Model) -> _Problem:
    cp = cp_model.CpModel()
    x = [cp.new_bool_var("") for _ in model.transfers]
    steps = range(model.instance.steps)
    rounds = [cp.new_int_var(1, model.max_rounds_per_step, f"r{s}") for s in steps]
    cp.add(cp_model.LinearExpr.sum(rounds) == model.instance.rounds)
    for group in model.exactly_one:
        cp.add_exactly_one([x[i] for i in group])
    for group in model.at_most_one:
        cp.add_at_most_one([x[i] for i in group])
    for i, providers in model.needs:
        cp.add_bool_or([~x[i], *(x[j] for j in providers)])
    for capacity in model.capacities:
        load = cp_model.LinearExpr.sum([x[i] for i in capacity.transfers])
        cp.add(load <= capacity.chunks_per_round * rounds[capacity.step])
    return _Problem(model, cp, x, rounds)
