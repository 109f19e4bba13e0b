"""Results that several files of tests look at."""

from __future__ import annotations

import pytest

import sccl


@pytest.fixture(scope="session")
def frontier() -> sccl.Frontier:
    return sccl.pareto("allgather", "dgx1", progress=False)


@pytest.fixture(scope="session")
def limits() -> sccl.LimitFrontier:
    return sccl.limits("allreduce", "ring:3", progress=False)
