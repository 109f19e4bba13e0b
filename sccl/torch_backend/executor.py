"""Enforce a plan: issue the motifs of a job's calls in the plan's order over its channels.

Source: SYNDICATE (NSDI 2023) section 4.4. The thread that submits a call issues the motifs that
become ready, so no thread has to poll.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from sccl.errors import InputError, ToolError
from sccl.torch_backend.calls.call_description import CallDescription
from sccl.torch_backend.calls.call_sequence import CUT, CallSequence, IssuedMotif, StallAgreement
from sccl.torch_backend.calls.planned_calls import (
    DeviceCall,
    DeviceCarrier,
    DeviceWork,
    PendingCall,
    PendingOp,
    PlannedCall,
    PlannedWork,
)
from sccl.torch_backend.channels import Channels, Group, Lane
from sccl.torch_backend.control.call_history import mismatch_reason
from sccl.torch_backend.motif_exchange import RankExchange, run_on_gloo
from sccl.torch_backend.peers import format_ranks, process_peers
from sccl.torch_backend.script import PlanScript, ScriptOp
from sccl.torch_backend.stopwatch import Stopwatch

CallProgram = list[tuple[Hashable, ...]]
"""Keys of the calls of an iteration, in order: collective, ranks, type, and more."""

_POLL_S = 0.02
_PATIENCE_S, _PERIODS = 5.0, 10
"""Time after which a rank without calls and without a visible wait reports that it is stalled: the
larger of seconds, and periods of the plan. The agreement of ranks does not depend on it."""


class PlanExecutor:
    """An active plan in this process.

    Attributes:
        script: The plan's script.
        program: Keys of the calls of an iteration, in order.
        sequence: Position of the rank in the plan.
        measures: Measured times.
    """

    def __init__(
        self,
        script: PlanScript,
        rank: int,
        store: Any,
        timeout: timedelta,
        make: Callable[..., Any],
    ) -> None:
        """Create the resources of the plan, at the same time on all ranks.

        Raises:
            InputError: The plan requires something that the job does not have.
        """
        self.script, self._rank, self._timeout = script, rank, timeout
        self._world: Group = tuple(range(script.ranks))
        self._op_groups = [_group_of_rank(op, rank) for op in script.ops]
        self.program = expected_calls(script, rank)
        of_all = (
            k for k, (op, _) in enumerate(script.submits) if self._op_groups[op] == self._world
        )
        self._first_of_all = next(of_all, 0)
        self.sequence = CallSequence(self.program, [op for op, _ in script.submits], script.order)
        self.measures = Stopwatch()
        self._first: list[tuple[Hashable, ...]] | None = None if rank else []
        self._calling = False  # a thread that is about to call is not stalled
        self._lock = threading.RLock()
        self._open: dict[tuple[int, int], PendingOp] = {}
        self._made: deque[DeviceCall] = deque()
        self._stalls = StallAgreement(store, rank, script.ranks, timeout.total_seconds())
        self._exchanges = {
            id(motif): RankExchange(motif, rank)
            for op in script.ops
            for motif in op.motifs
            if motif.transfers
        }
        self._channels = Channels(script, rank, set(_required_groups(script, self._world)))
        self._channels.open(make, store, timeout)
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._watching, name="sccl-watch", daemon=True)
        self._watch.start()

    def call(
        self,
        group: Group,
        described: CallDescription,
        carry: Callable[[Any], Any],
        on_device: DeviceCarrier | None = None,
    ) -> PlannedWork | DeviceWork | None:
        """Submit a call to the plan.

        Args:
            group: Ranks of the call.
            described: Description of the call.
            carry: Function that makes the original call with a group over gloo.
            on_device: Carrier for tensors on a device. None: tensors are on the CPU.

        Returns:
            Work object. None: the plan does not expect the call, so the caller makes it.
        """
        with self._lock:
            self._go_on()
            iterations, key = self.sequence.iterations, call_key(group, described)
            position, issued = self.sequence.submit(key)
            if self._first is not None:
                self._look_whether_it_fits(key)
            if self.sequence.iterations > iterations:
                self.measures.came_to(self.sequence.iterations)
            self._issue(issued)
            work: PlannedWork | DeviceWork | None = None
            if position is not None:
                work = self._held(position, described, carry, on_device)
            self._issue(self.sequence.ready())
            self.measures.held(has_pending=any(map(_has_measurable_end, self._open.values())))
            self._calling = False
        self._follow_made()
        return work

    def _look_whether_it_fits(self, key: tuple[Hashable, ...]) -> None:
        """Print once that the plan belongs to another job, if this is the case."""
        if self.sequence.iterations:
            self._first = None
            return
        assert self._first is not None
        self._first.append(key)
        if why := mismatch_reason(self._first, self.program):
            self._first = None
            sys.stderr.write(f"sccl: {why}: calls go as they are made until a step is as planned\n")

    def _held(
        self,
        position: tuple[int, int],
        described: CallDescription,
        carry: Callable[[Any], Any],
        on_device: DeviceCarrier | None,
    ) -> PlannedWork | DeviceWork:
        iteration, place = position
        number, part = self.script.submits[place]
        op, group = self.script.ops[number], self._op_groups[number]
        if (iteration, number) not in self._open:
            self._open[iteration, number] = PendingOp(op, group, self._rank)
        calls = self._open[iteration, number].calls
        if on_device is not None:
            calls[part] = elsewhere = DeviceCall(op, described, on_device, group)
            return DeviceWork(elsewhere, self._before_wait)
        calls[part] = call = PlannedCall(op, described, carry, group)
        return PlannedWork(call, self._timeout, self._before_wait)

    def inside(self) -> bool:
        """Return whether the next call is planned, but not the first of all ranks per iteration.

        This is called right before a call of all ranks. The rank does not count as stalled from
        here until :meth:`call` or :meth:`passed`, because all ranks reach this call.
        """
        with self._lock:
            self._calling = True
            self._go_on()
            return self.sequence.planned and self.sequence.place != self._first_of_all

    def passed(self) -> None:
        """Note that the announced call is not one that plans can contain."""
        self._calling = False
        self._follow_made()

    def follow(self, calls: Iterable[Hashable]) -> None:
        """Process the last calls before this plan, at most those of one iteration."""
        with self._lock:
            self.sequence.follow(calls)
            self.measures.came_to(self.sequence.iterations)

    def retire(self) -> None:
        """Issue all submitted calls, without missing ones, and do not wait for their ends."""
        with self._lock:
            if not self._closing.is_set():
                self._issue(self.sequence.cut())
                self._closing.set()
                self._channels.end()
        self._follow_made()

    def close(self) -> None:
        """Issue all submitted calls, without missing ones, and wait for their ends."""
        self.retire()
        self._channels.close()
        self._watch.join()

    def _go_on(self) -> None:
        if self._stalls.at is not None and self._stalls.go_on() == CUT:
            self._issue(self.sequence.cut())

    def _issue(self, issued: list[IssuedMotif]) -> None:
        if timed := sum(_has_measurable_end(self._open[entry[:2]]) for entry in issued):
            self.measures.begun(timed)
        for iteration, number, motif in issued:
            held = self._open[iteration, number]
            if held.planned:
                script_motif = held.op.motifs[motif]
                job = partial(held.run, motif, partial(self._do, held, motif))
                self._channels.issue((script_motif.channel, script_motif.stream), job)
            if not motif:
                self._made += [call for call in held.elsewhere if call.make()]
            if held.count_issued():
                del self._open[iteration, number]

    def _follow_made(self) -> None:
        """Run the callbacks of issued device calls, which may submit further calls."""
        while self._made:
            try:
                made = self._made.popleft()
            except IndexError:  # another thread took it
                return
            made.follow()

    def _do(self, held: PendingOp, number: int) -> None:
        """Execute a motif in the thread of its lane, and measure its time."""
        began = time.perf_counter()
        try:
            self._carry(held, number)
        finally:
            took = time.perf_counter() - began
            self.measures.ended(held.op.motifs[number], took if held.as_planned else None)

    def _carry(self, held: PendingOp, number: int) -> None:
        op, motif = held.op, held.op.motifs[number]
        lane: Lane = (motif.channel, motif.stream)
        if held.as_made:
            for call in held.planned if number == 0 else ():
                call.carry(self._channels.group(lane, held.group)).wait()
        elif motif.native:
            run_on_gloo(motif, op, held.row, self._channels.group(lane, held.group))
        elif motif.transfers:
            world = self._channels.group(lane, self._world)
            self._exchanges[id(motif)].run(held.row, world, op.reduce)
        else:
            assert held.row  # creates the row, which copies this rank's own blocks

    def _before_wait(self, call: PendingCall) -> None:
        """Wait until a call is issued. Earlier calls of the plan may still have to be submitted.

        Raises:
            ToolError: The call is not issued within the group's timeout.
        """
        until = time.monotonic() + self._timeout.total_seconds()
        waited = 0.0
        while not call.issued.wait(waited):
            self._stand()
            waited = _POLL_S
            if time.monotonic() > until:
                raise self._stuck(call)

    def _stuck(self, call: PendingCall) -> ToolError:
        where = process_peers().gone(self._world) or self._stalls.others()
        return ToolError(
            f"{call.op.id} ({call.op.collective}) by {format_ranks(call.group)} waits for a call "
            f"that the plan has before it, and {where}"
        )

    def _stand(self) -> None:
        """Report that this rank is stalled, and cut the plan here if all ranks are."""
        with self._lock:
            if not self._open or self._calling:
                return
            self._stalls.tell(self.sequence.calls)
            if self._stalls.decided() == CUT:
                self._stalls.at = None
                self._issue(self.sequence.cut())
        self._follow_made()

    def _watching(self) -> None:
        """Detect invisible waits, such as those for a future, and end them after the timeout.

        For issued calls, gloo applies its own timeout.
        """
        limit = self._timeout.total_seconds()
        patience = min(max(_PATIENCE_S, _PERIODS * self.script.period_us / 1e6), limit)
        before = -1
        while not self._closing.wait(patience):
            with self._lock:
                calls, stands = self.sequence.calls, bool(self._open)
            if stands and calls == before:
                with suppress(ToolError):  # the waiting call reports a store that does not answer
                    self._stand()
                self._give_up(time.monotonic() - limit)
            before = calls

    def _give_up(self, began: float) -> None:
        """End calls that were submitted before some time and are not issued."""
        with self._lock:
            all_calls = [call for held in self._open.values() for call in held.calls.values()]
            late_calls = [call for call in all_calls if call.began < began]
        for call in late_calls:
            call.give_up(self._stuck(call))


def expected_calls(script: PlanScript, rank: int) -> CallProgram:
    """Return the keys of the calls that a plan expects from a rank in an iteration, in order.

    Raises:
        InputError: A call does not include the rank.
    """
    groups = [_group_of_rank(op, rank) for op in script.ops]
    return [_op_key(script.ops[op], groups[op], part) for op, part in script.submits]


def _group_of_rank(op: ScriptOp, rank: int) -> Group:
    for group in op.groups:
        if rank in group:
            return group
    raise InputError(f"the plan has {op.id!r:.60} without rank {rank}: expected all in each")


def _op_key(op: ScriptOp, group: Group, part: int) -> tuple[Hashable, ...]:
    if op.collective == "alltoall":
        return ("alltoall", group, op.dtype)
    roots = [root for root in op.roots if root in group]
    root = group.index(roots[0]) if roots else None
    return (op.collective, group, op.dtype, op.counts[part], root, op.reduce)


def call_key(group: Group, described: CallDescription) -> tuple[Hashable, ...]:
    """Return the key of a call, which is equal on all ranks.

    The splits of an alltoall differ by rank, and are not part of it.
    """
    if described.collective == "alltoall":
        return ("alltoall", group, described.dtype)
    counts = {
        "allgather": described.elements_given * len(group),
        "gather": described.elements_given * len(group),
        "reducescatter": described.elements_got * len(group),
        "scatter": described.elements_got * len(group),
    }
    count = counts.get(described.collective, described.elements_given)
    details = (described.root, described.reduce)
    return (described.collective, group, described.dtype, count, *details)


def _has_measurable_end(held: PendingOp) -> bool:
    """Return whether the ends of motifs can be measured. For devices only streams know them."""
    return bool(held.planned)


def _required_groups(script: PlanScript, world: Group) -> Iterator[tuple[Lane, Group]]:
    for op in script.ops:
        may_be_made = op.as_made or bool(op.merged) or op.keeps_blocks
        for number, motif in enumerate(op.motifs):
            lane = (motif.channel, motif.stream)
            if motif.native or (may_be_made and not number):
                for group in op.groups:
                    yield lane, group
            if motif.transfers:
                yield lane, world
