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
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from sccl.collectives import Spec, dual_of, named
from sccl.core.algorithm import Algorithm
from sccl.core.bounds import Bounds
from sccl.core.files.claims import AlgorithmClaimWire, Claim, LimitPointWire
from sccl.core.limit import StepLimit
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.prove.bounds import lower_bounds
from sccl.prove.check.folder import check_folder
from sccl.prove.check.question import read_case
from sccl.synth.baselines import make, on_machine
from sccl.synth.claims import algorithm_claim, bound_claims, limit_claims, write_claims
from sccl.synth.contract import Request
from sccl.synth.limit.attain import attain
from sccl.synth.limit.steps import step_bound, step_limit
from sccl.topo import machine_model, resolve

ALGORITHMS = (
    "swing",
    "trivance",
    "bine",
    "pat",
    "recursive-doubling",
    "bruck",
    "binomial-tree",
    "double-binary-tree",
)
FOUND = "sccl"
"""Who dominates, where it is no published algorithm."""

MOST_STEPS = 6
"""Limits of more steps are not asked for: they take minutes."""

Triple = tuple[int, int, int]
"""(C, S, R)."""


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
        by: what dominates it: an algorithm's name, or :data:`FOUND`; empty: nothing that is known.
        rival: (C, S, R) of that.
        lower, upper: what the limit of R/C for S lies between; None: that was not asked for.
        before: what that for S - 1 is at least; None: likewise, or there are no so few steps.
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
    claims: int
    seconds: float

    @property
    def cost(self) -> Fraction:
        """Return R/C."""
        return Fraction(self.rounds, self.chunks)


def _cases(collective: str, *machines: str) -> tuple[RoutedCase, ...]:
    return tuple(RoutedCase(f"routed:{machine}", collective) for machine in machines)


TORI = ("torus:3x3", "torus:4x2", "torus:4x3", "torus:5x3", "torus:4x4")
CUBES = ("hypercube:2", "hypercube:3", "hypercube:4")
PARTS = {
    "rings": _cases("allgather", *(f"ring:{n}" for n in range(4, 17))),
    "tori": _cases("allgather", *TORI),
    "hypercubes": _cases("allgather", *CUBES),
    "broadcast": _cases("broadcast", *(f"ring:{n}" for n in range(4, 9)), "hypercube:3"),
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
    machine = machine_model(resolve(case.machine)).topology
    began = time.process_time()
    known = _Known(machine, named(case.collective, machine.ranks))
    known.decide()
    if not known.published:
        return
    write_claims(folder, machine, known.spec, known.write)
    states = [verdict.state for verdict in check_folder(folder)]
    claims = read_case(folder).claims
    held = [claim for claim, state in zip(claims, states, strict=True) if state == "ok"]
    seconds = round(time.process_time() - began, 2)
    for name, made in known.published.items():
        triple = _triple(made)
        rival = next((r for r in map(_claimed, held) if r and _dominates(r, triple)), None)
        best = any(isinstance(c, LimitPointWire) and _of(c) == triple for c in held)
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
            claims=len(held),
            seconds=seconds,
        )


@dataclass(slots=True)
class _Known:
    """What is known of a collective on a machine.

    Attributes:
        published: algorithms, by their names.
        found: what dominates some of these.
        limits: that were asked for, by S; without an upper end, cuts alone say them.
    """

    topology: Topology
    spec: Spec
    published: dict[str, Algorithm] = field(default_factory=dict)
    found: list[AnyAlgorithm] = field(default_factory=list)
    limits: dict[int, StepLimit] = field(default_factory=dict)

    def __post_init__(self) -> None:
        request = Request(self.topology, self.spec, 2**20)
        for name in ALGORITHMS:
            try:
                self.published[name] = on_machine(make(name, request), self.topology)
            except InputError:
                continue  # it does not serve so many ranks, or the collective

    def decide(self) -> None:
        """Look for what dominates algorithms, or proves that nothing does."""
        bounds = lower_bounds(self.topology, self.spec)
        for made in sorted(self.published.values(), key=lambda a: (a.steps, a.bandwidth_cost)):
            cost = made.bandwidth_cost
            for steps in (made.steps, made.steps - 1):
                asked = bounds.steps <= steps <= MOST_STEPS
                if not asked or self._dominated(_triple(made)):
                    break
                self._ask(steps, cost, bounds, above=steps < made.steps)

    def _ask(self, steps: int, cost: Fraction, bounds: Bounds, *, above: bool) -> None:
        """Find what R/C is at least in so many steps; by cuts, if these say enough, else by trees.

        Args:
            above: whether more than ``cost`` is to be proved, or as much.
        """
        known = self.limits.get(steps)
        if known is None and not above and bounds.bandwidth == cost:
            known = StepLimit(steps, cost, None)
        known = known or step_bound(self.topology, self.spec, steps, bounds)
        if known is not None:
            self.limits[steps] = known
            if known.upper is not None or known.lower > cost or (known.lower == cost and not above):
                return
        packed = step_limit(self.topology, self.spec, steps, bounds)
        self.limits[steps] = packed.limit
        if packed.limit.best <= cost:
            made = attain(packed, dual_of(self.spec), None)
            self.found += [made] if made is not None else []

    def _dominated(self, triple: Triple) -> bool:
        every = (*self.published.values(), *self.found)
        return any(_dominates(_triple(other), triple) for other in every)

    def write(self, folder: Path) -> Sequence[Claim]:
        """Return all claims, and write the algorithms that they name."""
        claims: list[Claim] = list(bound_claims(self.topology, self.spec))
        for steps in sorted(self.limits):
            claims += limit_claims(self.limits[steps], self.spec)
        every = [*self.published.items(), *((FOUND, made) for made in self.found)]
        points = {}
        for name, made in every:
            triple = _triple(made)
            if triple not in points:  # of several one is enough, the first
                claims.append(algorithm_claim(folder, self.topology, self.spec, made, f"-{name}"))
            points[triple] = not self._dominated(triple) and self._proved(triple)
        claims += [
            LimitPointWire(chunks=c, steps=s, rounds=r)
            for (c, s, r), best in points.items()
            if best
        ]
        return list(dict.fromkeys(claims))

    def _proved(self, triple: Triple) -> bool:
        """Return whether limits say that nothing dominates an algorithm."""
        chunks, steps, rounds = triple
        here, before = self.limits.get(steps), self.limits.get(steps - 1)
        cost, fewest = Fraction(rounds, chunks), lower_bounds(self.topology, self.spec).steps
        met = here is not None and here.lower == cost
        return met and (steps == fewest or (before is not None and before.lower > cost))

    def name_of(self, rival: Triple) -> str:
        """Return the name of a published algorithm, or that it was found here."""
        names = (name for name, made in self.published.items() if _triple(made) == rival)
        return next(names, FOUND)


def _triple(made: AnyAlgorithm) -> Triple:
    return made.collective.chunks, made.steps, made.rounds


def _of(claim: LimitPointWire | AlgorithmClaimWire) -> Triple:
    return claim.chunks, claim.steps, claim.rounds


def _claimed(claim: Claim) -> Triple | None:
    return _of(claim) if isinstance(claim, AlgorithmClaimWire) else None


def _dominates(one: Triple, other: Triple) -> bool:
    """Return whether an algorithm has no more steps and R/C than another, and less of one."""
    (c, s, r), (chunks, steps, rounds) = one, other
    cost, least = Fraction(r, c), Fraction(rounds, chunks)
    return s <= steps and cost <= least and (s, cost) != (steps, least)
