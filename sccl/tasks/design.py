"""Rank networks of a given size and degree by the costs of a collective (``sccl design``).

Candidates come from families, and from expansions of good smaller networks
(:mod:`sccl.topo.designs`). The costs of an allgather or alltoall that a construction attains on
each are known at any size, and verified when the algorithm is written. They are compared with the
lower bounds for networks of the size: the Moore bound on steps, and the bandwidth bound. A
reducescatter is the reversed allgather of the reversed network. An allreduce is both in sequence,
or a gathering of all contributions in half the steps, or, on powers of cliques, halving and
doubling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Annotated, Literal

from msgspec import Meta

from sccl.collectives import named
from sccl.core.files.fields import Count, FileText, FractionText, Part
from sccl.core.frontier import COMPOSED, EXCHANGED, GATHERED
from sccl.core.topology import MAX_RANKS, Topology
from sccl.errors import InputError, ParameterError
from sccl.synth.direct import Attained
from sccl.synth.direct.exchanges import exchanges
from sccl.tasks.bounds import attained_of
from sccl.tasks.outputs import Output
from sccl.topo import resolve
from sccl.topo.designs import NetworkSize, made_of, moore_steps, plain_designs

MOST_RANKS = 4096
COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall")
IN_WORDS = f"{', '.join(COLLECTIVES[:-1])} or {COLLECTIVES[-1]}"
ALLREDUCE = "allreduce"
_PHASES = {"allgather": 1, "reducescatter": 1, ALLREDUCE: 2}
_BASES = 3
"""Smaller networks of each size that larger ones are made of."""
_DEPTH = 6


class DesignPart(Part, frozen=True, kw_only=True):
    """A network."""

    name: Annotated[
        str, Meta(description="'sccl topo show NAME'; of allreduce once for each way to do it.")
    ]
    steps: Count
    bandwidth: Annotated[FractionText, Meta(description="R/C attained with this number of steps.")]
    by: Annotated[str, Meta(description="Algorithm or construction that attains it.")]
    best: Annotated[bool, Meta(description="No other here is as good in one and better in both.")]


class DesignOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl design'."""

    kind: Literal["design"] = "design"
    collective: str
    ranks: Count
    degree: Count
    seed: int
    moore_steps: Annotated[int, Meta(ge=0, description="No network of the size has fewer steps.")]
    bandwidth: Annotated[FractionText, Meta(description="Lower bound on R/C for such networks.")]
    networks: Annotated[tuple[DesignPart, ...], Meta(description="By steps, then by R/C.")]
    tried: Annotated[int, Meta(ge=0, description="Networks that were looked at.")]
    ended: Annotated[str, Meta(description="Reason why it ended early; or empty.")]
    file: Annotated[FileText | None, Meta(description="The network that was written.")] = None
    picture: Annotated[FileText | None, Meta(description="The picture, if any.")] = None


@dataclass(frozen=True, slots=True, order=True)
class Designed:
    """A network, as good as it is: fewer steps first, then less R/C."""

    steps: int
    bandwidth: Fraction
    name: str
    by: str


@dataclass(slots=True)
class Designer:
    """A search for networks.

    Attributes:
        collective: One of :data:`COLLECTIVES`.
        told: Function that receives progress.
        found: Networks of each examined size, the best first.
        tried: Names of examined networks.
    """

    collective: str
    seed: int
    told: Callable[[str], None]
    found: dict[NetworkSize, list[Designed]] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)

    def search(self, wanted: NetworkSize, depth: int = 0) -> list[Designed]:
        """Return the networks of a size, the best first. Those found by then are in ``found``."""
        if wanted in self.found:
            return self.found[wanted]
        here = self.found.setdefault(wanted, [])
        for name in self._names(wanted, depth):
            if name not in self.tried:
                self.tried.add(name)
                self.told(name)
                here += self._measured(name, wanted)
        here.sort()
        return here

    def _names(self, wanted: NetworkSize, depth: int) -> Iterator[str]:
        yield from plain_designs(wanted, self.seed)
        if depth >= _DEPTH:
            return
        for way, sizes in made_of(wanted):
            every = (_staircase(self.search(size, depth + 1)) for size in sizes)
            bases = [list(dict.fromkeys(one.name for one in best))[:_BASES] for best in every]
            yield from (way.format(*some) for some in product(*bases))

    def _measured(self, name: str, wanted: NetworkSize) -> list[Designed]:
        """Return the attained costs on a network, by each method. Empty: it has another size."""
        try:
            machine = resolve(name)
            if machine.ranks != wanted.ranks or _degree(machine) > wanted.degree:
                return []
            every = attained_by(machine, self.collective)
        except InputError:
            return []  # some rank is not reached
        return [Designed(got.steps, got.bandwidth, name, got.by) for got in every]


