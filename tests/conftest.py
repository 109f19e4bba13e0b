"""Skips for missing tools are counted in CI as failures; fixtures that many tests use."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

STRICT = os.environ.get("SCCL_STRICT_TOOLS") == "1"
"""Set by .ci/run: there a missing tool is a failure, not a skip."""

settings.register_profile(
    "sccl",
    deadline=None,  # benchmarks measure; tests don't time
    derandomize=True,  # the same examples on every machine
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("sccl")


def missing_tool(what: str, install: str) -> None:
    """Skip the test, or fail it in CI, because ``what`` is not on this machine."""
    if STRICT:
        pytest.fail(f"{what} is missing and CI must have it: {install}")
    pytest.skip(f"{what} is missing: {install}")
