"""Simulate a plan with all its messages over links.

Each motif sends the messages of its carrier, step after step, over the paths of its cost model. A
step begins after all arrivals of the previous one. Messages of all concurrent motifs meet at the
links (:mod:`sccl.sim`), which serve them in order of arrival. Incast increases the bytes, as in the
costs of motifs. A motif alone around a switch therefore takes its modelled time. Elsewhere costs
are approximations, and this simulation is the reference.

A plan takes longer than it claims for two reasons, which are reported separately: a motif alone
takes longer than modelled (:func:`apart_timing`), and messages wait for other motifs. A plan counts
the average load of a motif on a link, but its messages come in bursts. A step that waits for a
burst of another motif ends later, and so do all later steps, although the average load fits. The
fluid model does not show this either.

Computations that channels slow down take their claimed time. Motifs that a synthesizer planned send
the messages of its schedules, as soon as their data are there. A link is then free during a
message's latency, which schedules may count as busy time.
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
    """Simulate a plan message by message.

    Args:
        timeline: Claimed timeline of the plan. Motifs use the same streams of channels here.
        iterations: Number of counted iterations, at least 2.
        most_sent: Largest number of messages times links.
        planner: Planner of motifs that name one. None: these are not simulated.

    Raises:
        TooLargeError: It sends more.
        InputError: Some motifs cannot be simulated.
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
    """Simulate a plan message by message, with all links for each motif alone.

    Args:
        timeline: This and the other arguments are those of :func:`link_timing`.

    Raises:
        TooLargeError: It sends more.
        InputError: Some motifs cannot be simulated.
    """
    tasks = _tasks(plan, timeline, iterations)
    one_each = {task.key[:2]: task for task in tasks if task.motif is not None}
    row = [replace(task, after=(k - 1,) if k else ()) for k, task in enumerate(one_each.values())]
    ends = _simulated(plan, row, _sent(plan, tasks, most_sent, planner)) if row else []
    took = [end - begun for begun, end in zip([0.0, *ends], ends, strict=False)]
    return timing_of(tasks, _one_by_one(tasks, dict(zip(one_each, took, strict=True))), iterations)


def _tasks(plan: TrainingPlan, timeline: StepTimeline, iterations: int) -> list[StepTask]:
    """Return the tasks of a plan. Slowed computations take their claimed time.

    Raises:
        ParameterError: Its times come from a table instead of links.
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
    """The messages of a motif.

    Attributes:
        channel: Number of its channel.
        messages: Messages, step after step.
        order: Order of messages that are ready at the same time, in rotation over receivers.
        planned: Schedules in sequence, instead of messages.
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
    """Return the messages of each motif.

    Raises:
        TooLargeError: There are too many messages over links.
        InputError: Recipes do not make these motifs, or a synthesizer planned some.
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
    """Add the messages of tasks, and return the first message and the end of each.

    A task is ready when all its dependencies have ended. A motif also waits for its predecessors in
    the streams. Launches and computations use clocks of their own.
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
    """Add the messages of a motif after a gate. Return the gate that opens after all arrivals.

    Args:
        way: First of its paths.
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
    """Return the ends of tasks in nanoseconds. A task without messages ends when it is ready."""
    told = [
        float(arrive[begin:end].max()) / PS_PER_NS if end > begin else None for begin, end in rows
    ]
    return _in_turn(tasks, lambda number, ready: told[number] or ready)


def _one_by_one(tasks: Sequence[StepTask], took: Mapping[_Part, float]) -> list[float]:
    """Return the ends of tasks from the durations of motifs."""
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
