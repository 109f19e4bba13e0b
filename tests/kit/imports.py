"""Imports of modules, read from their sources, and the tests that a change can reach."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.kit.paths import ROOT

PACKAGE = ROOT / "sccl"

_MODULE_NAME = re.compile(r"(sccl|tests|docs|benchmarks)(\.\w+)+")

_READERS = {
    "codegen_templates/": ("tests/codegen/", "tests/torch_backend/", "tests/house/"),
    "benchmarks/": ("tests/house/",),
    "docs/": ("tests/house/",),
    "notebooks/": ("tests/house/",),
    "README.md": ("tests/house/",),
    "CONTRIBUTING.md": ("tests/house/",),
    "CHANGELOG.md": ("tests/house/",),
    "sccl/": (),
    "tests/": (),
}
"""By the start of a file's path, the tests that read it, besides those that import it. Other files
may reach every test."""


_READ_BY_ALL = {"sccl/__init__.py", "tests/conftest.py"}


@cache
def modules() -> tuple[Path, ...]:
    """Return the files of the package."""
    return tuple(sorted(p for p in PACKAGE.rglob("*.py") if "_data" not in p.parts))


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> frozenset[str]:
    """Return every module that a file imports, function-local ones too."""
    found = set()
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def loaded_by_name(path: Path) -> set[str]:
    """Return the modules of the project whose names stand as strings in a file."""
    strings = {node.value for node in ast.walk(_parsed(path)) if isinstance(node, ast.Constant)}
    names = {s for s in strings if isinstance(s, str) and _MODULE_NAME.fullmatch(s)}
    return {name for name in names if module_file(name)}


@cache
def module_file(name: str) -> Path | None:
    """Return the file of a module of the project. None: there is none of this name."""
    path = ROOT.joinpath(*name.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.exists()), None)


def import_closure(path: Path) -> set[str]:
    """Return all modules that a file may load, directly or not, and outside packages."""
    closure: set[str] = set()
    queue = [path]
    while queue:
        for name in _loaded(queue.pop()) - closure:
            closure.add(name)
            if file := module_file(name):
                queue.append(file)
    return closure


@cache
def _loaded(path: Path) -> frozenset[str]:
    """Return the modules of the project that a file loads, their packages, and outside packages."""
    loaded = set()
    for name in imports(path) | loaded_by_name(path):
        parts = name.split(".")
        if module_file(parts[0]) is None:
            loaded.add(parts[0])
        names = (".".join(parts[:length]) for length in range(2, len(parts) + 1))
        loaded |= {name for name in names if module_file(name)}
    return frozenset(loaded)


def changed_files(revision: str) -> set[str]:
    """Return the files that differ from a revision, with untracked ones, as paths from the root."""
    git = ("git", "-C", str(ROOT))
    commands = (
        (*git, "diff", "--name-only", revision, "--"),
        (*git, "ls-files", "--others", "--exclude-standard"),
    )
    return {
        line
        for command in commands
        for line in subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    }


def reached_tests(tests: Iterable[str], changed: set[str]) -> set[str]:
    """Return the test files that a change can reach by imports, by subprocess, or as data.

    Args:
        tests: paths of test files from the root.
        changed: paths of changed files from the root.
    """
    folders = tuple(folder for file in changed for folder in _readers(file))
    modules = {_module_name(ROOT / file) for file in changed if file.endswith(".py")}
    return {
        test
        for test in tests
        if test in changed or test.startswith(folders) or modules & _reach(ROOT / test)
    }


def _readers(file: str) -> tuple[str, ...]:
    if file in _READ_BY_ALL or (file.startswith("sccl/") and not file.endswith(".py")):
        return ("",)
    return next((read for start, read in _READERS.items() if file.startswith(start)), ("",))


def _reach(path: Path) -> set[str]:
    """Return the modules that a file may load, also as plugins, or in a command that it runs."""
    reach: set[str] = set()
    queue = [path]
    while queue:
        file = queue.pop()
        names = set(_loaded(file))
        if _loads_plugins(file):
            names |= {_module_name(sibling) for sibling in file.parent.rglob("*.py")}
        if _runs_command(file):
            names.add("sccl.__main__")
        queue += [each for name in names - reach if (each := module_file(name))]
        reach |= names
    return reach


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@cache
def _loads_plugins(path: Path) -> bool:
    """Return whether a file loads modules of its folder by names that it makes."""
    return bool(re.search(r"load_plugin\(__name__|import_module\(f\"", path.read_text()))


@cache
def _runs_command(path: Path) -> bool:
    """Return whether a test's file names the program ``sccl``."""
    return path.is_relative_to(ROOT / "tests") and any(
        isinstance(node, ast.Constant) and node.value == "sccl" for node in ast.walk(_parsed(path))
    )
