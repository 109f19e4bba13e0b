"""Calls that a plan is about, and their works."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from sccl.errors import ToolError
from sccl.torch_backend.calls.call_description import CallDescription
from sccl.torch_backend.calls.result_future import ResultFuture
from sccl.torch_backend.peers import CallError, call_error, format_ranks
from sccl.torch_backend.script import ScriptOp


class PendingCall:
    """A call of a plan's operation.

    Attributes:
        began: Time of submission on the monotonic clock, in seconds.
        issued: Whether all of it is issued.
        error: Its error.
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
        """Return the exception to raise for its error."""
        match self.error:
            case None | ToolError():
                return self.error
            case CallError():
                return CallError(f"{self.op.id}: {self.error}")
        return call_error(f"{self.op.id} ({self.op.collective})", self.group, self.error)


class PlannedCall(PendingCall):
    """One whose operation is carried motif by motif, over lanes.

    Attributes:
        carry: Function that lets a group do the original call.
        ended: whether results are there, or will not be.
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
        """Return the future of its results."""
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
        """Tell who waits that results are there, or will not be."""
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
    """The work object of a held call."""

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
        """Return whether all went well."""
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
        """Return whether results are there."""
        return bool(self._call.ended.is_set())
