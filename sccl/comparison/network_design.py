"""Rank networks of a given size and degree by the costs of a collective (``sccl topo design``).

Candidates come from network families, and from expansions of good smaller networks
(:mod:`sccl.topo.designs`). For an allgather or alltoall, a construction attains known costs on
networks of any size; the algorithm is verified when it is written. The costs are compared with
lower bounds for all networks of the size: the Moore bound on steps, and the bandwidth bound. A
reducescatter is the inverse of an allgather on the reversed network. An allreduce is both in
sequence, or an allgather of all contributions in half the steps, or, on powers of cliques, halving
and doubling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Annotated, Literal

from sccl.collectives import named_spec
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import FileText, FractionText, NonNegative, Part
from sccl.core.frontier import COMPOSED, EXCHANGED, GATHERED
from sccl.core.stop import INTERRUPTED, NOT_STOPPED
from sccl.core.topology import MAX_RANKS, Topology
from sccl.errors import InputError, ParameterError
from sccl.synth.constructions import ConstructionCost, attained_cost
from sccl.synth.constructions.clique_exchange import find_clique_exchange
from sccl.topo import resolve_topology
from sccl.topo.designs import NetworkSize, basic_designs, composite_designs, moore_steps

MAX_DESIGN_RANKS = 4096
"""Maximum number of ranks of a network, a limit of time."""
COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall")
COLLECTIVES_TEXT = f"{', '.join(COLLECTIVES[:-1])} or {COLLECTIVES[-1]}"
ALLREDUCE = "allreduce"
_PHASES = {"allgather": 1, "reducescatter": 1, ALLREDUCE: 2}
_BASES = 3
"""Number of smaller networks of each size that are expanded."""
_DEPTH = 6
"""Maximum depth of nested expansions."""


class DesignPart(Part, frozen=True, kw_only=True):
    """A network."""

    name: Annotated[str, "Name for 'sccl topo show'; for allreduce, one entry per algorithm."]
    steps: NonNegative
    bandwidth: Annotated[FractionText, "R/C attained with this number of steps."]
    by: Annotated[str, "Algorithm or construction that attains it."]
    best: Annotated[bool, "Whether no other listed network dominates it."]


class DesignOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl topo design'."""

    kind: Literal["design"] = "design"
    collective: str
    ranks: NonNegative
    degree: NonNegative
    seed: int
    moore_steps: Annotated[NonNegative, "Lower bound on the steps of networks of this size."]
    bandwidth: Annotated[FractionText, "Lower bound on R/C for such networks."]
    networks: Annotated[tuple[DesignPart, ...], "By steps, then by R/C."]
    tried: Annotated[NonNegative, "Number of evaluated networks."]
    ended: Annotated[str, "Reason why it ended early; or empty."]
    file: Annotated[FileText | None, "The network that was written."] = None
    picture: Annotated[FileText | None, "The picture, if any."] = None


@dataclass(frozen=True, slots=True, order=True)
class NetworkDesign:
    """A network with its attained costs, ordered by steps, then by R/C.

    Attributes:
        steps: Number of steps, S.
        bandwidth: R/C.
        name: Name of the network.
        by: Construction that attains the costs.
    """

    steps: int
    bandwidth: Fraction
    name: str
    by: str


@dataclass(slots=True)
class DesignSearch:
    """A search for networks.

    Attributes:
        collective: One of :data:`COLLECTIVES`.
        seed: Seed of random networks.
        on_progress: Progress callback: name of the network that is evaluated.
        designs: Networks of each examined size, best first.
        tried_names: Names of evaluated networks.
    """

    collective: str
    seed: int
    on_progress: Callable[[str], None]
    designs: dict[NetworkSize, list[NetworkDesign]] = field(default_factory=dict)
    tried_names: set[str] = field(default_factory=set)

    def search(self, target: NetworkSize, depth: int = 0) -> list[NetworkDesign]:
        """Return the networks of a size, best first. After an interrupt, see ``designs``."""
        if target in self.designs:
            return self.designs[target]
        networks = self.designs.setdefault(target, [])
        for name in self._candidate_names(target, depth):
            if name not in self.tried_names:
                self.tried_names.add(name)
                self.on_progress(name)
                networks += self._evaluate(name, target)
        networks.sort()
        return networks

    def _candidate_names(self, target: NetworkSize, depth: int) -> Iterator[str]:
        yield from basic_designs(target, self.seed)
        if depth >= _DEPTH:
            return
        for template, sizes in composite_designs(target):
            staircases = (_non_dominated(self.search(size, depth + 1)) for size in sizes)
            bases = [
                list(dict.fromkeys(network.name for network in best))[:_BASES]
                for best in staircases
            ]
            yield from (template.format(*parts) for parts in product(*bases))

    def _evaluate(self, name: str, target: NetworkSize) -> list[NetworkDesign]:
        """Return the costs that each method attains on a network, or none if its size differs."""
        try:
            machine = resolve_topology(name)
            if machine.ranks != target.ranks or _degree(machine) > target.degree:
                return []
            results = attained_costs(machine, self.collective)
        except InputError:
            return []  # a rank is unreachable
        return [
            NetworkDesign(attained.steps, attained.bandwidth, name, attained.construction)
            for attained in results
        ]


