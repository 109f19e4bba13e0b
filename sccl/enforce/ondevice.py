"""Calls of tensors that are not on the CPU, in a plan's order: whole, by their device's own group.

The plan decides when such a call is made, and no more: what its first motif's turn is, is that of
all of it. It is made in the stream that was current when the job called, and whoever waits for it
waits only until it is made: then torch's own work lets the stream of who waits wait, not the host.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from sccl.enforce.described import Described
from sccl.enforce.futures import ResultFuture
from sccl.enforce.inner import kind_of, with_streams
from sccl.enforce.planned import HeldCall, HeldWork
from sccl.enforce.script import ScriptOp
from sccl.errors import ToolError


class OnDevice(NamedTuple):
    """Where a call's tensors are, and what does it there."""

    device: torch.device
    carry: Callable[[], Any]


class DeviceCall(HeldCall):
    """A call, as an operation of a plan.

    Attributes:
        work: torch's own. None: the call is not made, or no more is to be waited for.
    """

    def __init__(
        self, op: ScriptOp, described: Described, there: OnDevice, group: tuple[int, ...]
    ) -> None:
        super().__init__(op, described, group)
        self._carry, self._here = there.carry, kind_of(there.device).here(there.device)
        self._once = threading.Lock()  # whoever takes it makes the call, or gives it up
        self.work: Any = None
        self._results = ResultFuture(with_streams(there.device))

    @property
    def future(self) -> Any:
        """Return the future of its results, as streams see it."""
        return self._results.future

    def make(self) -> bool:
        """Make it; whatever goes wrong, waits tell. Return whether that was to be done."""
        if not self._once.acquire(blocking=False):  # it was given up
            return False
        try:
            with self._here:
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
        """End a call that is not made: whoever waits for it is told why."""
        if self._once.acquire(blocking=False):
            self.error = error
            self.issued.set()
            self._settle(None)

    def _settle(self, future: Any) -> None:
        try:
            if future is not None:
                future.value()  # raises what went wrong
        except RuntimeError as error:
            self.error = error
        self._results.settle(self.described.got, self.told())


class DeviceWork(HeldWork):
    """What a job holds of it."""

    def __init__(self, call: DeviceCall, before_wait: Callable[[HeldCall], None]) -> None:
        super().__init__(call)
        self._before_wait = before_wait

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        """Let what follows wait, as torch's own work does, once the call is made.

        Raises:
            ToolError: it is not within the group's time.
            CallError: it could not be made, or failed.
        """
        self._before_wait(self._call)
        error = self._call.told()
        if error is not None:
            raise error from self._call.error
        return self._call.work is None or bool(self._call.work.wait(*args, **kwargs))

    def is_completed(self) -> bool:
        """Return whether results are there."""
        call = self._call
        return call.issued.is_set() and (call.work is None or bool(call.work.is_completed()))
