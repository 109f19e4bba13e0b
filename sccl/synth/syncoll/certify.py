"""Write the certificate of a frontier: claims one after the other, with proofs in files.

The proofs do not repeat the sweep. Each candidate is refuted again by the strongest argument that
can be checked without a solver. These arguments are tried in this order: the bandwidth bound, the
limit for its number of steps, a packing bound for each round vector, and a formula with a DRAT
proof for each round vector. Only if all of them fail, two different solvers run, and the claim
states only that. Arguments end by effort and not by the clock, because a claim must not depend on
the load of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sccl.collectives import Spec, dual_of
from sccl.core.answer import Unsat
from sccl.core.bound import AlgorithmBounds
from sccl.core.files.claims import (
    UNSAT_SOLVERS,
    Claim,
    LimitPointWire,
    ParetoWire,
    UnsatWire,
    VectorWire,
)
from sccl.core.files.disk import write_atomically
from sccl.core.frontier import Frontier, SweepFrontier
from sccl.core.instance import Instance
from sccl.core.step_limit import StepLimit
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology, constraint_name
from sccl.prove.check.coverage import Coverage, enumerate_round_vectors, undecided_candidates
from sccl.synth.common.claims import (
    algorithm_claim,
    any_family_bound_claims,
    any_family_optimum_claims,
    bound_claims,
    composition_claims,
    file_prefix,
    limit_claims,
    write_claims,
)
from sccl.synth.common.step_limits import StepLimits, StepLimitsFactory
from sccl.synth.limits import MAX_VARIABLES
from sccl.synth.syncoll.solve import UNIT_S, Effort
from sccl.synth.syncoll.solve import solve as solve_instance
from sccl.transform import build_question as pose_question

_MAX_VECTORS = 500
"""Round vectors of a certificate, each of which has a proof of its own."""


@dataclass(slots=True)
class _CertificateWriter:
    topology: Topology
    spec: Spec
    frontier: SweepFrontier
    folder: Path
    limits: StepLimitsFactory
    effort_units: float
    notify: Callable[[str], None]
    compositions: Sequence[AnyAlgorithm]
    all_families: Frontier | None
    claims: list[Claim] = field(default_factory=list)

    def collect_claims(self) -> Sequence[Claim]:
        """Return all claims, and write their files."""
        topology, spec = self.topology, self.spec
        self.claims += bound_claims(topology, spec)
        algorithms = (point.algorithm for point in self.frontier.points)
        self.claims += [algorithm_claim(self.folder, topology, spec, a) for a in algorithms if a]
        self.add_limit_claims()
        self.add_refutations()
        for optimal in self.pareto_claims():
            if next(undecided_candidates(self.coverage(), optimal, lambda _: None), None) is None:
                self.claims.append(optimal)
        self.claims += list(self.any_k_claims())
        self.claims += list(
            composition_claims(self.folder, topology, spec, self.claims, self.compositions)
        )
        if self.all_families is not None:
            self.claims += list(any_family_bound_claims(topology, self.all_families))
            self.claims += list(
                any_family_optimum_claims(
                    self.folder, topology, spec, self.claims, self.all_families
                )
            )
        return self.claims

    def pareto_claims(self) -> list[ParetoWire]:
        """Return the claims that points are optimal, each in its searched range."""
        covered, unit = self.frontier.covered, self.spec.unit
        assert covered.k is not None
        k, max_chunks = covered.k, covered.max_chunks
        max_chunks = None if max_chunks is None else max_chunks // unit * unit
        points = self.frontier.points
        # Refutations of other origins are proved anew, so such points may be claimed.
        proved = (point.candidate for point in points if point.is_proved or point.proof_origins)
        return [
            ParetoWire(chunks=c.chunks, steps=c.steps, rounds=c.rounds, k=k, max_chunks=max_chunks)
            for c in proved
        ]

    def any_k_claims(self) -> Iterator[LimitPointWire]:
        """Yield the claims that points are optimal for every k and C, if limits prove it."""
        covered, phases = self.coverage(), dual_of(self.spec).phases
        for point in self.frontier.points:
            c = point.candidate
            lower_bound, fewer = (
                covered.lower_bound(s, equal=True) for s in (c.steps, c.steps - phases)
            )
            if (lower_bound is None or lower_bound >= c.cost) and (fewer is None or fewer > c.cost):
                yield LimitPointWire(chunks=c.chunks, steps=c.steps, rounds=c.rounds)

    def coverage(self) -> Coverage:
        """Return the candidates that the claims so far exclude."""
        return Coverage.from_claims(
            self.claims, self.spec, dual_of(self.spec).phases_on(self.topology)
        )

    def add_limit_claims(self) -> None:
        """Claim the limits of all numbers of steps up to the last point's."""
        if not self.frontier.points:
            return
        last = self.frontier.points[-1].steps
        if self.frontier.points[-1].cost == self.bounds.bandwidth:  # the bound suffices for these
            last -= dual_of(self.spec).phases
        known_limits = {limit.steps: limit for limit in self.frontier.classes[0].limits}
        for steps in range(self.bounds.steps, last + 1, dual_of(self.spec).phases):
            self.notify(f"limit of R/C for S={steps}")
            step_limit = known_limits.get(steps) or self.compute_limit(steps)
            self.claims += limit_claims(step_limit, self.spec)

    @property
    def bounds(self) -> AlgorithmBounds:
        """Return the bounds of the frontier."""
        assert self.frontier.bounds is not None
        return self.frontier.bounds

    def compute_limit(self, steps: int) -> StepLimit:
        """Return the limit of a number of steps that the sweep has not computed."""
        return self.step_limits().step_limit(steps)

    def step_limits(self) -> StepLimits:
        """Return a new source of limits. Each has its own initial prices."""
        return self.limits(self.topology, self.spec, self.bounds, self.effort_units)

    def add_refutations(self) -> None:
        """Refute every candidate that the claims so far leave open, the hardest first."""
        for optimal in self.pareto_claims():
            while left := list(undecided_candidates(self.coverage(), optimal, lambda _: None)):
                hardest = max(left, key=lambda q: (q[2], -q[0]))  # most rounds, fewest chunks
                self.notify("refuting C={} S={} R={}".format(*hardest))
                claim = self.refute(*hardest)
                if claim is None:
                    break
                self.claims.append(claim)

    def refute(self, chunks: int, steps: int, rounds: int) -> UnsatWire | None:
        """Return the claim that a candidate is impossible. None: no proof within the effort."""
        question = pose_question(self.topology, self.spec, chunks, steps, rounds)
        phases = question.dual.phases_on(self.topology)
        solved = list(zip(phases, question.instances, strict=True))
        for phase, instance in solved:
            reasons = tuple(self.refute_vectors(instance))
            if reasons:
                return UnsatWire(
                    chunks=chunks, steps=steps, rounds=rounds, machine=phase.number, vectors=reasons
                )
        for phase, instance in solved:
            solvers = self.agreeing_solvers(instance)
            if solvers:
                return UnsatWire(
                    chunks=chunks,
                    steps=steps,
                    rounds=rounds,
                    machine=phase.number,
                    searched=solvers,
                )
        return None

    def refute_vectors(self, instance: Instance) -> list[VectorWire]:
        """Return a reason for every round vector. Empty if one of them has none."""
        round_vectors = list(enumerate_round_vectors(instance.rounds, instance.steps, _MAX_VECTORS))
        if len(round_vectors) > _MAX_VECTORS:
            return []
        reasons: list[VectorWire] = []
        left = self.effort_units
        for rounds in round_vectors:
            reason, spent = self.price_vector(instance, rounds, left)
            left -= spent
            if reason is None:
                reason, spent = self.prove_vector(instance, rounds, left)
                left -= spent
            if reason is None:
                self.discard_files(reasons)
                return []
            reasons.append(reason)
        return reasons

    def discard_files(self, vectors: Sequence[VectorWire]) -> None:
        """Remove the files of vectors that are not claimed in the end: they can be large."""
        for vector in vectors:
            for name in (vector.cnf, vector.drat):
                if name is not None:
                    (self.folder / name).unlink()

    def price_vector(
        self, instance: Instance, rounds: tuple[int, ...], effort: float
    ) -> tuple[VectorWire | None, float]:
        """Return prices at which the trees of all chunks cost more than these rounds buy.

        Returns:
            The prices (None: not found) and the effort spent.
        """
        proof, spent = self.step_limits().separating_prices(instance, rounds, effort)
        if not proof:
            return None, spent
        prices = tuple((constraint_name(key), s, str(p)) for key, s, p in proof)
        return VectorWire(rounds=rounds, prices=prices), spent

    def prove_vector(
        self, instance: Instance, rounds: tuple[int, ...], effort: float
    ) -> tuple[VectorWire | None, float]:
        """Write the formula of these rounds and its refutation.

        Returns:
            The files (None: no refutation) and the effort spent.
        """
        c = instance.collective
        if (
            c.num_chunks * len(instance.topology.links) * instance.steps > MAX_VARIABLES
            or effort <= 0
        ):
            return None, 0.0
        from sccl.prove.check.cnf import dimacs  # noqa: PLC0415 - few vectors need a formula
        from sccl.solvers.sat import CONFLICTS_PER_UNIT, find_refutation  # noqa: PLC0415

        formula = dimacs(instance, rounds)
        result = find_refutation(formula, int(effort * CONFLICTS_PER_UNIT) + 1)
        spent = result.conflicts / CONFLICTS_PER_UNIT
        if result.proof is None:
            return None, spent
        vector = ".".join(map(str, rounds))
        turned = "-reversed" if instance.topology != self.topology else ""
        base = file_prefix(self.topology, self.spec)
        name = f"{base}{turned}-c{c.chunks}-r{vector}"
        write_atomically(self.folder / f"{name}.cnf", formula)
        write_atomically(self.folder / f"{name}.drat", result.proof)
        return VectorWire(rounds=rounds, cnf=f"{name}.cnf", drat=f"{name}.drat"), spent

    def agreeing_solvers(self, instance: Instance) -> tuple[str, ...]:
        """Return two different solvers that both refute an instance, or an empty tuple."""
        agree = []
        for solver in UNSAT_SOLVERS:
            if isinstance(solve_instance(instance, solver, Effort(units=self.effort_units)), Unsat):
                agree.append(solver)
            if len(agree) == 2:
                return tuple(agree)
        return ()


