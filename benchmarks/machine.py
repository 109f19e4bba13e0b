"""Describe the environment of a measurement: processor, versions, command line."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import sccl

_PACKAGES = ("ortools", "z3-solver", "python-sat")


def describe() -> dict[str, Any]:
    """Return the machine's properties without its name and its owner's data."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sccl": sccl.__version__,
        **{name: _version(name) for name in _PACKAGES},
    }


def command_line() -> list[str]:
    """Return the command line, with paths reduced to file names."""
    return ["python", "-m", "benchmarks", *(_without_folder(a) for a in sys.argv[1:])]


def _without_folder(argument: str) -> str:
    option, equals, value = argument.rpartition("=")
    return f"{option}{equals}{Path(value).name if os.sep in value else value}"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
