"""Compute the costs of a motif on a channel: its duration, and its load of each pipe.

A pipe is a link, a shared bandwidth, or the streams of a rank. A carrier gives transfers between
ranks in steps, and a step ends with its last message. Each message takes the fastest route. Its
time is the sum of the latencies of its links, plus the time of the fullest pipe on its route for
all data of the step. If ranks forward the message, its own time on the other hops is added. If many
ranks send to one rank at once (:class:`~sccl.training.types.fabric.Incast`), more bytes are sent on
the whole route. A synthesizer receives the motif as a pattern of chunks, and the duration is that
of its schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.collectives import Spec
from sccl.core.arrays import IntArray
from sccl.core.clock import PS_PER_US
from sccl.core.collective import Relation, RelationKind
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.core.stop import StopKind
from sccl.core.topology import Topology, to_ranks
from sccl.errors import ParameterError
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.training.fabric_messages import link_bytes
from sccl.training.motifs import apply_recipe, parse_recipe
from sccl.training.motifs.extents import cells_of, floor_part
from sccl.training.options.carriers import LinkedRings, MotifCarrier, Transfers
from sccl.training.options.fabric_resources import ResidualChannel, build_pipes, stream_load
from sccl.training.options.measured_costs import CostTable
from sccl.training.options.message_routes import FastestRoutes
from sccl.training.types.fabric import Channel, Fabric, SharedBudget
from sccl.training.types.motif import Motif
from sccl.training.types.training_plan import FULL_LOAD

PlanFunction = Callable[[Topology, Spec, int], Schedule]
"""Function from a machine, a collective, and the bytes of a chunk to a schedule."""


@dataclass(frozen=True, slots=True)
class MotifPlanner:
    """A synthesizer that plans motifs, with its name."""

    name: str
    plan: PlanFunction


_MAX_CACHED = 256
"""Schedules that are cached. A transformer with ZeRO 3 on 8 GPUs has 36."""


def build_motif_planner(synthesizer: str = "tacos", seed: int = 0) -> MotifPlanner:
    """Return a planner of motifs on small machines, for options of training steps.

    Raises:
        UnknownNameError: There is no such synthesizer.
    """
    registry.load(synthesizer)
    return MotifPlanner(synthesizer, partial(_plan_motif, synthesizer, seed))


@lru_cache(maxsize=_MAX_CACHED)  # planning and verification derive the options several times
def _plan_motif(synthesizer: str, seed: int, topology: Topology, spec: Spec, size: int) -> Schedule:
    """Return the schedule of a motif.

    Raises:
        ParameterError: The synthesizer finds none.
        KeyboardInterrupt: The user interrupted.
    """
    by = registry.load(synthesizer)
    request = Request(topology, spec, size)
    outcome = by.plan(request, by.Options(), Effort(seed=seed), lambda _: None)
    if isinstance(outcome, Solution) and isinstance(outcome.plan, Schedule):
        return outcome.plan
    if isinstance(outcome, Inconclusive) and outcome.reason.kind is StopKind.INTERRUPTED:
        raise KeyboardInterrupt  # the partial result would depend on the time of the interrupt
    raise ParameterError(
        f"{synthesizer} finds no schedule for {spec.name} on {topology.name}: give another "
        "synthesizer"
    )


_RING = parse_recipe("ring")

_PS_PER_NS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class MotifCost:
    """The costs of a motif on a channel.

    Attributes:
        ns: Nanoseconds from launch to the last arrival.
        loads: Load of each pipe of the fabric during this time, in thousandths.
    """

    ns: int
    loads: IntArray


class StepMessages(NamedTuple):
    """Messages between ranks, step after step, one per pair and step.

    Attributes:
        step: Step of each message, ascending, without gaps.
        source: Source rank of each message.
        target: Target rank of each message.
        size: Useful bytes of each message.
        sent: Bytes of each message on links, which incast increases.
        first: Offset of each message in ``link``, and the total at the end.
        link: Links of all messages, as indices in the links of the channel.
    """

    step: IntArray
    source: IntArray
    target: IntArray
    size: IntArray
    sent: NDArray[np.float64]
    first: IntArray
    link: IntArray


_RECKONED_S, _ROW_S, _PLANNED_S = 1e-3, 2.5e-7, 1.5e-2
"""Approximate seconds to compute the cost of a motif, per transfer or link of a message, and to
plan a motif."""


class MotifCosts:
    """Costs of motifs on the channels of a fabric. Equal motifs are computed once.

    Attributes:
        seconds: Approximate time used, from operation counts, so that it is the same on all
            machines.

    Raises:
        ParameterError: A measurement names a channel that the fabric does not have, or no carrier.
    """

    def __init__(self, fabric: Fabric, measured: CostTable | None = None) -> None:
        if measured is not None:
            measured.check_channels([channel.name for channel in fabric.channels])
        self.fabric, self.pipes, self._measured = fabric, build_pipes(fabric), measured
        self._channels = [_Channel(channel, fabric.shared) for channel in fabric.channels]
        self._spare: dict[tuple[object, ...], _Channel] = {}
        self.seconds = 0.0
        self._cost_cache: dict[tuple[object, ...], MotifCost] = {}
        self._sent: dict[tuple[object, ...], StepMessages] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._shapes: dict[int, tuple[Motif, int]] = {}  # keeps motifs alive, so ids stay unique

    def carrier_cost(
        self,
        motif: Motif,
        channel: int,
        carrier: MotifCarrier,
        item_bytes: int,
        duration_ns: int | None = None,
    ) -> MotifCost:
        """Return the costs of a motif on a channel with a carrier of its collective.

        Args:
            channel: Number of the channel.
            item_bytes: Bytes of an element.
            duration_ns: Duration to use, in nanoseconds. None: the measured or modeled one.

        Raises:
            UnreachableError: The channel does not join ranks that send to one another.
            ParameterError: Measurements exist only for other sizes.
        """
        key = (channel, carrier.name, item_bytes, self.shape_number(motif), duration_ns)
        if key not in self._cost_cache:
            model = self._channels[channel]
            sends = carrier.build_transfers(motif, model.rings)
            ps, occupied, rows = model.transfer_time(sends, item_bytes)
            self.seconds += _RECKONED_S + _ROW_S * (len(sends.step) + rows)
            name, ns = self.fabric.channels[channel].name, duration_ns
            if ns is None and self._measured is not None:
                us = self._measured.time_us(motif, name, carrier.name, item_bytes)
                ns = None if us is None else ceil(us * 1000)
            self._cost_cache[key] = self._total_cost(_motif_ranks(motif), channel, ps, occupied, ns)
        return self._cost_cache[key]

    def carrier_messages(
        self, motif: Motif, channel: int, carrier: MotifCarrier, item_bytes: int
    ) -> StepMessages:
        """Return the messages of a motif on a channel with a carrier of its collective.

        Raises:
            UnreachableError: The channel does not join ranks that send to one another.
        """
        key = (channel, carrier.name, item_bytes, self.shape_number(motif))
        if key not in self._sent:
            model = self._channels[channel]
            self._sent[key] = model.messages(
                carrier.build_transfers(motif, model.rings), item_bytes
            )
        return self._sent[key]

    def planned_cost(
        self,
        motif: Motif,
        channel: int,
        planner: PlanFunction,
        item_bytes: int,
        machine: Topology | None = None,
    ) -> MotifCost:
        """Return the costs of a motif with schedules of its pattern.

        An allreduce is a reducescatter followed by an allgather, launched as one.

        Args:
            machine: Remainder of the channel's machine. None: the whole machine.

        Raises:
            InputError: The synthesizer has no schedule on this machine.
        """
        key = (channel, id(planner), item_bytes, self.shape_number(motif), machine)
        if key not in self._cost_cache:
            links = self.fabric.channels[channel].topology.links
            place = {item.edge: k for k, item in enumerate(links)}
            ps, of_links = 0, np.zeros(len(place), np.int64)
            for schedule in self.planned_schedules(motif, channel, planner, item_bytes, machine):
                ps += schedule.finish * schedule.tick_ps
                for link, amount in link_bytes(schedule).items():
                    of_links[place[schedule.topology.links[link].edge]] += amount
            self._cost_cache[key] = self._total_cost(_motif_ranks(motif), channel, ps, of_links)
        return self._cost_cache[key]

    def complementary_cost(
        self, motif: Motif, by: MotifCarrier | MotifPlanner, item_bytes: int, spare: ResidualChannel
    ) -> MotifCost:
        """Return the costs of a motif that uses only the remainder of a channel.

        Raises:
            InputError: The remainder does not join the motif's ranks, or has no schedule.
        """
        key = (by.name, item_bytes, self.shape_number(motif), *spare.key)
        if key not in self._cost_cache:
            channel, machine = spare.channel, spare.machine
            if isinstance(by, MotifPlanner):
                cost = self.planned_cost(motif, channel, by.plan, item_bytes, machine)
            else:
                model = self._spare.get(spare.key)
                if model is None:
                    spare_channel = replace(self.fabric.channels[channel], topology=machine)
                    model = self._spare[spare.key] = _Channel(spare_channel, ())
                sends = by.build_transfers(motif, model.rings)
                ps, occupied, rows = model.transfer_time(sends, item_bytes)
                self.seconds += _RECKONED_S + _ROW_S * (len(sends.step) + rows)
                links = self.fabric.channels[channel].topology.links
                amounts = {
                    link.edge: amount
                    for link, amount in zip(machine.links, occupied.tolist(), strict=True)
                }
                all_amounts = np.array([amounts.get(link.edge, 0) for link in links], np.int64)
                cost = self._total_cost(_motif_ranks(motif), channel, ps, all_amounts)
            self._cost_cache[key] = MotifCost(*spare.fit_load(cost.ns, cost.loads))
        return self._cost_cache[key]

    def planned_schedules(
        self,
        motif: Motif,
        channel: int,
        planner: PlanFunction,
        item_bytes: int,
        machine: Topology | None = None,
    ) -> list[Schedule]:
        """Return the schedules of a motif's pattern in sequence, as for :meth:`planned_cost`."""
        parts = apply_recipe(motif, _RING) if motif.collective == "allreduce" else (motif,)
        topology = self.fabric.channels[channel].topology
        self.seconds += _PLANNED_S * len(parts)
        return [
            planner(machine or topology, *pattern_of(k, topology.ranks, item_bytes)) for k in parts
        ]

    def launch_cost(self, ranks: Iterable[int], channel: int) -> MotifCost:
        """Return the launch cost of a collective that moves nothing."""
        links = len(self.fabric.channels[channel].topology.links)
        return self._total_cost(ranks, channel, 0, np.zeros(links, np.int64))

    def shape_number(self, motif: Motif) -> int:
        """Return a number that is equal for motifs of equal cost."""
        if id(motif) not in self._shapes:
            number = self._numbers.setdefault(_cost_shape(motif), len(self._numbers))
            self._shapes[id(motif)] = motif, number
        return self._shapes[id(motif)][1]

    def _total_cost(
        self,
        ranks: Iterable[int],
        channel: int,
        ps: int,
        occupied: IntArray,
        took: int | None = None,
    ) -> MotifCost:
        """Return the cost of a motif, including its launch and its streams.

        Args:
            ranks: Ranks whose streams the motif uses.
            channel: Number of the channel.
            ps: Modeled duration in picoseconds, without the launch.
            occupied: Bytes on each link of the channel.
            took: Duration in nanoseconds with the launch, instead of the modeled one.
        """
        fabric_channel = self.fabric.channels[channel]
        reckoned = ceil(fabric_channel.launch_us * 1000) + -(-ps // _PS_PER_NS)
        ns = max(1, reckoned if took is None else took)
        carried = self.pipes.pipe_bytes(channel, occupied)
        loads = np.minimum(self.pipes.loads(carried, ns), FULL_LOAD)  # if measured time is short
        streams = np.zeros(len(self.pipes.names) - len(carried), np.int64)
        first = self.pipes.first_stream[channel] - len(carried)
        streams[first + np.array(sorted(ranks))] = stream_load(fabric_channel)
        return MotifCost(ns, np.concatenate([loads, streams]))


class _Channel:
    """A channel, for the costs of messages.

    Attributes:
        routes: Routes over its links.
        rings: Rings along its links.
    """

    def __init__(self, channel: Channel, together: Sequence[SharedBudget]) -> None:
        self.routes, self._channel = FastestRoutes(channel.topology), channel
        self.rings = LinkedRings(channel.topology)
        links = channel.topology.links
        self._alpha = np.array([round(k.alpha_us * PS_PER_US) for k in links], np.int64)
        self._target = np.array([k.dst for k in links], np.int64)
        self._paces = np.array([1000 / (k.lanes * k.gb_per_s) for k in links])
        place = {item.edge: k for k, item in enumerate(links)}
        of_lanes = zip(channel.topology.budgets, channel.topology.budget_speeds(), strict=True)
        budgets = [(budget.edges, budget.chunks_per_round * speed) for budget, speed in of_lanes]
        for shared in together:  # the plan accounts for the loads of others
            shared_edges = tuple(edge for name, edge in shared.links if name == channel.name)
            budgets.append((shared_edges, shared.gb_per_s))
        self._shared = [
            (np.array([place[edge] for edge in edges]), 1000 / speed)
            for edges, speed in budgets
            if any(speed < links[place[edge]].lanes * links[place[edge]].gb_per_s for edge in edges)
            or len(edges) > 1
        ]

    def messages(self, sends: Transfers, item_bytes: int) -> StepMessages:
        links, ranks = len(self._alpha), self._channel.topology.ranks
        empty = np.zeros(0, np.int64)
        if not len(sends.step):
            return StepMessages(
                empty, empty, empty, empty, empty.astype(np.float64), np.zeros(1, np.int64), empty
            )
        key = (sends.step * ranks + sends.source) * ranks + sends.target
        pairs, of = np.unique(key, return_inverse=True)
        size = np.bincount(of, weights=(sends.stop - sends.start) * item_bytes).astype(np.int64)
        step = pairs // ranks**2
        met = np.zeros(ranks**2, np.bool_)
        met[pairs % ranks**2] = True
        ends, way_of = np.flatnonzero(met), (np.cumsum(met) - 1)[pairs % ranks**2]
        routes = self.routes.routes_for(ends // ranks, ends % ranks, int(size.max()))
        length = np.diff(routes.first)[way_of]
        first = np.cumsum(length) - length
        within = np.arange(int(length.sum())) - np.repeat(first, length)
        link = routes.link[np.repeat(routes.first[way_of], length) + within]
        last = link[first + length - 1]
        sent = size / self._efficiency(step * links + last, size)
        source, target = np.divmod(pairs % ranks**2, ranks)
        first = np.append(first, len(link))
        return StepMessages(step, source, target, size, sent, first, link)

    def transfer_time(self, sends: Transfers, item_bytes: int) -> tuple[int, IntArray, int]:
        """Return the duration of transfers in picoseconds, bytes on each link, and total hops."""
        links = len(self._alpha)
        occupied = np.zeros(links, np.int64)
        step, _, _, size, sent, bounds, link = self.messages(sends, item_bytes)
        if not len(step):
            return 0, occupied, 0
        first = bounds[:-1]
        by = np.repeat(np.arange(len(step)), np.diff(bounds))
        count = (int(step[-1]) + 1) * links
        sums = np.bincount(step[by] * links + link, weights=sent[by], minlength=count)
        full: NDArray[np.float64] = sums.reshape(-1, links).astype(np.float64)
        occupied += np.ceil(full.sum(axis=0)).astype(np.int64)
        busy = full * self._paces
        for members, pace in self._shared:
            together = full[:, members].sum(axis=1)[:, None] * pace
            busy[:, members] = np.maximum(busy[:, members], together)
        longest = np.maximum.reduceat(busy[step[by], link], first)
        took = longest + np.add.reduceat(self._alpha[link], first)
        took += self._forwarding_ps(size, by, link)
        each = np.zeros(len(full))
        np.maximum.at(each, step, took)
        return int(np.ceil(each).astype(np.int64).sum()), occupied, len(link)

    def _forwarding_ps(self, size: IntArray, by: IntArray, link: IntArray) -> NDArray[np.float64]:
        """Return the time of each message on all its hops between ranks except the longest one.

        Times are in picoseconds.
        """
        ends = self._target[link] < self._channel.topology.ranks
        totals = np.zeros(len(size))
        if int(ends.sum()) == len(size):
            return totals
        durations = size[by] * self._paces[link]
        begins = np.concatenate([[True], ends[:-1]])
        stretch = np.maximum.reduceat(durations, np.flatnonzero(begins))
        owners = by[begins]
        np.add.at(totals, owners, stretch)
        longest = np.zeros(len(size))
        np.maximum.at(longest, owners, stretch)
        return totals - longest

    def _efficiency(self, end: IntArray, size: IntArray) -> NDArray[np.float64]:
        """Return the useful fraction of each message's bytes under incast.

        Args:
            end: Number of the step and the last link of each message.
        """
        key, of, senders = np.unique(end, return_inverse=True, return_counts=True)
        together = np.bincount(of, weights=size)
        efficiencies = np.ones(len(key))
        for row in self._channel.incast:
            met = (senders >= row.senders) & (together >= row.from_bytes)
            efficiencies[met] = np.minimum(efficiencies[met], row.efficiency)
        part: NDArray[np.float64] = efficiencies[of]
        return part


def _motif_ranks(motif: Motif) -> set[int]:
    return {rank for share in motif.shares for rank in share.group}


def _cost_shape(motif: Motif) -> tuple[object, ...]:
    """Return a key that is equal for motifs of equal cost: the elements that each rank moves."""
    sizes: list[bytes] = []
    for share in motif.shares:
        cells = cells_of(share.cells)
        rows = np.stack([cells[:-1] + floor_part(np.diff(cells), part) for part in motif.part])
        sizes.append((rows[1] - rows[0]).tobytes())
    groups = tuple((share.group, share.owns, share.wants, share.root) for share in motif.shares)
    return (motif.collective, groups, motif.offsets, tuple(sizes))


def pattern_of(motif: Motif, ranks: int, item_bytes: int) -> tuple[Spec, int]:
    """Return a motif as a collective on all ranks of a machine, and the bytes of a chunk.

    A chunk is the part of a cell that moves. If elements do not divide evenly, all chunks have the
    size of the largest, so that the pattern is uniform. Chunks of different sizes, as in an uneven
    alltoall, have counts of elements.

    Raises:
        ParameterError: The motif moves nothing.
    """
    moves = list(motif.moves())
    if not moves:
        raise ParameterError(f"a {motif.collective} moves nothing: it has no elements")
    sizes = [stop - start for start, stop in (move.span for move in moves)]
    alike = max(sizes) - min(sizes) <= 1
    spec = Spec(
        f"motif-{motif.collective}",
        ranks,
        unit=1,
        pattern_chunks=len(moves),
        pre=_chunk_relation(move.sources for move in moves),
        post=_chunk_relation(move.targets for move in moves),
        combining=motif.is_combining,
        counts=() if alike else tuple(sizes),
    )
    return spec, item_bytes * (max(sizes) if alike else 1)


def _chunk_relation(ends: Iterable[Iterable[int]]) -> Relation:
    return Relation(RelationKind.PAIRS, pattern=tuple(to_ranks(ranks) for ranks in ends))
