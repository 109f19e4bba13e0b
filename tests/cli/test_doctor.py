"""``sccl doctor`` tries tools for real, explains how to install missing ones, and never hangs."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

import pytest
from typer.testing import CliRunner

import sccl.runtime.doctor as module
from sccl.cli.main import app
from sccl.runtime.tool_checks import ToolCheck, ToolState, try_all
from tests.kit.processes import Pipe, wait_for_end
from tests.kit.tools import tried_tools

PYTHON = (sys.executable, "-P", "-c")


def leave(patch: pytest.MonkeyPatch, *groups: str) -> None:
    """Leave the default solver and some groups of rows: each row starts a process."""
    solvers = module._solver_tools
    patch.setattr(module, "_solver_tools", lambda: islice(solvers(), 1))
    for group in {"_compiler_tools", "_gpu_tools", "_other_tools"} - set(groups):
        patch.setattr(module, group, lambda: iter(()))


def doctor(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout


def test_doctor_finds_the_tools_of_the_tests() -> None:
    code, found = tried_tools()
    rows = {row["name"]: row for row in found["checks"]}
    assert (code, found["usable"]) == (0, True)
    for name in ("cpsat", "cadical", "z3", "smt2", "make", "c++", "mpicxx", "mpirun", "pictures"):
        assert rows[name]["state"] == "ok", rows[name]
        assert rows[name]["version"]
        assert rows[name]["use"]
    assert [name for name, row in rows.items() if row["needed"]] == ["cpsat"]
    assert all(row["get"] for row in rows.values() if row["state"] != "ok")


def test_tool_outside_the_path_is_missing_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, "_compiler_tools", "_gpu_tools")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module, "mpi_folder", lambda: None)
    code, out = doctor()
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    for name, get in (("make", "apt-get"), ("mpirun", "sccl[mpi]"), ("nvcc", "CUDA toolkit")):
        assert "missing" in lines[name]
        assert get in lines[name]
    assert "The main job can be done" in out


def test_without_the_default_solver_the_main_job_cannot_be_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leave(monkeypatch)
    monkeypatch.setattr(module, "_COMMAND", "raise SystemExit(4)")
    code, out = doctor()
    assert code == 1
    assert "can't be done" in out
    assert "exit code 4" in out


@pytest.mark.parametrize(
    ("command", "state", "says"),
    [
        (("no-such-tool",), ToolState.MISSING, ""),
        ((*PYTHON, "print('tool 1.2.3-4')"), ToolState.OK, ""),
        ((*PYTHON, "print('works')"), ToolState.OK, ""),
        ((*PYTHON, "import no_such_package"), ToolState.MISSING, ""),
        ((*PYTHON, "raise SystemExit('broken [inside]')"), ToolState.BROKEN, "broken [inside]"),
        ((*PYTHON, "print('other')"), ToolState.BROKEN, "other"),
        ((*PYTHON, "import os; os.abort()"), ToolState.BROKEN, "exit code -6"),
        ((*PYTHON, "input()"), ToolState.BROKEN, "EOF"),
    ],
)
def test_outcomes(command: tuple[str, ...], state: ToolState, says: str) -> None:
    (found,) = try_all(
        [ToolCheck(command, success_pattern="tool|works", missing_pattern="No module named")]
    )
    assert found.state is state
    assert says in found.problem
    assert found.version == ("1.2.3" if "tool 1.2.3" in command[-1] else "")


def test_hanging_tool_ends_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = Pipe(tmp_path / "pipe")
    code = (
        "import subprocess, sys; more = 'import signal; signal.alarm(300); signal.pause()';"
        "p = subprocess.Popen([sys.executable, '-c', more]);"
        f"open({str(pipe.path)!r}, 'w').write(f'{{p.pid}}\\n'); p.wait()"
    )
    started: list[int] = []

    def wait(process: Any, seconds: float | None = None, *, _wait: Any = Popen.wait) -> int:
        if seconds is None:
            return int(_wait(process))
        started.append(int(pipe.line()))  # it is there, and has started something: time is up
        raise TimeoutExpired(process.args, seconds)

    monkeypatch.setattr(Popen, "wait", wait)
    (found,) = try_all([ToolCheck((*PYTHON, code))], 10.0)
    assert (found.state, found.problem) == (ToolState.BROKEN, "no answer within 10 s")
    wait_for_end(*started)


def test_files_of_the_current_folder_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch)
    (tmp_path / "ortools.py").write_text("raise SystemExit('ran the file of the user')")
    monkeypatch.chdir(tmp_path)
    assert doctor()[0] == 0
