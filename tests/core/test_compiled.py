"""Compiled code that an older version left on the disk."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import pytest
from numba.core import event

from sccl.compiled import compiling

SOURCE = """\
from sccl.compiled import compiled


@compiled
def twice(number):
    return 2 * number
"""


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("kept_on_disk", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled_now(module: Any) -> int:
    """Return how often it was compiled, not read from the disk."""
    assert module.twice(21) == 42
    return int(sum(module.twice.stats.cache_misses.values()))


def test_cache_of_missing_modules_is_recompiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept_on_disk.py"
    path.write_text(SOURCE)
    monkeypatch.setitem(sys.modules, "kept_on_disk", ModuleType("kept_on_disk"))
    assert compiled_now(loaded(path)) == 1
    assert compiled_now(loaded(path)) == 0
    (index,) = (tmp_path / "__pycache__").glob("*.nbi")
    content = index.read_bytes()
    for kept in (b"csccl.gone\nGone\n.", content[: len(content) // 2], b""):
        index.write_bytes(kept)
        assert compiled_now(loaded(path)) == 1
        assert compiled_now(loaded(path)) == 0


def test_compilation_time_counts_nested_compilations_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1.0, 4.0, 10.0, 12.0])
    monkeypatch.setattr("sccl.compiled.time.perf_counter", lambda: next(clock))
    calls: list[str] = []
    with compiling(lambda: calls.append("first")) as compilation:
        for nested in (True, False):
            with event.trigger_event("numba:compile"):
                if nested:
                    with event.trigger_event("numba:compile"):
                        pass
    assert compilation.seconds == 5.0
    assert calls == ["first"]


CALLEE = """
from sccl.compiled import compiled

@compiled
def add(x):
    return x + {amount}
"""
CALLER = """
from callee import add
from sccl.compiled import compiled

@compiled
def add_twice(x):
    return add(add(x))

print(add_twice(1))
"""


def test_kept_code_is_compiled_again_when_a_called_function_changes(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    results = []
    for amount in (1, 10):
        (tmp_path / "callee.py").write_text(CALLEE.format(amount=amount))
        done = subprocess.run(
            [sys.executable, "caller.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        results.append(int(done.stdout))
    assert results == [3, 21]


def test_kept_code_of_a_file_that_changed_after_its_import_is_compiled_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "callee.py").write_text(CALLEE.format(amount=1))
    (tmp_path / "changed.py").write_text(CALLEE.format(amount=10))
    (tmp_path / "caller.py").write_text(
        CALLER.replace("print(", "__import__('os').system(__import__('sys').argv[1])\nprint(")
    )
    old, new = [
        subprocess.run(
            [sys.executable, "caller.py", command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for command in ("mv changed.py callee.py", "true")
    ]
    assert (old, new) == ("3\n", "21\n")


def test_kept_code_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "callee.py").write_text(CALLEE.format(amount=1))
    (tmp_path / "caller.py").write_text(CALLER + "print(add_twice.stats.cache_hits.values())\n")
    hits = [
        subprocess.run(
            [sys.executable, "caller.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.split()[-1]
        for _ in range(2)
    ]
    assert hits == ["dict_values([])", "dict_values([1])"]


def test_first_use_is_told_where_something_is_compiled() -> None:
    told: list[bool] = []

    def twice(x: Any) -> Any:
        return x + x

    with compiling(lambda: told.append(True)):
        fast: Any = numba.njit(twice)
        assert [fast(1), fast(1), fast(1.5)] == [2, 2, 3.0]
    assert told == [True]