def attained_costs(machine: Topology, collective: str) -> list[ConstructionCost]:
    """Return the costs that each known method attains for a collective, without search.

    Raises:
        UnreachableError: A rank cannot reach another.
    """
    attained = attained_cost(machine, named_spec(collective, machine.ranks))
    if collective != ALLREDUCE:
        return [attained] if attained else []
    results = [replace(attained, construction=COMPOSED)] if attained else []
    gather = attained_cost(machine, named_spec("allgather", machine.ranks))
    results += [replace(gather, construction=GATHERED)] if gather else []
    powers = find_clique_exchange(machine)
    for halved in powers.useful_halvings() if powers else ():
        assert powers is not None
        if halved < powers.dimensions:  # along all dimensions it equals the two phases
            steps, cost = powers.dimensions + halved, powers.cost(halved)
            results.append(ConstructionCost(steps, cost, EXCHANGED, (1,)))
    return results


def _degree(machine: Topology) -> int:
    """Return the maximum number of lanes that leave or enter a rank."""
    out, into = [0] * machine.ranks, [0] * machine.ranks
    for link in machine.links:
        out[link.src] += link.lanes
        into[link.dst] += link.lanes
    return max(*out, *into)


def _non_dominated(networks: list[NetworkDesign]) -> list[NetworkDesign]:
    """Return the networks that no other dominates, given networks in ascending order."""
    best: list[NetworkDesign] = []
    for network in networks:
        if not best or network.bandwidth < best[-1].bandwidth:
            best.append(network)
    return best


def check_design(collective: str, ranks: int, degree: int) -> None:
    """Check that the search supports a collective and a network size.

    Raises:
        ParameterError: It does not.
    """
    if collective not in COLLECTIVES:
        raise ParameterError(
            f"collective is {collective!r}, expected {COLLECTIVES_TEXT}: for others the attained "
            "costs "
            "need a search"
        )
    if not 2 <= ranks <= min(MAX_DESIGN_RANKS, MAX_RANKS):
        raise ParameterError(f"ranks is {ranks}, expected 2 to {MAX_DESIGN_RANKS}")
    if not 1 <= degree < ranks:
        raise ParameterError(
            f"degree is {degree}, expected 1 to {ranks - 1}: links to each other rank at the most"
        )


def search_designs(  # noqa: PLR0913 - a size, a problem, and callbacks
    collective: str,
    ranks: int,
    degree: int,
    *,
    steps: int | None = None,
    seed: int = 0,
    on_progress: Callable[[str], None] = lambda _: None,
) -> DesignOutput:
    """Return networks ranked by the costs of a collective on them.

    Args:
        collective: One of :data:`COLLECTIVES`.
        ranks: Number of ranks.
        degree: Maximum number of lanes that leave or enter a rank.
        steps: Maximum number of steps. None: no limit.
        seed: Seed of random networks.
        on_progress: Progress callback: name of the network that is evaluated.

    Raises:
        ParameterError: There are no networks of that size, or the collective is not supported.
    """
    check_design(collective, ranks, degree)
    target, ended = NetworkSize(ranks, degree), NOT_STOPPED
    designer = DesignSearch(collective, seed, on_progress)
    try:
        designer.search(target)
    except KeyboardInterrupt:
        ended = INTERRUPTED
    networks = sorted(designer.designs.get(target, []))
    best = set(_non_dominated(networks))
    listed = [network for network in networks if steps is None or network.steps <= steps]
    return DesignOutput(
        inputs={},
        collective=collective,
        ranks=ranks,
        degree=degree,
        seed=seed,
        moore_steps=moore_steps(target),
        bandwidth=str(bandwidth_lower_bound(collective, target)),
        networks=tuple(
            build_output(DesignPart, network, best=network in best) for network in listed
        ),
        tried=len(designer.tried_names),
        ended=str(ended),
    )


def bandwidth_lower_bound(collective: str, target: NetworkSize) -> Fraction:
    """Return a lower bound on R/C for all networks of a size.

    Let n be the number of ranks and d the degree. In an allgather, the data of all other ranks must
    enter each rank over its d links. In a reducescatter, they must leave. Each chunk of an
    allreduce takes 2 (n - 1) sends. In an alltoall, data for a rank at distance t take t sends, and
    at most d^t ranks are at distance t.
    """
    n, d = target.ranks, target.degree
    if collective in _PHASES:  # C counts whole buffers in an allgather, parts of one otherwise
        return Fraction(n - 1, d * (1 if collective == "allgather" else n)) * _PHASES[collective]
    left, hops, distance = n - 1, 0, 0
    while left:
        distance += 1
        reached = min(left, d**distance)
        hops, left = hops + distance * reached, left - reached
    return Fraction(hops, n * d)
