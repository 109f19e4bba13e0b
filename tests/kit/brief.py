"""Synthesisers that begin from schedules of TACOS, where a test wants a plan, not the best."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sccl.synth.tacos import improve


@contextmanager
def begun_briefly() -> Iterator[None]:
    """Let TACOS better its schedules for a tenth of what it usually spends on that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(improve, "SENDS_OF_A_UNIT", improve.SENDS_OF_A_UNIT // 10)
        yield
