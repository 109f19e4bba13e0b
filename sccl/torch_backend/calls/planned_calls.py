"""Define the calls of a plan, their work objects, and the operations to which they belong.

An operation has one call, or several merged calls. Calls of device tensors are not split, and use
the group of their device. For them the plan only decides the time of the call: when their first
motif is issued. The call uses the stream that was current when the job submitted it. A wait blocks
the host only until the call is made. Then torch's work object makes the waiting stream wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from sccl.errors import ToolError
from sccl.torch_backend.calls.call_description import CallDescription
from sccl.torch_backend.calls.works import Restore, ResultFuture
from sccl.torch_backend.device import device_kind, stream_devices
from sccl.torch_backend.gloo_types import convert_call
from sccl.torch_backend.peers import CallError, call_error, format_ranks
from sccl.torch_backend.script import ScriptOp
from sccl.torch_backend.tensor_rows import MergedRow, OpRow, Row


class PendingCall:
    """A call of a plan's operation.

    Attributes:
        began: Time of submission on the monotonic clock, in seconds.
        op: Operation of the call.
        described: Description of the call.
        group: Ranks of the call.
        issued: Event that all motifs are issued.
        error: Error of the call. None: none so far.
    """

    def __init__(self, op: ScriptOp, described: CallDescription, group: tuple[int, ...]) -> None:
        self.began = time.monotonic()
        self.op, self.described, self.group = op, described, group
        self.issued = threading.Event()
        self.error: BaseException | None = None

    @property
    def shown(self) -> str:
        """Return how it is carried, in words."""
        return "as planned"

    def failure(self) -> Exception | None:
        """Return the exception that waits raise. None: no error."""
        match self.error:
            case None | ToolError():
                return self.error
            case CallError():
                return CallError(f"{self.op.id}: {self.error}")
        return call_error(f"{self.op.id} ({self.op.collective})", self.group, self.error)


class PlannedCall(PendingCall):
    """A call that is executed motif by motif, over lanes.

    Attributes:
        carry: Function that makes the original call with a group.
        ended: Event that the results are available, or that the call failed.
    """

    def __init__(
        self,
        op: ScriptOp,
        described: CallDescription,
        carry: Callable[[Any], Any],
        group: tuple[int, ...],
    ) -> None:
        super().__init__(op, described, group)
        self.carry = carry
        self.ended = threading.Event()
        self._results = ResultFuture()
        self._lock = threading.Lock()

    @property
    def future(self) -> Any:
        """Return the future of the results."""
        return self._results.future

    @property
    def shown(self) -> str:
        """Return how it is carried, in words."""
        if self.op.merged:
            return f"as planned, {len(self.op.merged)} calls as one"
        if not (self.described.gives or self.described.gets):
            return "as planned"
        is_whole = self.op.as_made or self.op.keeps_blocks
        return f"as planned, {'whole' if is_whole else 'each block in parts'}"

    def end(self) -> None:
        """Complete the call, and wake all waits."""
        with self._lock:
            if self.ended.is_set():  # it was given up
                return
            self.ended.set()
        self._results.settle(self.described.got, self.failure())

    def give_up(self, error: ToolError) -> None:
        """End a call that is not issued. Its waits raise the error."""
        self.error = error
        self.issued.set()
        self.end()


class PendingWork(dist._Work):  # noqa: SLF001 - the base class of torch's own groups in Python
    """The work object of a call that the plan may hold back."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self._call = call

    @property
    def shown(self) -> str:
        """Return how the call is carried, in words."""
        return str(self._call.shown)

    def get_future(self) -> Any:
        """Return a future of the results."""
        return self._call.future

    def is_success(self) -> bool:
        """Return whether the call has succeeded."""
        return self.is_completed() and self._call.error is None

    def exception(self) -> Any:
        """Return the error."""
        return self._call.error

    def result(self) -> Any:
        """Return the results."""
        return list(self._call.described.got)

    def synchronize(self) -> None:
        """Wait for the call."""
        self.wait()


class PlannedWork(PendingWork):
    """The work object of a planned call."""

    def __init__(
        self, call: PlannedCall, timeout: timedelta, before_wait: Callable[[PlannedCall], None]
    ) -> None:
        super().__init__(call)
        self._timeout, self._before_wait = timeout, before_wait

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the results.

        Raises:
            ToolError: They are not available within the group's timeout.
            CallError: The call failed.
        """
        call = self._call
        self._before_wait(call)
        limit = timeout or self._timeout
        if not call.ended.wait(limit.total_seconds() + 1):  # gloo gives up at that time itself
            raise ToolError(
                f"{call.op.id} ({call.op.collective}) by {format_ranks(call.group)} has not ended "
                f"after {limit.total_seconds():g} s: check the other ranks"
            )
        error = call.failure()
        if error is not None:
            raise error from call.error
        return True

    def is_completed(self) -> bool:
        """Return whether the results are available."""
        return bool(self._call.ended.is_set())


class DeviceCarrier(NamedTuple):
    """The device of a call's tensors, and the function that carries it."""

    device: torch.device
    carry: Callable[[], Any]


