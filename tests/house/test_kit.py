"""The kit of the tests: cached inputs, the order of files, markers, the extent of a night."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import NO_SHARED
from tests.kit import file_order, once
from tests.kit.imports import imports, reached_tests
from tests.kit.nightly import FURTHER
from tests.kit.paths import ROOT
from tests.kit.processor_time import speed_ratio


def test_expensive_inputs_are_built_once(request: pytest.FixtureRequest) -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return made

    names = [f"{request.node.nodeid}-{ending}" for ending in ("a", "b", "a")]
    assert [once.value(name, make) for name in names] == [[1], [1, 1], [1]]
    assert made == [1, 1]


def test_folder_whose_making_failed_is_made_again(request: pytest.FixtureRequest) -> None:
    tried: list[Path] = []

    def fill(folder: Path) -> None:
        assert not list(folder.iterdir())
        (folder / "x").write_text("")
        tried.append(folder)
        if len(tried) == 1:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        once.folder(request.node.nodeid, fill)
    found = [once.folder(request.node.nodeid, fill) for _ in range(2)]
    assert found == tried
    assert (found[0] / "x").exists()


def test_long_files_come_first_and_unknown_ones_before_them(request: pytest.FixtureRequest) -> None:
    items = file_order.sort_by_duration(list(reversed(request.session.items)))
    files = list(dict.fromkeys(item.nodeid.split("::")[0] for item in items))
    assert sorted(files) == sorted({item.nodeid.split("::")[0] for item in request.session.items})
    seconds = [file_order.stored_durations().get(file, float("inf")) for file in files]
    assert seconds == sorted(seconds, reverse=True)


def test_every_worker_begins_with_a_long_file(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = 3
    seconds = {f"tests/test_{n}.py": float(n) for n in range(40)}
    monkeypatch.setattr(file_order, "stored_durations", lambda: seconds)
    items: Any = [SimpleNamespace(nodeid=f"{file}::{i}") for file in seconds for i in range(5)]
    turn = file_order.sort_by_duration(items, workers)
    assert sorted(turn, key=id) == sorted(items, key=id)
    begin = [turn[start].nodeid for start in range(0, len(turn), math.ceil(len(turn) / workers))]
    assert begin == [f"tests/test_{39 - worker}.py::0" for worker in range(workers)]


def test_unknown_files_are_shared_among_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_order, "stored_durations", lambda: {"known.py": 9.0})
    items: Any = [SimpleNamespace(nodeid=f"{file}.py::x") for file in ("a", "b", "known")]
    assert [item.nodeid[0] for item in file_order.sort_by_duration(items, 2)] == ["a", "k", "b"]


def report_of(path: Path, *tests: tuple[str, str, float]) -> Path:
    """Write a report of tests by module, name, and seconds, as pytest does."""
    case = '<testcase classname="tests.{}" name="{}" time="{}"/>'
    rows = "".join(case.format(*test) for test in tests)
    path.write_text(f"<testsuites><testsuite>{rows}</testsuite></testsuites>")
    return path


def test_durations_are_those_of_all_tests_of_a_file(tmp_path: Path) -> None:
    tests = [("a.test_b", "x", 1.25), ("c.test_d", "x", 7), ("a.test_b", "y", 2.4)]
    assert file_order.measured_durations(report_of(tmp_path / "r.xml", *tests), {}) == {
        "tests/a/test_b.py": 3.6, "tests/a/test_b.py::x": 1.2, "tests/a/test_b.py::y": 2.4,
        "tests/c/test_d.py": 7.0, "tests/c/test_d.py::x": 7.0,
    }  # fmt: skip


def test_durations_keep_the_speed_of_the_records(tmp_path: Path) -> None:
    report = report_of(tmp_path / "r.xml", *(("a.test_b", str(i), 3.0) for i in range(60)))
    recorded = {f"tests/a/test_b.py::{i}": 2.0 for i in range(55)}
    measured = file_order.measured_durations(report, recorded)
    assert measured["tests/a/test_b.py::59"] == 2.0
    assert measured["tests/a/test_b.py"] == 120.0


def test_recorded_durations_are_of_tests_that_exist() -> None:
    """A renamed test would lose its mark as long, and run in every ``make test``."""
    for name in file_order.stored_durations():
        file, _, test = name.partition("::")
        assert (ROOT / file).exists(), name
        assert not test or f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(), name


def test_shared_helpers_are_in_the_kit() -> None:
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        assert not any(".test_" in name for name in imports(path)), path


def run_pytest(folder: Path, text: str, *words: str, **env: str) -> tuple[int, str]:
    """Run a file of tests under our conftest, and return the exit code and the output."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n nightly\n browser\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", *words, str(folder)],
        cwd=ROOT, env=os.environ | env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


