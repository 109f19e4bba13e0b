"""``sccl design``: networks of so many ranks and links of each, by what collectives take on them.

Candidates come by families, and from smaller ones that are good (:mod:`sccl.topo.designs`). What an
allgather or alltoall attains on each without search is known at any size, and judged where it is
written; beside it stand the least steps of any network of the size (Moore) and the bandwidth bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Literal

from msgspec import Meta

from sccl.collectives import named
from sccl.core.files.fields import Count, FileText, FractionText, Part
from sccl.core.topology import MAX_RANKS, Topology
from sccl.errors import InputError, ParameterError
from sccl.synth.direct import attained
from sccl.tasks.outputs import Output
from sccl.topo import resolve
from sccl.topo.designs import NetworkSize, made_of, moore_steps, plain_designs

MOST_RANKS = 4096
COLLECTIVES = ("allgather", "alltoall")
_BASES = 3
"""Smaller networks of each size that larger ones are made of."""
_DEPTH = 6


class DesignPart(Part, frozen=True, kw_only=True):
    """A network."""

    name: Annotated[str, Meta(description="'sccl topo show NAME'.")]
    steps: Count
    bandwidth: Annotated[FractionText, Meta(description="R/C that is attained in so many steps.")]
    by: Annotated[str, Meta(description="What attains it.")]
    best: Annotated[bool, Meta(description="No other here is as good in one and better in both.")]


class DesignOutput(Output, frozen=True, kw_only=True):
    """What 'sccl design' found."""

    kind: Literal["design"] = "design"
    collective: str
    ranks: Count
    degree: Count
    seed: int
    moore_steps: Annotated[int, Meta(ge=0, description="No network of the size has fewer steps.")]
    bandwidth: Annotated[FractionText, Meta(description="Nor a smaller R/C.")]
    networks: Annotated[tuple[DesignPart, ...], Meta(description="By steps, then by R/C.")]
    tried: Annotated[int, Meta(ge=0, description="Networks that were looked at.")]
    ended: Annotated[str, Meta(description="Why it ended before all were tried; or empty.")]
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
    """Looks for networks.

    Attributes:
        collective: of :data:`COLLECTIVES`.
        told: what is being looked at.
        found: of each size that was looked at, the best first.
        tried: names that were looked at.
    """

    collective: str
    seed: int
    told: Callable[[str], None]
    found: dict[NetworkSize, list[Designed]] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)

    def search(self, wanted: NetworkSize, depth: int = 0) -> list[Designed]:
        """Return the networks of a size, the best first; those found by then are in ``found``."""
        if wanted in self.found:
            return self.found[wanted]
        here = self.found.setdefault(wanted, [])
        for name in self._names(wanted, depth):
            if name not in self.tried:
                self.tried.add(name)
                self.told(name)
                one = self._measured(name, wanted)
                if one is not None:
                    here.append(one)
        here.sort()
        return here

    def _names(self, wanted: NetworkSize, depth: int) -> Iterator[str]:
        yield from plain_designs(wanted, self.seed)
        if depth >= _DEPTH:
            return
        for way, sizes in made_of(wanted):
            bases = [_staircase(self.search(size, depth + 1))[:_BASES] for size in sizes]
            if len(bases) == 1:
                yield from (way.format(base.name) for base in bases[0])
            else:
                yield from (way.format(a.name, b.name) for a in bases[0] for b in bases[1])

    def _measured(self, name: str, wanted: NetworkSize) -> Designed | None:
        """Return what is attained on a network; None: nothing, or it is of another size."""
        try:
            machine = resolve(name)
            if machine.ranks != wanted.ranks or _degree(machine) > wanted.degree:
                return None
            spec = named(self.collective, machine.ranks)
            got = attained(machine, spec.at(spec.unit))
        except InputError:
            return None  # some rank is not reached
        return Designed(got.steps, got.bandwidth, name, got.by) if got else None


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
            f"collective is {collective!r}, expected {' or '.join(COLLECTIVES)}: of others it is "
            "not known without search what networks attain"
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
    """Return networks by what a collective takes on them.

    Args:
        steps: none of more; None: of any number.

    Raises:
        ParameterError: there are no networks of that size, or the collective is not served.
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
    """Return what R/C no network of a size goes below.

    All that others have comes in over a rank's links; of an alltoall a part to a rank that is t
    links away takes t sends, and no more than d^t ranks are t links away.
    """
    n, d = wanted.ranks, wanted.degree
    if collective == "allgather":
        return Fraction(n - 1, d)
    left, hops, far = n - 1, 0, 0
    while left:
        far += 1
        there = min(left, d**far)
        hops, left = hops + far * there, left - there
    return Fraction(hops, n * d)
