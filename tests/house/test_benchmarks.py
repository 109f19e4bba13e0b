"""The benchmarks still run: the smallest rows, once, without a look at the clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import pictures
from benchmarks.__main__ import app
from sccl.errors import FormatError, ParameterError
from tests.kit.paths import ROOT


@pytest.mark.parametrize(
    "verb",
    ["table4", "table5", "frontier", "scale", "startup", "collectives", "codegen", "certificates"],
)
def test_smoke(verb: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = CliRunner().invoke(app, [verb, "--smoke", "-o", str(report)])
    assert done.exit_code == 0, done.output
    assert json.loads(report.read_text())["complete"] is True


@pytest.mark.parametrize("name", ["scale", "table4", "table5", "collectives-mpich"])
def test_kept_results_are_drawn(name: str, tmp_path: Path) -> None:
    file = ROOT / "benchmarks" / "results" / f"{name}.json"
    pictures.draw([file, file], tmp_path / "p.svg")
    assert "<svg" in (tmp_path / "p.svg").read_text()


def test_what_cannot_be_drawn_is_told(tmp_path: Path) -> None:
    kept = ROOT / "benchmarks" / "results" / "startup.json"
    with pytest.raises(ParameterError, match="only of scale, table4, table5, collectives"):
        pictures.draw([kept], tmp_path / "p.svg")
    for text in ("{", "[]", '{"benchmark": "scale", "results": [{}]}'):
        (tmp_path / "f.json").write_text(text)
        with pytest.raises(FormatError, match="expected what 'python -m benchmarks"):
            pictures.draw([tmp_path / "f.json"], tmp_path / "p.svg")
    assert not (tmp_path / "p.svg").exists()
