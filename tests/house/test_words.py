"""One word, one thing: no two public classes have one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
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
    {
        *("found", "one", "known", "told", "other", "own", "those", "whose", "here"),
        *("there", "given", "late", "least", "posed", "most", "enough", "whole", "way"),
        *("ways", "every", "alone", "these", "some", "any", "none", "same", "such"),
        *("what", "who", "beside", "brought", "strange", "offering", "hearing"),
    }
)
"""Identifiers that name nothing."""

PUBLIC_PARAMETERS = frozenset({"api", "cli"})
"""Packages whose parameters are options that users write."""

PUBLIC_DEFINITIONS = {"api": {"known"}}
"""Names of the Python interface."""

PARTS = sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")})
"""Packages, and modules that lie next to them."""


def trees_of(part: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the name and the syntax tree of each file of a package."""
    for path in sorted({PACKAGE / part, *(PACKAGE / part).rglob("*.py")}):
        if path.suffix == ".py":
            yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8"))


def vague_names(tree: ast.AST) -> set[str]:
    """Return the vague names of variables and parameters, of nested functions too."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names & VAGUE


def bound_names(tree: ast.Module, *, skip_parameters: bool) -> Iterator[tuple[int, set[str]]]:
    """Yield the line and the vague names of each function that binds some."""
    for node in ast.walk(tree) if vague_names(tree) else ():
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        names = set() if getattr(node, "name", "") == "__eq__" else vague_names(node)
        if skip_parameters:
            names -= {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
        if names:
            yield node.lineno, names


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


@pytest.mark.parametrize("part", PARTS)
def test_package_has_no_vague_names(part: str) -> None:
    skip, public = part in PUBLIC_PARAMETERS, PUBLIC_DEFINITIONS.get(part, set())
    for path, tree in trees_of(part):
        assert list(bound_names(tree, skip_parameters=skip)) == [], path
        assert vague_definitions(tree) <= public, path


def test_vague_definitions_are_found() -> None:
    tree = ast.parse("class Found:\n    def told(self): self._own = 1\n    def run(self): pass")
    assert vague_definitions(tree) == {"Found", "told", "_own"}


def test_vague_names_are_found_in_nested_scopes() -> None:
    tree = ast.parse("def f(a):\n    def g(told): return [one for one in told]\n    return g")
    both = {"told", "one"}
    assert vague_names(tree) == both
    assert list(bound_names(tree, skip_parameters=False)) == [(1, both), (2, both)]
    assert list(bound_names(tree, skip_parameters=True)) == [(1, both), (2, {"one"})]


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(module)
    assert {name: at for name, at in places.items() if len(at) > 1} == SHARED
