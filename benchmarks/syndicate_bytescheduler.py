"""ByteScheduler's own core (bytedance/byteps, branch bytescheduler) and our policy for its rule.

Its priority queue, credits and partitions run unchanged from the user's checkout, in virtual time.
Its condition variable waits by processing the next event of an iteration. The tuner is omitted.
Instead, each combination of segments and credits runs in turn.
"""

# ruff: noqa: SLF001 - only private members drive it without threads

from __future__ import annotations

import contextlib
import heapq
import importlib
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.syndicate_jobs import JobResult, computing
from benchmarks.syndicate_systems import MODELS, Systems, workload_of
from sccl.errors import ParameterError
from sccl.training.fabric_names import resolve_fabric
from sccl.training.scheduling.policies import POLICIES, PolicyEffort
from sccl.training.scheduling.search_strategies import uniform_choices
from sccl.training.scheduling.steady_state import find_steady_state, identity_window
from sccl.training.scheduling.step_problem import StepProblem, find_cyclic_plan_fault

PART = "bytescheduler"

JOBS = (*MODELS, "moe-156", "moe-600", "moe-1500")

CREDITS = {"one at a time": 1.0, "4 million": 4e6, "64 million": 64e6}
"""Parameters in flight: the smallest and largest credits in its tuner's space for allreduce."""


