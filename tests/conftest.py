"""In CI a skip is a failure, but for data that lies beside the project; settings of Hypothesis."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

STRICT = os.environ.get("SCCL_STRICT_TOOLS") == "1"
"""Set by .ci/run: a test that is skipped there for want of a tool fails."""

SHARED = Path(__file__).resolve().parents[2] / "shared"
"""Data beside the checkout, which not everyone has."""

NO_SHARED = "the data that lies beside the project is not here"

# What tests keep and find again is their own, not the user's.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="sccl-tests-")

settings.register_profile(
    "sccl",
    deadline=None,  # benchmarks measure; tests don't time
    derandomize=True,  # the same examples on every machine
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("sccl")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let golden files be written anew: look at the difference before you commit it."""
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where everything has to be installed."""
    report = yield
    if STRICT and report.skipped and NO_SHARED not in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"skipped, but here nothing may be missing: {report.longrepr}"
    return report
