"""Published algorithms on rings, tori and hypercubes: which are on the Pareto frontier?

A message may pass several links in one step and loads each of them (``routed:ring:8``). Swing,
Trivance, Bine trees, PAT and recursive doubling are thus counted on their original machines.

An algorithm is on the frontier under two conditions, over all k and C. No algorithm with as many
steps has a lower R/C, and none with fewer steps has an R/C as low. It is off the frontier if
another algorithm dominates it. Every verdict comes from a certificate, which is written and then
checked without a solver (:mod:`sccl.prove.check`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from benchmarks.routed_proofs import AllreduceProver, FrontierProver, Triple, dominates, triple_of
from sccl.collectives import named_spec
from sccl.core.files.claims import AlgorithmClaimWire, Claim, LimitPointWire
from sccl.prove.check.case import read_case
from sccl.prove.check.certificate import check_folder
from sccl.synth.common.claims import write_claims
from sccl.topo import resolve_topology
from sccl.topo.machine_model import machine_model


@dataclass(frozen=True, slots=True)
class RoutedCase:
    """Collective on a machine."""

    machine: str
    collective: str


@dataclass(frozen=True, slots=True)
class RoutedResult:
    """Verdict on an algorithm.

    Attributes:
        chunks, steps, rounds: C, S and R.
        verdict: ``"yes"``: on the frontier. ``"no"``: dominated. ``"unknown"``: no proof.
        by: Name of the dominating algorithm, or :data:`~benchmarks.routed_proofs.FOUND`. Empty: No
            dominating algorithm is known.
        rival: (C, S, R) of the dominating algorithm.
        lower, upper: Bounds on the limit of R/C for S steps. None: Not computed.
        before: Lower bound on the limit of R/C for S - 1 steps. None: Not computed, or S is the
            minimum.
        of_halves: Whether no composition of a reducescatter and an allgather dominates it. False
            for all other collectives.
        claims: Number of valid claims in the certificate.
        seconds: Processor time for this machine and collective.
    """

    case: RoutedCase
    algorithm: str
    chunks: int
    steps: int
    rounds: int
    verdict: str
    by: str
    rival: Triple | None
    lower: Fraction | None
    upper: Fraction | None
    before: Fraction | None
    of_halves: bool
    claims: int
    seconds: float

    @property
    def cost(self) -> Fraction:
        """Return R/C."""
        return Fraction(self.rounds, self.chunks)


def _cases(collective: str, *machines: str) -> tuple[RoutedCase, ...]:
    return tuple(RoutedCase(f"routed:{machine}", collective) for machine in machines)


RINGS = tuple(f"ring:{n}" for n in range(4, 17))
TORI = ("torus:3x3", "torus:4x2", "torus:4x3", "torus:5x3", "torus:6x2", "torus:8x2", "torus:4x4")
CUBES = ("hypercube:2", "hypercube:3", "hypercube:4")
MESHES = ("mesh:3x3", "mesh:4x2", "mesh:4x4")
SMALL = tuple(f"ring:{n}" for n in range(4, 10))
PARTS = {
    "rings": _cases("allgather", *RINGS),
    "tori": _cases("allgather", *TORI),
    "hypercubes": _cases("allgather", *CUBES),
    "meshes": _cases("allgather", *MESHES),
    "reducescatter": _cases("reducescatter", "ring:8", "torus:4x2", "torus:4x4", "hypercube:4"),
    "allreduce": _cases("allreduce", *RINGS, *TORI, *CUBES),
    "broadcast": _cases("broadcast", *SMALL, "torus:3x3", "torus:4x2", "hypercube:3"),
    "larger": _cases(
        "allgather",
        *("ring:27", "torus:3x3x3", "hypercube:5", "torus:4x4x2"),
    ),
}


def run(cases: Sequence[RoutedCase], folder: Path | None = None) -> Iterator[RoutedResult]:
    """Yield the verdict on every published algorithm of each machine.

    Args:
        folder: Folder for the certificates. None: They are deleted after the check.
    """
    for case in cases:
        if folder is not None:
            yield from _certify(case, folder / _slug(case))
            continue
        with tempfile.TemporaryDirectory() as place:
            yield from _certify(case, Path(place) / _slug(case))


def _slug(case: RoutedCase) -> str:
    return f"{case.machine}-{case.collective}".replace(":", "-")


def _certify(case: RoutedCase, folder: Path) -> Iterator[RoutedResult]:
    """Write and check a certificate, and yield its verdict on each algorithm."""
    machine = machine_model(resolve_topology(case.machine)).topology
    began = time.process_time()
    prover_type = AllreduceProver if case.collective == "allreduce" else FrontierProver
    prover = prover_type(machine, named_spec(case.collective, machine.ranks))
    prover.decide()
    if not prover.published:
        return
    write_claims(folder, machine, prover.spec, prover.write)
    states = [verdict.state for verdict in check_folder(folder)]
    claims = read_case(folder).claims
    held = [claim for claim, state in zip(claims, states, strict=True) if state == "ok"]
    seconds = round(time.process_time() - began, 2)
    for name, algorithm in prover.published.items():
        triple = triple_of(algorithm)
        rival = next((r for r in map(_claimed_triple, held) if r and dominates(r, triple)), None)
        points = [c for c in held if isinstance(c, LimitPointWire) and _triple(c) == triple]
        best = any(c.halves == "equal" for c in points)
        verdict = "no" if rival else "yes" if best else "unknown"
        limit, fewer = (
            prover.limits.get(steps) for steps in (algorithm.steps, algorithm.steps - 1)
        )
        by = prover.name_of(rival) if rival else ""
        yield RoutedResult(
            case,
            name,
            *triple,
            verdict,
            by,
            rival,
            lower=limit.lower if limit else None,
            upper=limit.upper if limit else None,
            before=fewer.lower if fewer else None,
            of_halves=any(c.halves == "any" for c in points),
            claims=len(held),
            seconds=seconds,
        )


def _triple(claim: LimitPointWire | AlgorithmClaimWire) -> Triple:
    return claim.chunks, claim.steps, claim.rounds


def _claimed_triple(claim: Claim) -> Triple | None:
    return _triple(claim) if isinstance(claim, AlgorithmClaimWire) else None
