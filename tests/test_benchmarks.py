"""The benchmarks still run: the smallest rows, once, without a look at the clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    "verb", ["table4", "table5", "frontier", "scale", "startup", "collectives", "codegen"]
)
def test_smoke(verb: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", verb, "--smoke", "-o", str(report)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(report.read_text())["complete"] is True
