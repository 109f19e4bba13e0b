"""A skipped test fails in CI, unless it misses only the data beside the project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import NO_SHARED
from tests.kit.paths import ROOT


@pytest.mark.parametrize(
    ("strict", "reason", "code"),
    [("1", "no compiler", 1), ("1", NO_SHARED, 0), ("0", "no compiler", 0)],
)
def test_skips_in_ci(strict: str, reason: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(f"import pytest\ndef test_it(): pytest.skip({reason!r})\n")
    arguments = ["-p", "tests.conftest", "--rootdir", str(tmp_path), "-c", os.devnull, str(path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=ROOT,
        env={**os.environ, "SCCL_STRICT_TOOLS": strict},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
