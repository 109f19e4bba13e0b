"""Model the resources that motifs share: links, shared bandwidths, and streams of ranks.

A fabric has many such pipes, but few of them limit a plan. Pipes of one kind that the same
collectives load become one resource. A resource whose loads never exceed those of another is
omitted. So ranks with the same work share resources, and ranks of two pipeline stages have
different ones.

The remainder of a channel is the capacity that a motif leaves free: the unused fraction of each
link and of each shared bandwidth, and around a switch that of each rank's port. It serves as a
machine for other collectives. Fractions are rounded down to eighths, and links without an eighth
are removed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.ids import Edge
from sccl.core.topology import Link, Topology
from sccl.errors import ParameterError
from sccl.topo.degrade import remove_parts
from sccl.training.types.fabric import Channel, Fabric
from sccl.training.types.training_plan import FULL_LOAD

PipeKind = tuple[object, ...]
"""Key of equal pipes: their common name and properties."""

_ANY_NUMBER = re.compile(r" ?[0-9]+")

_SAFE_INT = 2**62
_SCALE = FULL_LOAD * 1000
"""Factor to loads in thousandths: capacities are per microsecond, and times in nanoseconds."""

_MAX_SEPARATE_LINK_RANKS = 16
"""Largest number of ranks of a machine whose links between ranks all have separate kinds."""


@dataclass(frozen=True, slots=True, eq=False)
class FabricPipes:
    """The links of a fabric, its shared bandwidths, and the streams of its ranks.

    Attributes:
        names: Names of all pipes.
        kinds: Kinds of all pipes.
        link: Links of all pairs of a link and its pipe. Links are numbered channel after channel.
        pipe: Pipes of all pairs of a link and its pipe.
        first_link: First link of each channel, and the total at the end.
        first_stream: Pipe of the streams of rank 0, for each channel.
        capacity: Numerator of the bytes per microsecond of each pipe except streams.
        parts: Denominator of the bytes per microsecond of each pipe except streams.
    """

    names: tuple[str, ...]
    kinds: tuple[PipeKind, ...]
    link: IntArray
    pipe: IntArray
    first_link: tuple[int, ...]
    first_stream: tuple[int, ...]
    capacity: IntArray
    parts: IntArray

    def pipe_bytes(self, channel: int, of_links: IntArray) -> IntArray:
        """Return the bytes on each pipe, given the bytes on each link of a channel."""
        pairs = self._link_rows(channel)
        amounts = np.zeros(len(self.capacity), np.int64)
        np.add.at(amounts, self.pipe[pairs], of_links[self.link[pairs] - self.first_link[channel]])
        return amounts

    def _link_rows(self, channel: int) -> IntArray:
        first, end = self.first_link[channel : channel + 2]
        return np.flatnonzero((self.link >= first) & (self.link < end))

    def loads(self, carried: IntArray, ns: int) -> IntArray:
        """Return the load of each pipe in thousandths, rounded up.

        Args:
            carried: Bytes on each pipe.
            ns: Time for them, in nanoseconds.
        """
        up, down = carried * self.parts, self.capacity * ns
        if int(up.max(initial=0)) < _SAFE_INT // _SCALE:
            safe: IntArray = -(-up * _SCALE // down)
            return safe
        rows = zip(up.tolist(), down.tolist(), strict=True)
        return np.array([-(-a * _SCALE // b) for a, b in rows], np.int64)


def build_pipes(fabric: Fabric) -> FabricPipes:
    """Return the pipes of a fabric: links first, then shared bandwidths, then streams."""
    names, kinds, speeds = list[str](), list[PipeKind](), list[Fraction]()
    pairs, place, first_link = list[tuple[int, int]](), list[dict[Edge, int]](), [0]
    for channel in fabric.channels:
        links = channel.topology.links
        place.append({item.edge: first_link[-1] + k for k, item in enumerate(links)})
        first_link.append(first_link[-1] + len(links))
        pairs += [(k, k) for k in range(*first_link[-2:])]
        names += [f"{channel.name}: {_link_label(channel.topology, item.edge)}" for item in links]
        kinds += [_link_kind(channel, item) for item in links]
        speeds += [item.lanes * _to_fraction(item.gb_per_s) for item in links]
    numbers = {channel.name: k for k, channel in enumerate(fabric.channels)}
    together = [
        (
            f"{c.name}: {b.name}",
            [(c.name, e) for e in b.edges],
            b.chunks_per_round * _to_fraction(speed),
        )
        for c in fabric.channels
        for b, speed in zip(c.topology.budgets, c.topology.budget_speeds(), strict=True)
    ]
    together += [(s.name, list(s.links), _to_fraction(s.gb_per_s)) for s in fabric.shared]
    for name, members, speed in together:
        link_ids = [place[numbers[channel]][edge] for channel, edge in members]
        pairs += [(link, len(names)) for link in link_ids]
        kinds.append(
            (_ANY_NUMBER.sub("", name), speed, *sorted({str(kinds[link]) for link in link_ids}))
        )
        names.append(name)
        speeds.append(speed)
    streams = []
    for channel in fabric.channels:
        streams.append(len(names))
        names += [f"{channel.name}: streams of rank {rank}" for rank in range(fabric.ranks)]
        kinds += [(f"{channel.name}: streams",)] * fabric.ranks
    link, pipe = np.array(sorted(pairs), np.int64).T
    return FabricPipes(
        names=tuple(names),
        kinds=tuple(kinds),
        link=link,
        pipe=pipe,
        first_link=tuple(first_link),
        first_stream=tuple(streams),
        capacity=np.array([(speed * 1000).numerator for speed in speeds], np.int64),
        parts=np.array([(speed * 1000).denominator for speed in speeds], np.int64),
    )


def stream_load(channel: Channel) -> int:
    """Return the load of a rank's streams by one motif, in thousandths.

    As many motifs as there are streams fit, and no more. The load is rounded up only if rounding
    down would permit one more motif.
    """
    part, left = divmod(FULL_LOAD, channel.streams)
    return part if part * (channel.streams + 1) > FULL_LOAD else part + bool(left)


@dataclass(frozen=True, slots=True)
class PipeClass:
    """Pipes that are one resource.

    Attributes:
        name: Name of the resource.
        pipes: Numbers of the pipes. The load of the resource is that of the most loaded pipe.
    """

    name: str
    pipes: tuple[int, ...]

    def load(self, loads: IntArray) -> int:
        """Return the load of the resource, given the loads of all pipes."""
        return int(loads[list(self.pipes)].max())


def group_pipes(
    pipes: FabricPipes, rows: Sequence[IntArray], used_by: Sequence[int]
) -> list[PipeClass]:
    """Return the resources that may limit a plan.

    Pipes of one kind that the same collectives load become one resource, because many ranks of a
    job do the same at once. This is exact if the pipes have equal loads, and otherwise
    conservative.

    Args:
        pipes: Pipes of the fabric.
        rows: Load of each pipe, for each motif that may run.
        used_by: Number of the collective of each motif.
    """
    if not any(row.any() for row in rows):
        return []
    loads, users = np.stack(rows), np.array(used_by)
    loaded = [loads[users == k].any(axis=0) for k in range(int(users.max()) + 1)]
    marks = np.packbits(np.stack(loaded), axis=0)
    groups: dict[object, list[int]] = {}
    for pipe in np.flatnonzero(loads.any(axis=0)).tolist():
        groups.setdefault((pipes.kinds[pipe], marks[:, pipe].tobytes()), []).append(pipe)
    members = list(groups.values())
    max_loads = np.stack([loads[:, group].max(axis=1) for group in members], axis=1)
    kept = _distinct_columns(max_loads)
    words = [str(pipes.kinds[members[k][0]][0]) for k in kept]
    several = Counter(words)
    return [
        PipeClass(word if several[word] == 1 else pipes.names[members[k][0]], tuple(members[k]))
        for k, word in zip(kept, words, strict=True)
    ]


def _distinct_columns(loads: IntArray) -> list[int]:
    """Return the columns that no other column dominates, the first of equal ones.

    The constraint of a dominated column is implied.
    """
    columns, first = np.unique(loads.T, axis=0, return_index=True)
    kept = []
    for k, column in enumerate(columns):
        above = (columns >= column).all(axis=1)
        above[k] = False
        if not above.any():
            kept.append(int(first[k]))
    return sorted(kept)


def _link_kind(channel: Channel, link: Link) -> PipeKind:
    """Return a key that is equal for links of one kind: costs and types of ends."""
    topology = channel.topology
    stems = [_switch_family(topology, node) or "rank" for node in link.edge]
    name = f"{channel.name}: {' to '.join(stems)}, {link.lanes * link.gb_per_s:g} GB/s"
    if max(link.edge) < topology.ranks <= _MAX_SEPARATE_LINK_RANKS:
        return (name, link.edge)
    return (name, link.alpha_us)


def _link_label(topology: Topology, edge: Edge) -> str:
    return " to ".join(
        f"rank {topology.label(node)}"
        if node < topology.ranks
        else topology.switches[node - topology.ranks].name
        for node in edge
    )


def _switch_family(topology: Topology, node: int) -> str:
    """Return the name of a switch without its number, or an empty string for a rank."""
    if node < topology.ranks:
        return ""
    return topology.switches[node - topology.ranks].name.rstrip("0123456789 ")


def _to_fraction(number: float) -> Fraction:
    return Fraction(str(number))


_EIGHTH = FULL_LOAD // 8


@dataclass(frozen=True, slots=True, eq=False)
class ResidualChannel:
    """The remainder of a channel.

    Attributes:
        channel: Number of the channel.
        machine: Remaining links with their remaining speed.
        residual: Remaining load of each pipe of the fabric except streams, in thousandths.
    """

    channel: int
    machine: Topology
    residual: IntArray

    @property
    def key(self) -> tuple[object, ...]:
        """Return a key that identifies it."""
        return (self.channel, self.residual.tobytes())

    def fit_load(self, ns: int, loads: IntArray) -> tuple[int, IntArray]:
        """Return time and loads that fit the remainder, with the time stretched if necessary.

        Args:
            ns: Time in nanoseconds without the limit.
            loads: Load of each pipe during this time, in thousandths.

        Raises:
            ParameterError: A loaded pipe has no remainder.
        """
        link_loads = loads[: len(self.residual)]
        if (link_loads > 0)[self.residual <= 0].any():
            raise ParameterError("it uses capacity that others occupy")
        over = link_loads > self.residual
        if not over.any():
            return ns, loads
        later = int((-(-link_loads[over] * ns // self.residual[over])).max())
        fewer = loads.copy()
        fewer[: len(self.residual)] = -(-link_loads * ns // later)
        return later, fewer


def residual_channel(
    fabric: Fabric, pipes: FabricPipes, channel: int, loads: Sequence[IntArray]
) -> ResidualChannel | None:
    """Return the remainder of a channel next to any of several motifs.

    Args:
        loads: Load of each pipe, for each motif.

    Returns:
        Remainder. None: the channel is completely free or completely used.
    """
    links = pipes.first_stream[0]
    used = np.stack(loads).max(axis=0)[:links]
    left = np.maximum(FULL_LOAD - used, 0) // _EIGHTH * _EIGHTH
    machine = fabric.channels[channel].topology
    first = pipes.first_link[channel]
    free_loads = left[first : first + len(machine.links)]
    if not free_loads.any() or (free_loads >= FULL_LOAD).all() or not used.any():
        return None
    gone = [
        link.edge for link, part in zip(machine.links, free_loads.tolist(), strict=True) if not part
    ]
    rest = remove_parts(machine, gone) if gone else machine
    part_of = {
        link.edge: part for link, part in zip(machine.links, free_loads.tolist(), strict=True)
    }
    slower = tuple(
        replace(link, gb_per_s=link.gb_per_s * part_of[link.edge] / FULL_LOAD)
        for link in rest.links
    )
    return ResidualChannel(channel, replace(rest, links=slower), left)
