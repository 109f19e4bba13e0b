"""README and pages keep their word: commands run, files are valid, output is the real one."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.made import PART
from sccl.cli.main import app
from sccl.collectives import resolve_collective
from sccl.topo import resolve_topology
from tests.kit import once
from tests.kit.commands import COMMANDS
from tests.kit.paths import ROOT
from tests.kit.projects import tool
from tests.kit.small_budgets import small_tacos_budget

README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = "Not run by the tests: "


@dataclass(frozen=True)
class Block:
    """A fenced block: commands if it has no language."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return a page's own text, without generated parts, which have separate tests."""
    fences = re.findall(
        r'^```(\w*)(?: title="([^"]*)")?\n(.*?)^```$',
        PART.sub("", page.read_text(encoding="utf-8")),
        re.MULTILINE | re.DOTALL,
    )
    return [Block(*fence) for fence in fences]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_of_a_page_work(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for block in blocks(page):
        if block.language == "json" and block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            shell(block.text)
        elif block.language == "python":
            exec(block.text, {"__name__": "__main__"})  # noqa: S102 - a block of a page
        elif not block.language and block.text.startswith("$ sccl "):
            shown(block.text)
        elif not block.language:
            with small_tacos_budget():  # the page shows no output, so only success counts
                for line in block.text.splitlines():
                    sccl(line)


def sccl(line: str) -> str:
    """Run a line of a block of commands and return its output."""
    command = shlex.split(line.split("#", maxsplit=1)[0])
    assert command[:1] == ["sccl"], f"{line!r} is no command; give the block a language"

    def run() -> str:
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, (line, result.output)
        return result.stdout

    # The slow check of all tools prints the same on each page.
    return once.value(line, run) if command == ["sccl", "doctor"] else run()


def shown(text: str) -> None:
    """Run a command and compare its output, except times, with the text below it."""
    command, _, expected = text.partition("\n")
    printed = sccl(command.removeprefix("$ "))
    timeless = [re.sub(r"\d+\.\d+ s|│ \d+\.\d+ +│", "", one) for one in (expected, printed)]
    assert timeless[0].split() == timeless[1].split(), command


def shell(text: str) -> None:
    """Run a script, with the command of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [tool("bash", "install bash"), "-euo", "pipefail", "-c", text]
    subprocess.run(command, check=True, env=os.environ | {"PATH": path})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_skipped_blocks_are_marked(page: Path) -> None:
    for block in blocks(page):
        assert block.language in {"", "json", "math", "python", "sh", "text"}, block
        assert (block.language == "text") == block.title.startswith(NOT_RUN), block


def test_readme_shows_enough() -> None:
    commands = [b for b in blocks(README) if not b.language]
    assert any(b.text.startswith("$ sccl pareto") for b in commands)
    assert any("sccl certificate verify" in b.text for b in commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_in_tables_exist(page: Path) -> None:
    """Each verb and option of a command in a table's cell is one of the program's."""
    text = page.read_text(encoding="utf-8")
    cells = re.findall(r"^\|.*$", PART.sub("", text), re.MULTILINE)
    codes = [code for cell in cells for code in cell.split("`")[1::2]]
    for code in (code[code.index("sccl ") :] for code in codes if "sccl " in code):
        words = re.split(r"[|;]", code.replace("\\|", "|"))[0].split()
        verb, name = " ".join(words[:2]), " ".join(words[:3])
        name = name if name in COMMANDS else verb
        if any(command.startswith(f"{verb} ") for command in COMMANDS) and name == verb:
            continue  # a group of verbs
        assert name in COMMANDS, code
        options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("-") and word != "-"} <= options, code


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_pictures_are_there(page: Path) -> None:
    for name in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        target = page.parent / name
        assert target.exists(), name
        if target.suffix == ".svg":
            assert target.read_text(encoding="utf-8").startswith("<svg")


def test_files_of_a_page_are_valid(tmp_path: Path) -> None:
    """The how-to's files match the text around them."""
    how_to = ROOT / "docs" / "how-to"
    for name in ("machine", "collective"):
        (block,) = [b for b in blocks(how_to / f"{name}.md") if b.title == f"{name}.json"]
        (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    topology = resolve_topology(str(tmp_path / "machine.json"))
    written = json.loads((tmp_path / "machine.json").read_text())
    assert len(topology.links) == len(written["links"]) * 2 - 1
    assert resolve_collective(str(tmp_path / "collective.json"), 4).at(2).num_chunks == 6
