"""What a plan takes where all that its motifs send goes over links, message by message.

Each motif sends step after step what its carrier does, over the ways by which its time was
reckoned. A step begins when all of the one before has arrived. Messages of all motifs that are on
the way meet at the links (:mod:`sccl.sim`): these serve one after the other, in the order of
coming. What many send to one rank at once is more than is of use, as in the costs of motifs. So a
motif that is alone around a switch takes what its costs say; elsewhere costs are reckoned, and this
is what there is to compare them with.

A plan takes more so than it claims for two reasons, which are told apart: a motif takes more alone
than was reckoned (:func:`apart_timing`), and messages wait for those of other motifs. A plan counts
what a motif needs of a link on average over its time, but what it sends comes in bursts, and a step
that waits for a burst of another motif ends later, and so do all after it, though there is room on
average. Fluids do not tell that either.

Computations that channels slow down take what the plan claims. Motifs that a synthesiser planned
send what its schedules do, as soon as that is there. There a link is free while a message's latency
passes, which schedules may count as time in which it is busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sccl.core.dtypes import ITEM_BYTES
from sccl.core.step_timeline import StepTimeline
from sccl.core.training_plan import TrainingPlan
from sccl.errors import ParameterError, TooLargeError
from sccl.train.carriers import CARRIERS
from sccl.train.costs import MotifCosts, MotifPlanner, StepMessages
from sccl.train.link_machine import link_machine
from sccl.train.link_script import NOTHING, PS_PER_NS, LinkScript
from sccl.train.recosting import motifs_made
from sccl.train.scheduled import ScheduledMessages, scheduled
from sccl.train.slowing import slows
from sccl.train.timings import ITERATIONS, StepTask, StepTiming, step_tasks, timing_of

Whole = NDArray[np.int64]

MOST_SENT = 2**20
"""Messages, each as often as it has links: a second or so."""

_BY_NAME = {carrier.name: carrier for carrier in CARRIERS}

_Part = tuple[str, int]
"""A collective and a motif of its option; of a computation 0."""


def link_timing(
    plan: TrainingPlan,
    timeline: StepTimeline,
    iterations: int = ITERATIONS,
    most_sent: int = MOST_SENT,
    planner: MotifPlanner | None = None,
) -> StepTiming:
    """Return what a plan takes message by message.

    Args:
        timeline: of the plan, as it claims: motifs are on the same streams of channels here.
        iterations: that are counted, 2 or more.
        most_sent: messages, each as often as it has links, that are simulated at the most.
        planner: what planned motifs that say so. None: these are not simulated.

    Raises:
        TooLargeError: it sends more.
        InputError: it says of motifs what cannot be simulated.
    """
    tasks = _tasks(plan, timeline, iterations)
    ends = _simulated(plan, tasks, _sent(plan, tasks, most_sent, planner))
    return timing_of(tasks, ends, iterations)


def apart_timing(
    plan: TrainingPlan,
    timeline: StepTimeline,
    iterations: int = ITERATIONS,
    most_sent: int = MOST_SENT,
    planner: MotifPlanner | None = None,
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
    ends = _simulated(plan, row, _sent(plan, tasks, most_sent, planner)) if row else []
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
    script = LinkScript(link_machine(plan.fabric, len(parts)))
    rows = _written(plan, tasks, sent, script, {part: k for k, part in enumerate(parts)})
    return _ends_of(tasks, rows, script.arrivals(max(task.ns for task in tasks)))


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """What a motif sends.

    Attributes:
        channel: its number.
        messages: step after step.
        order: in which messages come that are ready at once: nobody sends to the same rank at once.
        planned: schedules, one after the other, instead of these.
    """

    channel: int
    messages: StepMessages | None = None
    order: Whole = field(default_factory=lambda: np.zeros(0, np.int64))
    planned: tuple[ScheduledMessages, ...] = ()

    @property
    def rows(self) -> int:
        """Return how many messages there are, each as often as it has links, and once more."""
        own = 0 if self.messages is None else len(self.messages.step) + len(self.messages.link)
        return own + sum(2 * len(one.link) for one in self.planned)


def _sent(
    plan: TrainingPlan, tasks: Iterable[StepTask], most: int, planner: MotifPlanner | None
) -> dict[_Part, _Sent]:
    """Return what each motif sends.

    Raises:
        TooLargeError: it is more than so many messages over links.
        InputError: recipes do not make these motifs, or a synthesiser planned some.
    """
    costs = MotifCosts(plan.fabric)
    numbers = {channel.name: k for k, channel in enumerate(plan.fabric.channels)}
    calls = {op.id: op for op in plan.workload.collectives()}
    times = max(task.key[2] for task in tasks) + 1
    found: dict[_Part, _Sent] = {}
    known: dict[tuple[object, ...], _Sent] = {}
    total = 0
    for name, option in plan.options:
        made, size = motifs_made(calls[name], option), ITEM_BYTES[calls[name].dtype]
        for number, (one, motif) in enumerate(zip(made, option.motifs, strict=False)):
            channel, by = numbers[motif.channel], f"motif {number} of {name!r:.60}"
            if (carrier := _BY_NAME.get(motif.carrier)) is not None:
                if one.collective not in carrier.of:
                    raise ParameterError(
                        f"{by} is no collective that is carried by {carrier.name!r}"
                    )
                messages = costs.messages(one, channel, carrier, size)
                key: tuple[object, ...] = (id(messages),)
                if key not in known:
                    known[key] = _in_steps(messages, channel, plan.fabric.ranks)
            elif planner is not None and motif.carrier == planner.name:
                key = (channel, size, costs.shape_of(one))
                if key not in known:
                    machine = plan.fabric.channels[channel].topology
                    rows = costs.schedules(one, channel, planner.plan, size)
                    known[key] = _Sent(channel, planned=tuple(scheduled(k, machine) for k in rows))
            else:
                raise ParameterError(
                    f"{by} is carried by {motif.carrier!r:.60}, whose messages are unknown"
                )
            found[name, number] = known[key]
            total += times * known[key].rows
            if total > most:
                raise TooLargeError(
                    f"more than {most} messages over links are on the way in {times} iterations"
                )
    return found


def _in_steps(messages: StepMessages, channel: int, ranks: int) -> _Sent:
    turn = (messages.target - messages.source) % ranks
    order = np.lexsort((messages.source, turn, messages.step))
    return _Sent(channel, messages, order)


def _written(
    plan: TrainingPlan,
    tasks: Sequence[StepTask],
    sent: Mapping[_Part, _Sent],
    script: LinkScript,
    clock_of: Mapping[_Part, int],
) -> list[tuple[int, int]]:
    """Write what tasks do, and return of each its first message, and the end.

    A task is ready as all have ended that it waits for. A motif, too, as those before it are. It is
    launched, or computes, on a clock of its own.
    """
    launches = {channel.name: ceil(channel.launch_us * 1000) for channel in plan.fabric.channels}
    ways: dict[int, int] = {}
    done: list[int] = []
    rows: list[tuple[int, int]] = []
    issued = NOTHING
    for task in tasks:
        begin, gate = script.messages, script.add_gates()
        script.count(gate, (done[k] for k in task.after))
        if task.motif is not None:
            script.count(gate, () if issued == NOTHING else (issued,))
            issued = gate
        if ns := task.ns if task.motif is None else launches[task.motif.channel]:
            after = script.add_gates()
            row = (clock_of[task.key[:2]], 1, ns, gate, after)
            script.add(*(np.array([number]) for number in row))
            gate = after
        own = sent.get(task.key[:2])
        if own is not None and own.rows:
            if id(own) not in ways:
                ways[id(own)] = _add_ways(script, own)
            gate = _add_sent(script, own, ways[id(own)], gate)
        done.append(gate)
        rows.append((begin, script.messages))
    return rows


def _add_sent(script: LinkScript, own: _Sent, way: int, gate: int) -> int:
    """Add what a motif sends, after a gate; return the one that opens as all has arrived.

    Args:
        way: the first of its ways.
    """
    for one in own.planned:
        gate = script.add_scheduled(one, way, gate)
        way += len(one.link)
    if own.messages is None or not len(own.order):
        return gate
    step = own.messages.step[own.order]
    first = script.add_gates(int(step[-1]) + 1)
    size = np.ceil(own.messages.sent[own.order]).astype(np.int64)
    waits = np.where(step == 0, gate, first + step - 1)
    ways, none = way + np.arange(len(step)), np.zeros(len(step), np.int64)
    script.add(ways, size, none, waits, first + step)
    return first + int(step[-1])


def _add_ways(script: LinkScript, own: _Sent) -> int:
    """Add the ways of a motif's messages, in the order in which they come."""
    machine, one = script.machine, own.messages
    if one is None:
        link = machine.links[own.channel][np.concatenate([k.link for k in own.planned])]
        edges = [machine.topology.links[k].edge for k in link.tolist()]
        ends = np.array(edges, np.int64).reshape(-1, 2)
        return script.add_ways(ends[:, 0], ends[:, 1], np.ones(len(link), np.int64), link)
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
        float(arrive[begin:end].max()) / PS_PER_NS if end > begin else None for begin, end in rows
    ]
    return _in_turn(tasks, lambda number, ready: told[number] or ready)


def _one_by_one(tasks: Sequence[StepTask], took: Mapping[_Part, float]) -> list[float]:
    """Return when tasks end, given what motifs take."""
    return _in_turn(
        tasks, lambda number, ready: ready + took.get(tasks[number].key[:2], tasks[number].ns)
    )


def _in_turn(tasks: Sequence[StepTask], end_of: Callable[[int, float], float]) -> list[float]:
    """Return when tasks end, by when each is ready. A motif is so once those before it are."""
    ends: list[float] = []
    issued = 0.0
    for number, task in enumerate(tasks):
        ready = max((ends[k] for k in task.after), default=0.0)
        if task.motif is not None:
            issued = ready = max(ready, issued)
        ends.append(end_of(number, ready))
    return ends
