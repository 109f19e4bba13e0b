"""Set up every test: markers, order, settings of Hypothesis, and the meaning of a skip."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.kit import loop_cache, nightly, once
from tests.kit.browser import browser, opened
from tests.kit.file_order import sort_by_duration, stored_durations
from tests.kit.headers import precompiled
from tests.kit.imports import changed_files, reached_tests
from tests.kit.markers import add_markers
from tests.kit.paths import ROOT
from tests.kit.processor_time import ProcessorTime

__all__ = ["browser", "opened"]  # fixtures of all packages

STRICT = os.environ.get("SCCL_STRICT_TOOLS") == "1"
"""Set by .ci/run: a test that is skipped there for want of a tool fails."""

NO_SHARED = "the data that lies beside the project is not here"

# Caches of tests are separate from the user's.
CACHE = tempfile.TemporaryDirectory(prefix="sccl-tests-", ignore_cleanup_errors=True)
os.environ["XDG_CACHE_HOME"] = CACHE.name

# Jobs in the background of a shell begin with Ctrl-C ignored, and hand that on to all they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A run starts hundreds of interpreters, which share their compiled code.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Ranks share few cores. MPICH's would each spin through their turns while another has yet to come:
# 200 barriers of 8 ranks on 2 cores take 8 s of these so, and 0.4 s if they give way.
os.environ.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")
os.environ.setdefault("MPIR_CVAR_DEFAULT_THREAD_LEVEL", "MPI_THREAD_MULTIPLE")  # else none yields

HOST_FLAGS = "-O0 -DBATCH_MS=1"
"""Compiler flags of the host tests: unoptimized builds take a quarter of the time."""

# All that is loaded while tests are collected stays: looking for garbage there is a fifth of it.
gc.disable()

settings.register_profile(
    "sccl",
    deadline=None,  # benchmarks measure time, tests don't
    derandomize=True,  # the same examples on every machine
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "nightly",
    parent=settings.get_profile("sccl"),
    derandomize=False,
    max_examples=nightly.FURTHER * settings.get_profile("sccl").max_examples,
)
settings.load_profile("sccl")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two more than there are cores: much waits for a browser, children or the disk."""
    return len(os.sched_getaffinity(0)) + 2


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let golden files be written anew (look at the difference before you commit it), and more."""
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")
    parser.addoption(
        "--golden",
        choices=("bytes", "values"),
        default="values",
        help="how golden tests compare: every byte, or bounds, times, and proofs",
    )
    parser.addoption("--golden-since", help="git revision whose golden records count")
    parser.addoption("--changed", metavar="REVISION", help="tests that a change since it can reach")
    parser.addoption(
        "--processor-limit", type=float, help="processor seconds above which the run fails"
    )
    parser.addoption("--nightly", action="store_true", help="fresh seeds, ten times the examples")


def pytest_configure(config: pytest.Config) -> None:
    """Go as far as is asked for, before modules of tests say how many examples they try.

    Loops are compiled by tests, once for all workers: to collect tests, each would by itself.
    """
    loop_cache.share_compiled_loops()
    limit_s = config.getoption("--processor-limit")
    config.pluginmanager.register(ProcessorTime(limit_s, stored_durations()))
    if config.getoption("--nightly"):
        nightly.begin(config.getoption("--hypothesis-seed"))
        settings.load_profile("nightly")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of tests that no change since a given revision can reach."""
    revision = config.getoption("--changed")
    if revision is None or not collection_path.match("test_*.py"):
        return None
    return collection_path not in _reached_tests(revision) or None


@cache
def _reached_tests(revision: str) -> set[Path]:
    tests = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    return {ROOT / test for test in reached_tests(tests, changed_files(revision))}


def pytest_unconfigure() -> None:
    """Clean up, because workers end without running exit handlers."""
    CACHE.cleanup()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their requirements, deselect separate runs, and begin with slow tests."""
    for item in items:
        add_markers(item)
    left_out = [item for item in items if not _belongs(item, night=config.getoption("--nightly"))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    items[:] = sort_by_duration(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _belongs(item: pytest.Item, *, night: bool) -> bool:
    """Return whether a test is of this run: not of the night by day, nor a peer's without it."""
    peer = item.get_closest_marker("peer")
    by_day = night or not item.get_closest_marker("nightly")
    return by_day and (peer is None or peer.args[0] in os.environ)


def pytest_collection_finish() -> None:
    """Freeze loaded objects and run the garbage collector less often."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _shared_folder(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    """Set the folders that all workers of this run share, and the build flags."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    once.keep_in(shared)
    (shared / "bundles").mkdir(exist_ok=True)
    cache = Path(os.environ["XDG_CACHE_HOME"], "sccl")
    cache.mkdir(exist_ok=True)
    (cache / "bundles").symlink_to(shared / "bundles")  # compiled once, not by each worker
    builds = {"mpi", "compiler", "page"}
    several = sum(any(map(item.get_closest_marker, builds)) for item in request.session.items) > 9
    os.environ["CXXFLAGS"] = precompiled(HOST_FLAGS) if several else HOST_FLAGS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where everything has to be installed."""
    report = yield
    if STRICT and report.skipped and NO_SHARED not in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"skipped, but here nothing may be missing: {report.longrepr}"
    return report