TESTS = """
import pytest
from hypothesis import given, settings, strategies as st
from tests.kit.nightly import seed, times
tried = []
@pytest.mark.nightly
def test_late(): pass
def test_browser(request):
    assert request.node.get_closest_marker("browser") is None
@pytest.mark.parametrize("browser", [1])
def test_needs(browser, request):
    assert request.node.get_closest_marker("browser")
@settings(max_examples=times(5))
@given(st.integers())
def test_some(number): tried.append(number)
def test_count(): print(f"tried {len(tried)}, seed {seed('x')}")
"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), ("4 passed, 1 deselected", "tried 5, seed x\n")),
        (
            ("--nightly", "--hypothesis-seed=7"),
            ("5 passed", f"tried {5 * FURTHER}, seed x 7\n"),
        ),
        (("-m", "not browser"), ("3 passed, 2 deselected",)),
    ],
)
def test_days_and_nights(words: tuple[str, ...], says: tuple[str, ...], tmp_path: Path) -> None:
    code, printed = run_pytest(tmp_path, TESTS, "-s", *words)
    assert code == 0, printed
    for words_said in says:
        assert words_said in printed


@pytest.mark.parametrize(("strict", "says"), [("1", "1 failed, 1 skipped"), ("0", "2 skipped")])
def test_skips_fail_in_ci_if_they_miss_more_than_shared_data(
    strict: str, says: str, tmp_path: Path
) -> None:
    reasons = ("no compiler", NO_SHARED)
    skips = (f"def test_{i}(): pytest.skip({reason!r})\n" for i, reason in enumerate(reasons))
    text = f"import pytest\n{''.join(skips)}"
    code, printed = run_pytest(tmp_path, text, "-q", SCCL_STRICT_TOOLS=strict)
    assert code == int(strict), printed
    assert f"{says} in " in printed
    assert ("::test_0" in printed, "::test_1" in printed) == (strict == "1", False)


@pytest.mark.parametrize(
    ("changed", "reached"),
    [
        ("sccl/synth/taccl/ordering.py", {"cli", "taccl"}),
        ("sccl/transform/invert.py", {"cli", "codegen", "taccl", "transform"}),
        ("codegen_templates/common/steps.hpp.jinja", {"codegen"}),
        ("tests/kit/astra_reference.py", set()),
        ("topologies/dgx1.json", {"cli", "codegen", "taccl", "transform"}),
        ("tests/conftest.py", {"cli", "codegen", "taccl", "transform"}),
    ],
)
def test_change_reaches_tests_by_imports_commands_and_data(changed: str, reached: set[str]) -> None:
    files = {
        "cli": "tests/cli/test_exit_codes.py",
        "codegen": "tests/codegen/test_protocol.py",
        "taccl": "tests/synth/taccl/test_steps.py",
        "transform": "tests/transform/test_levels.py",
    }
    assert all((ROOT / file).exists() for file in files.values())
    assert reached_tests(files.values(), {changed}) == {files[name] for name in reached}


def test_run_above_its_processor_limit_fails(tmp_path: Path) -> None:
    text = "def test_it(): sum(range(10**6))\n"
    for limit, expected in ((0, 1), (1000, 0)):
        code, printed = run_pytest(tmp_path, text, f"--processor-limit={limit}")
        assert code == expected
        assert f"at the speed of durations.json, limit {limit} s)" in printed


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_speed_is_that_of_most_tests(factor: float) -> None:
    recorded = {f"test_{i}": 1.0 for i in range(60)}
    measured = dict.fromkeys(recorded, factor) | {"test_0": 1000.0, "test_new": 50.0}
    assert speed_ratio(measured, recorded) == factor
    assert speed_ratio({"test_0": 3.0}, recorded) == 1.0
