"""Switch a job to another plan: listen in the background, and switch between calls.

Ranks agree at certain calls of the group of all ranks. These calls are the same on each rank, so
the place of an agreement depends on no clock, and no rank can miss it. Under a plan, agreements are
only at the first call of all ranks in an iteration.

An agreement is a MIN all-reduce of a few numbers, which starts at one of these places and is read
at the next one. The numbers are the plans that a rank can run and knows to be committed, and its
proposed number of calls until the next agreement. A rank waits for the result only if another rank
has not reached the previous place.

Without a controller, a job only polls a key of the store.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sccl.errors import InputError, ScclError
from sccl.torch_backend.calls.call_description import CallDescription
from sccl.torch_backend.calls.planned_calls import DeviceCarrier, DeviceWork, PlannedWork
from sccl.torch_backend.channels import Group
from sccl.torch_backend.control.call_history import (
    MAX_RECORDED_CALLS,
    RecordedCall,
    find_iterations,
    periods_us,
)
from sccl.torch_backend.control.feedback import (
    CONSECUTIVE_ITERATIONS,
    IterationReport,
    encode_report,
)
from sccl.torch_backend.control.follower import Follower, Listener
from sccl.torch_backend.control.job_stores import RemoteJobStore, TorchJobStore
from sccl.torch_backend.control.ledger import (
    RING,
    JobWire,
    Ledger,
    announce,
    describe_job,
    read_key,
)
from sccl.torch_backend.executor import CallProgram, PlanExecutor, call_key, expected_calls
from sccl.torch_backend.script import PlanScript, format_script, parse_script

LISTEN_S = 0.2
"""Seconds between two reads of the store."""

AGREE_S = 0.25
"""Approximate seconds between agreements. An agreement takes 0.1 ms of a rank's CPU time."""

FIRST_CALLS, MAX_CALLS = 4, 1024
"""Number of calls before the first agreement, and largest number between two. It can at most double
from one agreement to the next."""