class Core:
    """Scheduling core of a checkout.

    Args:
        folder: Folder that contains ``bytescheduler/common/bytecore.py``.

    Raises:
        ParameterError: The file is missing, or one of its imports is not installed.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "bytescheduler" / "common" / "bytecore.py").is_file():
            raise ParameterError(
                f"{folder} has no bytescheduler/common/bytecore.py: give the folder bytescheduler "
                "of a checkout of bytedance/byteps, branch bytescheduler"
            )
        if "bayes_opt" not in sys.modules:  # needed only by the tuner, which does not run
            tuner: Any = ModuleType("bayes_opt")
            tuner.BayesianOptimization = tuner.UtilityFunction = object
            sys.modules["bayes_opt"] = tuner
        sys.path.insert(0, str(folder.resolve()))
        try:
            with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):  # its log
                self._core = importlib.import_module("bytescheduler.common.bytecore")
                task = importlib.import_module("bytescheduler.common.bytetask").ByteTask
                self._profiler = importlib.import_module("bytescheduler.common.profiler").Profiler
        except ImportError as error:
            raise ParameterError(f"{folder}: {error}, which ByteScheduler's core needs") from error
        finally:
            sys.path.remove(str(folder.resolve()))
        logging.getLogger("ByteScheduler").setLevel(logging.ERROR)
        self.task = type(
            "Task",
            (task,),
            {
                "_prepare": lambda call: call.notify_ready(),
                "_do": lambda call: call._comm.issue(call),
                "_tensor_size": lambda call: sum(size for _, _, size in call._tensor),
                "_partition_tensor": lambda call, _: [[piece] for piece in call._tensor],
            },
        )

    def fresh(self, condition: object, credit: float) -> Any:
        """Return a started core that sends single segments and waits on our condition."""
        core = self._core.ByteCore()
        core._condition, core._is_started = condition, True
        core._profiler, core._rank, core._arch = self._profiler(""), 0, "allreduce"
        core._partition, core._credit, core._credit_limit = 0, credit, credit
        return core


class Iteration:
    """Iteration in virtual time, whose collectives the core issues one at a time.

    Args:
        choice: Option of each operation.
        parameters: Number of parameters of each operation.

    Attributes:
        starts: Start time of each motif of the step.
    """

    def __init__(
        self,
        byte: Core,
        step: StepProblem,
        choice: Sequence[int],
        parameters: Sequence[float],
        credit: float,
    ) -> None:
        arrays = step.arrays
        self._byte, self._parameters = byte, parameters
        rows = zip(step.ops, choice, strict=True)
        self._motifs = [op.options[option].motifs for op, option in rows]
        self._computes = [not op.communicates for op in step.ops]
        self._first = arrays.motif_first[arrays.option_first[:-1] + np.array(choice)].tolist()
        self._waits = [len(op.after) for op in step.ops]
        self._later: list[list[int]] = [[] for _ in step.ops]
        for number, op in enumerate(step.ops):
            for before in op.after:
                self._later[before].append(number)
        self._left = [len(motifs) for motifs in self._motifs]
        self._events: list[tuple[int, int, int, Any]] = []
        self._now, self._count, self._free, self._channel = 0, 0, dict[int, int](), 0
        self.starts = np.zeros(len(arrays.ticks), dtype=np.int64)
        self._core = byte.fresh(self, credit)
        for number, waits in enumerate(self._waits):
            if not waits:
                self._ready(number)
        self._core._loop()
        assert not any(self._left)

    def __enter__(self) -> None:
        """Take the lock. No other thread runs."""

    def __exit__(self, *_: object) -> None:
        """Release the lock."""

    def notify_all(self) -> None:
        """Wake the waiting threads. There are none."""

    def wait(self) -> None:
        """Process the next event. Without further events, stop the core."""
        if not self._events:
            self._core._queue.put((2**62, self._core._commands["EXIT"], None))
            return
        self._now, _, number, task = heapq.heappop(self._events)
        self._left[number] -= 1
        if task is not None:
            task.notify_finish()
        if not self._left[number]:
            for later in self._later[number]:
                self._waits[later] -= 1
                if not self._waits[later]:
                    self._ready(later)

    def issue(self, task: Any) -> None:
        """Start a segment of a collective after the previous one ends. The core calls this."""
        ((number, motif, _),) = task._tensor
        start = max(self._now, self._channel)
        self._channel = start + self._motifs[number][motif].ticks
        self._start(number, motif, start, task)

    def _ready(self, number: int) -> None:
        motifs = self._motifs[number]
        if self._computes[number]:
            (stream,) = motifs[0].uses
            start = max(self._now, self._free.get(stream, 0))
            self._free[stream] = start + motifs[0].ticks
            self._start(number, 0, start, None)
            return
        size = self._parameters[number] / len(motifs)
        pieces = [(number, motif, size) for motif in range(len(motifs))]
        task: Any = self._byte.task
        self._core.post(task(number, pieces, "call", priority=-number, comm=self))

    def _start(self, number: int, motif: int, start: int, task: object) -> None:
        self.starts[self._first[number] + motif] = start
        self._count += 1
        end = start + self._motifs[number][motif].ticks
        heapq.heappush(self._events, (end, self._count, number, task))


def run(folder: Path, *, smoke: bool = False) -> Iterator[JobResult]:
    """Yield the periods of our policy and of the core's order, by credit, on each job.

    Raises:
        ParameterError: The folder contains no core.
    """
    byte = Core(folder)
    for name in JOBS[: 1 if smoke else None]:
        workload = workload_of(name)
        systems = Systems(workload, resolve_fabric(f"hgx2x{-(-workload.ranks // 8)}"), 0.0)
        yield from compare_orders(byte, name, systems)


def compare_orders(byte: Core, name: str, systems: Systems) -> Iterator[JobResult]:
    """Yield the periods of our policy and of the core's order, by credit.

    Raises:
        AssertionError: A plan is invalid.
    """
    problem, workload = systems.today.problem, systems.workload
    window = identity_window(problem)
    sizes = {op.id: float(op.count) for op in workload.collectives()}
    stream = max(computing(workload).values())
    parameters = [sizes.get(op.name, 0.0) for op in window.step.ops]

    def result(search: str, period: int, begin: float) -> JobResult:
        elapsed = time.process_time() - begin
        us = (period / 1000, systems.bound / 1000)
        idle = max(0.0, 1 - stream / us[0])
        return JobResult(PART, name, search, len(sizes), *us, "", idle, elapsed)

    begin, periods = time.process_time(), list[int]()
    POLICIES["lifo"].run(
        problem, PolicyEffort(0.0, 0), lambda _, state: periods.append(state.period)
    )
    yield result("lifo", min(periods), begin)
    for word, credit in CREDITS.items():
        begin, periods = time.process_time(), []
        for choice in uniform_choices(window.step):
            iteration = Iteration(byte, window.step, choice.tolist(), parameters, credit)
            plan = window.to_cyclic_plan(window.step.plan_of(choice, iteration.starts))
            assert not find_cyclic_plan_fault(problem, plan)
            periods.append(find_steady_state(problem, plan).period)
        yield result(f"its core, credit {word}", min(periods), begin)
