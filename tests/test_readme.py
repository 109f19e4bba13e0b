"""The README keeps its word: commands run, files are valid, the frontier is the real one."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.collectives import resolve as resolve_collective
from sccl.topo import resolve as resolve_topology

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [
        line.split("#")[0].strip()
        for block in blocks("")
        for line in block.splitlines()
        if line.startswith("sccl ")
    ]
    assert len(commands) >= 9
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.output)


def test_its_frontier_is_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (shown,) = [b for b in blocks("") if b.startswith("$ sccl pareto")]
    command, _, expected = shown.partition("\n")
    printed = CliRunner().invoke(app, shlex.split(command)[2:]).stdout
    timeless = [re.sub(r"\d+\.\d+ s|│ \d+\.\d+ +│", "", text) for text in (expected, printed)]
    assert timeless[0].split() == timeless[1].split()


def test_its_pictures_are_there() -> None:
    folder = Path(__file__).resolve().parents[1]
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", README)
    assert pictures
    for name in pictures:
        assert (folder / name).read_text(encoding="utf-8").startswith("<svg")


def test_its_files_are_valid(tmp_path: Path) -> None:
    machine, collective = blocks("json")
    (tmp_path / "m.json").write_text(machine)
    (tmp_path / "c.json").write_text(collective)
    topology = resolve_topology(str(tmp_path / "m.json"))
    assert len(topology.links) == json.loads(machine)["links"].__len__() * 2 - 1
    assert resolve_collective(str(tmp_path / "c.json"), 4).at(2).num_chunks == 6
