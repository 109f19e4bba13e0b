"""Futures of results that fail in C++ as they fail in Python.

``torch.futures.Future.set_exception`` stores the exception as the value of the future. Python
raises it. C++ takes it for results: the reducer of DistributedDataParallel reads tensors out of
it, and the process dies of a segmentation fault. Only a callback that raises makes its future fail
in C++.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


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
