"""Sections of docstrings name the parameters and attributes that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import sccl

_SOURCES = Path(sccl.__file__).parent
_OPTIONAL = {("Baseline", "BY_SIZE")}  # a protocol cannot declare optional members of a module
_ENTRY = re.compile(r"([\w*]+(?:, [\w*]+)*)(?: \(.*?\))?:")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def section_names(docstring: str, heading: str) -> list[str]:
    """Return the names that a section of a docstring describes."""
    lines = docstring.splitlines()
    if f"{heading}:" not in (stripped := [line.strip() for line in lines]):
        return []
    start = stripped.index(f"{heading}:")
    indent = len(lines[start]) - len(lines[start].lstrip())
    names: list[str] = []
    for line in lines[start + 1 :]:
        depth = len(line) - len(line.lstrip())
        if line.strip() and depth <= indent:
            break
        if depth == indent + 4 and (entry := _ENTRY.match(line.strip())):
            names += [name.lstrip("*") for name in entry[1].split(", ")]
    return names


def parameter_names(function: Function) -> set[str]:
    """Return the names of all parameters of a function."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {a.arg for a in (*named, arguments.vararg, arguments.kwarg) if a}


def attribute_names(cls: ast.ClassDef) -> set[str]:
    """Return the names that a class binds in its body or on ``self``."""
    names = {node.name for node in cls.body if isinstance(node, Function)}
    for node in ast.walk(cls):
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id=name))
                | ast.Attribute(value=ast.Name(id="self"), attr=name)
            ):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def stale_entries(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the function or class, and the entry of its docstring that names nothing of it."""
    for node in ast.walk(tree):
        if not isinstance(node, Function | ast.ClassDef):
            continue
        docstring = ast.get_docstring(node) or ""
        parameters: set[str] = set()
        if isinstance(node, ast.ClassDef):
            makers = [n for n in node.body if getattr(n, "name", "") == "__init__"]
            for maker in makers:
                assert isinstance(maker, ast.FunctionDef)
                parameters |= parameter_names(maker)
            attributes = attribute_names(node)
            yield from (
                (node.name, name)
                for name in section_names(docstring, "Attributes")
                if name not in attributes
            )
            parameters |= attributes
        else:
            parameters |= parameter_names(node)
        yield from (
            (node.name, name) for name in section_names(docstring, "Args") if name not in parameters
        )


def test_docstrings_describe_only_parameters_and_attributes_that_exist() -> None:
    stale = [
        f"{path.relative_to(_SOURCES)}: {owner} has no {name}"
        for path in sorted(_SOURCES.rglob("*.py"))
        for owner, name in stale_entries(ast.parse(path.read_text(encoding="utf-8")))
        if (owner, name) not in _OPTIONAL
    ]
    assert stale == []


def test_entries_of_parameters_that_are_gone_are_seen() -> None:
    source = 'def add(x: int) -> None:\n    """Add.\n\n    Args:\n        y: gone.\n    """\n'
    assert list(stale_entries(ast.parse(source))) == [("add", "y")]
