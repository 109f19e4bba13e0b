"""Record each call of this rank with its exact signature, each wait, and their times.

Recording does not change a job. The file is written when the job destroys its groups, or ends.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import torch
from torch.optim import optimizer

from sccl.core.files.disk import write_bytes_atomically
from sccl.torch_backend.calls.call_description import CallDescription
from sccl.torch_backend.calls.works import CarriedWork
from sccl.training.files.recording_shapes import (
    AnyRecord,
    CallRecord,
    MarkRecord,
    RecordingWire,
    WaitRecord,
)

MAX_EVENTS = 200_000
"""Largest number of events in a recording: 40 MB, or thousands of steps."""


Result = TypeVar("Result")


class _Moment(NamedTuple):
    """A moment: microseconds since the start of the recording, and of the thread's CPU time."""

    at: float
    cpu: float


class _Timer:
    """The start of an interval on a thread."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._begin = recorder.now()

    def fields(self) -> dict[str, Any]:
        """Return the fields of the interval that ends now."""
        end = self._recorder.now()
        return {
            "thread": self._recorder.thread(),
            "begin": self._begin.at,
            "end": end.at,
            "cpu_begin": self._begin.cpu,
            "cpu_end": end.cpu,
        }


class Recorder:
    """The recording of this rank.

    Attributes:
        path: Path of the file.
    """

    def __init__(self, folder: Path, rank: int, world: int) -> None:
        self.path = folder / f"rank-{rank}.json"
        self._rank, self._world = rank, world
        self._lock = threading.Lock()
        self._began = time.perf_counter_ns()
        self._events: list[AnyRecord] = []
        self._threads: dict[int, int] = {}
        self._done: dict[int, float] = {}
        self._in_future: set[int] = set()
        self._in_backward: dict[int, Any] = {}
        self._futures: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._calls = self._left_out = 0
        self._began_optimizer: dict[int, _Timer] = {}
        self._hooks = (
            optimizer.register_optimizer_step_pre_hook(self._before_optimizer),
            optimizer.register_optimizer_step_post_hook(self._after_optimizer),
        )
        self._record_waits_for_futures()
        atexit.register(self.write)

    def now(self) -> _Moment:
        """Return the wall-clock time and the CPU time of this thread."""
        since = time.perf_counter_ns() - self._began
        return _Moment(since / 1000, time.thread_time_ns() / 1000)

    def thread(self) -> int:
        """Return the number of this thread, in the order of first use."""
        return self._threads.setdefault(threading.get_ident(), len(self._threads))

    def call(
        self, group: tuple[int, ...], described: CallDescription, carry: Callable[[], Any]
    ) -> Any:
        """Make a call, and return a work object that records waits.

        For tensors on a device, a wait covers only the host's enqueueing.
        """
        timer = _Timer(self)
        work = carry()
        fields = timer.fields()
        one_way = not described.collective and described.peer is not None
        if not described.dtype or not (described.collective or one_way):
            self._left_out += 1
            return work
        with self._lock:
            number = self._calls
            self._calls += 1
            self._add(
                CallRecord(
                    **fields,
                    number=number,
                    collective=described.collective or "broadcast",
                    dtype=described.dtype,
                    given=described.elements_given,
                    got=described.elements_got,
                    group=group,
                    root=described.root,
                    reduce=described.reduce,
                    gives=described.gives,
                    gets=described.gets,
                    peer=described.peer,
                    sends=described.sends,
                )
            )
            if work is None:  # the calling stream waits by itself
                self._done[number] = fields["end"]
                self._add(WaitRecord(**fields, call=number))
        return None if work is None else RecordedWork(work, self, number)

    def wait(self, number: int, carry: Callable[[], Result]) -> Result:
        """Execute and record a wait for a call."""
        timer = _Timer(self)
        result = carry()
        fields = timer.fields()
        with self._lock:
            self._done.setdefault(number, fields["end"])
            self._add(WaitRecord(**fields, call=number))
        return result

    def future_of(self, number: int, future: Any) -> Any:
        """Record that the job requested the future of a call, and return it.

        DistributedDataParallel requests the future in a backward pass, and waits for it in a
        callback of autograd at the end of the pass. So this recorder adds callbacks right before
        and right after.
        """
        self._in_future.add(number)
        future.add_done_callback(lambda _: self.done(number))
        if torch._C._current_graph_task_id() < 0:  # noqa: SLF001 - torch has no other
            self._futures[future] = number
            return future
        with self._lock:
            first = not self._in_backward
            self._in_backward[number] = future
        if first:
            _hook_backward_end(self._backward_ends)
        return future

    def _record_waits_for_futures(self) -> None:
        """Replace the method by which jobs wait for futures, to record these waits.

        Futures that can fail in C++ must be created in C++, so they cannot have a class in Python.
        """
        carry = torch._C.Future.wait  # noqa: SLF001 - torch has no other

        def wait(future: Any) -> Any:
            number = self._futures.get(future)
            if number is None:
                return carry(future)
            return self.wait(number, lambda: carry(future))

        torch._C.Future.wait = wait  # noqa: SLF001 - torch has no other

    def _backward_ends(self) -> None:
        begin = _Timer(self)
        # A callback queued last runs after all callbacks queued before.
        _hook_backward_end(lambda: self._waited_in_backward(begin))

    def _waited_in_backward(self, begin: _Timer) -> None:
        """Record waits for completed futures, in sequence from the beginning of the interval."""
        fields = begin.fields()
        with self._lock:
            futures, self._in_backward = self._in_backward, {}
            at = fields["begin"]
            for number, future in futures.items():
                if future.done():
                    done = min(fields["end"], self._done.get(number, fields["end"]))
                    wait_fields = fields | {
                        "begin": at,
                        "end": max(at, done),
                        "cpu_end": fields["cpu_begin"],
                    }
                    at = wait_fields["end"]
                    self._add(WaitRecord(**wait_fields, call=number))

    def done(self, number: int) -> None:
        """Record that the results of a call are available."""
        self._done.setdefault(number, self.now().at)

    def mark(self, kind: Literal["step", "optimizer"], timer: _Timer | None = None) -> None:
        """Record the begin of a step, or the step of an optimizer."""
        with self._lock:
            self._add(MarkRecord(**(timer or _Timer(self)).fields(), what=kind))

    def write(self) -> None:
        """Write the recording so far, replacing the file."""
        with self._lock:
            events = tuple(
                msgspec.structs.replace(
                    event,
                    done=self._done.get(event.number),
                    in_future=event.number in self._in_future,
                )
                if isinstance(event, CallRecord)
                else event
                for event in self._events
            )
        recording = RecordingWire(
            sccl_recording=1,
            rank=self._rank,
            world=self._world,
            torch=str(torch.__version__),
            events=events,
            left_out=self._left_out,
        )
        write_bytes_atomically(self.path, msgspec.json.encode(recording))

    def _add(self, event: AnyRecord) -> None:
        if len(self._events) < MAX_EVENTS:
            self._events.append(event)

    def _before_optimizer(self, *_: Any) -> None:
        self._began_optimizer[threading.get_ident()] = _Timer(self)

    def _after_optimizer(self, *_: Any) -> None:
        self.mark("optimizer", self._began_optimizer.pop(threading.get_ident(), None))


def _hook_backward_end(call: Callable[[], None]) -> None:
    engine = torch.autograd.Variable._execution_engine  # noqa: SLF001 - torch has no other
    engine.queue_callback(call)


class RecordedWork(CarriedWork):
    """The work object of a recorded call. It records waits."""

    def __init__(self, inner: Any, recorder: Recorder, number: int) -> None:
        super().__init__(inner)
        self._recorder, self._number = recorder, number
        self._future: Any = None

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        """Wait for the results."""
        carry = self._inner.wait
        return self._recorder.wait(self._number, lambda: bool(carry(*args, **kwargs)))

    def get_future(self) -> Any:
        """Return a future of the results."""
        if self._future is None:
            self._future = self._recorder.future_of(self._number, self._inner.get_future())
        return self._future
