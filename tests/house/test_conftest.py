"""A skipped test fails in CI, unless it misses only the data beside the project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import NO_SHARED
from tests.kit.paths import ROOT

REASONS = ("no compiler", NO_SHARED)


@pytest.mark.parametrize(("strict", "says"), [("1", "1 failed, 1 skipped"), ("0", "2 skipped")])
def test_skips_in_ci(strict: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    skips = (f"def test_{i}(): pytest.skip({reason!r})\n" for i, reason in enumerate(REASONS))
    path.write_text(f"import pytest\n{''.join(skips)}")
    empty = tmp_path / "pytest.ini"
    empty.touch()
    arguments = ["-p", "tests.conftest", "--rootdir", str(tmp_path), "-c", str(empty), str(path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=ROOT,
        env={**os.environ, "SCCL_STRICT_TOOLS": strict},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == int(strict), done.stdout
    assert f"{says} in " in done.stdout
    assert ("::test_0" in done.stdout, "::test_1" in done.stdout) == (strict == "1", False)
