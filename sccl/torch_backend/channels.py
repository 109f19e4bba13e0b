"""Implement the channels of a fabric in a job: a thread for each stream, and groups over gloo.

Each stream executes one motif after the other, in the same order on all ranks. So a motif never
waits for a motif that another rank has put behind a third one.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from sccl.errors import InputError
from sccl.torch_backend.script import PlanScript

INTERFACES = "SCCL_CHANNELS"
"""Environment variable: network interface of each channel, such as ``fast=eth0,slow=eth1``."""

Lane = tuple[int, int]
"""Indices of a channel and of one of its streams."""

Group = tuple[int, ...]


class Channels:
    """The lanes of a plan, with their threads and groups.

    Attributes:
        lanes: All lanes.
    """

    def __init__(self, script: PlanScript, rank: int, needs: Iterable[tuple[Lane, Group]]) -> None:
        self.lanes = [(c, s) for c, (_, streams) in enumerate(script.channels)
                      for s in range(streams)]  # fmt: skip
        self._names = [name for name, _ in script.channels]
        self._rank, self._needs = rank, sorted(set(needs))
        self._groups: dict[tuple[Lane, Group], Any] = {}
        self._queues: dict[Lane, queue.SimpleQueue[Callable[[], None] | None]] = {}
        self._threads: list[threading.Thread] = []

    def open(self, make: Callable[..., Any], store: Any, timeout: timedelta) -> None:
        """Create all groups, in the same order on all ranks, and start the threads.

        Args:
            make: Function that creates a group over gloo from store, rank, size, timeout, and
                device.
            store: Store of the plan.
            timeout: Timeout of calls.

        Raises:
            InputError: A channel or interface in :data:`INTERFACES` does not exist.
        """
        devices = self._devices()
        for (channel, stream), ranks in self._needs:
            if self._rank not in ranks:
                continue
            name = f"{channel}.{stream}." + ".".join(map(str, ranks))
            prefix_store = dist.PrefixStore(name, store)
            place = ranks.index(self._rank)
            self._groups[(channel, stream), ranks] = make(
                prefix_store, place, len(ranks), timeout, devices[channel]
            )
        for lane in self.lanes:
            self._queues[lane] = queue.SimpleQueue()
            name = f"sccl-{self._names[lane[0]]}-{lane[1]}"
            thread = threading.Thread(
                target=_run_jobs, args=(self._queues[lane],), name=name, daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def group(self, lane: Lane, ranks: Group) -> Any:
        """Return the group of some ranks over a lane."""
        return self._groups[lane, ranks]

    def issue(self, lane: Lane, job: Callable[[], None]) -> None:
        """Queue a job for the thread of a lane."""
        self._queues[lane].put(job)

    def end(self) -> None:
        """Make the threads end after all queued jobs."""
        for lane_queue in self._queues.values():
            lane_queue.put(None)

    def close(self) -> None:
        """Wait until the threads have ended."""
        for thread in self._threads:
            thread.join()
        self._threads = []
        self._groups = {}  # their threads end, and release tensors before that

    def _devices(self) -> list[Any]:
        settings = [part for part in os.environ.get(INTERFACES, "").split(",") if part]
        of = dict(part.partition("=")[::2] for part in settings)
        if odd := sorted(set(of) - set(self._names)):
            raise InputError(
                f"{INTERFACES} names channel {odd[0]!r:.60}, and the plan has "
                f"{', '.join(self._names)}: give an interface to these"
            )
        return [_gloo_device(of.get(name)) for name in self._names]


def _gloo_device(interface: str | None) -> Any:
    if interface is None:
        return None
    try:
        return dist.ProcessGroupGloo.create_device(interface=interface)
    except RuntimeError as error:
        raise InputError(
            f"{INTERFACES} names interface {interface!r:.60}, which gloo does not take "
            f"({str(error)[:120]})"
        ) from error


def _run_jobs(jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
