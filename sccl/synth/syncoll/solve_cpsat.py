"""The time-indexed model on OR-Tools CP-SAT, for instances that the greedy and flows do not solve.

No single strategy is good at everything, so three strategies alternate. Each attempt has a budget
of *deterministic* time, which grows. Together with interleaved workers this makes the answer the
same on every run of one version. Measured on the rows of SCCL Table 4 (two cores):

* ``dive``: one worker, no LP. It finds most algorithms, and refutes allgather on DGX-1 at once. It
  does not find alltoall (24, 8, 8) in 60 s, and with the LP neither the 4x4 torus (4, 4, 15).
* ``mix``: eight interleaved workers, including feasibility jump, which finds alltoall (24, 8, 8) as
  soon as it starts. It takes 7 s for broadcast (18, 5, 5), where ``dive`` takes 0.3 s.
* ``refute``: one worker with the full LP and ordered interchangeable chunks. It refutes broadcast
  (14, 3, 5) in 0.2 s, which the others do not in 20 s, and (18, 3, 7) in 2.5 s, which takes 13 s
  without the LP. It is ten times slower than ``mix`` at finding allgather (6, 7, 7).

If there are several times as many steps as the farthest chunk needs, the fewest steps with the same
rounds are tried first. That model is much smaller, and its solution is stretched. So alltoall (24,
8, 8) takes 0.03 s instead of 2.2 s. If that model is infeasible, the effort is lost: 0.05 s on
DGX-1.

Tried without success: two free-running workers (as fast, but another algorithm on every run), and
probing and symmetry detection in presolve (6.1 s compared with 1.7 s on alltoall (24, 8, 8)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.instance import Instance
from sccl.errors import UnreachableError
from sccl.prove.bounds.lower_bounds import farthest_pair
from sccl.solvers.cpsat import CpModel, IntVar, LinearExpr, Strategy, solve
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.limits import TRIAL_EFFORT
from sccl.synth.syncoll.encoding_time_indexed import TransferModel, decode, encode
from sccl.transform.stretch import stretch_steps

NAME = "cp-sat"

_MANY_STEPS_FACTOR = 3
"""Multiple of the fewest steps from which on the fewest steps are tried first."""

_DIVE = Strategy(workers=1, linear=0, is_presolved=False)
_MIX = Strategy(workers=8, linear=1, is_presolved=False)
_REFUTE = Strategy(workers=1, linear=2, is_presolved=False)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt.

    Attributes:
        is_ordered: Whether interchangeable chunks are ordered in the model.
        strategy: Strategy of CP-SAT.
        effort_units: Limit on effort.
    """

    is_ordered: bool
    strategy: Strategy
    effort_units: float


def _attempts(instance: Instance) -> Iterator[_Attempt]:
    """Yield attempts without end. Many interchangeable chunks need the ordered model early."""
    interchangeable = max(len(chunks) for chunks in instance.collective.chunk_classes().values())
    many = interchangeable >= instance.collective.ranks
    for n in count():
        scale = 4.0**n
        dive = _Attempt(is_ordered=False, strategy=_DIVE, effort_units=0.2 * scale)
        mix = _Attempt(is_ordered=False, strategy=_MIX, effort_units=0.6 * scale)
        refute = _Attempt(
            is_ordered=True, strategy=_REFUTE, effort_units=(4.0 if many else 0.6) * scale
        )
        yield from (dive, refute, mix) if many else (dive, mix, refute)


def answer(instance: Instance, effort: Effort) -> Answer:
    """Return CP-SAT's answer."""
    spending = EffortMeter(effort)
    if (quick := _solve_in_fewest_steps(instance, spending)) is not None:
        return quick
    built: dict[bool, _CpProblem] = {}
    for turn in _attempts(instance):
        if spending.is_exhausted():
            return Unknown(effort.exhausted_reason, NAME, spending.elapsed_seconds())
        if turn.is_ordered not in built:
            model = encode(instance, break_symmetry=turn.is_ordered)
            if model.infeasible_reason:
                return Unsat(model.infeasible_reason, NAME, spending.elapsed_seconds())
            built[turn.is_ordered] = _build_cp_model(model)
        left = spending.remaining(turn.effort_units)
        if left is None:
            break
        spending.units += turn.effort_units  # the limit of this attempt
        problem = built[turn.is_ordered]
        result = solve(problem.cp, left, turn.strategy)
        if result.has_solution:
            rounds = [result.value(r) for r in problem.rounds]
            algorithm = decode(problem.model, result.true_variables(problem.transfer_vars), rounds)
            return Sat(algorithm, NAME, spending.elapsed_seconds())
        if result.is_infeasible:
            text = "CP-SAT proved the time-indexed model infeasible"
            return Unsat(text, NAME, spending.elapsed_seconds())
    return Unknown(effort.timeout_reason, NAME, spending.elapsed_seconds())


def _solve_in_fewest_steps(instance: Instance, spending: EffortMeter) -> Sat | None:
    """Return an algorithm with the same rounds in the fewest steps, stretched. None: not found."""
    topology, steps = instance.topology, instance.steps
    if topology.budgets or instance.rounds < steps:
        return None
    try:
        fewest_steps = max(farthest_pair(topology, instance.collective).steps, 1)
    except UnreachableError:
        return None
    left = spending.remaining(TRIAL_EFFORT)
    if steps < _MANY_STEPS_FACTOR * fewest_steps or left is None:
        return None
    model = encode(replace(instance, steps=fewest_steps), break_symmetry=False)
    if model.infeasible_reason:
        return None
    spending.units += TRIAL_EFFORT
    problem = _build_cp_model(model)
    result = solve(problem.cp, left, _DIVE)
    if not result.has_solution:
        return None
    rounds = [result.value(r) for r in problem.rounds]
    algorithm = stretch_steps(
        decode(model, result.true_variables(problem.transfer_vars), rounds), steps
    )
    return Sat(algorithm, NAME, spending.elapsed_seconds())


@dataclass(frozen=True, slots=True)
class _CpProblem:
    model: TransferModel
    cp: CpModel
    transfer_vars: list[IntVar]
    rounds: list[IntVar]


def _build_cp_model(model: TransferModel) -> _CpProblem:
    cp = CpModel()
    x = [cp.new_bool_var("") for _ in model.transfers]
    steps = range(model.instance.steps)
    rounds = [cp.new_int_var(1, model.max_rounds_per_step, f"r{s}") for s in steps]
    cp.add(LinearExpr.sum(rounds) == model.instance.rounds)
    for row in model.exactly_one:
        cp.add_exactly_one([x[i] for i in row])
    for row in model.at_most_one:
        cp.add_at_most_one([x[i] for i in row])
    for i, providers in model.needs:
        cp.add_bool_or([~x[i], *(x[j] for j in providers)])
    for capacity in model.capacities:
        load = LinearExpr.sum([x[i] for i in capacity.transfers])
        cp.add(load <= capacity.chunks_per_round * rounds[capacity.step])
    return _CpProblem(model, cp, x, rounds)
