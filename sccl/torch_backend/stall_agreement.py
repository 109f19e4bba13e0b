"""Resolve waits for work that is not issued: all ranks agree on a cut, or continue.

A rank that stands before its next call writes the number of its calls to the job's store. If all
ranks have written the same number, the last of them writes a cut. A rank that makes a further call
after all first writes that they continue. The first write decides for all. So ranks never decide
differently, and no clock decides.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from sccl.errors import ToolError
from sccl.torch_backend.peers import format_ranks

CUT, RESUME = "cut", "on"


class StallAgreement:
    """The reports of this rank.

    Attributes:
        at: Number of calls after which it stands. None: it does not.
    """

    def __init__(self, store: Any, rank: int, ranks: int, limit_s: float) -> None:
        self._store, self._rank, self._ranks = _TimeoutStore(store, limit_s), rank, ranks
        self.at: int | None = None

    def tell(self, calls: int) -> None:
        """Say that this rank stands still after some calls. Once for each number."""
        if self.at == calls:
            return
        self.at = calls
        self._store.set(f"stalled/{calls}/{self._rank}", "1")
        if self._store.add(f"stalled/{calls}", 1) == self._ranks:
            self._decide(calls, CUT)

    def decided(self) -> str:
        """Return the decision at the number of calls where this rank stands. Empty: none yet."""
        key = f"decided/{self.at}"
        return str(self._store.get(key).decode()) if self._store.check([key]) else ""

    def go_on(self) -> str:
        """Return the decision before another call of this rank: to continue, if possible."""
        assert self.at is not None
        decision = self._decide(self.at, RESUME)
        self.at = None
        return decision

    def _decide(self, calls: int, decision: str) -> str:
        return str(self._store.compare_set(f"decided/{calls}", "", decision).decode())

    def others(self) -> str:
        """Return for whom it waits, in words."""
        keys = {rank: f"stalled/{self.at}/{rank}" for rank in range(self._ranks)}
        moving = [rank for rank, key in keys.items() if not self._store.check([key])]
        if not moving:
            return "all ranks have reached this call"
        have = "has" if len(moving) == 1 else "have"
        return f"{format_ranks(moving)} {have} not reached this call"


class _TimeoutStore:
    """A store that is waited for only so long: who holds it may be stopped, or gone."""

    def __init__(self, store: Any, limit_s: float) -> None:
        self._store, self._limit_s = store, limit_s
        self._silent = False

    def set(self, key: str, value: str) -> None:
        self._ask(lambda: self._store.set(key, value))

    def add(self, key: str, many: int) -> int:
        return int(self._ask(lambda: self._store.add(key, many)))

    def get(self, key: str) -> bytes:
        return bytes(self._ask(lambda: self._store.get(key)))

    def check(self, keys: list[str]) -> bool:
        return bool(self._ask(lambda: self._store.check(keys)))

    def compare_set(self, key: str, old: str, new: str) -> bytes:
        return bytes(self._ask(lambda: self._store.compare_set(key, old, new)))

    def _ask(self, request: Callable[[], Any]) -> Any:
        """Return an answer.

        Raises:
            ToolError: there is none in time, or there was none before.
        """
        answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put((request(), None))
            except Exception as error:  # noqa: BLE001 - told to who asks
                answers.put((None, error))

        answer, error = None, None
        try:
            if not self._silent:
                threading.Thread(target=ask, name="sccl-store", daemon=True).start()
            answer, error = answers.get(timeout=0 if self._silent else self._limit_s)
        except queue.Empty:
            self._silent = True
            error = TimeoutError(f"no answer in {self._limit_s:g} s")
        if error is not None:
            raise ToolError(
                f"the job's store does not answer ({error}): look at the process that holds it, "
                "torchrun or rank 0"
            ) from error
        return answer
