"""Processor time of tests, their workers, and their child processes."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping
from statistics import median
from typing import Any

import pytest

PROPERTY = "processor_s"
"""The property of a test in the report of ``pytest --junitxml``."""


_LEAST_TESTS = 50
"""Tests in common from which on the speed of a machine is compared with that of the records."""


def speed_ratio(measured: Mapping[str, float], recorded: Mapping[str, float]) -> float:
    """Return the seconds of tests here per second on the machine of the records.

    It is the median over tests, so a test that became slower does not raise it. It is 1 for a run
    of few tests.

    Args:
        measured: Processor seconds by test.
        recorded: Processor seconds by test, and by file.
    """
    ratios = [seconds / recorded[test] for test, seconds in measured.items() if test in recorded]
    return median(ratios) if len(ratios) >= _LEAST_TESTS else 1.0


def processor_seconds() -> float:
    """Return the processor seconds of this process and of its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class ProcessorTime:
    """Measure each test, and print the sum at the end, with collection and all workers.

    Args:
        limit_s: Processor seconds above which the run fails, on the machine of the records. None:
            no limit.
        recorded: Processor seconds by test, and by file, on that machine.
    """

    def __init__(self, limit_s: float | None, recorded: Mapping[str, float]) -> None:
        self._limit_s, self._recorded = limit_s, recorded
        self._workers_s = 0.0
        self._measured: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Start the clock of a test."""
        self._begin = processor_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """Record the seconds of a test, with its fixtures."""
        yield
        item.user_properties.append((PROPERTY, round(processor_seconds() - self._begin, 3)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the seconds of a test."""
        if report.when == "teardown":
            for name, value in report.user_properties:
                if name == PROPERTY:
                    self._measured[report.nodeid] = float(str(value))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the seconds of a worker that ended."""
        self._workers_s += getattr(node, "workeroutput", {}).get(PROPERTY, 0.0)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the seconds of a worker, or compare those of the run with the limit."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[PROPERTY] = processor_seconds()
        elif self._limit_s is not None and self.recorded_total_s > self._limit_s:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @property
    def total_s(self) -> float:
        """Return the processor seconds of the run so far."""
        if not self._workers_s:
            return processor_seconds()
        return time.process_time() + self._workers_s  # its children are the workers

    @property
    def recorded_total_s(self) -> float:
        """Return the processor seconds that the run would take on the machine of the records."""
        return self.total_s / max(1.0, speed_ratio(self._measured, self._recorded))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the processor seconds of the run."""
        limit = "" if self._limit_s is None else f", limit {self._limit_s:.0f} s"
        terminalreporter.write_line(
            f"processor time: {self.total_s:.0f} s ({self.recorded_total_s:.0f} s at the speed of "
            f"durations.json{limit})"
        )
