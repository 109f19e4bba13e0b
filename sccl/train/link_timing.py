"""What a plan takes where all that its motifs send goes over links, message by message.

Each motif sends step after step what its carrier does, over the ways by which its time was
reckoned; a step begins when all of the one before has arrived. Messages of all motifs that are on
the way meet at the links (:mod:`sccl.sim`): these serve one after the other, in the order of
coming. What many send to one rank at once is more than is of use, as in the costs of motifs. So a
motif that is alone around a switch takes what its costs say; elsewhere costs are reckoned, and this
is what there is to compare them with.

A plan takes more so than it claims for two reasons, which are told apart: a motif takes more alone
than was reckoned (:func:`apart_timing`), and messages wait for those of other motifs. A plan counts
what a motif needs of a link on average over its time; but what it sends comes in bursts, and a step
that waits for a burst of another motif ends later, and so do all after it, though there is room on
average. Fluids do not tell that either.

Computations that channels slow down take what the plan claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sccl.core.clock import Clock
from sccl.core.dtypes import ITEM_BYTES
from sccl.core.step_timeline import StepTimeline
from sccl.core.training_plan import TrainingPlan
from sccl.errors import ParameterError, TooLargeError
from sccl.sim import MessageRoutes, Messages, simulate
from sccl.train.carriers import CARRIERS
from sccl.train.costs import MotifCosts, StepMessages
from sccl.train.link_machine import LinkMachine, link_machine
from sccl.train.recosting import motifs_made
from sccl.train.slowing import slows
from sccl.train.timings import ITERATIONS, StepTask, StepTiming, step_tasks, timing_of

Whole = NDArray[np.int64]

MOST_SENT = 2**20
"""Messages, each as often as it has links: a second or so."""

_MOST_COSTS = 2**22
"""Costs of all sizes on all links, which are all told."""

_MOST_TICKS = 2**60
_PS_PER_NS = 1000
_NOTHING = -1

_BY_NAME = {carrier.name: carrier for carrier in CARRIERS}

_Part = tuple[str, int]
"""A collective and a motif of its option; of a computation 0."""


def link_timing(
    plan: TrainingPlan,
    timeline: StepTimeline,
    iterations: int = ITERATIONS,
    most_sent: int = MOST_SENT,
) -> StepTiming:
    """Return what a plan takes message by message.

    Args:
        timeline: of the plan, as it claims: motifs are on the same streams of channels here.
        iterations: that are counted, 2 or more.
        most_sent: messages, each as often as it has links, that are simulated at the most.

    Raises:
        TooLargeError: it sends more.
        InputError: it says of motifs what cannot be simulated.
    """
    tasks = _tasks(plan, timeline, iterations)
    ends = _simulated(plan, tasks, _sent(plan, tasks, most_sent))
    return timing_of(tasks, ends, iterations)


def apart_timing(
    plan: TrainingPlan,
    timeline: StepTimeline,
    iterations: int = ITERATIONS,
    most_sent: int = MOST_SENT,
) -> StepTiming:
    """Return what a plan takes if each motif has all links to itself, message by message.

    Args:
        timeline: as of :func:`link_timing`, and so are the others.

    Raises:
        TooLargeError: it sends more.
        InputError: it says of motifs what cannot be simulated.
    """
    tasks = _tasks(plan, timeline, iterations)
    one_each = {task.key[:2]: task for task in tasks if task.motif is not None}
    row = [replace(task, after=(k - 1,) if k else ()) for k, task in enumerate(one_each.values())]
    ends = _simulated(plan, row, _sent(plan, tasks, most_sent)) if row else []
    took = [end - begun for begun, end in zip([0.0, *ends], ends, strict=False)]
    return timing_of(tasks, _one_by_one(tasks, dict(zip(one_each, took, strict=True))), iterations)


def _tasks(plan: TrainingPlan, timeline: StepTimeline, iterations: int) -> list[StepTask]:
    """Return what a plan does; computations that are slowed down take what it claims.

    Raises:
        ParameterError: its times are not of links.
    """
    if plan.costs:
        raise ParameterError("times are of a table of costs, and not of links")
    tasks = step_tasks(plan, timeline, iterations)
    if not slows(plan.fabric):
        return tasks
    took = {(s.op, s.iteration): s.end_ns - s.start_ns for s in timeline.spans if s.computes}
    last = timeline.iterations - 1
    return [
        task
        if task.motif is not None
        else replace(task, ns=took[task.key[0], min(task.key[2], last)])
        for task in tasks
    ]


def _simulated(
    plan: TrainingPlan, tasks: Sequence[StepTask], sent: Mapping[_Part, _Sent]
) -> list[float]:
    """Return when tasks end, in nanoseconds, as their messages meet on the way."""
    parts = dict.fromkeys(task.key[:2] for task in tasks)
    script = _Script(link_machine(plan.fabric, len(parts)))
    rows = _written(plan, tasks, sent, script, {part: k for k, part in enumerate(parts)})
    return _ends_of(tasks, rows, script.arrivals(max(task.ns for task in tasks)))


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """What a motif sends.

    Attributes:
        channel: its number.
        order: in which messages come that are ready at once: nobody sends to the same rank at once.
    """

    channel: int
    messages: StepMessages
    order: Whole


def _sent(plan: TrainingPlan, tasks: Iterable[StepTask], most: int) -> dict[_Part, _Sent]:
    """Return what each motif sends.

    Raises:
        TooLargeError: it is more than so many messages over links.
        InputError: recipes do not make these motifs, or a synthesiser planned some.
    """
    costs, ranks = MotifCosts(plan.fabric), plan.fabric.ranks
    numbers = {channel.name: k for k, channel in enumerate(plan.fabric.channels)}
    calls = {op.id: op for op in plan.workload.collectives()}
    times = max(task.key[2] for task in tasks) + 1
    found: dict[_Part, _Sent] = {}
    known: dict[int, _Sent] = {}
    total = 0
    for name, option in plan.options:
        made = motifs_made(calls[name], option)
        for number, (one, motif) in enumerate(zip(made, option.motifs, strict=False)):
            if (carrier := _BY_NAME.get(motif.carrier)) is None:
                raise ParameterError(
                    f"motif {number} of {name!r:.60} is carried by {motif.carrier!r:.60}, whose "
                    "messages are not told"
                )
            channel, size = numbers[motif.channel], ITEM_BYTES[calls[name].dtype]
            if one.collective not in carrier.of:
                raise ParameterError(
                    f"motif {number} of {name!r:.60} is no collective that is carried by "
                    f"{carrier.name!r}"
                )
            messages = costs.messages(one, channel, carrier, size)
            total += times * (len(messages.step) + len(messages.link))
            if total > most:
                raise TooLargeError(
                    f"more than {most} messages over links are on the way in {times} iterations"
                )
            if id(messages) not in known:
                turn = (messages.target - messages.source) % ranks
                order = np.lexsort((messages.source, turn, messages.step))
                known[id(messages)] = _Sent(channel, messages, order)
            found[name, number] = known[id(messages)]
    return found


class _Script:
    """Messages over a machine, and what they wait for, as they are added.

    Ways are numbered: first those to clocks, in their order.
    """

    def __init__(self, machine: LinkMachine) -> None:
        self.machine = machine
        self.gates = self.messages = self.ways = 0
        self._columns: list[tuple[Whole, Whole, Whole, Whole, Whole]] = []
        self._ways: list[tuple[Whole, Whole, Whole, Whole]] = []
        self._counts: list[tuple[int, int]] = []
        clocks = len(machine.clocks)
        hub = np.full(clocks, machine.hub)
        self.add_ways(hub, machine.clocks, np.ones(clocks, np.int64), machine.clock_links)

    def add_ways(self, source: Whole, target: Whole, length: Whole, link: Whole) -> int:
        """Add ways, and return the number of the first.

        Args:
            link: all links of the first, then those of the second ..
        """
        self._ways.append((source, target, length, link))
        self.ways += len(length)
        return self.ways - len(length)

    def add_gates(self, many: int = 1) -> int:
        """Add gates, and return the number of the first."""
        self.gates += many
        return self.gates - many

    def count(self, gate: int, others: Iterable[int]) -> None:
        """Let a gate wait for others."""
        self._counts += [(other, gate) for other in others]

    def add(self, way: Whole, size: Whole, ns: Whole, waits: Whole, opens: Whole) -> None:
        """Add messages: of some bytes, or that take their time alone; with the gates of each."""
        self._columns.append((way, size, ns, waits, opens))
        self.messages += len(way)

    def arrivals(self, longest_ns: int) -> Whole:
        """Return when each message arrives, in picoseconds.

        Raises:
            InputError: it takes more ticks than are counted, or there are too many costs.
        """
        machine = self.machine
        way, size, ns, waits, opens = (
            np.concatenate(own) for own in zip(*self._columns, strict=True)
        )
        source, target, length, link = (
            np.concatenate(own) for own in zip(*self._ways, strict=True)
        )
        rows = int(length[way].sum()) + 1
        tick_ps = 1 if rows * longest_ns * _PS_PER_NS < _MOST_TICKS else _PS_PER_NS
        sizes, chunk = np.unique(size, return_inverse=True)
        if len(sizes) * len(machine.topology.links) > _MOST_COSTS:
            raise TooLargeError(
                f"messages have {len(sizes)} sizes, and links are {len(machine.topology.links)}: "
                "costs are too many"
            )
        counts = np.array(self._counts, np.int64).reshape(-1, 2)
        none = np.full(len(way), _NOTHING)
        sent = Messages(
            chunk=chunk.astype(np.int32),
            src=source[way].astype(np.int32),
            dst=target[way].astype(np.int32),
            reduce=np.zeros(len(way), np.bool_),
            release=np.zeros(len(way), np.int64),
            at_least=ns * _PS_PER_NS // tick_ps,
            waits_for=waits.astype(np.int32),
            arrival_opens=opens.astype(np.int32),
            start_opens=none.astype(np.int32),
            barriers=np.ones(self.gates, np.bool_),
            opened=counts[:, 0].astype(np.int32),
            counted_at=counts[:, 1].astype(np.int32),
            num_chunks=len(sizes),
        )
        clock = Clock.of(machine.topology, tuple(sizes.tolist()), tick_ps=tick_ps)
        first = np.concatenate([[0], np.cumsum(length)])
        timeline = simulate(sent, machine.topology, clock, MessageRoutes(way, first, link))
        arrive = np.zeros(len(way), np.int64)
        np.maximum.at(arrive, timeline.message, timeline.arrive)
        found: Whole = arrive * tick_ps
        return found


def _written(
    plan: TrainingPlan,
    tasks: Sequence[StepTask],
    sent: Mapping[_Part, _Sent],
    script: _Script,
    clock_of: Mapping[_Part, int],
) -> list[tuple[int, int]]:
    """Write what tasks do, and return of each its first message, and the end.

    A task is ready as all have ended that it waits for; a motif, too, as those before it are. It is
    launched, or computes, on a clock of its own.
    """
    launches = {channel.name: ceil(channel.launch_us * 1000) for channel in plan.fabric.channels}
    ways: dict[int, int] = {}
    done: list[int] = []
    rows: list[tuple[int, int]] = []
    issued = _NOTHING
    for task in tasks:
        begin, gate = script.messages, script.add_gates()
        script.count(gate, (done[k] for k in task.after))
        if task.motif is not None:
            script.count(gate, () if issued == _NOTHING else (issued,))
            issued = gate
        if ns := task.ns if task.motif is None else launches[task.motif.channel]:
            after = script.add_gates()
            row = (clock_of[task.key[:2]], 1, ns, gate, after)
            script.add(*(np.array([number]) for number in row))
            gate = after
        own = sent.get(task.key[:2])
        if own is not None and len(own.order):
            if id(own) not in ways:
                ways[id(own)] = _add_ways(script, own)
            step = own.messages.step[own.order]
            first = script.add_gates(int(step[-1]) + 1)
            size = np.ceil(own.messages.sent[own.order]).astype(np.int64)
            waits = np.where(step == 0, gate, first + step - 1)
            way = ways[id(own)] + np.arange(len(step))
            script.add(way, size, np.zeros(len(step), np.int64), waits, first + step)
            gate = first + int(step[-1])
        done.append(gate)
        rows.append((begin, script.messages))
    return rows


def _add_ways(script: _Script, own: _Sent) -> int:
    """Add the ways of a motif's messages, in the order in which they come."""
    machine, one = script.machine, own.messages
    length = np.diff(one.first)[own.order]
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    link = one.link[np.repeat(one.first[:-1][own.order], length) + within]
    source, target = (
        machine.node(own.channel, ends[own.order]) for ends in (one.source, one.target)
    )
    return script.add_ways(source, target, length, machine.links[own.channel][link])


def _ends_of(
    tasks: Sequence[StepTask], rows: Iterable[tuple[int, int]], arrive: Whole
) -> list[float]:
    """Return when tasks end, in nanoseconds; what sends nothing does as it is ready."""
    told = [
        float(arrive[begin:end].max()) / _PS_PER_NS if end > begin else None for begin, end in rows
    ]
    return _in_turn(tasks, lambda number, ready: told[number] or ready)


def _one_by_one(tasks: Sequence[StepTask], took: Mapping[_Part, float]) -> list[float]:
    """Return when tasks end, given what motifs take."""
    return _in_turn(
        tasks, lambda number, ready: ready + took.get(tasks[number].key[:2], tasks[number].ns)
    )


def _in_turn(tasks: Sequence[StepTask], end_of: Callable[[int, float], float]) -> list[float]:
    """Return when tasks end, by when each is ready; a motif is so once those before it are."""
    ends: list[float] = []
    issued = 0.0
    for number, task in enumerate(tasks):
        ready = max((ends[k] for k in task.after), default=0.0)
        if task.motif is not None:
            issued = ready = max(ready, issued)
        ends.append(end_of(number, ready))
    return ends
