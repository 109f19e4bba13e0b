"""Published algorithms on rings, tori and hypercubes: which are on the Pareto frontier?

A message may pass several links in one step, and loads each (``routed:ring:8``): so Swing,
Trivance, Bine trees, PAT and recursive doubling are counted where they were published. One is on
the frontier if no algorithm of as many steps has less R/C, over all k and C, and none of fewer
steps has as little; it is not, if an algorithm dominates it. Whatever is said is said by a
certificate, which is written and then checked anew, without a solver (:mod:`sccl.prove.check`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from benchmarks.routed_proofs import Known, KnownAllreduce, Triple, dominates, triple_of
from sccl.collectives import named_spec
from sccl.core.files.claims import AlgorithmClaimWire, Claim, LimitPointWire
from sccl.prove.check.case import read_case
from sccl.prove.check.certificate import check_folder
from sccl.synth.common.claims import write_claims
from sccl.topo import resolve_topology
from sccl.topo.machine_model import machine_model


@dataclass(frozen=True, slots=True)
class RoutedCase:
    """A collective on a machine."""

    machine: str
    collective: str


@dataclass(frozen=True, slots=True)
class RoutedResult:
    """An algorithm there.

    Attributes:
        chunks, steps, rounds: C, S and R.
        verdict: ``"yes"``: on the frontier; ``"no"``: dominated; ``"unknown"``: nothing is proved.
        by: what dominates it: an algorithm's name, or :data:`RESULT_FILE`; empty: nothing that is
            known.
        rival: (C, S, R) of that.
        lower, upper: what the limit of R/C for S lies between; None: that was not asked for.
        before: what that for S - 1 is at least; None: likewise, or there are no so few steps.
        of_halves: whether no reducescatter and then allgather dominates it: of allreduce alone.
        claims: of the certificate that says so; all of them hold.
        seconds: of the processor, for this machine and collective.
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
    """Yield every algorithm that a machine has, and whether it is on the frontier.

    Args:
        folder: where to keep the certificates; None: nowhere.
    """
    for case in cases:
        if folder is not None:
            yield from _certified(case, folder / _slug(case))
            continue
        with tempfile.TemporaryDirectory() as place:
            yield from _certified(case, Path(place) / _slug(case))


def _slug(case: RoutedCase) -> str:
    return f"{case.machine}-{case.collective}".replace(":", "-")


def _certified(case: RoutedCase, folder: Path) -> Iterator[RoutedResult]:
    """Yield what a certificate says of each algorithm, once it is written and checked."""
    machine = machine_model(resolve_topology(case.machine)).topology
    began = time.process_time()
    of = KnownAllreduce if case.collective == "allreduce" else Known
    known = of(machine, named_spec(case.collective, machine.ranks))
    known.decide()
    if not known.published:
        return
    write_claims(folder, machine, known.spec, known.write)
    states = [verdict.state for verdict in check_folder(folder)]
    claims = read_case(folder).claims
    held = [claim for claim, state in zip(claims, states, strict=True) if state == "ok"]
    seconds = round(time.process_time() - began, 2)
    for name, made in known.published.items():
        triple = triple_of(made)
        rival = next((r for r in map(_claimed, held) if r and dominates(r, triple)), None)
        points = [c for c in held if isinstance(c, LimitPointWire) and _of(c) == triple]
        best = any(c.halves == "equal" for c in points)
        verdict = "no" if rival else "yes" if best else "unknown"
        limit, fewer = (known.limits.get(steps) for steps in (made.steps, made.steps - 1))
        by = known.name_of(rival) if rival else ""
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


def _of(claim: LimitPointWire | AlgorithmClaimWire) -> Triple:
    return claim.chunks, claim.steps, claim.rounds


def _claimed(claim: Claim) -> Triple | None:
    return _of(claim) if isinstance(claim, AlgorithmClaimWire) else None
