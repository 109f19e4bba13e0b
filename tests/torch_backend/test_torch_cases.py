"""Torch's own test cases, over the process group ``sccl``: some by day, all of them by night."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit.paths import PROGRAMS, ROOT
from tests.kit.processes import PATIENCE_S
from tests.kit.torch_jobs import environment, interpreter

CASES: dict[str, Any] = json.loads((ROOT / "tests" / "kit" / "torch_cases.json").read_text())
NOT_PASSED: dict[str, dict[str, str]] = CASES["not_passed"]
MOST_SKIPPED = 200
"""Excluded cases of about 285: GPUs, torch's vision, more ranks, or tests that torch abandoned."""


def ended(
    folder: Path,
    release: str,
    ranks: int,
    like: str,
    *names: str,
    patience_s: float = 3 * PATIENCE_S,
) -> dict[str, dict[str, str]]:
    """Return how cases ended, by their names."""
    program = str(PROGRAMS / "torch_own_cases.py")
    done = subprocess.run(
        [str(interpreter(release)), program, "sccl", str(ranks), like, *names],
        env=environment({"TMPDIR": str(folder)}),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience_s,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    return {line["case"]: line for line in lines}


@pytest.mark.parametrize(
    ("release", "ranks", "like"),
    [
        ("newest", 3, "gloo"),
        pytest.param("oldest", 2, "gloo", marks=pytest.mark.nightly),
        pytest.param("newest", 3, "mpi", marks=pytest.mark.nightly),
    ],
)
def test_some(release: str, ranks: int, like: str, tmp_path: Path) -> None:
    names = CASES["some"][like]
    found = ended(tmp_path, release, ranks, like, *names)
    assert list(found) == names
    assert [line for line in found.values() if line["ended"] == "failed"] == []
    passed = sum(line["ended"] == "passed" for line in found.values())
    assert passed >= len(names) - 3  # of two or three ranks some groups are left out


@pytest.mark.nightly
@pytest.mark.parametrize("release", ["oldest", "newest"])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_all(release: str, ranks: int, tmp_path: Path) -> None:
    found = ended(tmp_path, release, ranks, "gloo", patience_s=30 * PATIENCE_S)
    assert {name for name, line in found.items() if line["ended"] == "failed"} == set(
        NOT_PASSED[release]
    )
    assert sum(line["ended"] == "skipped" for line in found.values()) < MOST_SKIPPED


def test_failing_torch_cases_are_documented() -> None:
    page = (ROOT / "docs" / "how-to" / "pytorch-backend.md").read_text(encoding="utf-8")
    for cases in NOT_PASSED.values():
        for name, why in cases.items():
            assert f"`{name}`" in page
            assert why in " ".join(page.split())