def attained_by(machine: Topology, collective: str) -> list[Attained]:
    """Return the costs of a collective attained without search, by each known method.

    Raises:
        UnreachableError: Some rank does not reach another.
    """
    got = attained_of(machine, named(collective, machine.ranks))
    if collective != ALLREDUCE:
        return [got] if got else []
    found = [replace(got, by=COMPOSED)] if got else []
    gather = attained_of(machine, named("allgather", machine.ranks))
    found += [replace(gather, by=GATHERED)] if gather else []
    powers = exchanges(machine)
    for halved in powers.halved() if powers else ():
        assert powers is not None
        if halved < powers.dimensions:  # along all of them it is what both phases are
            steps, cost = powers.dimensions + halved, powers.cost(halved)
            found.append(Attained(steps, cost, EXCHANGED, (1,)))
    return found


def _degree(machine: Topology) -> int:
    """Return the most lanes that leave or enter a rank."""
    out, into = [0] * machine.ranks, [0] * machine.ranks
    for link in machine.links:
        out[link.src] += link.lanes
        into[link.dst] += link.lanes
    return max(*out, *into)


def _staircase(networks: list[Designed]) -> list[Designed]:
    """Return those of sorted networks that none before is as good as."""
    best: list[Designed] = []
    for one in networks:
        if not best or one.bandwidth < best[-1].bandwidth:
            best.append(one)
    return best


def check_design(collective: str, ranks: int, degree: int) -> None:
    """Check that networks of a size are looked for.

    Raises:
        ParameterError: they are not.
    """
    if collective not in COLLECTIVES:
        raise ParameterError(
            f"collective is {collective!r}, expected {IN_WORDS}: for others the attained costs "
            "need a search"
        )
    if not 2 <= ranks <= min(MOST_RANKS, MAX_RANKS):
        raise ParameterError(f"ranks is {ranks}, expected 2 to {MOST_RANKS}")
    if not 1 <= degree < ranks:
        raise ParameterError(
            f"degree is {degree}, expected 1 to {ranks - 1}: links to each other rank at the most"
        )


def design(  # noqa: PLR0913 - a size, a question, and who is told
    collective: str,
    ranks: int,
    degree: int,
    *,
    steps: int | None = None,
    seed: int = 0,
    told: Callable[[str], None] = lambda _: None,
) -> DesignOutput:
    """Return networks ranked by the costs of a collective on them.

    Args:
        steps: Largest number of steps. None: any.

    Raises:
        ParameterError: There are no networks of that size, or the collective is not supported.
    """
    check_design(collective, ranks, degree)
    wanted, ended = NetworkSize(ranks, degree), ""
    designer = Designer(collective, seed, told)
    try:
        designer.search(wanted)
    except KeyboardInterrupt:
        ended = "interrupted"
    found = sorted(designer.found.get(wanted, []))
    best = set(_staircase(found))
    kept = [one for one in found if steps is None or one.steps <= steps]
    return DesignOutput(
        inputs={},
        collective=collective,
        ranks=ranks,
        degree=degree,
        seed=seed,
        moore_steps=moore_steps(wanted),
        bandwidth=str(least_bandwidth(collective, wanted)),
        networks=tuple(
            DesignPart(
                name=one.name,
                steps=one.steps,
                bandwidth=str(one.bandwidth),
                by=one.by,
                best=one in best,
            )
            for one in kept
        ),
        tried=len(designer.tried),
        ended=ended,
    )


def least_bandwidth(collective: str, wanted: NetworkSize) -> Fraction:
    """Return a lower bound on R/C for all networks of a size.

    All data of other ranks enter over a rank's links, or leave over them for reductions. Each chunk
    of an allreduce takes 2 (n - 1) sends. A part of an alltoall for a rank at distance t takes t
    sends, and at most d^t ranks are at distance t.
    """
    n, d = wanted.ranks, wanted.degree
    if collective in _PHASES:  # of what all have, in parts for each, where it is reduced
        return Fraction(n - 1, d * (1 if collective == "allgather" else n)) * _PHASES[collective]
    left, hops, far = n - 1, 0, 0
    while left:
        far += 1
        there = min(left, d**far)
        hops, left = hops + far * there, left - there
    return Fraction(hops, n * d)
