"""Find algorithms that are invariant under symmetries, with CP-SAT, for up to thousands of ranks.

Such an algorithm is one for the whole machine, and all of its sends are verified there. If none
exists under a symmetry, the answer is Unknown, because other algorithms may exist.

For each group, first only shortest paths without waiting are allowed. On tori and hypercubes the
breadth-first layers alone are a schedule if links are loaded evenly, and it is found immediately.
Then shortest paths with waiting are allowed, then all paths. For alltoall and similar collectives
the search begins with waiting, because otherwise their links are not full in all steps: 64 ranks
take less than a second, and 10 s otherwise. Measured (two cores, allgather, C chunks in as many
steps as the diameter): a 16x16 torus takes 4 s with only translations, and 0.1 s with quarter
turns. For 32x32 these are more than 400 s and 0.4 s.

Eight interleaved workers within *deterministic* time find the same algorithm on every run, under
any load. Tried without success: two free-running workers (no faster, and another algorithm on every
run). One worker without LP (12 to 20 s on allgather on hypercube:6 and torus:4x4x4, 0.1 s
interleaved) or with it (alltoall on torus:8x8, torus:4x4x4 and hypercube:6 not in 30 s; 0.3 s
interleaved).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sccl.core.answer import Sat, Unknown
from sccl.core.instance import Instance
from sccl.core.stop import NOT_STOPPED, StopKind, StopReason
from sccl.core.symmetric import Group, SymmetricAlgorithm, Symmetry
from sccl.errors import TooLargeError
from sccl.solvers.cpsat import CpModel, IntVar, LinearExpr, Strategy, solve
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.syncoll.encoding_symmetric import (
    OrbitModel,
    PathRestriction,
    decode_orbits,
    encode_orbits,
)

_UNITS_BY_PATHS = {
    PathRestriction.LAYERED: 4.0,
    PathRestriction.SHORTEST: 16.0,
    PathRestriction.ANY: 20.0,
}
"""Effort of each search, in units."""

NAME = "cp-sat"

_STRATEGY = Strategy(workers=8, is_presolved=False)

_TIMEOUT = StopReason(StopKind.TIMEOUT)
_EXHAUSTED = StopReason(StopKind.BUDGET, "none within this budget")
_REFUTED = StopReason(StopKind.INFEASIBLE, "none exists")


def answer(instance: Instance, groups: Sequence[Group], effort: Effort) -> Sat | Unknown:
    """Return a symmetric algorithm, not yet verified, or Unknown.

    Args:
        instance: The instance.
        groups: Groups of symmetries in the order of attempts, the largest first.
        effort: The budget.
    """
    spending = EffortMeter(effort)
    single = instance.collective.is_unicast
    search = _SymmetricSearch(instance, spending)
    reasons = []
    for group in groups:
        reason = NOT_STOPPED
        for paths in (PathRestriction.SHORTEST, PathRestriction.ANY) if single else PathRestriction:
            if not search.has_budget():
                reason = reason or search.stop_reason
                break
            result = search.attempt(group.generators, paths)
            if isinstance(result, SymmetricAlgorithm):
                return Sat(result, NAME, spending.elapsed_seconds(), group=group.name)
            reason = result
        reasons.append(f"{group.name}: {reason}")
    text = f"no symmetric algorithm is known ({'; '.join(reasons)}), which "
    text += "proves nothing about others"
    return Unknown(StopReason(StopKind.OTHER, text), NAME, spending.elapsed_seconds())


@dataclass(slots=True)
class _SymmetricSearch:
    """Attempts under one group after the other, and the effort that they spend."""

    instance: Instance
    spending: EffortMeter
    stop_reason: StopReason = field(default=NOT_STOPPED, init=False)

    def has_budget(self) -> bool:
        """Return whether time and effort are left. If not, :attr:`stop_reason` states which."""
        if self.spending.deadline_passed():
            self.stop_reason = _TIMEOUT
        elif self.spending.is_exhausted():
            self.stop_reason = StopReason(StopKind.BUDGET, "not tried")
        return not self.stop_reason

    def attempt(
        self, symmetries: tuple[Symmetry, ...], paths: PathRestriction
    ) -> SymmetricAlgorithm | StopReason:
        """Return an algorithm with these symmetries, or why there is none."""
        try:
            model = encode_orbits(self.instance, symmetries, paths)
        except TooLargeError:
            return StopReason(StopKind.TOO_LARGE)
        if model.infeasible_reason:
            return _REFUTED
        cp, chosen, rounds = _build_cp_model(model)
        left = self.spending.remaining(_UNITS_BY_PATHS[paths])
        if left is None:
            return _TIMEOUT
        result = solve(cp, left, _STRATEGY)
        self.spending.units += result.units
        if result.has_solution:
            return decode_orbits(
                model, result.true_variables(chosen), [result.value(r) for r in rounds]
            )
        if result.is_infeasible:
            return _REFUTED
        return _TIMEOUT if self.spending.deadline_passed() else _EXHAUSTED


def _build_cp_model(model: OrbitModel) -> tuple[CpModel, list[IntVar], list[IntVar]]:
    cp = CpModel()
    instance = model.instance
    x = [cp.new_bool_var("") for _ in model.transfers]
    max_rounds = instance.rounds - instance.steps + 1
    rounds = [cp.new_int_var(1, max_rounds, f"r{s}") for s in range(instance.steps)]
    cp.add(LinearExpr.sum(rounds) == instance.rounds)
    for variables, must in model.arrivals:
        # a variable that occurs twice would deliver a chunk twice: it must be false
        twice = {i for i in variables if variables.count(i) > 1} if len(variables) > 1 else set()
        for i in twice:
            cp.add_bool_and([~x[i]])
        once = [x[i] for i in variables if i not in twice]
        (cp.add_exactly_one if must else cp.add_at_most_one)(once)
    for i, providers in model.needs:
        cp.add_bool_or([~x[i], *(x[j] for j in providers)])
    for step, width, load in model.capacities:
        carried = LinearExpr.weighted_sum([x[i] for i, _ in load], [n for _, n in load])
        cp.add(carried <= width * rounds[step])
    return cp, x, rounds
