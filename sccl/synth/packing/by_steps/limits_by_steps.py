"""The limits of R/C by number of steps, the packings that prove them, and limits for sweeps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sccl.collectives import Dual, DualPhase, Spec, dual_of
from sccl.core.algorithm import Algorithm
from sccl.core.bound import AlgorithmBounds
from sccl.core.collective import Collective, single_flow_ends
from sccl.core.instance import Instance
from sccl.core.step_limit import LimitProof, StepLimit, StepPrices
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import ParameterError, SolverError, TooLargeError
from sccl.prove.bounds.lower_bounds import farthest_pair
from sccl.synth.common.candidates import check_min_steps, round_vectors
from sccl.synth.common.step_limits import MAX_STEPS
from sccl.synth.constructions import construct_algorithm
from sccl.synth.limits import (
    LIMIT_EFFORT,
    MAX_ITERATIONS,
    MAX_SEARCH_RANKS,
    MAX_TABLE_WORK,
    SWEEP_EFFORT,
)
from sccl.synth.packing.problem import (
    PackingProblem,
    build_packing_problem,
    is_priced_without_search,
)
from sccl.topo.symmetry.group_choice import orbit_symmetries
from sccl.topo.symmetry.permutations import rank_orbits
from sccl.transform import Question

if TYPE_CHECKING:
    from sccl.prove.bounds.timed_cuts import TimedRelaxation
    from sccl.synth.packing.by_steps.solve import Packing

_NEAR_RATIO = Fraction(9, 8)
"""Ratio to the lower bound up to which a broadcast by disjoint trees suffices. Others take
seconds."""

MAX_PAIRS_WORK = 5_000_000
"""Ranks times links times steps times orbits of ranks, or rounds times steps times pairs of sets of
ranks: ``mesh:8x8`` takes 15 s, and ``dgx1`` needs 3 million up to its last point."""


@dataclass(frozen=True, slots=True)
class LimitWithPacking:
    """The limit of a number of steps, and the packings that prove it.

    Attributes:
        packings: Packings of the dual, one for each machine it is solved on. Empty: the limit was
            found without packings.
        direct: Algorithm of the dual that was found without packings.
    """

    limit: StepLimit
    packings: tuple[Packing, ...]
    direct: AnyAlgorithm | None = None

    @property
    def is_timed_out(self) -> bool:
        """Return whether the time limit ended it, so that its packing is not reproducible."""
        return any(packing.is_timed_out for packing in self.packings)


def packing_proof(
    packing: Packing, *, on_reversed: bool = False, cuts: LimitProof | None = None
) -> LimitProof:
    """Return the proof of a packing's lower bound.

    Args:
        cuts: Proof of an earlier bound. It is returned if prices prove no more.
    """
    of = packing.problem
    if cuts is not None and not packing.prices:
        return cuts
    machine = of.topology.name
    return LimitProof(
        of.collective.name, on_reversed, machine, of.steps, packing.lower, packing.prices
    )


def step_bound(
    topology: Topology, spec: Spec, steps: int, bounds: AlgorithmBounds
) -> StepLimit | None:
    """Return a lower bound for algorithms of S = ``steps``, from cuts through time and bandwidth.

    None: cuts do not apply to such a collective.

    Args:
        bounds: Bounds of the same collective.

    Raises:
        ParameterError: Fewer steps than the latency bound, or (allreduce) an odd number.
    """
    dual = dual_of(spec)
    _check_steps(spec, steps, bounds, dual.phases)
    proofs = tuple(
        _cut_proof(phase, dual, bounds, steps // dual.phases) for phase in dual.phases_on(topology)
    )
    known_proofs = [proof for proof in proofs if proof is not None]
    if len(known_proofs) < len(proofs):
        return None
    return StepLimit(
        steps, max(dual.bandwidth(x.bound) for x in known_proofs), None, tuple(known_proofs)
    )


def _cut_proof(
    phase: DualPhase, dual: Dual, bounds: AlgorithmBounds, steps: int
) -> LimitProof | None:
    """Return the proof from cuts through time on a phase's machine, or else from bandwidth.

    None: cuts do not apply to such a collective.
    """
    from sccl.prove.bounds.timed_cuts import timed_bound  # noqa: PLC0415 - loads the LP solver

    unit, floor = dual.spec.at(dual.spec.unit), _dual_bandwidth_bound(dual, bounds, phase)
    of = (unit.name, phase.on_reversed, phase.topology.name, steps)
    if single_flow_ends(unit) is not None:
        from sccl.synth.constructions.scatter_flow import is_attained_by_layers  # noqa: PLC0415 - loads CP-SAT

        if is_attained_by_layers(phase.topology, unit, steps, floor):
            return LimitProof(*of, floor, ())
    relaxation = timed_bound(phase.topology, unit, steps)
    if relaxation is None:
        return None
    if relaxation.bound.value <= floor:
        return LimitProof(*of, floor, ())
    return LimitProof(
        *of, relaxation.bound.value, relaxation.bound.proof.prices, relaxation.bound.proof.cuts
    )


def _limit_without_packing(
    topology: Topology, phase: DualPhase, dual: Dual, proof: LimitProof | None, steps: int
) -> LimitWithPacking | None:
    """Return a limit without a packing, if chunks form a single flow, or there are many ranks.

    None: a packing gives more.

    Args:
        proof: Proof of a lower bound.
    """
    from sccl.prove.bounds.timed_cuts import timed_bound  # noqa: PLC0415 - loads the LP solver
    from sccl.synth.constructions import scatter_flow  # noqa: PLC0415 - loads CP-SAT

    if proof is None or dual.phases > 1:
        return None
    unit = dual.spec.at(dual.spec.unit)
    relaxation = timed_bound(phase.topology, unit, steps)
    assert relaxation is not None, "the proof has this bound, or a lower one"
    algorithm = None
    if relaxation.bound.value >= proof.bound:
        algorithm = scatter_flow.attain_bound(phase.topology, unit, relaxation)
    lower, cost = dual.bandwidth(proof.bound), algorithm.bandwidth_cost if algorithm else None
    if algorithm is None and not has_packing_limits(topology, dual.original):
        cost, algorithm = _construct_broadcast(phase.topology, unit, relaxation)
    if cost is None:
        return None
    return LimitWithPacking(StepLimit(steps, lower, dual.bandwidth(cost), (proof,)), (), algorithm)


def _limit_by_construction(
    phase: DualPhase,
    dual: Dual,
    bounds: AlgorithmBounds,
    steps: int,
    earlier: LimitWithPacking | None,
) -> LimitWithPacking | None:
    """Return bounds for an allgather or alltoall on many ranks. None: a packing gives more.

    The lower bound is the bandwidth bound, which holds for any number of steps. The result for
    fewer steps is an upper bound.

    Raises:
        TooLargeError: There is no construction, and a packing would be too large.
    """
    machine, unit = phase.topology, dual.spec.at(dual.spec.unit)
    if machine.ranks <= MAX_SEARCH_RANKS:
        return None
    made = construct_algorithm(machine, unit, steps)
    upper = dual.bandwidth(made.bandwidth_cost) if made else None
    if earlier is not None and earlier.limit.upper is not None:
        upper = min(upper or earlier.limit.upper, earlier.limit.upper)
    floor = _dual_bandwidth_bound(dual, bounds, phase)
    if upper != dual.bandwidth(floor) and is_packable(machine, unit, steps):
        return None
    if upper is None:
        raise TooLargeError(
            f"a limit over all k for {machine.ranks} ranks, {len(machine.links)} links and {steps} "
            "steps is too large to compute; the bounds and a sweep over k work"
        )
    proof = LimitProof(unit.name, phase.on_reversed, machine.name, steps, floor, ())
    return LimitWithPacking(StepLimit(steps, dual.bandwidth(floor), upper, (proof,)), (), made)


def is_packable(topology: Topology, unit: Collective, steps: int) -> bool:
    """Return whether a collective is small enough for its packing.

    Only allgather and alltoall can be too large: trees of an allgather are searched one by one, and
    routes of an alltoall for each pair of ranks.
    """
    if not (unit.is_allgather or unit.is_alltoall):
        return True
    work = topology.ranks * len(topology.links) * steps
    if unit.is_allgather:
        return work <= MAX_TABLE_WORK
    return work * len(rank_orbits(topology, orbit_symmetries(topology, unit))) <= MAX_PAIRS_WORK


def _construct_broadcast(
    machine: Topology, unit: Collective, relaxation: TimedRelaxation
) -> tuple[Fraction, Algorithm | None]:
    """Return the smallest R/C of broadcast constructions, and the algorithm if it is not too long.

    Trees with congestion prices take seconds: they are constructed only if no other construction is
    near the bound.
    """
    from sccl.synth.constructions import rip_up_trees  # noqa: PLC0415 - loads CP-SAT
    from sccl.synth.constructions.hypercube_tree import hypercube_broadcast  # noqa: PLC0415 - loads CP-SAT
    from sccl.synth.constructions.pipelined_trees import disjoint_trees, pipelined_broadcast  # noqa: PLC0415 - loads OR-Tools
    from sccl.synth.constructions.scatter_allgather import scatter_then_allgather  # noqa: PLC0415 - loads CP-SAT

    candidates: list[tuple[Fraction, Algorithm | None]] = []
    halves, disjoint = scatter_then_allgather(machine, unit), disjoint_trees(machine, unit)
    if halves is not None and halves.steps == relaxation.steps:
        candidates.append((halves.cost, halves.algorithm))
    turned = hypercube_broadcast(machine, unit)
    if turned is not None and turned.steps == relaxation.steps:
        candidates.append((turned.bandwidth_cost, turned))
    cost = disjoint.cost(relaxation.steps) if disjoint else None
    if cost is not None and all(cost < other_cost for other_cost, _ in candidates):
        candidates = [(cost, pipelined_broadcast(machine, unit, relaxation.steps))]
    if not candidates or (cost == candidates[0][0] and cost > relaxation.bound.value * _NEAR_RATIO):
        made = rip_up_trees.approach_bound(machine, unit, relaxation)
        candidates.append((made.bandwidth_cost, made))
    return min(candidates, key=lambda each: each[0])


def extra_broadcast_steps(topology: Topology, spec: Spec, fewest: int) -> int | None:
    """Return a larger number of steps for a broadcast that is worth computing. None: there is none.

    It is that of a scatter and an allgather. If these are not available, it is twice the smallest
    number of steps, with which trees that share no lane can pipeline chunks.
    """
    if has_packing_limits(topology, spec):
        return None
    from sccl.synth.constructions.pipelined_trees import disjoint_trees  # noqa: PLC0415 - loads OR-Tools
    from sccl.synth.constructions.scatter_allgather import scatter_then_allgather  # noqa: PLC0415 - loads CP-SAT

    dual = dual_of(spec)
    (phase,) = dual.phases_on(topology)
    unit = dual.spec.at(dual.spec.unit)
    halves = scatter_then_allgather(phase.topology, unit)
    if halves is not None:
        return halves.steps
    return 2 * fewest if disjoint_trees(phase.topology, unit) else None


def _dual_bandwidth_bound(dual: Dual, bounds: AlgorithmBounds, phase: DualPhase) -> Fraction:
    """Return the bandwidth bound of a phase, per C of the dual.

    On one-way links an allreduce has two machines, and the bound may be that of the other machine.
    It is then 0.
    """
    is_applicable = dual.phases == 1 or phase.topology.reversed().same_capacities(phase.topology)
    return bounds.bandwidth * dual.chunk_factor / dual.phases if is_applicable else Fraction(0)


def step_limit(  # noqa: PLR0913, PLR0917 - a question, its bounds, its time, and a start
    topology: Topology,
    spec: Spec,
    steps: int,
    bounds: AlgorithmBounds,
    seconds: float = math.inf,
    earlier: LimitWithPacking | None = None,
    effort: float = LIMIT_EFFORT,
) -> LimitWithPacking:
    """Return the limit of R/C for S = ``steps``, and the packings that prove it.

    Args:
        bounds: Bounds of the same collective.
        seconds: Time after which the bounds so far are returned. By default only effort ends it.
        effort: Limit on effort, the same on every machine.
        earlier: Limit of one step (of the dual) less, to start from.

    Raises:
        ParameterError: Fewer steps than the latency bound, or (allreduce) an odd number.
        TooLargeError: There are too many ranks, links and steps.
    """
    from sccl.synth.packing.by_steps.solve import solve_packing  # noqa: PLC0415

    dual = dual_of(spec)
    _check_steps(spec, steps, bounds, dual.phases)
    unit = dual.spec.at(dual.spec.unit)
    phases = dual.phases_on(topology)
    cuts = [_cut_proof(phase, dual, bounds, steps // dual.phases) for phase in phases]
    direct = _limit_without_packing(topology, phases[0], dual, cuts[0], steps)
    if dual.phases == 1 and (unit.is_allgather or unit.is_alltoall):
        direct = _limit_by_construction(phases[0], dual, bounds, steps, earlier)
    if direct is not None:
        return direct
    before = (earlier and earlier.packings) or (None,) * len(phases)
    packings = tuple(
        solve_packing(
            build_packing_problem(phase.topology, unit, steps // dual.phases),
            proved.bound if proved else _dual_bandwidth_bound(dual, bounds, phase),
            seconds / len(phases),
            earlier=start,
            effort=effort / len(phases),
        )
        for phase, start, proved in zip(phases, before, cuts, strict=True)
    )
    proofs = tuple(
        packing_proof(packing, on_reversed=phase.on_reversed, cuts=proved)
        for phase, packing, proved in zip(phases, packings, cuts, strict=True)
    )
    lower = max(dual.bandwidth(packing.lower) for packing in packings)
    upper = max(dual.bandwidth(packing.upper) for packing in packings)
    return LimitWithPacking(StepLimit(steps, lower, upper, proofs), packings)


def has_packing_limits(topology: Topology, spec: Spec) -> bool:
    """Return whether limits are those of packings.

    They are not if too many ranks want the same chunks. Trees are then constructed one after the
    other, and cuts through time bound them.
    """
    from sccl.synth.constructions.rip_up_trees import has_single_class  # noqa: PLC0415 - loads NumPy

    dual = dual_of(spec)
    many = topology.ranks > MAX_SEARCH_RANKS and dual.phases == 1
    return not (many and has_single_class(dual.spec.at(dual.spec.unit)))


def _check_steps(spec: Spec, steps: int, bounds: AlgorithmBounds, phases: int) -> None:
    """Check that limits are computed for a number of steps."""
    check_min_steps(steps, spec, bounds, "steps")
    if steps % phases:
        raise ParameterError(
            f"steps is {steps}, expected an even number: this limit of {spec.name} is that of "
            f"{bounds.scope}; 'sccl limits' has the limits of all classes, for every S"
        )
    _check_max_steps(steps)


def _check_max_steps(steps: int) -> None:
    if steps > MAX_STEPS:
        raise TooLargeError(f"steps is {steps}, expected at most {MAX_STEPS} for a limit")


def check_size(topology: Topology, spec: Spec, steps: int | None = None) -> None:
    """Check that a limit can be computed, before anything else: bounds alone may take a minute.

    Args:
        steps: S. None: the smallest S of an algorithm.

    Raises:
        UnreachableError: A chunk cannot reach a rank that wants it.
        TooLargeError: There are too many ranks, links and steps.
    """
    from sccl.synth.packing.by_steps.solve import make_pricer  # noqa: PLC0415 - loads NumPy

    dual = dual_of(spec)
    _check_max_steps(steps or 0)
    unit = dual.spec.at(dual.spec.unit)
    for phase in dual.phases_on(topology) if has_packing_limits(topology, spec) else ():
        of_phase = steps // dual.phases if steps else farthest_pair(phase.topology, unit).steps
        packable = dual.phases > 1 or is_packable(phase.topology, unit, of_phase)
        if packable and not is_priced_without_search(phase.topology, unit):
            problem = build_packing_problem(phase.topology, unit, of_phase)
            for commodity in problem.commodities:
                make_pricer(problem, commodity)


class PackingLimits:
    """The limits of a collective on a machine, each started from the result for one step less."""

    def __init__(
        self,
        topology: Topology,
        spec: Spec,
        bounds: AlgorithmBounds,
        units: float = SWEEP_EFFORT,
    ) -> None:
        self.topology, self.spec, self.bounds, self.units = topology, spec, bounds, units
        self.latest_limit: LimitWithPacking | None = None

    def are_quick(self) -> bool:
        """Return whether all trees are priced without a search."""
        dual = dual_of(self.spec)
        unit = dual.spec.at(dual.spec.unit)
        phases = dual.phases_on(self.topology)
        return all(is_priced_without_search(phase.topology, unit) for phase in phases)

    def quick_bound(self, steps: int) -> StepLimit | None:
        """Return a lower bound for algorithms of S = ``steps``, by cuts through time."""
        return step_bound(self.topology, self.spec, steps, self.bounds)

    def step_limit(self, steps: int) -> StepLimit:
        """Return the limit of R/C for S = ``steps``, or bounds around it."""
        if not has_packing_limits(self.topology, self.spec):
            bound = self.quick_bound(steps)  # constructed trees do not raise the lower bound
            if bound is not None:
                return bound
        self.latest_limit = step_limit(
            self.topology,
            self.spec,
            steps,
            self.bounds,
            earlier=self.latest_limit,
            effort=self.units,
        )
        return self.latest_limit.limit

    def count_refuted_vectors(self, question: Question) -> int:
        """Return the number of refuted round vectors if packing bounds refute all of an instance.

        With the rounds of each step given, the packing problem bounds C. If every distribution of R
        over the steps packs fewer chunks, there is no algorithm. 0: this was not shown.
        """
        return next(
            filter(None, (_count_refuted_vectors(question, i) for i in question.instances)), 0
        )

    def separating_prices(
        self, instance: Instance, rounds: tuple[int, ...], units: float
    ) -> tuple[StepPrices, float]:
        """Return prices at which the trees of all chunks cost more than these rounds can buy."""
        from sccl.synth.packing.by_steps.solve import solve_packing  # noqa: PLC0415

        goal = Fraction(1, instance.collective.chunks)
        problem = build_packing_problem(
            instance.topology, instance.collective, instance.steps, rounds=rounds
        )
        limit = solve_packing(problem, target=goal, effort=units)
        return (limit.prices if limit.lower > goal else ()), limit.effort


def _count_refuted_vectors(question: Question, instance: Instance) -> int:
    """Return the number of round vectors of an instance if bounds refute all of them, else 0."""
    if not is_priced_without_search(instance.topology, instance.collective):
        return 0
    unit = question.dual.spec.at(question.dual.spec.unit)
    goal = Fraction(1, instance.collective.chunks)
    refuted, left = 0, MAX_ITERATIONS
    for number, rounds in enumerate(round_vectors(instance), 1):
        packing = build_packing_problem(instance.topology, unit, instance.steps, rounds=rounds)
        left -= _rounds_to_exceed(packing, goal, left) or left
        if left <= 0:
            return 0
        refuted = number
    return refuted


def _rounds_to_exceed(packing: PackingProblem, goal: Fraction, most_rounds: int) -> int:
    """Return the rounds of pricing that prove the optimum larger than ``goal``. 0: none do."""
    from sccl.synth.packing.by_steps.solve import solve_packing  # noqa: PLC0415 - loads the LP solver

    try:
        result = solve_packing(packing, target=goal, most_rounds=most_rounds)
    except SolverError:
        return 0
    return result.rounds if result.lower > goal else 0
