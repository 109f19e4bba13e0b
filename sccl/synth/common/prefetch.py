"""Answer queries ahead: while one is answered, likely later queries are answered in parallel.

The sweep stays serial: it makes one query after the other and takes the answers in that order, so
its result is that of a serial run. The only difference is whether an answer is already available.
Queries that are no longer expected are cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as NotYetError

import msgspec

from sccl.core.answer import Answer
from sccl.core.files.algorithms import answer_from_wire, instance_to_wire
from sccl.core.files.json_text import parse
from sccl.core.files.shapes import AnswerWire
from sccl.core.instance import Instance
from sccl.errors import InputError, SolverError

JsonWorker = Callable[[str], str]
"""The function of a worker, from an instance as JSON to an answer as JSON. It must be
importable.
"""


Prefetch = Callable[[Iterable[Instance]], None]
"""Receives the instances that are likely to be asked for next, the likeliest first."""


class Prefetcher:
    """Answers instances through an executor, several at a time.

    Args:
        executor: Executor of local processes, or of a cluster.
        worker: Function that answers an instance.
        jobs: Number of concurrent queries.
        check_alive: Called periodically while waiting for an answer. It raises if none can come.
    """

    def __init__(
        self,
        executor: Executor,
        worker: JsonWorker,
        jobs: int,
        check_alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.executor, self.worker, self.jobs = executor, worker, jobs
        self.check_alive = check_alive
        self.futures: dict[str, Future[str]] = {}

    def prefetch(self, instances: Iterable[Instance]) -> None:
        """Start to answer the first ``jobs`` of ``instances``, and cancel all others."""
        expected: set[str] = set()
        for instance in instances:
            text = _instance_json(instance)
            if text not in expected:
                expected.add(text)
                self._submit(text)
            if len(expected) >= self.jobs:
                break
        for text in [t for t in self.futures if t not in expected]:
            _cancel(self.executor, self.futures.pop(text))

    def solve(self, instance: Instance) -> Answer:
        """Return the answer of an instance. Wait for it if necessary.

        Raises:
            SolverError: The worker failed.
        """
        text = _instance_json(instance)
        future = self._submit(text)
        while True:  # a wait without timeout cannot be interrupted on every platform
            try:
                reply = future.result(timeout=0.2)
                break
            except NotYetError:
                if future.done():
                    raise
                self.check_alive()
        del self.futures[text]
        try:
            return answer_from_wire(parse(reply, AnswerWire, "worker"), "worker")
        except InputError as error:
            raise SolverError(f"a worker's answer cannot be read: {error}") from error

    def close(self) -> None:
        """Cancel all queries in progress."""
        for future in self.futures.values():
            _cancel(self.executor, future)
        self.futures.clear()

    def _submit(self, text: str) -> Future[str]:
        if text not in self.futures:
            self.futures[text] = self.executor.submit(self.worker, text)
        return self.futures[text]


def _instance_json(instance: Instance) -> str:
    return msgspec.json.encode(instance_to_wire(instance)).decode()


def _cancel(executor: Executor, future: Future[str]) -> None:
    abandon = getattr(executor, "abandon", None)
    if not future.cancel() and abandon is not None:
        abandon(future)
