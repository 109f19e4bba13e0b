"""What motifs share of a fabric: links that are alike are one resource.

In a job all ranks do the same at once, so that links of a kind are loaded alike; a kind counts as
loaded as the most loaded of its links. Where loads are all or nothing that is exact.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sccl.core.fabric import Channel, Fabric
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology

BYTES_PER_US = 1000
"""Of a bandwidth of one GB/s, which is 10^9 bytes per second."""


@dataclass(frozen=True, slots=True)
class Pipe:
    """A link, or links that share a bandwidth, within one channel or across some.

    Attributes:
        kind: which resource it is one of.
        gb_per_s: of all of it.
        links: each by the number of its channel, and its own.
    """

    kind: int
    gb_per_s: Fraction
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FabricResources:
    """The resources of a fabric.

    Attributes:
        names: of each kind.
        pipes: of all kinds.
    """

    names: tuple[str, ...]
    pipes: tuple[Pipe, ...]

    def loads(self, schedule: Schedule, channel: int, duration_us: Fraction) -> dict[int, Fraction]:
        """Return the part of each resource that a schedule takes while it runs on a channel.

        Args:
            duration_us: of the schedule, with what there is beside its links.

        Returns:
            Of each kind that it uses: bytes over what the most loaded pipe carries in that time.
        """
        carried = _bytes_of_links(schedule)
        found: dict[int, Fraction] = {}
        for pipe in self.pipes:
            size = sum(int(carried[link]) for own, link in pipe.links if own == channel)
            if size:
                load = size / (pipe.gb_per_s * BYTES_PER_US * duration_us)
                found[pipe.kind] = max(found.get(pipe.kind, Fraction(0)), load)
        return found


def resources_of(fabric: Fabric) -> FabricResources:
    """Return the resources of a fabric: kinds of links, and budgets in and across channels."""
    made = _Kinds(fabric)
    for number, channel in enumerate(fabric.channels):
        for link, one in enumerate(channel.topology.links):
            name = f"{channel.name}: {_said(channel, link)}"
            speed = one.lanes * _exact(one.gb_per_s)
            made.add((number, made.of[number][link]), name, speed, ((number, link),))
        speeds = channel.topology.budget_speeds()
        for budget, of_lane in zip(channel.topology.budgets, speeds, strict=True):
            links = tuple((number, made.place[number][edge]) for edge in budget.edges)
            whole = budget.chunks_per_round * _exact(of_lane)
            made.add(("budget", whole), f"{channel.name}: {budget.name} and alike", whole, links)
    for shared in fabric.shared:
        numbers = [made.numbers[name] for name, _ in shared.links]
        edges = [edge for _, edge in shared.links]
        links = tuple((n, made.place[n][e]) for n, e in zip(numbers, edges, strict=True))
        speed = _exact(shared.gb_per_s)
        made.add(("shared", speed), f"{shared.name} and alike", speed, links)
    return FabricResources(tuple(made.names.values()), tuple(made.pipes))


class _Kinds:
    """Kinds of pipes, as they are found.

    Attributes:
        numbers: of channels, by name.
        place: of each channel, the number of each link by its edge.
        of: of each channel, the kind of each link.
        names: of kinds, by what their pipes have in common.
    """

    def __init__(self, fabric: Fabric) -> None:
        machines = [channel.topology for channel in fabric.channels]
        self.numbers = {channel.name: n for n, channel in enumerate(fabric.channels)}
        self.place = [{k.edge: i for i, k in enumerate(one.links)} for one in machines]
        self.of = [[_kind(one, link) for link in range(len(one.links))] for one in machines]
        self.names: dict[object, str] = {}
        self.pipes: list[Pipe] = []

    def add(
        self, alike: object, name: str, gb_per_s: Fraction, links: tuple[tuple[int, int], ...]
    ) -> None:
        """Add a pipe, which is of a kind with those that have the same in common."""
        key = (alike, tuple(sorted((n, self.of[n][link]) for n, link in links)))
        self.names.setdefault(key, name)
        self.pipes.append(Pipe(list(self.names).index(key), gb_per_s, links))


def _bytes_of_links(schedule: Schedule) -> dict[int, int]:
    """Return the bytes that each link carries in all."""
    sizes = schedule.chunk_bytes
    found: dict[int, int] = defaultdict(int)
    if isinstance(sizes, int):
        link, count = np.unique(np.asarray(schedule.link), return_counts=True)
        found.update(zip(link.tolist(), (count * sizes).tolist(), strict=True))
        return found
    for link, chunk in zip(schedule.link.tolist(), schedule.chunk.tolist(), strict=True):
        found[link] += sizes[chunk]
    return found


def _kind(topology: Topology, link: int) -> tuple[object, ...]:
    """Return what links have in common that are of one kind: costs, and what they join."""
    one = topology.links[link]
    ends = tuple(node < topology.ranks for node in one.edge)
    names = tuple(_stem(topology, node) for node in one.edge)
    return (one.lanes, one.alpha_us, one.gb_per_s, ends, names)


def _stem(topology: Topology, node: int) -> str:
    """Return the name of a switch without its number; of a rank nothing."""
    if node < topology.ranks:
        return ""
    return topology.switches[node - topology.ranks].name.rstrip("0123456789 ")


def _said(channel: Channel, link: int) -> str:
    topology = channel.topology
    ends = [_stem(topology, node) or "rank" for node in topology.links[link].edge]
    return f"{ends[0]} to {ends[1]}, {topology.links[link].gb_per_s:g} GB/s"


def _exact(number: float) -> Fraction:
    return Fraction(str(number))
