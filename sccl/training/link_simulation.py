"""Simulate all messages of a plan over links.

Each motif sends the messages of its carrier, step after step, over the routes of its cost model. A
step begins after all arrivals of the previous one. Links (:mod:`sccl.sim`) serve the messages of
concurrent motifs in order of arrival. Incast increases the bytes, as in the cost model. A motif
alone around a switch therefore takes its modeled time. On other topologies the cost model is an
approximation, and this simulation is the reference.

A plan may take longer than it claims for two reasons, which are reported separately: a motif alone
takes longer than modeled (:func:`simulate_in_isolation`), and messages wait for other motifs. A
plan counts the average load of a motif on a link, but its messages come in bursts. A step that
waits for a burst of another motif ends later, and so do all later steps, although the average load
fits. The fluid model does not show this either.

Computations that channels slow down take their claimed time. Motifs that a synthesizer planned send
the messages of its schedules as soon as their data have arrived. A link is then free during a
message's latency, which schedules may count as busy time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.sizes import ITEM_BYTES
from sccl.errors import ParameterError, TooLargeError
from sccl.training.fabric_messages import (
    NO_GATE,
    PS_PER_NS,
    MessageScript,
    ScheduledMessages,
    build_link_machine,
    build_schedule_messages,
)
from sccl.training.options.carriers import CARRIER_BY_NAME
from sccl.training.options.motif_costs import MotifCosts, MotifPlanner, StepMessages
from sccl.training.timeline import has_interference
from sccl.training.timeline_models import (
    ITERATIONS,
    StepTask,
    StepTiming,
    build_tasks,
    timing_from_ends,
)
from sccl.training.types.training_plan import StepTimeline, TrainingPlan
from sccl.training.validate.plan_costs import recipe_motifs

MAX_MESSAGES = 2**20
"""Largest number of messages times links. Their simulation takes about a second."""

_MotifKey = tuple[str, int]
"""Id of an operation, and index of a motif of its option. For a computation the index is 0."""


def simulate_on_links(
    plan: TrainingPlan,
    timeline: StepTimeline,
    iterations: int = ITERATIONS,
    most_sent: int = MAX_MESSAGES,
    planner: MotifPlanner | None = None,
) -> StepTiming:
    """Simulate a plan message by message.

    Args:
        timeline: Claimed timeline of the plan. The simulation keeps its assignment of motifs to
            streams.
        iterations: Number of counted iterations, at least 2.
        most_sent: Largest number of messages times links.
        planner: Planner for motifs whose carrier is a synthesizer. None: such motifs are an error.

    Raises:
        TooLargeError: The plan sends more than ``most_sent``.
        InputError: Some motifs cannot be simulated.
    """
    tasks = _plan_tasks(plan, timeline, iterations)
    ends = _simulate_ends_ns(plan, tasks, _messages_by_motif(plan, tasks, most_sent, planner))
    return timing_from_ends(tasks, ends, iterations)


def simulate_in_isolation(
    plan: TrainingPlan,
    timeline: StepTimeline,
    iterations: int = ITERATIONS,
    most_sent: int = MAX_MESSAGES,
    planner: MotifPlanner | None = None,
) -> StepTiming:
    """Simulate a plan message by message, with all links for each motif alone.

    Args:
        timeline: Claimed timeline of the plan. All arguments have the same meaning as for
            :func:`simulate_on_links`.

    Raises:
        TooLargeError: The plan sends more than ``most_sent``.
        InputError: Some motifs cannot be simulated.
    """
    tasks = _plan_tasks(plan, timeline, iterations)
    one_each = {task.key[:2]: task for task in tasks if task.motif is not None}
    row = [replace(task, after=(k - 1,) if k else ()) for k, task in enumerate(one_each.values())]
    ends = (
        _simulate_ends_ns(plan, row, _messages_by_motif(plan, tasks, most_sent, planner))
        if row
        else []
    )
    took = [end - begun for begun, end in zip([0.0, *ends], ends, strict=False)]
    return timing_from_ends(
        tasks, _isolated_ends_ns(tasks, dict(zip(one_each, took, strict=True))), iterations
    )


def _plan_tasks(plan: TrainingPlan, timeline: StepTimeline, iterations: int) -> list[StepTask]:
    """Return the tasks of a plan. Slowed computations take their claimed time.

    Raises:
        ParameterError: The times of the plan come from a table instead of links.
    """
    if plan.costs:
        raise ParameterError(
            "times come from a table of costs, not from links, so links cannot be simulated"
        )
    tasks = build_tasks(plan, timeline, iterations)
    if not has_interference(plan.fabric):
        return tasks
    took = {(s.op, s.iteration): s.end_ns - s.start_ns for s in timeline.spans if s.computes}
    last = timeline.iterations - 1
    return [
        task
        if task.motif is not None
        else replace(task, ns=took[task.key[0], min(task.key[2], last)])
        for task in tasks
    ]


def _simulate_ends_ns(
    plan: TrainingPlan, tasks: Sequence[StepTask], sent: Mapping[_MotifKey, _MotifMessages]
) -> list[float]:
    """Return the ends of tasks in nanoseconds, with contention between all messages."""
    parts = dict.fromkeys(task.key[:2] for task in tasks)
    script = MessageScript(build_link_machine(plan.fabric, len(parts)))
    rows = _write_tasks(plan, tasks, sent, script, {part: k for k, part in enumerate(parts)})
    return _task_ends_ns(tasks, rows, script.arrival_times_ps(max(task.ns for task in tasks)))


@dataclass(frozen=True, slots=True, eq=False)
class _MotifMessages:
    """The messages of a motif.

    Attributes:
        channel: Number of the channel.
        messages: Messages in the order of steps.
        order: Order of messages that are ready at the same time, in rotation over receivers.
        schedules: Schedules in sequence, instead of messages.
    """

    channel: int
    messages: StepMessages | None = None
    order: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    schedules: tuple[ScheduledMessages, ...] = ()

    @property
    def row_count(self) -> int:
        """Return the sum over messages of their number of links plus 1."""
        count = 0 if self.messages is None else len(self.messages.step) + len(self.messages.link)
        return count + sum(2 * len(batch.link) for batch in self.schedules)


def _messages_by_motif(
    plan: TrainingPlan, tasks: Iterable[StepTask], limit: int, planner: MotifPlanner | None
) -> dict[_MotifKey, _MotifMessages]:
    """Return the messages of each motif.

    Raises:
        TooLargeError: There are too many messages over links.
        InputError: A motif does not follow from its recipe, or its carrier has no known messages.
    """
    costs = MotifCosts(plan.fabric)
    numbers = {channel.name: k for k, channel in enumerate(plan.fabric.channels)}
    calls = {op.id: op for op in plan.workload.collectives()}
    times = max(task.key[2] for task in tasks) + 1
    sent: dict[_MotifKey, _MotifMessages] = {}
    cache: dict[tuple[object, ...], _MotifMessages] = {}
    total = 0
    for name, option in plan.options:
        made, size = recipe_motifs(calls[name], option), ITEM_BYTES[calls[name].dtype]
        for number, (piece, motif) in enumerate(zip(made, option.motifs, strict=False)):
            channel, by = numbers[motif.channel], f"motif {number} of {name!r:.60}"
            if (carrier := CARRIER_BY_NAME.get(motif.carrier)) is not None:
                if piece.collective not in carrier.collectives:
                    raise ParameterError(
                        f"{by} is a {piece.collective}, which carrier {carrier.name!r} does not "
                        "support"
                    )
                messages = costs.carrier_messages(piece, channel, carrier, size)
                key: tuple[object, ...] = (id(messages),)
                if key not in cache:
                    cache[key] = _ordered_messages(messages, channel, plan.fabric.ranks)
            elif planner is not None and motif.carrier == planner.name:
                key = (channel, size, costs.shape_number(piece))
                if key not in cache:
                    machine = plan.fabric.channels[channel].topology
                    rows = costs.planned_schedules(piece, channel, planner.plan, size)
                    cache[key] = _MotifMessages(
                        channel, schedules=tuple(build_schedule_messages(k, machine) for k in rows)
                    )
            else:
                raise ParameterError(
                    f"{by} has carrier {motif.carrier!r:.60}, which has no known messages"
                )
            sent[name, number] = cache[key]
            total += times * cache[key].row_count
            if total > limit:
                raise TooLargeError(
                    f"more than {limit} messages over links are on the way in {times} iterations"
                )
    return sent


def _ordered_messages(messages: StepMessages, channel: int, ranks: int) -> _MotifMessages:
    turn = (messages.target - messages.source) % ranks
    order = np.lexsort((messages.source, turn, messages.step))
    return _MotifMessages(channel, messages, order)


def _write_tasks(
    plan: TrainingPlan,
    tasks: Sequence[StepTask],
    sent: Mapping[_MotifKey, _MotifMessages],
    script: MessageScript,
    clock_of: Mapping[_MotifKey, int],
) -> list[tuple[int, int]]:
    """Add the messages of tasks. Return the range of message numbers of each task.

    A task is ready when all its dependencies have ended. A motif also waits for its predecessors in
    the streams. Launches and computations use separate clocks.
    """
    launches = {channel.name: ceil(channel.launch_us * 1000) for channel in plan.fabric.channels}
    routes: dict[int, int] = {}
    done: list[int] = []
    rows: list[tuple[int, int]] = []
    issued = NO_GATE
    for task in tasks:
        begin, gate = script.messages, script.add_gates()
        script.add_gate_inputs(gate, (done[k] for k in task.after))
        if task.motif is not None:
            script.add_gate_inputs(gate, () if issued == NO_GATE else (issued,))
            issued = gate
        if ns := task.ns if task.motif is None else launches[task.motif.channel]:
            after = script.add_gates()
            row = (clock_of[task.key[:2]], 1, ns, gate, after)
            script.add_messages(*(np.array([number]) for number in row))
            gate = after
        outgoing = sent.get(task.key[:2])
        if outgoing is not None and outgoing.row_count:
            if id(outgoing) not in routes:
                routes[id(outgoing)] = _add_motif_routes(script, outgoing)
            gate = _add_motif_messages(script, outgoing, routes[id(outgoing)], gate)
        done.append(gate)
        rows.append((begin, script.messages))
    return rows


def _add_motif_messages(
    script: MessageScript, outgoing: _MotifMessages, route: int, gate: int
) -> int:
    """Add the messages of a motif after a gate. Return the gate that opens after all arrivals.

    Args:
        route: First of its routes.
    """
    for batch in outgoing.schedules:
        gate = script.add_schedule(batch, route, gate)
        route += len(batch.link)
    if outgoing.messages is None or not len(outgoing.order):
        return gate
    step = outgoing.messages.step[outgoing.order]
    first = script.add_gates(int(step[-1]) + 1)
    size = np.ceil(outgoing.messages.sent[outgoing.order]).astype(np.int64)
    waits = np.where(step == 0, gate, first + step - 1)
    routes, durations = route + np.arange(len(step)), np.zeros(len(step), np.int64)
    script.add_messages(routes, size, durations, waits, first + step)
    return first + int(step[-1])


def _add_motif_routes(script: MessageScript, outgoing: _MotifMessages) -> int:
    """Add the routes of a motif's messages, in the order of messages. Return the first number."""
    machine, sent = script.machine, outgoing.messages
    if sent is None:
        link = machine.links[outgoing.channel][np.concatenate([k.link for k in outgoing.schedules])]
        edges = [machine.topology.links[k].edge for k in link.tolist()]
        ends = np.array(edges, np.int64).reshape(-1, 2)
        return script.add_routes(ends[:, 0], ends[:, 1], np.ones(len(link), np.int64), link)
    length = np.diff(sent.first)[outgoing.order]
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    link = sent.link[np.repeat(sent.first[:-1][outgoing.order], length) + within]
    source, target = (
        machine.node(outgoing.channel, ends[outgoing.order]) for ends in (sent.source, sent.target)
    )
    return script.add_routes(source, target, length, machine.links[outgoing.channel][link])


