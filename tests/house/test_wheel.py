"""The built wheel, installed elsewhere, works without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.kit import once
from tests.kit.paths import ROOT


@pytest.fixture
def installed() -> Path:
    """Return a folder into which the wheel is installed."""
    return once.folder("wheel", build) / "site"


def build(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("sccl-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "sccl/_data/topologies/dgx1.json" in names
    assert "sccl/_data/codegen_templates/common/steps.hpp.jinja" in names
    assert "sccl/view/explorer/page/page.html" in names
    assert "sccl/py.typed" in names
    target = ["--no-compile", "--target", str(folder / "site")]  # only loaded modules
    subprocess.run([*pip, "install", "--no-deps", *target, str(wheel)], check=True)


def run(site: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(site / "bin" / "sccl"), *arguments],
        cwd=site,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_brings_its_own_catalogue(installed: Path) -> None:
    assert "z52-pcie" in run(installed, "topo", "list")
    code = "import sccl.core.files.disk as f; print(f.data_dir('topologies'), f.__file__)"
    where = subprocess.run(
        [sys.executable, "-c", code],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert all(Path(path).is_relative_to(installed) for path in where), where


def test_wheel_synthesises(installed: Path, tmp_path: Path) -> None:
    found, page = str(tmp_path / "found"), str(tmp_path / "page.html")
    out = run(installed, "pareto", "--collective", "allgather", "--topo", "z52", "--out", found)
    assert "proved" in out
    assert (tmp_path / "found" / "allgather-z52-c2-s4-r7.json").exists()
    run(installed, "explore", found, "-o", page)
    assert "allgather on z52" in (tmp_path / "page.html").read_text()
    for solver in ("cadical", "z3"):
        arguments = "solve --collective allgather --topo ring:4 --chunks 2 --steps 2 --rounds 3"
        assert "sat" in run(installed, *arguments.split(), "--solver", solver)
