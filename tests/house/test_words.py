"""One word, one thing: no two public classes have one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import sccl

PACKAGE = Path(sccl.__file__).parent

SHARED = {
    # The API's class of a noun has the noun's name: users know one of the two.
    "Algorithm": {"core.algorithm", "api.algorithm"},
    "Comparison": {"comparison.comparison", "api.comparison"},
    "Frontier": {"core.frontier", "api.frontier"},
    "Point": {"core.frontier", "api.frontier_base"},
    "Schedule": {"core.schedule", "api.schedule"},
    "Topology": {"core.topology", "api.machine"},
    "TrainingPlan": {"training.types.training_plan", "api.training"},
    "Workload": {"training.types.workload", "api.workloads"},
    # The contract of synthesizers wants this name of each.
    "Options": {
        "synth.common.contract",
        "synth.syncoll.options",
        "synth.packing.by_steps.options",
        "synth.packing.by_time.options",
        "synth.taccl.options",
        "synth.tacos.options",
        "synth.teccl.options",
    },
    # Solver interfaces are alike: each has ``solve`` and its result, read as ``sat.Result``.
    "Result": {f"solvers.{door}" for door in ("cpsat", "milp", "sat", "smt")},
}


VAGUE = frozenset(
    [
        "found",
        "one",
        "known",
        "told",
        "other",
        "own",
        "those",
        "whose",
        "here",
        "there",
        "given",
        "late",
        "least",
        "posed",
        "most",
        "enough",
        "whole",
        "way",
        "ways",
        "every",
        "alone",
        "these",
        "some",
        "any",
        "none",
        "same",
        "such",
        "what",
        "who",
        "beside",
        "brought",
        "strange",
        "offering",
        "hearing",
    ]
)
"""Identifiers that name nothing."""

PUBLIC_PARAMETERS = frozenset({"api", "cli"})
"""Packages whose parameters are options that users write."""

PUBLIC_DEFINITIONS = {"api": {"known"}}
"""Names of the Python interface."""

PACKAGES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def vague_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """Return the vague names that a function binds, nested functions included."""
    stored = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    parameters = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    return (stored | parameters) & VAGUE


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_functions_bind_no_vague_names(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    for node in ast.walk(tree):
        if not isinstance(node, functions) or getattr(node, "name", "") == "__eq__":
            continue
        names = vague_names(node)
        if path.relative_to(PACKAGE).parts[0] in PUBLIC_PARAMETERS:
            names -= {
                argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)
            }
        assert not names, f"line {node.lineno}: {', '.join(sorted(names))}"


def vague_definitions(tree: ast.Module) -> set[str]:
    """Return the vague names of functions, classes, and attributes of ``self``."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
    return {name for name in names if name.strip("_").lower() in VAGUE}


@pytest.mark.parametrize("package", PACKAGES)
def test_package_defines_no_vague_names(package: str) -> None:
    found = {
        (str(path.relative_to(PACKAGE)), name)
        for path in sorted((PACKAGE / package).rglob("*.py"))
        for name in vague_definitions(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert {name for _, name in found} <= PUBLIC_DEFINITIONS.get(package, set()), found


def test_vague_definitions_are_found() -> None:
    tree = ast.parse("class Found:\n    def told(self): self._own = 1\n    def run(self): pass")
    assert vague_definitions(tree) == {"Found", "told", "_own"}


def test_vague_names_are_found_in_nested_scopes() -> None:
    tree = ast.parse("def f(a):\n    def g(told): return [one for one in told]\n    return g")
    assert isinstance(tree.body[0], ast.FunctionDef)
    assert vague_names(tree.body[0]) == {"told", "one"}


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(module)
    assert {name: at for name, at in places.items() if len(at) > 1} == SHARED
