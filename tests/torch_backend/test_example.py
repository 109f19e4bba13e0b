"""The job of the tutorial runs recorded and by its plan, with the results of gloo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.paths import ROOT
from tests.kit.projects import tool
from tests.kit.torch_jobs import environment, interpreter

PAGE = ROOT / "docs" / "tutorials" / "pytorch.md"


def test_commands_of_the_tutorial(tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    path = os.pathsep.join(
        [
            *map(str, (interpreter("newest").parent, Path(sys.executable).parent)),
            os.environ["PATH"],
        ]
    )
    blocks = re.findall(r"runs it\"\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) == 4
    printed = [
        subprocess.run(
            [tool("bash", "install bash"), "-c", line],
            cwd=tmp_path,
            env=environment({"PATH": path}),
            capture_output=True,
            text=True,
            check=False,
        )
        for line in lines
    ]
    for line, done in zip(lines, printed, strict=True):
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    losses = [re.findall(r"ms per step, loss ([\d.]+)", done.stdout) for done in printed]
    assert losses[0] == losses[3] != []
    if "by network namespaces" not in printed[0].stdout + printed[0].stderr:
        pytest.skip("no network namespaces: networks are not limited, as the lab reports")
