"""What no allreduce of a number of steps beats, whatever its class.

* *Sends*, whatever S is (:func:`sccl.prove.bounds.any_bounds`).
* *Cuts through time*: all contributions get everywhere
  (:func:`sccl.prove.bounds.timed_cuts.allreduce_bound`).
* *A broadcast in it.* Follow one rank's contribution to a chunk: the sends that bring it to each
  rank for the first time are a timed tree out of that rank, of one chunk. So an allreduce has in it
  a broadcast of as many chunks, steps and rounds, from each rank, and no smaller R/C than the limit
  of that, which on small machines timed trees say; turned round, likewise a reduce to each rank.

In process groups sends alone are counted: the other two are of contributions that go everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from sccl.collectives import Spec, named
from sccl.core.bounds import Bounds
from sccl.core.limit import LimitProof, StepLimit
from sccl.core.topology import Topology
from sccl.prove.bounds import lower_bounds
from sccl.synth.limit.steps import step_limit
from sccl.topo.symmetry.automorphisms import automorphisms
from sccl.topo.symmetry.orbits import rank_orbits

_RANKS, _ALIKE_RANKS = 11, 16
"""More are not broadcast to by trees, or no more that are all alike: that would take minutes."""

_UNITS = 2.0  # of effort, for the limit of a broadcast


def bounds_of_every(
    topology: Topology, spec: Spec, bounds: Bounds, points: Sequence[tuple[int, Fraction]]
) -> tuple[StepLimit, ...]:
    """Return what no allreduce beats in the steps of each point, and in a step less, with a proof.

    Args:
        bounds: of every allreduce.
        points: (S, R/C) of algorithms: what one meets needs no better bound.

    Raises:
        SolverError: no solver finds the optimum of a linear program.
        KeyboardInterrupt: the user interrupted.
    """
    found: list[StepLimit] = []
    steps = {s for last, _ in points for s in (last - 1, last) if s >= bounds.steps}
    for each in sorted(steps, reverse=True):  # what holds for more steps holds for fewer
        enough = min((cost for s, cost in points if s <= each), default=None)
        proof = proof_of_every(topology, spec, bounds, each, enough)
        before = found[-1:]
        if before and before[0].lower > proof.bound:
            proof = before[0].proofs[0]
        found.append(StepLimit(each, proof.bound, None, (proof,)))
    return tuple(reversed(found))


def proof_of_every(
    topology: Topology, spec: Spec, bounds: Bounds, steps: int, enough: Fraction | None = None
) -> LimitProof:
    """Return what proves most of all allreduces of so many steps, the simplest of such.

    Args:
        bounds: of every allreduce.
        enough: an R/C that some algorithm has.

    Raises:
        SolverError: no solver finds the optimum of a linear program.
    """
    from sccl.prove.bounds.timed_cuts import allreduce_bound  # noqa: PLC0415 - loads the LP solver

    best = LimitProof(spec.name, False, topology.name, steps, bounds.bandwidth, ())  # noqa: FBT003
    if spec.post.pattern or best.bound == enough:
        return best
    cuts = allreduce_bound(topology, steps)
    if cuts is None or cuts.value <= best.bound:
        return best
    best = replace(best, bound=cuts.value, prices=cuts.prices, cuts=cuts.cuts)
    if topology.ranks > _ALIKE_RANKS or best.bound == enough:
        return best
    return max([best, *_broadcasts(topology, steps)], key=lambda proof: proof.bound)


def _broadcasts(topology: Topology, steps: int) -> Iterator[LimitProof]:
    """Yield what trees prove of a broadcast from, and of a reduce to, a rank of each orbit."""
    alike = automorphisms(topology, named("allgather", topology.ranks).at(1))
    roots = rank_orbits(topology, alike)
    if topology.ranks > _RANKS and len(roots) > 1:
        return
    both = not topology.reversed().carries_like(topology)
    for rank in roots:
        for name in ("broadcast", "reduce") if both else ("broadcast",):
            spec = named(name, topology.ranks, rank)
            of = lower_bounds(topology, spec)
            limit = step_limit(topology, spec, steps, of, effort=_UNITS).limit
            (proof,) = limit.proofs
            if proof.prices and not proof.cuts:
                yield replace(proof, root=rank)
