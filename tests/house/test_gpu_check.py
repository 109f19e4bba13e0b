"""The check of one GPU: it is built without one, runs on an emulated one, and reports failures."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import gpu_check
from benchmarks.gpu_check import LIMIT_S, ODD, Part, collect_programs, list_parts, run_parts
from sccl.codegen.project_writer import generate, write_project
from tests.kit import once
from tests.kit.hard_algorithms import Hard, load_all
from tests.kit.paths import ROOT
from tests.kit.projects import emulation, include_flags, make, mpich, tool

ROWS = (Hard("dgx1", "allgather", (2, 2, 3)), Hard("dgx1", "allreduce", (16, 4, 6)))

SOURCE = ROOT / "benchmarks" / "gpu_check.cu"

EMULATED = (
    *("machine", "order", "stale copies", "speed of a block", "two processes"),
    *("loopback, packets", "loopback, eager", "loopback, direct", "eight processes"),
)
"""Parts that need nothing of a GPU's own tools."""


def compile_emulated(project: Path, source: str, into: Path) -> None:
    flags = ["-O1", "-std=c++17", "-DSCCL_EMULATED", "-pthread", "-Wall", "-Wextra", "-Werror"]
    places = ["-I", str(project), *include_flags(mpich())]
    command = ["g++", *flags, *places, "-x", "c++", "-", "-o", str(into)]
    subprocess.run(command, input=source, text=True, check=True)


def build_emulated() -> Path:
    """Return a project with an emulated library, bench and gpu_check."""

    def fill(directory: Path) -> None:
        write_project(directory, generate(load_all(ROWS), "cuda"))
        make(directory, "emulated", emulation())
        compile_emulated(directory, SOURCE.read_text(), directory / "emulated" / "gpu_check")

    tool("make", "install it")
    return once.folder("gpu-check", fill)


def shorten(part: Part) -> Part:
    """Return a part with few rounds and small counts."""
    words = tuple("1,33" if word == ODD else word for word in part.words)
    rounds = ("20",) if part.words[0] == "gpu_check" else ()
    return replace(part, words=(*words[:2], *rounds) if rounds else words)


def read_results(into: Path) -> dict[str, dict[str, object]]:
    document = json.loads((into / "gpu_check.json").read_text())
    assert document["complete"]
    text = (into / "gpu_check.txt").read_text()
    for part in document["parts"]:
        assert f"=== {part['name']} " in text
        assert str(part["output"]) in text
    return {part["name"]: part for part in document["parts"]}


def test_limits_of_the_parts_fit_into_ten_minutes() -> None:
    parts = list_parts("/tmp/x")  # noqa: S108 - nothing is written there
    assert sum(part.limit_s for part in parts) <= LIMIT_S < 600
    assert len({part.name for part in parts}) == len(parts)
    assert parts[0].name == "machine"


def test_check_is_right_on_an_emulated_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the part of eight processes: they share the one GPU that all of them see."""
    collect_programs(build_emulated() / "emulated", mpich().folder, tmp_path / "check")
    monkeypatch.setenv("SCCL_EMULATED_DEVICES", "0")
    parts = [shorten(part) for part in list_parts(str(tmp_path)) if part.name in EMULATED]
    code = run_parts(parts, tmp_path / "check", tmp_path / "out")
    results = read_results(tmp_path / "out")
    assert {name: r["state"] for name, r in results.items()} == dict.fromkeys(EMULATED, "right")
    assert code == 0
    figures = [str(figure) for result in results.values() for figure in result["figures"]]  # type: ignore[attr-defined]
    for check in ("order of packets", "stale words", "speed of a block", "order between processes"):
        assert any(f"'check': '{check}'" in figure for figure in figures)


def test_check_reports_wrong_data(tmp_path: Path) -> None:
    """Checks after a wrong one still run."""
    project = build_emulated()
    source = SOURCE.read_text()
    wrong = source.replace("board->data[i] = pattern(round, i)", "board->data[i] = 7")
    assert wrong != source
    compile_emulated(project, wrong, tmp_path / "gpu_check")
    part = Part("order", 60, ("gpu_check", "order", "2"))
    assert run_parts([part], tmp_path, tmp_path / "out") == 1
    result = read_results(tmp_path / "out")["order"]
    assert result["state"] == "wrong"
    assert '"check": "order of messages", "threads": 512, "rounds": 2, "wrong": 1' in str(
        result["output"]
    )
    assert '"check": "order of counts", "threads": 1, "rounds": 1, "wrong": 0' in str(
        result["output"]
    )


def test_part_that_fails_does_not_end_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_check, "GRACE_S", 0.1)
    shell = "echo begun; (trap '' TERM; tail -f /dev/null) & trap '' TERM; wait; wait"
    parts = (
        Part("no tool", 5, ("no-such-tool", "x")),
        Part("hangs", 0.5, ("sh", "-c", shell)),
        Part("fails", 5, ("sh", "-c", "echo no; exit 4")),
        Part("incomplete", 5, ("echo", "all but one"), ("all", "every one")),
        Part("needs another", 5, ("echo", "all but one"), (), {}, "fails"),
        Part("figures", 5, ("echo", '{"check": "a", "us": 2}\n{\n{"us": [1]}')),
    )
    assert run_parts(parts, tmp_path, tmp_path / "out") == 1
    results = read_results(tmp_path / "out")
    states = {name: (result["state"], result["exit_code"]) for name, result in results.items()}
    assert states == {
        "no tool": ("no program", None),
        "hangs": ("late", None),
        "fails": ("wrong", 4),
        "incomplete": ("wrong", 0),
        "needs another": ("not run", None),
        "figures": ("right", 0),
    }
    assert "missing in the output: every one\n" in str(results["incomplete"]["output"])
    assert results["figures"]["figures"] == [{"check": "a", "us": 2}, {"us": [1]}]
    assert "the part 'fails', which is not right" in str(results["needs another"]["output"])
    assert "no-such-tool" in str(results["no tool"]["output"])


def test_check_is_built_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part then reports that there is no GPU."""
    tool("nvcc", "install the CUDA toolkit")
    algorithms = tmp_path / "found"
    algorithms.mkdir()
    for hard in ROWS:
        (algorithms / hard.file.name).write_bytes(hard.file.read_bytes())
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    script = [sys.executable, "-m", "benchmarks.gpu_check"]
    words = [*script, "build", str(tmp_path / "check"), "--algorithms", str(algorithms)]
    built = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    again = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert again.stderr.endswith("exists already: give the name of a new folder\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.delenv("PYTHONPATH")
    run = [sys.executable, "-I", str(tmp_path / "check" / "gpu_check.py"), "run"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    results = read_results(tmp_path / "check" / "results")
    assert list(results) == [part.name for part in list_parts("")]
    assert {result["state"] for result in results.values()} == {"no GPU"}
    assert all("no GPU" in str(result["output"]) for result in results.values())
    unknown = subprocess.run([*run, "--only", "x"], capture_output=True, text=True, check=False)
    assert unknown.returncode == 2
    assert "no parts x: expected one or more of ['machine'," in unknown.stderr
