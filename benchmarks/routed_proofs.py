"""Claims of a certificate that prove published algorithms dominated or optimal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from sccl.collectives import Spec, dual_of
from sccl.core.algorithm import Algorithm
from sccl.core.bound import AlgorithmBounds
from sccl.core.files.claims import Claim, LimitPointWire
from sccl.core.frontier import Frontier
from sccl.core.step_limit import StepLimit
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.judge import require_valid
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.allreduce.any_family_bound import any_family_proof
from sccl.synth.allreduce.pairs import Half, HalfPair, compose_pair
from sccl.synth.baselines import make_pattern, to_algorithm
from sccl.synth.common.claims import (
    algorithm_claim,
    any_family_bound_claims,
    bound_claims,
    composition_claims,
    limit_claims,
)
from sccl.synth.common.contract import Request
from sccl.synth.constructions.clique_exchange import find_clique_exchange
from sccl.synth.packing.by_steps.limits_by_steps import step_bound, step_limit
from sccl.synth.packing.by_steps.rounding import round_to_algorithm
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import MAX_EXPANDED_SENDS, expand_algorithm

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
"""Name of a dominating algorithm that is not published."""

MOST_STEPS = 6
"""Maximum number of steps of a computed limit. An allreduce may have twice as many."""

MOST_PACKED = 32
"""Maximum number of ranks of a packing. Larger machines use only cuts through time."""

_UNITS = 30.0  # budget of a limit

Triple = tuple[int, int, int]
"""(C, S, R)."""


COMPOSED = ("swing", "trivance", "bine", "pat", "bruck")
"""Algorithms with an allreduce that composes a reducescatter and an allgather."""


@dataclass(slots=True)
class FrontierProver:
    """Limits and algorithms of a collective on a machine.

    Attributes:
        published: Published algorithms by name.
        rivals: Other algorithms that dominate some of these.
        limits: Computed limits by S. Those from cuts alone have no upper bound.
    """

    topology: Topology
    spec: Spec
    published: dict[str, Algorithm] = field(default_factory=dict)
    rivals: list[AnyAlgorithm] = field(default_factory=list)
    limits: dict[int, StepLimit] = field(default_factory=dict)

    def __post_init__(self) -> None:
        request = Request(self.topology, self.spec, 2**20)
        for name in ALGORITHMS:
            try:
                self.published[name] = to_algorithm(make_pattern(name, request), self.topology)
            except InputError:
                continue  # the algorithm does not support this number of ranks or this collective

    @property
    def bounds(self) -> AlgorithmBounds:
        """Return the lower bounds for all algorithms of the collective and all S."""
        return lower_bounds(self.topology, self.spec)

    def decide(self) -> None:
        """Search for dominating algorithms, or prove that there are none."""
        bounds = self.bounds
        for algorithm in sorted(self.published.values(), key=lambda a: (a.steps, a.bandwidth_cost)):
            cost = algorithm.bandwidth_cost
            for steps in (algorithm.steps, algorithm.steps - 1):
                in_range = bounds.steps <= steps <= MOST_STEPS * dual_of(self.spec).phases
                if not in_range or self._is_dominated(triple_of(algorithm)):
                    break
                self.prove_limit(steps, cost, bounds, above=steps < algorithm.steps)

    def prove_limit(
        self, steps: int, cost: Fraction, bounds: AlgorithmBounds, *, above: bool
    ) -> None:
        """Bound R/C for a number of steps, by cuts if they suffice, else by trees.

        Args:
            above: Whether the bound must exceed ``cost``, or only reach it.
        """
        limit = self.limits.get(steps)
        if limit is None and not above and bounds.bandwidth == cost:
            limit = StepLimit(steps, cost, None)
        limit = limit or step_bound(self.topology, self.spec, steps, bounds)
        if limit is not None:
            self.limits[steps] = limit
            met = limit.upper is not None or _is_enough(limit, cost, above=above)
            if met or self.topology.ranks > MOST_PACKED:
                return
        self.limits[steps] = self.compute_limit(steps, cost)

    def compute_limit(self, steps: int, cost: Fraction) -> StepLimit:
        """Return a limit, and keep the algorithm that attains it if its R/C is at most ``cost``."""
        bounds = lower_bounds(self.topology, self.spec)
        packed = step_limit(self.topology, self.spec, steps, bounds, effort=_UNITS)
        if packed.limit.required_upper <= cost:
            rounded = round_to_algorithm(packed, dual_of(self.spec), None)
            self.rivals += [rounded[0]] if rounded is not None else []
        return packed.limit

    def _is_dominated(self, triple: Triple) -> bool:
        algorithms = (*self.published.values(), *self.rivals)
        return any(dominates(triple_of(algorithm), triple) for algorithm in algorithms)

    def write(self, folder: Path) -> Sequence[Claim]:
        """Return all claims, and write the algorithms that they name."""
        claims: list[Claim] = [*bound_claims(self.topology, self.spec), *self.limit_claims()]
        algorithms = [*self.published.items(), *((FOUND, algorithm) for algorithm in self.rivals)]
        points = {}
        for name, algorithm in algorithms:
            triple = triple_of(algorithm)
            if triple not in points:  # one claim per triple is enough
                claims.append(
                    algorithm_claim(folder, self.topology, self.spec, algorithm, f"-{name}")
                )
            points[triple] = not self._is_dominated(triple) and self._is_proved(triple)
        reduces = dual_of(self.spec).phases > 1
        claims += [
            LimitPointWire(chunks=c, steps=s, rounds=r, every=reduces)
            for (c, s, r), best in points.items()
            if best
        ]
        claims += self.more_claims(folder, claims)
        return list(dict.fromkeys(claims))

    def more_claims(self, folder: Path, claims: Sequence[Claim]) -> Iterator[Claim]:
        """Yield claims that follow from ``claims``. Overrides may write further algorithms."""
        del folder, claims
        yield from ()

    def limit_claims(self) -> Iterator[Claim]:
        """Yield the proved claims on limits."""
        for steps in sorted(self.limits):
            yield from limit_claims(self.limits[steps], self.spec)

    def _is_proved(self, triple: Triple) -> bool:
        """Return whether the limits prove that no algorithm dominates this one."""
        chunks, steps, rounds = triple
        limit, previous = self.limits.get(steps), self.limits.get(steps - 1)
        cost, fewest = Fraction(rounds, chunks), self.bounds.steps
        met = limit is not None and limit.lower == cost
        return met and (steps == fewest or (previous is not None and previous.lower > cost))

    def name_of(self, rival: Triple) -> str:
        """Return the name of a published algorithm, or :data:`FOUND`."""
        names = (
            name for name, algorithm in self.published.items() if triple_of(algorithm) == rival
        )
        return next(names, FOUND)


class AllreduceProver(FrontierProver):
    """Limits and algorithms of an allreduce, over all its families."""

    @property
    def bounds(self) -> AlgorithmBounds:
        """Return the lower bounds for all allreduces and all S."""
        return any_class_bounds(self.topology, self.spec)

    def decide(self) -> None:
        """Search for dominating algorithms, including halving and doubling between neighbors."""
        exchange = find_clique_exchange(
            resolve_topology(self.topology.name.removeprefix("routed:"))
        )
        for halved in exchange.useful_halvings() if exchange else ():
            assert exchange is not None
            algorithm = exchange.algorithm(self.spec, halved)
            if algorithm is not None:  # each message passes only one link
                routed_algorithm = replace(algorithm, topology=self.topology)
                self.rivals.append(require_valid(routed_algorithm, "halving and doubling"))
        super().decide()

    def prove_limit(
        self, steps: int, cost: Fraction, bounds: AlgorithmBounds, *, above: bool
    ) -> None:
        """Search for a better composition of two halves, else bound every allreduce."""
        composed = self._compose(steps // 2)
        composed_cost = composed.bandwidth_cost if composed is not None else cost + 1
        if composed is not None and (composed_cost < cost or (above and composed_cost == cost)):
            self.rivals.append(composed)
        elif steps not in self.limits:
            proof = any_family_proof(self.topology, self.spec, bounds, steps, cost)
            self.limits[steps] = StepLimit(steps, proof.bound, None, (proof,))

    def _compose(self, steps: int) -> Algorithm | None:
        """Compose two halves at or near their limits, with ``steps`` steps each."""
        dual = dual_of(self.spec)
        scatter, gather = (self._half(spec, steps) for spec in (dual.first_phase, dual.spec))
        if scatter is None or gather is None:
            return None
        first = Half(steps, scatter.bandwidth_cost, scatter.collective.chunks, scatter)
        times, chunks = dual.chunk_factor, gather.collective.chunks
        then = Half(steps, gather.bandwidth_cost / times, chunks * times, gather)
        return compose_pair(HalfPair(first, then), self.spec)

    def _half(self, spec: Spec, steps: int) -> Algorithm | None:
        bounds = lower_bounds(self.topology, spec)
        if self.topology.ranks > MOST_PACKED or not bounds.steps <= steps <= MOST_STEPS:
            return None
        packed = step_limit(self.topology, spec, steps, bounds, effort=_UNITS)
        rounded = round_to_algorithm(packed, dual_of(spec), None)
        if rounded is None or rounded[0].num_sends > MAX_EXPANDED_SENDS:
            return None
        return expand_algorithm(rounded[0])

    def limit_claims(self) -> Iterator[Claim]:
        """Yield the claims on all allreduces, and on the halves of compositions."""
        limits = tuple(self.limits[steps] for steps in sorted(self.limits))
        names = (self.topology.name, self.spec.name, None, None)
        yield from any_family_bound_claims(
            self.topology, Frontier(*names, self.bounds, (), any_class_limits=limits)
        )
        of_halves = lower_bounds(self.topology, self.spec)
        last = max(algorithm.steps for algorithm in self._best_published())
        for steps in range(of_halves.steps, min(last, 2 * MOST_STEPS) + 1, 2):
            bound = step_bound(self.topology, self.spec, steps, of_halves)
            yield from limit_claims(bound, self.spec) if bound else ()

    def more_claims(self, folder: Path, claims: Sequence[Claim]) -> Iterator[Claim]:
        """Yield the compositions that are optimal among reducescatter + allgather compositions."""
        halves = [
            algorithm for algorithm in self._best_published() if algorithm.steps <= 2 * MOST_STEPS
        ]
        yield from composition_claims(folder, self.topology, self.spec, claims, halves)

    def _best_published(self) -> list[Algorithm]:
        """Return the published compositions that no other published composition dominates."""
        compositions = [algorithm for name, algorithm in self.published.items() if name in COMPOSED]
        triples = [triple_of(algorithm) for algorithm in compositions]
        return [
            algorithm
            for algorithm, triple in zip(compositions, triples, strict=True)
            if not any(dominates(rival, triple) for rival in triples)
        ]


def _is_enough(limit: StepLimit, cost: Fraction, *, above: bool) -> bool:
    return limit.lower > cost or (limit.lower == cost and not above)


def triple_of(algorithm: AnyAlgorithm) -> Triple:
    """Return (C, S, R)."""
    return algorithm.collective.chunks, algorithm.steps, algorithm.rounds


def dominates(first: Triple, second: Triple) -> bool:
    """Return whether one algorithm dominates another in steps and R/C."""
    (c, s, r), (chunks, steps, rounds) = first, second
    first_cost, second_cost = Fraction(r, c), Fraction(rounds, chunks)
    return s <= steps and first_cost <= second_cost and (s, first_cost) != (steps, second_cost)
