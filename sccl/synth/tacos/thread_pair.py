"""Process a round of links in two threads: each has a block of nodes, and waits for the other.

The result depends on the blocks, and these only on the machine that is planned for, so it is the
same on any number of cores. Numba's threads would work as well, but depending on its threading
layer two threads cannot use them at once, or not after a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any, Self

import numpy as np

WorkItem = tuple[Callable[..., Any], tuple[Any, ...]]

MIN_SPLIT_LINKS = 2**14
"""Number of links from which on nodes are in two blocks: a hand-over takes as long as some thousand
links.
"""


class WorkerThreads:
    """Context manager: helper threads in addition to the calling one."""

    def __init__(self, helpers: int) -> None:
        self._work_queues: list[SimpleQueue[WorkItem | None]] = [
            SimpleQueue() for _ in range(helpers)
        ]
        self._results: SimpleQueue[tuple[int, Any]] = SimpleQueue()

    def __enter__(self) -> Self:
        for number in range(len(self._work_queues)):
            Thread(target=self._run_worker, args=(number,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for todo in self._work_queues:
            todo.put(None)

    def _run_worker(self, number: int) -> None:
        while (task := self._work_queues[number].get()) is not None:
            function, arguments = task
            try:
                result = function(*arguments)
            except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
                result = error
            self._results.put((number, result))

    def map_parts(
        self, function: Callable[..., Any], parts: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """Return the result of a function, which releases the GIL, for each part.

        Args:
            parts: one for this thread, and at most one for each other.
        """
        for todo, part in zip(self._work_queues, parts[1:], strict=False):
            todo.put((function, part))
        results = {0: function(*parts[0])}
        for _ in parts[1:]:
            number, result = self._results.get()
            if isinstance(result, Exception):
                raise result
            results[number + 1] = result
        return [results[i] for i in range(len(parts))]


def node_blocks(first: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return where each block of nodes begins, and where the last one ends.

    Their slots end with a word of bits, so that no two threads write into one.

    Args:
        first: of each node, and one more: its first slot.
    """
    links, nodes = int(first[-1]), len(first) - 1
    borders = np.flatnonzero(first[:-1] % 64 == 0)
    middle = int(borders[np.searchsorted(first[borders], links // 2).clip(max=len(borders) - 1)])
    parted = links >= MIN_SPLIT_LINKS and 0 < middle < nodes
    return np.array([0, middle, nodes] if parted else [0, nodes], dtype=np.uint64)
