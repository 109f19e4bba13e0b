"""Scatter and gather at the limit: one flow through time, split into paths.

Suppose that each chunk has one destination, and all have the same source or the same destination.
Then chunks are a flow, and an integral flow gives their paths. Cuts through time prove the limit. A
maximum flow at integral rounds attains it (Ford and Fulkerson 1958, with capacities by step). No
tree is priced.

The search looks for integral rounds that sum to the limit and satisfy all cuts so far. If the
maximum flow is too small, it adds a cut. The vertices of the linear program would do as well, but
need thousands of chunks: hypercube:10 with S = 10 has rounds in 630ths, and integral rounds for
C = 10 per rank. The search takes the rounds nearest to *layers* that satisfy the cuts. In layers,
data at distance k leave in step S - k, or arrive in step k. On square tori layers already admit the
flow. Without them 32x32 took hundreds of cuts.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, gcd, lcm
from typing import TYPE_CHECKING

import numpy as np

from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.answer import Sat, Unsat
from sccl.core.collective import Collective, FlowEnds, single_flow_ends
from sccl.core.instance import Instance
from sccl.core.topology import Topology
from sccl.judge import require_valid
from sccl.prove.bounds.lower_bounds import farthest_pair
from sccl.prove.bounds.timed_cuts import CutRow, CutRows
from sccl.prove.bounds.timed_flow import IntegralFlow, TimedFlow, is_applicable
from sccl.solvers.cpsat import CpModel, Strategy, solve
from sccl.solvers.effort import Effort
from sccl.synth.limits import MAX_ITERATIONS, MAX_SENDS
from sccl.topo.symmetry.automorphisms import automorphisms

if TYPE_CHECKING:
    from sccl.prove.bounds.timed_cuts import TimedRelaxation

NAME = "construction (flow)"

_MULTIPLES = (1, 2, 3, 4, 6, 8, 12)  # the least C at which R is whole
_EFFORT, _STRATEGY = Effort(units=2.0), Strategy(linear=2)

_FlowArcs = dict[tuple[int, int], list[list[int]]]
"""By (rank, time): [rank that the flow goes on to, amount]."""


@dataclass(slots=True)
class _FlowProblem:
    """A collective that is a single flow, on a machine, for a number of steps.

    Attributes:
        topology: The machine.
        collective: The collective, at its smallest C.
        steps: Number of steps.
        ends: Sources and sinks of the flow.
        flow: The flow, with merged ranks that are images of each other.
        rows: Rows of the known cuts. More rows are added.
    """

    topology: Topology
    collective: Collective
    steps: int
    ends: FlowEnds
    flow: TimedFlow
    rows: list[CutRow]

    def find_rounds(self, total: int, times: int, tries: int = MAX_ITERATIONS) -> list[int] | None:
        """Return integral rounds with a given sum at which all chunks flow. None: not found.

        Args:
            total: Sum of the rounds.
            times: Multiple of the pattern's chunks.
            tries: Maximum number of tried rounds. Each try adds cuts.

        Raises:
            NoRoundsError: No integral rounds satisfy the cuts, which every algorithm satisfies.
        """
        made = CutRows(self.topology, self.collective, self.steps)
        layers = _layer_rounds(self.flow, total)
        for _ in range(tries):
            values = self._rounds_within_cuts(total, times, layers)
            if values is None:
                return None
            short = [
                made.row(labels)
                for labels in self.flow.violated_cuts(np.array(values, np.float64) / times)
            ]
            if not short:
                return values
            self.rows += short
        return None

    def _rounds_within_cuts(self, total: int, times: int, layers: list[int]) -> list[int] | None:
        """Return rounds that satisfy the cuts so far, close to ``layers``. None: not found."""
        model = CpModel()
        rounds = [model.new_int_var(1, total, "") for _ in layers]
        model.add(sum(rounds) == total)
        for row in self.rows:
            crossing = sum(n * r for n, r in zip(row.lanes, rounds, strict=True))
            model.add(crossing >= row.demand * times)
        apart = [model.new_int_var(0, total, "") for _ in rounds]
        for r, near, far in zip(rounds, layers, apart, strict=True):
            model.add(far >= r - near)
            model.add(far >= near - r)
        model.minimize(sum(apart))
        solution = solve(model, _EFFORT, _STRATEGY)
        if solution.is_infeasible:
            raise NoRoundsError
        return [solution.value(r) for r in rounds] if solution.has_solution else None

    def build_algorithm(self, rounds: list[int], times: int) -> Algorithm | None:
        """Return the algorithm of these rounds, not yet verified. None: there is no such flow."""
        flow = TimedFlow(self.topology, self.steps, self.ends, ())
        carried = flow.integral_flow(np.array(rounds, np.int64), times)
        if carried is None:
            return None
        full_collective = self.collective.with_chunks(self.collective.chunks * times)
        sends = tuple(_flow_sends(full_collective, self.ends, carried, self.steps))
        return Algorithm(self.topology, full_collective, tuple(rounds), sends)


class NoRoundsError(Exception):
    """No integral rounds satisfy the cuts."""


def is_attained_by_layers(
    topology: Topology, collective: Collective, steps: int, cost: Fraction
) -> bool:
    """Return whether the rounds of layers admit the flow at a cost. False: it is not known.

    Args:
        topology: The machine.
        collective: The collective, at its smallest C.
        steps: Number of steps.
        cost: R/C.
    """
    question = _build_problem(topology, collective, steps)
    if question is None or not is_applicable(topology, collective, steps):
        return False
    rounds = cost * collective.chunks
    times = rounds.denominator * max(1, ceil(Fraction(steps, rounds.numerator)))
    with suppress(NoRoundsError):
        return question.find_rounds(int(rounds * times), times, tries=1) is not None
    return False


def attain_bound(
    topology: Topology, collective: Collective, relaxation: TimedRelaxation
) -> Algorithm | None:
    """Return a verified algorithm that attains a bound by cuts through time.

    None: chunks are no single flow, links share budgets, no integral rounds with a flow were found,
    or there are too many sends.

    Args:
        topology: The machine.
        collective: Collective without reductions, at its smallest C.
        relaxation: The bound.
    """
    question = _build_problem(topology, collective, relaxation.steps, relaxation.rows)
    if question is None:
        return None
    for times in _integral_multiples(collective, relaxation):
        if question.ends.amount * times * question.flow.last > MAX_SENDS:
            return None
        with suppress(NoRoundsError):
            rounds = question.find_rounds(
                int(relaxation.bound.value * collective.chunks * times), times
            )
            if rounds is not None and (made := question.build_algorithm(rounds, times)):
                return require_valid(made, "splitting a flow into paths")
    return None


def answer(instance: Instance) -> Sat | Unsat | None:
    """Decide whether an algorithm exists, if chunks are a single flow. None: it is not known."""
    begin = time.perf_counter()
    topology, collective, steps = instance.topology, instance.collective, instance.steps
    if (
        single_flow_ends(collective) is None
        or topology.budgets
        or farthest_pair(topology, collective).steps > steps
    ):
        return None
    times = gcd(collective.chunks, *(len(chunks) for chunks in collective.chunk_classes().values()))
    unit = collective.with_chunks(collective.chunks // times)
    question = (
        _build_problem(topology, unit, steps) if is_applicable(topology, unit, steps) else None
    )
    if question is None or question.ends.amount * times * question.flow.last > MAX_SENDS:
        return None
    try:
        rounds = question.find_rounds(instance.rounds, times)
    except NoRoundsError:
        why = "no rounds of the steps let all chunks flow (cuts through time)"
        return Unsat(why, NAME, time.perf_counter() - begin)
    algorithm = None if rounds is None else question.build_algorithm(rounds, times)
    return Sat(algorithm, NAME, time.perf_counter() - begin) if algorithm else None


def _build_problem(
    topology: Topology, collective: Collective, steps: int, cuts: Iterable[CutRow] = ()
) -> _FlowProblem | None:
    """Return the flow problem for a number of steps. None: no single flow, or shared budgets.

    Args:
        topology: The machine.
        collective: The collective.
        steps: Number of steps.
        cuts: Rows of known cuts. Integral rounds need few of the cuts that prove the limit, so
            without a known bound the linear program is not worth its time.
    """
    ends = single_flow_ends(collective)
    if ends is None or topology.budgets or any(len(holders) > 1 for holders, _ in ends.sources):
        return None
    flow = TimedFlow(topology, steps, ends, automorphisms(topology, collective))
    return _FlowProblem(topology, collective, steps, ends, flow, list(cuts))


def _integral_multiples(collective: Collective, relaxation: TimedRelaxation) -> Iterator[int]:
    """Yield multiples of the pattern's chunks for which R at the bound is integral."""
    unit = (relaxation.bound.value * collective.chunks).denominator
    while relaxation.bound.value * collective.chunks * unit < relaxation.steps:
        unit += (relaxation.bound.value * collective.chunks).denominator
    yield from (unit * times for times in _MULTIPLES)
    if relaxation.rho and min(relaxation.rho) > 0:
        yield lcm(*((rho * collective.chunks).denominator for rho in relaxation.rho))


