"""Writing down why a frontier is what it is: one claim after the other, with proofs in files.

What the sweep did is not repeated here as it was: a candidate is refuted anew by the strongest
argument that can be checked without a solver. These are, in this order: the bandwidth bound, the
limit for its steps, a packing bound for each way to spread its rounds, and a formula with a DRAT
proof for each of those. Only if all of them fail, two different solvers are asked, and the claim
says no more than that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import msgspec

from sccl.backends import Limits
from sccl.backends import solve as solve_instance
from sccl.backends.prover import refutation
from sccl.bounds import bandwidth_bound, farthest_pair
from sccl.certify.cover import Covered, needed, vectors
from sccl.certify.wire import (
    CLAIMS,
    AlgorithmClaimWire,
    BandwidthWire,
    CertificateWire,
    Claim,
    LimitWire,
    ParetoWire,
    StepsWire,
    UnsatWire,
    VectorWire,
)
from sccl.collectives import dual
from sccl.core.answer import Unsat
from sccl.core.codec import (
    any_algorithm_to_wire,
    collective_to_wire,
    text_of,
    topology_to_wire,
)
from sccl.core.files import make_directory, slug, write_atomically
from sccl.core.instance import Instance
from sccl.limit import certificate, pose, solve
from sccl.pareto import Frontier, step_limit
from sccl.transform import pose as pose_question
from sccl.verify.cnf import dimacs

_FORMULA = 3_000_000  # variables of an instance times ranks: beyond, proofs take hours to check
_VECTORS = 500


@dataclass(slots=True)
class _Writer:
    frontier: Frontier
    folder: Path
    seconds: float
    notify: Callable[[str], None]
    claims: list[Claim] = field(default_factory=list)

    def run(self) -> Path:
        """Write all claims and return the file that lists them."""
        self.bounds()
        for point in self.frontier.points:
            file = f"{self.name()}-c{point.candidate.chunks}-s{point.candidate.steps}.json"
            write_atomically(self.folder / file, text_of(any_algorithm_to_wire(point.algorithm)))
            c = point.candidate
            self.claims.append(
                AlgorithmClaimWire(chunks=c.chunks, steps=c.steps, rounds=c.rounds, file=file)
            )
        self.limits()
        self.refutations()
        k = self.frontier.covered.k
        assert k is not None
        for point in self.frontier.points:
            if point.proved:
                c = point.candidate
                self.claims.append(
                    ParetoWire(
                        chunks=c.chunks,
                        steps=c.steps,
                        rounds=c.rounds,
                        k=k,
                        max_chunks=self.frontier.covered.max_chunks,
                    )
                )
        spec = self.frontier.spec
        wire = CertificateWire(
            topology=topology_to_wire(self.frontier.topology),
            collective=collective_to_wire(spec.at(spec.unit)),
            claims=tuple(self.claims),
        )
        path = self.folder / CLAIMS
        text = msgspec.json.format(msgspec.json.encode(wire), indent=1).decode() + "\n"
        write_atomically(path, text)
        return path

    def name(self) -> str:
        return slug(f"{self.frontier.spec.name}-{self.frontier.topology.name}").lower()

    def bounds(self) -> None:
        other = dual(self.frontier.spec)
        unit = other.spec.at(other.spec.unit)
        machines = other.machines(self.frontier.topology)
        steps = max(farthest_pair(machine, unit).steps for machine in machines)
        self.claims.append(StepsWire(at_least=steps * other.phases))
        for number, machine in enumerate(machines):
            found = bandwidth_bound(machine, unit)
            self.claims.append(
                BandwidthWire(
                    at_least=str(other.bandwidth(found.value / unit.chunks)),
                    machine=number,
                    prices=tuple((name, str(price)) for name, price in found.prices),
                    cuts=tuple((cut.ranks, str(cut.weight)) for cut in found.cuts),
                )
            )

    def limits(self) -> None:
        """Claim the limits of all numbers of steps up to the last point's."""
        if not self.frontier.points:
            return
        bounds, other = self.frontier.bounds, dual(self.frontier.spec)
        last = self.frontier.points[-1].candidate.steps
        known = {limit.steps: limit for limit in self.frontier.limits}
        for steps in range(bounds.steps, last + 1, other.phases):
            self.notify(f"limit of R/C for S={steps}")
            found = known.get(steps) or step_limit(
                self.frontier.topology, self.frontier.spec, steps, bounds, self.seconds
            )
            for number, limit in enumerate(found.limits):
                proof = certificate(limit)
                if proof is not None:
                    self.claims.append(
                        LimitWire(
                            steps=steps,
                            at_least=str(other.bandwidth(proof.value)),
                            machine=number,
                            prices=tuple((n, s, str(p)) for n, s, p in proof.prices),
                        )
                    )

    def refutations(self) -> None:
        """Refute every candidate that the claims so far leave open, the hardest first."""
        covered = Covered.of(self.claims, self.frontier.spec)
        k = self.frontier.covered.k
        assert k is not None
        most = self.frontier.covered.max_chunks
        for point in self.frontier.points:
            c = point.candidate
            if not point.proved:
                continue
            while left := needed(covered, (c.chunks, c.steps, c.rounds), k, most):
                hardest = max(left, key=lambda q: (q[2], -q[0]))  # most rounds, fewest chunks
                self.notify("refuting C={} S={} R={}".format(*hardest))
                claim = self.refute(*hardest)
                if claim is None:
                    break
                self.claims.append(claim)
                covered = Covered.of(self.claims, self.frontier.spec)

    def refute(self, chunks: int, steps: int, rounds: int) -> UnsatWire | None:
        question = pose_question(self.frontier.topology, self.frontier.spec, chunks, steps, rounds)
        for number, instance in enumerate(question.instances):
            found = tuple(self.vectors(instance))
            if found:
                return UnsatWire(
                    chunks=chunks, steps=steps, rounds=rounds, machine=number, vectors=found
                )
        for number, instance in enumerate(question.instances):
            solvers = self.search(instance)
            if solvers:
                return UnsatWire(
                    chunks=chunks, steps=steps, rounds=rounds, machine=number, searched=solvers
                )
        return None

    def vectors(self, instance: Instance) -> list[VectorWire]:
        """Return a reason for every round vector; nothing if one of them has none."""
        every = list(vectors(instance.rounds, instance.steps, _VECTORS))
        if len(every) > _VECTORS:
            return []
        found = []
        end = time.perf_counter() + self.seconds
        for rounds in every:
            reason = self.priced(instance, rounds, end) or self.refuted(instance, rounds, end)
            if reason is None:
                return []
            found.append(reason)
        return found

    def priced(self, instance: Instance, rounds: tuple[int, ...], end: float) -> VectorWire | None:
        goal = Fraction(1, instance.collective.chunks)
        problem = pose(instance.topology, instance.collective, instance.steps, rounds=rounds)
        limit = solve(problem, seconds=max(end - time.perf_counter(), 0.1), enough=goal)
        proof = certificate(limit)
        if proof is None or proof.value <= goal:
            return None
        return VectorWire(
            rounds=rounds, prices=tuple((name, s, str(p)) for name, s, p in proof.prices)
        )

    def refuted(self, instance: Instance, rounds: tuple[int, ...], end: float) -> VectorWire | None:
        c = instance.collective
        if c.num_chunks * len(instance.topology.links) * instance.steps > _FORMULA:
            return None
        formula = dimacs(instance, rounds)
        try:
            proof = refutation(formula, max(end - time.perf_counter(), 0.1))
        except TimeoutError:
            return None
        if proof is None:
            return None
        vector = ".".join(map(str, rounds))
        turned = "-reversed" if instance.topology != self.frontier.topology else ""
        name = f"{self.name()}{turned}-c{c.chunks}-r{vector}"
        write_atomically(self.folder / f"{name}.cnf", formula)
        write_atomically(self.folder / f"{name}.drat", proof)
        return VectorWire(rounds=rounds, cnf=f"{name}.cnf", drat=f"{name}.drat")

    def search(self, instance: Instance) -> tuple[str, ...]:
        """Return two different solvers that find nothing; nothing if they do not both say so."""
        agree = []
        for solver in ("cadical", "cpsat", "z3"):
            if isinstance(solve_instance(instance, solver, Limits(self.seconds)), Unsat):
                agree.append(solver)
            if len(agree) == 2:
                return tuple(agree)
        return ()


def write_certificate(
    frontier: Frontier,
    folder: Path,
    seconds: float = 60.0,
    notify: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write the claims of a frontier and their proofs into a folder; return the list of claims.

    Args:
        seconds: for each proof.
        notify: called with what is being proved, for progress.

    Raises:
        InputError: the folder cannot be written.
    """
    make_directory(folder)
    return _Writer(frontier, folder, seconds, notify).run()
