"""The wheel and the source distribution, installed into empty environments without the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from tests.kit import once
from tests.kit.paths import ROOT

_WHEEL_FILES = {
    "sccl/_data/topologies/dgx1.json",
    "sccl/_data/codegen_templates/common/steps.hpp.jinja",
    "sccl/view/explorer/page/page.html",
    "sccl/py.typed",
}

_SMOKE = """
--version
topo list
pareto --collective allgather --topo dgx1 --output found --certify proofs --no-store
check found
verify-certificate proofs
solve --collective allgather --topo dgx1 --chunks 1 --steps 2 --rounds 2 --no-store --solver cpsat
solve --collective allgather --topo ring:4 --chunks 2 --steps 2 --rounds 3 --solver cadical
solve --collective allgather --topo ring:4 --chunks 2 --steps 2 --rounds 3 --solver z3
limits --collective alltoall --topo dgx1
limits --time --collective allreduce --topo dgx1 --size 1MB -o limit.json
tacos --collective allreduce --topo torus:4x4 --size 1MB -o tacos.json
teccl --collective allgather --topo ndv2x2 --size 1MB -o teccl.json
taccl --collective allgather --topo ndv2x2 --size 1MB -o taccl.json
check limit.json tacos.json teccl.json taccl.json
simulate found --size 1MB
explore found -o page.html
codegen found --target cuda -o project
export found --format msccl++ -o plans
"""
"""What the core has to do without any extra."""


def distributions() -> Path:
    """Return the folder of the wheel and the source distribution."""

    def build(folder: Path) -> None:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True
        )

    return once.folder("distributions", build)


def other_pythons() -> list[str]:
    """Return the other supported versions of Python, on the PATH or installed by pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = []
    for minor in {11, 12, 13, 14} - {sys.version_info.minor}:
        name = f"python3.{minor}"
        paths = [shutil.which(name), *map(str, sorted(pyenv.glob(f"3.{minor}.*/bin/{name}")))]
        found += [path for path in paths if path and starts(path)][-1:]
    return found


def starts(python: str) -> bool:
    """Return whether a Python starts. A shim of pyenv may lead nowhere."""
    return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0


def minimum_versions() -> list[str]:
    """Return the oldest version that is allowed of each dependency of the core."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [
        f"{name}=={version}"
        for dependency in project["dependencies"]
        for name, version in re.findall(r"^([\w-]+)>=([\w.]+)", dependency)
    ]


def environment(folder: Path, *packages: str, python: str = sys.executable) -> Path:
    """Return the programs of a new environment with some packages and their dependencies."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", *packages], check=True)
    return folder / "bin"


def run(programs: Path, work: Path, words: str, exit_code: int = 0) -> str:
    """Run a command of an installed ``sccl``, and return its output, or its message."""
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(programs / "sccl"), *words.split()],
        cwd=work,
        env={**kept, "XDG_CACHE_HOME": str(work / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_code, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_wheel_holds_machines_templates_and_types() -> None:
    (wheel,) = distributions().glob("sccl-*.whl")
    assert set(zipfile.ZipFile(wheel).namelist()) >= _WHEEL_FILES


def test_wheel_works_with_the_oldest_dependencies(tmp_path: Path) -> None:
    (wheel,) = distributions().glob("sccl-*.whl")
    programs = environment(tmp_path / "environment", str(wheel), *minimum_versions())
    for line in _SMOKE.strip().splitlines():
        run(programs, tmp_path, line)


def test_wheel_works_on_every_python_of_this_machine(tmp_path: Path) -> None:
    (wheel,) = distributions().glob("sccl-*.whl")
    for python in other_pythons():
        programs = environment(tmp_path / Path(python).name, str(wheel), python=python)
        for line in _SMOKE.strip().splitlines()[:8]:
            run(programs, tmp_path, line)


def test_source_distribution_works_with_the_newest_dependencies(tmp_path: Path) -> None:
    (source,) = distributions().glob("sccl-*.tar.gz")
    programs = environment(tmp_path / "environment", str(source))
    run(programs, tmp_path, "pareto --collective allgather --topo dgx1 --output found")
    run(programs, tmp_path, "synth fastest --collective allreduce --topo dgx1 --size 1MB")
    message = run(programs, tmp_path, "plot found -o chart.svg", exit_code=4)
    assert "pip install 'sccl[plot]'" in message
    assert not (tmp_path / "chart.svg").exists()