def _task_ends_ns(
    tasks: Sequence[StepTask], rows: Iterable[tuple[int, int]], arrive: IntArray
) -> list[float]:
    """Return the ends of tasks in nanoseconds. A task without messages ends when it is ready."""
    ends = [
        float(arrive[begin:end].max()) / PS_PER_NS if end > begin else None for begin, end in rows
    ]
    return _issue_order_ends_ns(tasks, lambda number, ready: ends[number] or ready)


def _isolated_ends_ns(tasks: Sequence[StepTask], took: Mapping[_MotifKey, float]) -> list[float]:
    """Return the ends of tasks from the durations of motifs."""
    return _issue_order_ends_ns(
        tasks, lambda number, ready: ready + took.get(tasks[number].key[:2], tasks[number].ns)
    )


def _issue_order_ends_ns(
    tasks: Sequence[StepTask], end_of: Callable[[int, float], float]
) -> list[float]:
    """Return the ends of tasks, given the end as a function of the time of readiness.

    A motif is ready no earlier than all motifs before it.
    """
    ends: list[float] = []
    issued = 0.0
    for number, task in enumerate(tasks):
        ready = max((ends[k] for k in task.after), default=0.0)
        if task.motif is not None:
            issued = ready = max(ready, issued)
        ends.append(end_of(number, ready))
    return ends