class DeviceCall(PendingCall):
    """A call of device tensors, which is not split.

    Attributes:
        work: Work object of torch. None: the call is not made, or needs no wait.
    """

    def __init__(
        self,
        op: ScriptOp,
        described: CallDescription,
        on_device: DeviceCarrier,
        group: tuple[int, ...],
    ) -> None:
        super().__init__(op, described, group)
        self._carry, self._stream_context = (
            on_device.carry,
            device_kind(on_device.device).context(on_device.device),
        )
        self._once = threading.Lock()  # taken by the thread that makes the call or gives it up
        self.work: Any = None
        self._results = ResultFuture(stream_devices(on_device.device))

    @property
    def future(self) -> Any:
        """Return the future of the results, which synchronizes with streams."""
        return self._results.future

    def make(self) -> bool:
        """Make the call, unless it was given up. Waits raise any error.

        Returns:
            Whether the call was made.
        """
        if not self._once.acquire(blocking=False):  # it was given up
            return False
        try:
            with self._stream_context:
                self.work = self._carry()
        except BaseException as error:  # noqa: BLE001 - raised by waits
            self.error = error
        self.issued.set()
        return True

    def follow(self) -> None:
        """Complete the future when that of torch's work object is complete."""
        if self.work is None:
            self._settle(None)
        else:
            self.work.get_future().add_done_callback(self._settle)

    def give_up(self, error: ToolError) -> None:
        """End a call that was not made. Its waits raise the error."""
        if self._once.acquire(blocking=False):
            self.error = error
            self.issued.set()
            self._settle(None)

    def _settle(self, future: Any) -> None:
        try:
            if future is not None:
                future.value()  # raises the original error
        except RuntimeError as error:
            self.error = error
        self._results.settle(self.described.got, self.failure())


class DeviceWork(PendingWork):
    """The work object of a device call."""

    def __init__(self, call: DeviceCall, before_wait: Callable[[PendingCall], None]) -> None:
        super().__init__(call)
        self._before_wait = before_wait

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        """Let the current stream wait once the call is made, like torch's own work object.

        Raises:
            ToolError: The call is not made within the group's timeout.
            CallError: The call could not be made, or failed.
        """
        self._before_wait(self._call)
        error = self._call.failure()
        if error is not None:
            raise error from self._call.error
        return self._call.work is None or bool(self._call.work.wait(*args, **kwargs))

    def is_completed(self) -> bool:
        """Return whether the results are available."""
        call = self._call
        return call.issued.is_set() and (call.work is None or bool(call.work.is_completed()))


class PendingOp:
    """An operation of an iteration, with its calls.

    All calls of the operation end when its last motif ends.

    Attributes:
        op: Operation of the script.
        group: Ranks of the operation, including this one.
        calls: Submitted calls by index in the operation.
        done: Event of each motif that it has ended.
    """

    def __init__(self, op: ScriptOp, group: tuple[int, ...], rank: int) -> None:
        self.op, self.group = op, group
        self.calls: dict[int, PlannedCall | DeviceCall] = {}
        self.done = [threading.Event() for _ in op.motifs]
        self._place = group.index(rank)
        self._lock = threading.Lock()
        self._row: Row | None = None
        self._restores: list[Restore] = []
        self._to_issue = self._left = len(op.motifs)

    @property
    def planned(self) -> list[PlannedCall]:
        """Return the calls of CPU tensors, by index."""
        return [call for _, call in sorted(self.calls.items()) if isinstance(call, PlannedCall)]

    @property
    def elsewhere(self) -> list[DeviceCall]:
        """Return the calls of device tensors, by index."""
        return [call for _, call in sorted(self.calls.items()) if isinstance(call, DeviceCall)]

    @property
    def as_planned(self) -> bool:
        """Return whether all calls are submitted, with CPU tensors of the planned sizes."""
        calls, counts = self.planned, self.op.counts
        if len(calls) < len(counts):
            return False
        return self.op.collective != "alltoall" or not any(map(_is_uneven, calls, counts))

    @property
    def as_made(self) -> bool:
        """Return whether the calls are made one by one, without motifs.

        This includes operations with missing calls, or with calls of device tensors.
        """
        is_incomplete = len(self.planned) < len(self.op.counts)
        return self.op.as_made or is_incomplete or (self.op.keeps_blocks and not self.as_planned)

    @property
    def row(self) -> Row:
        """Return the row of the operation. It is created on first use."""
        with self._lock:
            if self._row is None:
                converted, ranks = [], (self.group, self._place)
                for call in self.planned:
                    described, restores = convert_call(call.described)
                    converted.append(described)
                    self._restores += restores
                if self.op.merged:
                    self._row = MergedRow(self.op, converted, *ranks)
                else:
                    self._row = OpRow(self.op, converted[0], *ranks)
            return self._row

    def count_issued(self) -> bool:
        """Count an issued motif. Return whether it is the last one."""
        self._to_issue -= 1
        if self._to_issue:
            return False
        for call in self.planned:
            call.issued.set()
        return True

    def run(self, motif: int, job: Callable[[], None]) -> None:
        """Execute a motif after its dependencies. Waits raise any error."""
        try:
            for earlier in self.op.motifs[motif].after:
                self.done[earlier].wait()
            if all(call.error is None for call in self.planned):
                job()
        except BaseException as error:  # noqa: BLE001 - raised by waits
            self._fail(error)
        self.done[motif].set()
        with self._lock:
            self._left -= 1
            last = not self._left
        if last:
            self._finish()

    def _finish(self) -> None:
        calls = self.planned
        try:
            if self._row is not None and all(call.error is None for call in calls):
                averages = len(self.group) if calls[0].described.reduce == "avg" else 1
                self._row.finish(divide_by=averages)
                for restore in self._restores:
                    restore()
        except BaseException as error:  # noqa: BLE001 - raised by waits
            self._fail(error)
        for call in calls:
            call.end()

    def _fail(self, error: BaseException) -> None:
        for call in self.planned:
            call.error = call.error or error


def _is_uneven(call: PlannedCall, count: int) -> bool:
    described = call.described
    return bool(described.gives or described.gets) or described.elements_given != count
