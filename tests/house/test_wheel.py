"""The built wheel, installed elsewhere, works without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.kit.paths import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which the wheel is installed."""
    built = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(built), str(ROOT)], check=True)
    (wheel,) = built.glob("sccl-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "sccl/_data/topologies/dgx1.json" in names
    assert "sccl/_data/codegen_templates/common/steps.hpp.jinja" in names
    assert "sccl/view/explorer/page/page.html" in names
    assert "sccl/py.typed" in names
    target = tmp_path_factory.mktemp("site")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True)
    return target


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


def test_the_wheel_brings_its_own_catalogue(site: Path) -> None:
    assert "z52-pcie" in run(site, "topo", "list")
    code = "import sccl.core.files.disk as f; print(f.data_dir('topologies'), f.__file__)"
    where = subprocess.run(
        [sys.executable, "-c", code],
        cwd=site,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert all(Path(path).is_relative_to(site) for path in where), where


def test_the_wheel_synthesises(site: Path) -> None:
    out = run(site, "pareto", "--collective", "allgather", "--topo", "z52", "--out", "found")
    assert "proved" in out
    assert (site / "found" / "allgather-z52-c2-s4-r7.json").exists()
    run(site, "explore", "found", "-o", "page.html")
    assert "allgather on z52" in (site / "page.html").read_text()
    for solver in ("cadical", "z3"):
        arguments = "solve --collective allgather --topo ring:4 --chunks 2 --steps 2 --rounds 3"
        assert "sat" in run(site, *arguments.split(), "--solver", solver)
