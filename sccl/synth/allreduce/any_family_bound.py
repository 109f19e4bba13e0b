"""Lower bounds for every allreduce of a number of steps, of any family.

* *Sends*, for any S (:func:`sccl.prove.bounds.any_class.any_class_bounds`).
* *Cuts through time*: all contributions must arrive everywhere
  (:func:`sccl.prove.bounds.timed_cuts.allreduce_bound`).
* *An embedded broadcast.* Consider one rank's contribution to a chunk. The sends that bring it to
  each rank for the first time are a timed tree of one chunk out of that rank. So an allreduce
  contains a broadcast with the same chunks, steps, and rounds, from each rank. Its R/C is at least
  the limit of this broadcast, which timed trees give on small machines. By reversal the same holds
  for a reduce to each rank.

In process groups all three are about the chunks of each group. The broadcast is then one in every
group, from ranks at the same position in their group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from sccl.collectives import Spec, embedded_broadcast
from sccl.core.bound import AlgorithmBounds
from sccl.core.step_limit import LimitProof, StepLimit
from sccl.core.topology import Topology
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.common.candidates import check_min_steps
from sccl.synth.limits import MAX_SMALL_RANKS, STEP_EFFORT
from sccl.synth.packing.by_steps.limits_by_steps import step_limit
from sccl.topo.symmetry.automorphisms import automorphisms
from sccl.topo.symmetry.permutations import rank_orbits

_MAX_RANKS = 11
"""Ranks up to which broadcasts from several sets of roots are packed: more take minutes."""


def any_family_bound(
    topology: Topology, spec: Spec, bounds: AlgorithmBounds, steps: int
) -> StepLimit:
    """Return the lower bound for every allreduce of a number of steps, with its proof.

    Args:
        topology: The machine.
        spec: The allreduce.
        bounds: Lower bounds for every allreduce.
        steps: Number of steps.

    Raises:
        ParameterError: No allreduce has so few steps.
    """
    check_min_steps(steps, spec, bounds, "steps")
    proof = any_family_proof(topology, spec, bounds, steps)
    return StepLimit(steps, proof.bound, None, (proof,))


def any_family_bounds(
    topology: Topology, spec: Spec, bounds: AlgorithmBounds, points: Sequence[tuple[int, Fraction]]
) -> tuple[StepLimit, ...]:
    """Return lower bounds for every allreduce in the steps of each point, and in one step less.

    Args:
        topology: The machine.
        spec: The allreduce.
        bounds: Lower bounds for every allreduce.
        points: (S, R/C) of algorithms. A bound that is attained needs no improvement.

    Raises:
        SolverError: No solver finds the optimum of a linear program.
        KeyboardInterrupt: The user interrupted.
    """
    limits: list[StepLimit] = []
    steps = {s for last, _ in points for s in (last - 1, last) if s >= bounds.steps}
    for each in sorted(steps, reverse=True):  # a bound for more steps holds for fewer
        target = min((cost for s, cost in points if s <= each), default=None)
        proof = any_family_proof(topology, spec, bounds, each, target)
        before = limits[-1:]
        if before and before[0].lower > proof.bound:
            proof = before[0].proofs[0]
        limits.append(StepLimit(each, proof.bound, None, (proof,)))
    return tuple(reversed(limits))


@lru_cache(maxsize=16)  # sweeps and limits of a comparison need the same proofs
def any_family_proof(
    topology: Topology,
    spec: Spec,
    bounds: AlgorithmBounds,
    steps: int,
    target: Fraction | None = None,
) -> LimitProof:
    """Return the strongest proof for all allreduces of a number of steps, the simplest if equal.

    Args:
        topology: The machine.
        spec: The allreduce.
        bounds: Lower bounds for every allreduce.
        steps: Number of steps.
        target: R/C of a known algorithm. A proof that attains it ends the search.

    Raises:
        SolverError: No solver finds the optimum of a linear program.
    """
    from sccl.prove.bounds.timed_cuts import allreduce_bound  # noqa: PLC0415 - loads the LP solver

    best = LimitProof(spec.name, False, topology.name, steps, bounds.bandwidth, ())  # noqa: FBT003
    if best.bound == target:
        return best
    relaxation = allreduce_bound(topology, spec, steps)
    if relaxation is None or relaxation.bound.value <= best.bound:
        return best
    proof = relaxation.bound.proof
    best = replace(best, bound=relaxation.bound.value, prices=proof.prices, cuts=proof.cuts)
    if topology.ranks > MAX_SMALL_RANKS or best.bound == target:
        return best
    return max([best, *_broadcast_proofs(topology, spec, steps)], key=lambda proof: proof.bound)


def _broadcast_proofs(topology: Topology, spec: Spec, steps: int) -> Iterator[LimitProof]:
    """Yield proofs by trees for a broadcast from, and a reduce to, a rank of each orbit."""
    unit = spec.at(spec.unit)
    ranks = rank_orbits(topology, automorphisms(topology, unit))
    groups = [sorted(map(int, held)) for held, _ in unit.chunk_classes()]
    root_sets = {
        tuple(other_group[group.index(rank) % len(other_group)] for other_group in groups)
        for rank in ranks
        for group in groups
        if rank in group
    }
    if topology.ranks > _MAX_RANKS and len(root_sets) > 1:
        return
    machines = [(topology, False)]
    if not topology.reversed().same_capacities(topology):
        machines.append((topology.reversed(), True))
    for roots in sorted(root_sets):
        broadcast = embedded_broadcast(spec, roots)
        for machine, on_reversed in machines:
            of = lower_bounds(machine, broadcast)
            (proof,) = step_limit(machine, broadcast, steps, of, effort=STEP_EFFORT).limit.proofs
            if proof.prices and not proof.cuts:
                yield replace(proof, roots=roots, on_reversed=on_reversed)
