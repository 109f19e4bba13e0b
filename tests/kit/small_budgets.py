"""Searches that go on for less than they usually do, where a test wants a plan, not the best."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sccl.synth.packing.by_steps import round_steps
from sccl.synth.tacos import restarts


@contextmanager
def small_tacos_budget() -> Iterator[None]:
    """Let TACOS improve its schedules with a tenth of its usual budget."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restarts, "SENDS_PER_UNIT", restarts.SENDS_PER_UNIT // 10)
        yield


@contextmanager
def small_limit_budget() -> Iterator[None]:
    """Search algorithms of few chunks at a limit with a twelfth of the usual budget.

    An allgather in 3 steps on a DGX-1 has none, and the full search takes 10 s to give up.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(round_steps, "TOTAL_EFFORT_UNITS", round_steps.REDUCED_EFFORT_UNITS)
        yield
