"""Make calls of device tensors in a plan's order: whole, with their device's own group.

The plan decides only when such a call is made: at the turn of its first motif. It is made in the
stream that was current when the job submitted it. A wait lasts only until it is made. Then torch's
work object lets the waiting stream wait, not the host.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from sccl.errors import ToolError
from sccl.torch_backend.calls.call_description import CallDescription
from sccl.torch_backend.calls.planned_calls import PendingCall, PendingWork
from sccl.torch_backend.calls.result_future import ResultFuture
from sccl.torch_backend.device import device_kind, stream_devices
from sccl.torch_backend.script import ScriptOp


class DeviceCarrier(NamedTuple):
    """The device of a call's tensors, and the function that carries it."""

    device: torch.device
    carry: Callable[[], Any]


class DeviceCall(PendingCall):
    """A call, as an operation of a plan.

    Attributes:
        work: torch's own. None: the call is not made, or no more is to be waited for.
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
            device_kind(on_device.device).here(on_device.device),
        )
        self._once = threading.Lock()  # whoever takes it makes the call, or gives it up
        self.work: Any = None
        self._results = ResultFuture(stream_devices(on_device.device))

    @property
    def future(self) -> Any:
        """Return the future of its results, as streams see it."""
        return self._results.future

    def make(self) -> bool:
        """Make the call, unless it was given up.

        Waits raise any error. Return whether it was made.
        """
        if not self._once.acquire(blocking=False):  # it was given up
            return False
        try:
            with self._stream_context:
                self.work = self._carry()
        except BaseException as error:  # noqa: BLE001 - told to who waits
            self.error = error
        self.issued.set()
        return True

    def follow(self) -> None:
        """Let its future be done as that of torch's own work is, which may be at once."""
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
            ToolError: It is not made within the group's timeout.
            CallError: It could not be made, or failed.
        """
        self._before_wait(self._call)
        error = self._call.failure()
        if error is not None:
            raise error from self._call.error
        return self._call.work is None or bool(self._call.work.wait(*args, **kwargs))

    def is_completed(self) -> bool:
        """Return whether results are there."""
        call = self._call
        return call.issued.is_set() and (call.work is None or bool(call.work.is_completed()))
