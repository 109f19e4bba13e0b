"""The recorder: every call of this rank with its exact signature, every wait, and when.

It changes nothing of what a job does, and writes a file when the job lets go of its groups, or
ends.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import torch
import torch.distributed as dist
from torch.optim import optimizer

from sccl.core.files.disk import write_bytes_atomically
from sccl.core.files.recording_shapes import (
    AnyRecord,
    CallRecord,
    MarkRecord,
    RecordingWire,
    WaitRecord,
)
from sccl.enforce.described import Described

MOST_EVENTS = 200_000
"""After these a recording ends: 40 MB, and thousands of steps."""


class _Now(NamedTuple):
    """A moment of a thread: microseconds since the beginning, and of its own clock."""

    at: float
    cpu: float


class _Timer:
    """When a thread came to something."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._begin = recorder.now()

    def fields(self) -> dict[str, Any]:
        """Return the fields of what is over now."""
        end = self._recorder.now()
        return {
            "thread": self._recorder.thread(),
            "begin": self._begin.at,
            "end": end.at,
            "cpu_begin": self._begin.cpu,
            "cpu_end": end.cpu,
        }


class Recorder:
    """What this rank does.

    Attributes:
        path: of the file.
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
        self._calls = self._left_out = 0
        self._began_optimizer: dict[int, _Timer] = {}
        self._hooks = (
            optimizer.register_optimizer_step_pre_hook(self._before_optimizer),
            optimizer.register_optimizer_step_post_hook(self._after_optimizer),
        )
        atexit.register(self.write)

    def now(self) -> _Now:
        """Return the time, of all and of this thread."""
        since = time.perf_counter_ns() - self._began
        return _Now(since / 1000, time.thread_time_ns() / 1000)

    def thread(self) -> int:
        """Return the number of this thread, from 0 on as they come."""
        return self._threads.setdefault(threading.get_ident(), len(self._threads))

    def call(self, group: tuple[int, ...], described: Described, carry: Callable[[], Any]) -> Any:
        """Let a call be carried, and return its work, which tells who waits for it."""
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
        return RecordedWork(work, self, number)

    def wait(self, number: int, carry: Callable[[], bool]) -> bool:
        """Let a wait for a call be carried."""
        timer = _Timer(self)
        result = carry()
        fields = timer.fields()
        with self._lock:
            self._done.setdefault(number, fields["end"])
            self._add(WaitRecord(**fields, call=number))
        return result

    def future_of(self, number: int) -> None:
        """Note that a future of a call was asked for."""
        self._in_future.add(number)

    def done(self, number: int) -> None:
        """Note that the results of a call are there."""
        self._done.setdefault(number, self.now().at)

    def mark(self, what: Literal["step", "optimizer"], timer: _Timer | None = None) -> None:
        """Note that a step begins, or that an optimizer has stepped."""
        with self._lock:
            self._add(MarkRecord(**(timer or _Timer(self)).fields(), what=what))

    def write(self) -> None:
        """Write all so far; what is written last, counts."""
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
        if len(self._events) < MOST_EVENTS:
            self._events.append(event)

    def _before_optimizer(self, *_: Any) -> None:
        self._began_optimizer[threading.get_ident()] = _Timer(self)

    def _after_optimizer(self, *_: Any) -> None:
        self.mark("optimizer", self._began_optimizer.pop(threading.get_ident(), None))


class RecordedWork(dist._Work):  # noqa: SLF001 - what torch's own groups in Python derive from
    """The work of a call, and who waits for it."""

    def __init__(self, inner: Any, recorder: Recorder, number: int) -> None:
        super().__init__()
        self._inner, self._recorder, self._number = inner, recorder, number
        self._future: Any = None

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        """Wait until results are there."""
        carry = self._inner.wait
        return self._recorder.wait(self._number, lambda: bool(carry(*args, **kwargs)))

    def get_future(self) -> Any:
        """Return what is done when results are there."""
        if self._future is None:
            self._recorder.future_of(self._number)
            self._future = self._inner.get_future()
            number, recorder = self._number, self._recorder
            self._future.add_done_callback(lambda _: recorder.done(number))
        return self._future

    def is_completed(self) -> bool:
        """Return whether results are there."""
        return bool(self._inner.is_completed())

    def is_success(self) -> bool:
        """Return whether all went well."""
        return bool(self._inner.is_success())

    def exception(self) -> Any:
        """Return what went wrong."""
        return self._inner.exception()

    def result(self) -> Any:
        """Return the results."""
        return self._inner.result()

    def synchronize(self) -> None:
        """Let what follows wait."""
        self._inner.synchronize()

    def source_rank(self) -> int:
        """Return who sent it."""
        return int(self._inner.source_rank())

    def _source_rank(self) -> int:
        return int(self._inner._source_rank())  # noqa: SLF001 - torch's name
