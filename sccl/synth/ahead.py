"""Asking ahead: while one query is answered, those that are likely to follow are answered too.

The sweep stays what it is: it asks one query after the other and takes the answers in that order,
so its result is that of a serial run. Only whether an answer is already there when it is asked for
differs. Queries that are not expected any more are given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as NotYetError
from typing import Protocol

import msgspec

from sccl.core.answer import Answer
from sccl.core.files.answers import answer_of_wire, instance_to_wire
from sccl.core.files.shapes import AnswerWire
from sccl.core.files.text import parse
from sccl.core.instance import Instance
from sccl.errors import InputError, SolverError

Worker = Callable[[str], str]
"""From an instance as JSON to an answer as JSON: what a worker does. It has to be importable."""


class Expect(Protocol):
    """Told which instances will be asked next, the likeliest first."""

    def __call__(self, instances: Iterable[Instance]) -> None:
        """Take note."""
        ...


class Ahead:
    """Answers instances through an executor, several at a time.

    Args:
        executor: of processes here, or of a cluster.
        work: what it does with an instance.
        jobs: how many at a time.
        look: called now and then while an answer is waited for; raises if none can come.
    """

    def __init__(
        self, executor: Executor, work: Worker, jobs: int, look: Callable[[], None] = lambda: None
    ) -> None:
        self.executor, self.work, self.jobs, self.look = executor, work, jobs, look
        self.futures: dict[str, Future[str]] = {}

    def expect(self, instances: Iterable[Instance]) -> None:
        """Have the first of ``instances`` answered, as many as there are jobs; forget others."""
        expected: set[str] = set()
        for instance in instances:
            text = _text(instance)
            if text not in expected:
                expected.add(text)
                self._start(text)
            if len(expected) >= self.jobs:
                break
        for text in [t for t in self.futures if t not in expected]:
            _give_up(self.executor, self.futures.pop(text))

    def solve(self, instance: Instance) -> Answer:
        """Return the answer of an instance; wait for it if need be.

        Raises:
            SolverError: the worker broke.
        """
        text = _text(instance)
        future = self._start(text)
        while True:  # a wait without end cannot be interrupted everywhere
            try:
                reply = future.result(timeout=0.2)
                break
            except NotYetError:
                if future.done():
                    raise
                self.look()
        del self.futures[text]
        try:
            return answer_of_wire(parse(reply, AnswerWire, "worker"), "worker")
        except InputError as error:
            raise SolverError(f"a worker's answer cannot be read: {error}") from error

    def close(self) -> None:
        """Give up whatever is still being answered."""
        for future in self.futures.values():
            _give_up(self.executor, future)
        self.futures.clear()

    def _start(self, text: str) -> Future[str]:
        if text not in self.futures:
            self.futures[text] = self.executor.submit(self.work, text)
        return self.futures[text]


def _text(instance: Instance) -> str:
    return msgspec.json.encode(instance_to_wire(instance)).decode()


def _give_up(executor: Executor, future: Future[str]) -> None:
    abandon = getattr(executor, "abandon", None)
    if not future.cancel() and abandon is not None:
        abandon(future)