ALLOCATION_TIMEOUT = timedelta(seconds=20)
"""Timeout for all ranks to create the connections of a plan, in a separate thread."""


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan to which this rank can switch at any time.

    Attributes:
        enforcer: Executor of the plan. None: calls keep their order.
    """

    enforcer: PlanExecutor | None

    def retire(self) -> None:
        """Release the resources of the plan."""
        if self.enforcer is not None:
            self.enforcer.retire()


class PlanSwitch:
    """The active plan of this process, and its switch to other plans.

    Args:
        group: Group of all ranks.
        store: Store with keys of this group only.
        timeout: Timeout of calls.
        make: Function that creates a group over gloo.
        script: Script of the plan at the start of the job. None: no plan.

    Attributes:
        enforcer: Executor of the plan. None: calls keep their order.
        version: Version of the plan. 0: the plan at the start of the job, or none.
        number: Number of calls of all ranks.
        watched: Whether a controller watches the job.
    """

    def __init__(
        self,
        group: Any,
        store: Any,
        timeout: timedelta,
        make: Callable[..., Any],
        script: PlanScript | None,
    ) -> None:
        self._rank, self._ranks = int(group.rank()), int(group.size())
        self._group, self._timeout, self._make, self._script = group, timeout, make, script
        self.enforcer: PlanExecutor | None = None
        self.number = 0
        self.watched = False
        self._lock = threading.RLock()
        self._heard: deque[RecordedCall] = deque(maxlen=MAX_RECORDED_CALLS)
        self._reports: deque[IterationReport] = deque(maxlen=RING)
        self._written = 0
        self._retired: PlanExecutor | None = None
        self._leaving: deque[PlanExecutor] = deque()
        self._listener: Listener | None = None
        self._since, self._stretch, self._begun = 0, FIRST_CALLS, time.monotonic()
        self._agreement: tuple[Any, torch.Tensor] | None = None
        if script is not None:
            self.enforcer = PlanExecutor(script, self._rank, store, timeout, make)
        self._address = _store_address(store) if _is_world_group(group) else None
        if self._address is not None:
            self._join(store)

    def _join(self, store: Any) -> None:
        """Announce the job, as rank 0, and begin to listen."""
        job = self._announced(store)
        self._ledger = Ledger(RemoteJobStore(self._address or ""), job, read_key(os.environ))
        self._follower: Follower[PreparedPlan] = Follower(
            self._ledger, self._rank, self._fit, PreparedPlan.retire
        )
        self._control = self._make(
            dist.PrefixStore("agree", store), self._rank, self._ranks, self._timeout
        )
        self._min_options = dist.AllreduceOptions()
        self._min_options.reduceOp = dist.ReduceOp.MIN
        self._listener = Listener(self._look, self._failed, LISTEN_S)
        atexit.register(self._listener.close)

    def _announced(self, store: Any) -> JobWire:
        """Return the job. Each generation has its own number in the shared store."""
        shared = _base_store(store)
        if self._rank == 0:
            store.set("generation", str(shared.add("sccl/lives", 1)))
        script = self._script or PlanScript(ranks=self._ranks)
        job = describe_job(
            os.environ.get("TORCHELASTIC_RUN_ID", "") or "job",
            int(store.get("generation")),
            self._ranks,
            script.plan,
            script.workload,
        )
        if self._rank == 0:
            announce(TorchJobStore(shared), job)
        return job

    @property
    def version(self) -> int:
        """Return the version of the plan. 0: the plan at the start of the job, or none."""
        return 0 if self._listener is None else self._follower.active

    @property
    def takes_none(self) -> bool:
        """Return whether calls need not be reported to it."""
        return self.enforcer is None and not self.watched

    # --- in the threads of the job -----------------------------------------------------------

    def before(self, group: Any) -> None:
        """Note that a collective of a group is called next, and agree if it is time."""
        if group is not self._group or self._listener is None:
            return
        with self._lock:
            self.number += 1
            self._since += 1
            if self._since <= self._stretch:
                return
            if self.enforcer is None or not self.enforcer.inside():
                self._agree()

    def call(
        self,
        ranks: Group,
        described: CallDescription,
        carry: Callable[[Any], Any],
        on_device: DeviceCarrier | None,
    ) -> PlannedWork | DeviceWork | None:
        """Submit a call to the active plan.

        Args:
            ranks: Ranks of the call.
            described: Description of the call.
            carry: Function that makes the original call with a group over gloo.
            on_device: Carrier for tensors on a device. None: tensors are on the CPU.

        Returns:
            Work object. None: the caller makes the call.
        """
        enforcer = self.enforcer
        if not (described.collective and described.dtype):
            if enforcer is not None:
                enforcer.passed()
            return None
        if self.watched:
            key = call_key(ranks, described)
            with self._lock:
                self._heard.append(RecordedCall(key, self.number, time.perf_counter()))
        return None if enforcer is None else enforcer.call(ranks, described, carry, on_device)

    def close(self) -> None:
        """Close all plans, because the group is destroyed."""
        if self._listener is not None:
            self._listener.close()
            atexit.unregister(self._listener.close)
            self._follower.close()
            self._agreement = self._control = None  # its threads end here
        self._end_those_left()
        for enforcer in (self._retired, self.enforcer):
            if enforcer is not None:
                enforcer.close()
        self.enforcer = self._retired = None

    # --- agreements --------------------------------------------------------------------------

    def _agree(self) -> None:
        """Read the previous agreement, switch to its plan, and start the next agreement."""
        self._measure()
        stretch = FIRST_CALLS
        if self._agreement is not None:
            work, numbers = self._agreement
            work.wait()
            stretch, *minima = numbers.tolist()
            prepared = self._follower.adopt_agreed(minima)
            if prepared is not None:
                self._switch(prepared)
        now = time.monotonic()
        wish = int(self._since * AGREE_S / max(now - self._begun, 1e-6))
        numbers = torch.tensor(
            [max(1, min(wish, 2 * self._since, MAX_CALLS)), *self._follower.contribution()]
        )
        self._agreement = self._control.allreduce([numbers], self._min_options), numbers
        self._since, self._stretch, self._begun = 0, stretch, now

    def _switch(self, prepared: PreparedPlan) -> None:
        before, self.enforcer = self.enforcer, prepared.enforcer
        if before is not None:
            before.retire()  # kept until the next switch, as peers may still use it
        if self._retired is not None:
            self._leaving.append(self._retired)
        self._retired = before
        if self.enforcer is not None:
            calls = [call.key for call in self._heard]
            self.enforcer.follow(calls[-len(self.enforcer.program) :])

    def _measure(self) -> None:
        """Report the measurements of iterations since the last report, if there are any."""
        enforcer = self.enforcer
        spent = None if enforcer is None else enforcer.measures.taken()
        if enforcer is None or spent is None:
            return
        self._reports.append(
            IterationReport(
                iteration=self.number // self._size(enforcer.program),
                version=self.version,
                period_us=spent.period_us,
                waited_us=spent.period_us * spent.waited,
                idle_us=spent.period_us * spent.idle,
                motifs=spent.motifs,
            )
        )

    def _size(self, program: CallProgram) -> int:
        """Return the number of calls of all ranks per iteration.

        All ranks number iterations by it.
        """
        world = tuple(range(self._ranks))
        return max(1, sum(key[1] == world for key in program))

    # --- in the thread that listens ----------------------------------------------------------

    def _look(self) -> None:
        if not self.watched:
            if not self._ledger.is_watched():
                return
            if self._rank == 0 and self._script is not None:
                self._ledger.write_initial_plan(format_script(self._script).encode())
            self.watched = True
        self._end_those_left()
        self._follower.listen()
        self._write_reports()

    def _end_those_left(self) -> None:
        """Close plans before the previous one, or garbage collection would close them at once."""
        with suppress(IndexError):  # there are no more
            while True:
                self._leaving.popleft().close()

    def _write_reports(self) -> None:
        while self._reports:
            self._ledger.write_report(
                self._rank, self._written, encode_report(self._reports.popleft())
            )
            self._written += 1

    def _failed(self, error: ScclError) -> None:
        sys.stderr.write(
            f"sccl: rank {self._rank}: {error}: the job continues under its plan, and checks for "
            "other plans from time to time\n"
        )

    def _fit(self, content: bytes, version: int) -> PreparedPlan | None:
        """Return a plan that is ready for the switch. None: too few recorded calls to decide.

        Raises:
            InputError: The plan belongs to another job, or its resources are missing.
        """
        script = parse_script(content, f"plan {version}")
        if script.ranks != self._ranks:
            raise InputError(f"the plan is for {script.ranks} ranks, and the job has {self._ranks}")
        if not script.ops:
            return PreparedPlan(None)
        program = expected_calls(script, self._rank)
        with self._lock:
            heard = list(self._heard)
        begins = find_iterations(heard, program)
        if not begins:
            return None
        if self.enforcer is None and self.version == 0 and not self._written:
            self._tell_before(begins, program)
        place = dist.PrefixStore(self._ledger.lane_prefix(version), self._own_store())
        try:
            return PreparedPlan(PlanExecutor(script, self._rank, place, self._timeout, self._soon))
        except RuntimeError as error:  # torch raises this type
            first = str(error).partition("\n")[0][:200]
            raise InputError(
                f"the connections that the plan needs are not made: {first}"
            ) from error

    def _soon(self, store: Any, rank: int, size: int, timeout: timedelta, device: Any) -> Any:
        """Create a group with a short timeout for its creation, and the normal one for calls."""
        group = self._make(store, rank, size, ALLOCATION_TIMEOUT, device)
        group.set_timeout(timeout)
        return group

    def _own_store(self) -> Any:
        host, _, port = (self._address or "").rpartition(":")
        return dist.TCPStore(
            host.strip("[]"), int(port), is_master=False, timeout=ALLOCATION_TIMEOUT
        )

    def _tell_before(self, begins: Sequence[RecordedCall], program: CallProgram) -> None:
        """Report iterations without a plan before the vote, for comparison with the new plan."""
        size = self._size(program)
        for number, us in periods_us(begins, size)[-CONSECUTIVE_ITERATIONS:]:
            self._reports.append(
                IterationReport(
                    iteration=number // size, version=0, period_us=us, waited_us=0.0, idle_us=0.0
                )
            )
        self._write_reports()


def _is_world_group(group: Any) -> bool:
    """Return whether a group has all ranks of the job."""
    size = int(group.size())
    return group.ranks == tuple(range(size)) and os.environ.get("WORLD_SIZE", str(size)) == str(
        size
    )


def _base_store(store: Any) -> Any:
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def _store_address(store: Any) -> str | None:
    """Return ``HOST:PORT`` of a store. None: other processes cannot reach it."""
    inner_store = _base_store(store)
    if not isinstance(inner_store, dist.TCPStore):
        return None
    host = f"[{inner_store.host}]" if ":" in inner_store.host else inner_store.host
    return f"{host}:{inner_store.port}"