def _layer_rounds(flow: TimedFlow, total: int) -> list[int]:
    """Return rounds of each step in which data at distance k leave k steps before the end.

    With one sink, data at distance k arrive there k steps after the begin.
    """
    forwards = len(flow.ends.sources) > 1
    rounds = [0] * flow.steps
    parts = [(min(ranks), n) for ranks, n in flow.ends.sources] if forwards else flow.ends.sinks
    for rank, amount in parts:
        far = int((flow.after if forwards else flow.first)[rank])
        rounds[far - 1 if forwards else flow.steps - far] += amount
    return [each * total // flow.ends.amount for each in rounds]


def _flow_sends(
    collective: Collective, ends: FlowEnds, carried: IntegralFlow, steps: int
) -> Iterable[Send]:
    """Yield the sends of all chunks. Each chunk walks along the flow to the common end of all.

    It starts at its other end, and walks backwards in time if that is its destination. The
    remaining flow is balanced at each (rank, time), so no walk gets stuck.
    """
    forwards = len(ends.sources) > 1
    next_hops: _FlowArcs = defaultdict(list)
    for u, v, step, amount in carried:
        node, target = ((u, step), v) if forwards else ((v, step + 1), u)
        next_hops[node].append([target, amount])
    for (holders, wanted), chunks in collective.chunk_classes().items():
        if wanted <= holders:
            continue
        (source,), (sink,) = holders, wanted - holders
        begin, end = (int(source), int(sink)) if forwards else (int(sink), int(source))
        for chunk in chunks:
            walk = _walk_path(
                next_hops, begin, end, 0 if forwards else steps, 1 if forwards else -1
            )
            for at, u, v in walk:
                yield make_send(chunk, u, v, at) if forwards else make_send(chunk, v, u, at - 1)


def _walk_path(
    next_hops: _FlowArcs, begin: int, end: int, when: int, direction: int
) -> list[tuple[int, int, int]]:
    """Remove a path of one unit from the flow. Return its (time, from, to) without cycles."""
    at, hops = begin, list[tuple[int, int, int]]()
    while at != end:
        hop = next_hops[at, when][-1]
        hop[1] -= 1
        if not hop[1]:
            next_hops[at, when].pop()
        if hop[0] != at:
            hops.append((when, at, hop[0]))
        at, when = hop[0], when + direction
        before = [i for i, (_, rank, _) in enumerate(hops) if rank == at]
        if before:  # the rank occurs before: remove the cycle, the chunk waits instead
            del hops[before[0] :]
    return hops