def write_certificate(  # noqa: PLR0913, PLR0917 - a frontier, and what is spent on its proofs
    topology: Topology,
    spec: Spec,
    frontier: SweepFrontier,
    folder: Path,
    seconds: float = 60.0,
    notify: Callable[[str], None] = lambda _: None,
    composed: Sequence[AnyAlgorithm] = (),
    over: Frontier | None = None,
    *,
    limits: StepLimitsFactory,
) -> Path:
    """Write the claims of a frontier and their proofs into a folder. Return the list of claims.

    Args:
        topology: The machine.
        spec: Collective of the frontier.
        frontier: The frontier.
        folder: Folder of the certificate.
        seconds: Approximate limit for each proof, converted to effort.
        notify: Called with the candidate being proved, for progress.
        composed: For allreduce, compositions of any two halves that may be the best compositions.
        over: For allreduce, the frontier over all families.
        limits: Source of limits of R/C, and of prices that prove them.

    Raises:
        InputError: The folder cannot be written, or contains another certificate.
    """

    def make(unfinished: Path) -> Sequence[Claim]:
        """Write the files of all proofs, and return the claims."""
        effort = seconds / UNIT_S
        of = (topology, spec, frontier, unfinished)
        return _CertificateWriter(*of, limits, effort, notify, composed, over).collect_claims()

    return write_claims(folder, topology, spec, make)
