"""Wrap work objects and futures of calls, so that errors name the call and the ended ranks.

``torch.futures.Future.set_exception`` stores the exception as the value of the future. Python
raises it. C++ treats it as results: the reducer of DistributedDataParallel reads tensors from it,
and the process crashes with a segmentation fault. In C++ a future fails only if it is that of a
callback that raises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist

from sccl.torch_backend.peers import CallError

ErrorFactory = Callable[[BaseException], CallError]
"""Function that wraps an error in one that names the call."""

Restore = Callable[[], Any]
"""Function that writes a result from a copy to the tensor of the job."""


class CarriedWork(dist._Work):  # noqa: SLF001 - the base class of torch's own groups in Python
    """The work of a call from the group that carries it."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self._inner = inner

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        """Wait for the results."""
        return bool(self._inner.wait(*args, **kwargs))

    def get_future(self) -> Any:
        """Return a future of the results."""
        return self._inner.get_future()

    def is_completed(self) -> bool:
        """Return whether the results are available."""
        return bool(self._inner.is_completed())

    def is_success(self) -> bool:
        """Return whether the call has succeeded."""
        return bool(self._inner.is_success())

    def exception(self) -> Any:
        """Return the error."""
        return self._inner.exception()

    def result(self) -> Any:
        """Return the results."""
        return self._inner.result()

    def synchronize(self) -> None:
        """Wait for the call."""
        self._inner.synchronize()

    def source_rank(self) -> int:
        """Return the source rank."""
        return int(self._inner.source_rank())

    def _source_rank(self) -> int:
        return int(self._inner._source_rank())  # noqa: SLF001 - torch's name


class NamedWork(CarriedWork):
    """A work object whose errors name the call in one sentence."""

    def __init__(self, inner: Any, naming: ErrorFactory) -> None:
        super().__init__(inner)
        self._naming = naming

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        """Wait for the results.

        Raises:
            CallError: The call failed.
        """
        try:
            return bool(self._inner.wait(*args, **kwargs))
        except RuntimeError as error:
            raise self._naming(error) from error

    def get_future(self) -> Any:
        """Return a future of the results."""
        return self._inner.get_future().then(self._value)

    def _value(self, future: Any) -> Any:
        try:
            return future.value()
        except RuntimeError as error:
            raise self._naming(error) from error


def wrap_named(inner: Any, naming: ErrorFactory) -> NamedWork | None:
    """Return a work object whose errors name the call.

    None: torch returned no work object, because the calling stream waits for the call by itself.
    """
    return None if inner is None else NamedWork(inner, naming)


class CopiedWork(CarriedWork):
    """The work of a call on copies: it copies the results to the tensors of the job.

    If gloo's work has no future, as for reduce_scatter, waits and tests copy them.
    """

    def __init__(
        self, inner: Any, restores: Sequence[Restore], wanted: Sequence[torch.Tensor]
    ) -> None:
        super().__init__(inner)
        self._restores, self._wanted = restores, wanted
        self._lock = threading.Lock()
        self._is_filled = False
        self._future: Any = None
        with suppress(RuntimeError):
            self._future = inner.get_future().then(self._filled)

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        """Wait until results are in place."""
        self._inner.wait(*args, **kwargs)  # raises the original error
        if self._future is None:
            self._fill()
        else:
            self._future.wait()
        return True

    def get_future(self) -> Any:
        """Return a future of the copied results."""
        return self._inner.get_future() if self._future is None else self._future

    def is_completed(self) -> bool:
        """Return whether results are in place."""
        if self._future is not None:
            return bool(self._future.done())
        if not self._inner.is_completed():
            return False
        if self._inner.is_success():
            self._fill()
        return True

    def result(self) -> Any:
        """Return the results."""
        return list(self._wanted)

    def _filled(self, future: Any) -> Any:
        future.value()  # raises the original error
        self._fill()
        return list(self._wanted)

    def _fill(self) -> None:
        with self._lock:
            if self._is_filled:
                return
            self._is_filled = True
            for restore in self._restores:
                restore()


class ResultFuture:
    """The tensors that a call fills, or the error that it ends with.

    Args:
        devices: Devices whose streams the future synchronizes with.

    Attributes:
        future: Future for the job. Waits for a failed call raise a RuntimeError with the text of
            its error.
    """

    def __init__(self, devices: Sequence[torch.device] = ()) -> None:
        self._error: BaseException | None = None
        self._settled: torch.futures.Future[Any] = torch.futures.Future(devices=list(devices))
        self.future: Any = self._settled.then(self._outcome)

    def settle(self, results: Sequence[torch.Tensor], error: BaseException | None) -> None:
        """Complete the future, and run the callbacks that wait for it.

        Args:
            results: Tensors that the call has filled.
            error: Error that the call ended with.
        """
        self._error = error
        # A future on a device records an event for each tensor in its value: callbacks wait for it.
        self._settled.set_result(None if error is not None else list(results))

    def _outcome(self, settled: Any) -> Any:
        if self._error is not None:
            raise self._error
        return settled.value()
