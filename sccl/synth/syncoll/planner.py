"""Plan an algorithm for a size: the fastest point of a sweep, or the one of given (C, S, R).

Times are exact values of SCCL section 3.6: ``S * alpha + R/C * L * beta`` with the costs of the
slowest link.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from sccl.core.answer import Sat, Unsat
from sccl.core.bound import AlgorithmBounds, Bound, Measure
from sccl.core.cost import Costs
from sccl.core.frontier import SweepFrontier
from sccl.core.instance import Candidate, SweepRange
from sccl.core.outcome import (
    Inconclusive,
    Infeasible,
    Outcome,
    PlanBound,
    Solution,
    SolverRefutation,
)
from sccl.core.step_limit import StepLimit
from sccl.core.stop import StopKind, StopReason
from sccl.errors import ParameterError
from sccl.prove.bounds.lower_bounds import lower_bounds, require_reachable
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Notify, Request
from sccl.synth.limits import SWEEP_EFFORT
from sccl.synth.syncoll.oracle import QueryConfig, answer_instance, resolve_symmetry
from sccl.synth.syncoll.sweep import sweep
from sccl.transform import InstanceSolver, build_question, solve_question

if TYPE_CHECKING:
    from sccl.synth.syncoll.options import Options


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the fastest algorithm of a sweep for the size, or the one of given (C, S, R).

    Raises:
        InputError: The options do not fit the request.
        KeyboardInterrupt: The user interrupted before there was an algorithm.
    """
    if (options.chunks, options.steps, options.rounds) == (None, None, None):
        return find_fastest(request, options, effort, notify)
    return solve_candidate(request, options, effort)


def find_fastest(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the point of a sweep with the least time for the request's size.

    Raises:
        InputError: The options do not fit the request.
        KeyboardInterrupt: The user interrupted before there was an algorithm.
    """
    units = SWEEP_EFFORT if effort.units is None else min(effort.units, SWEEP_EFFORT)
    frontier = sweep(
        request.topology,
        request.spec,
        _instance_solver(request, options, effort),
        solver=options.solver,
        covered=SweepRange(options.k, options.max_steps, options.max_chunks),
        limits=request.limits and partial(request.limits, units=units),
        notify=notify,
    )
    best = _fastest_point(request, frontier)
    if frontier.is_interrupted:
        if best is None:
            raise KeyboardInterrupt
        return Inconclusive(frontier.stop_reason, best)
    if best is not None:
        return best
    if frontier.open:
        return Inconclusive(frontier.open[0].reason)
    return Inconclusive(StopReason(StopKind.OTHER, "no algorithm in the range that was swept"))


def solve_candidate(request: Request, options: Options, effort: Effort) -> Outcome:
    """Return the algorithm with the C chunks, S steps, and R rounds of the options.

    Raises:
        InputError: Only some of the three are given, or they do not fit the request.
        KeyboardInterrupt: The user interrupted.
    """
    chunks, steps, rounds = options.chunks, options.steps, options.rounds
    if chunks is None or steps is None or rounds is None:
        raise ParameterError(
            f"chunks is {chunks}, steps is {steps} and rounds is {rounds}: give all three for one "
            "algorithm, or none for the fastest"
        )
    question = build_question(request.topology, request.spec, chunks, steps, rounds)
    require_reachable(question.instances)
    result = solve_question(question, _instance_solver(request, options, effort))
    match result:
        case Sat(algorithm):
            bounds = lower_bounds(request.topology, request.spec)
            time = _time_us(request, steps, algorithm.bandwidth_cost)
            return Solution(algorithm, time, _time_bound(request, bounds, ()))
        case Unsat(evidence):
            candidate = Candidate(Fraction(rounds, chunks), chunks, steps, rounds)
            return Infeasible(SolverRefutation(candidate, result.solver, evidence))
        case _:
            return Inconclusive(result.reason)


def _instance_solver(request: Request, options: Options, effort: Effort) -> InstanceSolver:
    symmetry = resolve_symmetry(request.topology, request.spec, options.symmetry)
    return partial(answer_instance, QueryConfig(options.solver, symmetry, effort))


def _fastest_point(request: Request, frontier: SweepFrontier) -> Solution | None:
    """Return the fastest point, with the fewest steps if several are equal. None: no point."""
    if not frontier.points:
        return None
    times = [_time_us(request, point.steps, point.cost) for point in frontier.points]
    best = min(range(len(times)), key=times.__getitem__)
    algorithm = frontier.points[best].algorithm
    assert algorithm is not None
    assert frontier.bounds is not None
    bound = _time_bound(request, frontier.bounds, frontier.classes[0].limits)
    return Solution(algorithm, times[best], bound)


def _time_bound(
    request: Request, bounds: AlgorithmBounds, limits: tuple[StepLimit, ...]
) -> PlanBound:
    """Return a lower bound on time for every k and C.

    The limit of R/C for a number of steps holds for every smaller number, and the bandwidth bound
    for all. So the minimum time is at the fewest steps, or one step after a known limit.

    Args:
        request: The request.
        bounds: Lower bounds on S and R/C.
        limits: Limits for numbers of steps, ascending.
    """
    times = []
    steps = bounds.steps
    for limit in limits:
        times.append(_time_us(request, steps, max(limit.lower, bounds.bandwidth)))
        steps = limit.steps + 1
    times.append(_time_us(request, steps, bounds.bandwidth))
    proofs = tuple(proof for limit in limits for proof in limit.proofs)
    return Bound(Measure.TIME_US, min(times), proofs, bounds.scope)


def _time_us(request: Request, steps: int, bandwidth_cost: Fraction) -> Fraction:
    """Return the time in microseconds, exact for the decimal costs of the machine."""
    costs = Costs.from_topology(request.topology)
    per_byte = 1 / (Fraction(str(costs.gb_per_s)) * 1000)
    alpha = Fraction(str(costs.alpha_us))
    return steps * alpha + bandwidth_cost * request.size_bytes * per_byte
