"""Lower bounds for algorithms of S steps by cuts through time, computed in polynomial time.

Give each rank a label, the time from which on it is *inside*: 0 to S+1. Ranks keep their chunks, so
holding a chunk never leads outside. Take a chunk that only ranks of label 0 hold at first, and that
a rank of label S+1 wants. It is inside at first and has to be outside in the end, so in some step s
it goes over a link from a rank that is inside at s to one that is not yet at s+1. If a_s lanes
cross like this in step s, and D chunks per C have to, then

    sum_s rho_s a_s >= D,    rho_s = r_s / C.

F(S) is the smallest sum of rho that satisfies this for all labels. By max-flow = min-cut, it is the
smallest at which each rank's flow through time exists. Cuts are added where a flow falls short. A
combination of rows proves the value of the program: weights w_i with sum_i w_i a_is <= 1 in every
step. Shared budgets have additional prices, as in :mod:`sccl.prove.bounds.cut_lp`. Symmetries and
means of proofs are proofs: images of links carry the same, and all images of a cut take part.

If chunks are copied, F may be below the optimum, as copies are no flows: on a 3-cube with S = 3 it
is 5/6, and the limit of timed trees 1. For scatter and gather it is the limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from sccl.collectives import Spec, named_spec
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.prove.bounds.timed_flow import (
    TimedFlow,
    demand_flows,
    flows_of_collectives,
    group_flows,
    is_applicable,
)
from sccl.prove.bounds.timed_program import TimedProgram, TimedRelaxation
from sccl.topo.symmetry.automorphisms import automorphisms
from sccl.topo.symmetry.orbits import rank_orbits

BOUND_UNITS = 6.0
"""Units of effort, of one to five seconds each, for the bound of a number of steps."""

_ARC_EFFORT = 2e-7  # effort of an arc in a flow
_ROWS_PER_SOLVE = 8  # that are added before the program is solved again


@lru_cache(maxsize=64)
def timed_bound(
    topology: Topology, collective: Collective, steps: int, effort: float = BOUND_UNITS
) -> TimedRelaxation | None:
    """Return the best bound on R/C for S = ``steps`` by cuts through time. None: they say nothing.

    Args:
        collective: non-combining. Each chunk can reach all who want it within S steps.
        effort: after which the program as it is gives the bound, which is less then.

    Raises:
        SolverError: no solver finds the optimum of a linear program.
        KeyboardInterrupt: the user interrupted.
    """
    if not is_applicable(topology, collective, steps):
        return None
    program = TimedProgram(topology, collective, steps)
    all_flows = demand_flows(topology, collective, steps, program.apart, program.symmetries)
    return _solve_bound(program, all_flows, effort)


@lru_cache(maxsize=64)
def allreduce_bound(
    topology: Topology, spec: Spec, steps: int, effort: float = BOUND_UNITS
) -> TimedRelaxation | None:
    """Return a lower bound for every allreduce of S = ``steps`` by cuts through time.

    A contribution of label 0 has to get to a rank of label S+1, so for each chunk at least one send
    crosses. There are flows for every rank's contribution and every rank that wants it, all at the
    same rounds. Since sums travel as one, flows of contributions to one chunk may all share paths.
    In process groups there are also flows of such a pair in each group at once, by its place in the
    group. None: the program is too large.

    Args:
        spec: an allreduce, of all ranks or in groups.
        steps: at least the greatest distance between ranks that reduce together.
        effort: after this the unfinished program gives a smaller bound.

    Raises:
        SolverError: no solver finds the optimum of a linear program.
        KeyboardInterrupt: the user interrupted.
    """
    unit = spec.at(spec.unit)
    if not is_applicable(topology, named_spec("broadcast", topology.ranks).at(1), steps):
        return None
    program = TimedProgram(topology, unit, steps)
    alike = program.symmetries if program.apart else automorphisms(topology, unit)
    ranks = rank_orbits(topology, alike)
    if spec.post.pattern:
        return _solve_bound(
            program, group_flows(topology, unit, ranks, steps, program.apart), effort
        )
    # as many chunks as the program counts
    from_each = (named_spec("broadcast", topology.ranks, rank).at(unit.chunks) for rank in ranks)
    return _solve_bound(
        program, flows_of_collectives(topology, from_each, steps, program.apart), effort
    )


def _solve_bound(
    program: TimedProgram, flows: Iterable[TimedFlow], effort: float
) -> TimedRelaxation:
    """Return the bound of a program once no flow falls short, or effort has ended."""
    all_flows = list(flows)
    for flow in all_flows[:1]:
        for labels in flow.distance_layers():
            program.add(labels)
    program.solve()
    spent, new, failed = 0.0, 1, len(all_flows)
    while new and spent <= effort:
        new, short = 0, []
        for place, flow in enumerate(all_flows):
            if new and place >= failed:
                break  # those that passed are looked at when all do that failed
            added = sum(map(program.add, flow.violated_cuts(program.rounds, program.loads)))
            spent, new = spent + _ARC_EFFORT * flow.work, new + added
            short += [flow] if added else []
            if new >= _ROWS_PER_SOLVE or spent > effort:
                break
        all_flows, failed = [*short, *(flow for flow in all_flows if flow not in short)], len(short)
        program.solve()
    return program.bound(is_complete=not new)
