"""The house plan: a room imports only from rooms on lower floors, and there are no cycles."""

from __future__ import annotations

import ast
from pathlib import Path

import networkx as nx
import pytest

import sccl

PACKAGE = Path(sccl.__file__).parent

FLOORS = {
    "errors": 0,
    "core": 1,
    "verify": 2,
    "collectives": 2,
    "topo": 2,
    "bounds": 3,
    "transform": 3,
    "encode": 3,
    "lower": 3,
    "backends": 4,
    "emit": 4,
    "limit": 4,
    "pareto": 5,
    "runtime": 5,
    "certify": 6,
    "view": 6,
    "tasks": 7,
    "api": 8,
    "cli": 8,
    "": 9,
    "__main__": 9,
}

MAY_IMPORT = {
    "errors": set(),
    "core": {"errors", "msgspec"},
    "verify": {"core", "errors", "numpy"},
    "collectives": {"core", "errors"},
    "topo": {"core", "errors", "numpy", "igraph"},
    "bounds": {"core", "errors", "collectives", "topo", "networkx", "ortools"},
    "transform": {"core", "errors", "collectives", "numpy", "topo", "verify"},
    "encode": {"core", "errors", "topo"},
    "lower": {"core", "errors", "verify", "numpy"},
    "emit": {"core", "errors", "lower", "jinja2", "sccl"},
    "runtime": {"core", "errors", "emit"},
    "backends": {
        "core",
        "errors",
        "encode",
        "transform",
        "verify",
        "ortools",
        "pysat",
        "pysmt",
        "z3",
    }
    | {"msgspec", "sccl"},
    "limit": {"core", "errors", "topo", "verify", "flint", "numpy", "ortools"},
    "pareto": {"core", "errors", "collectives", "bounds", "encode", "limit", "transform"}
    | {"msgspec"},
    "certify": {"backends", "bounds", "collectives", "core", "errors", "limit", "pareto"}
    | {"msgspec", "topo", "transform", "verify"},
    "view": {"core", "errors", "altair", "vl_convert"},
    "tasks": {"backends", "bounds", "collectives", "core", "errors", "pareto", "topo", "transform"}
    | {"verify", "view", "msgspec", "platformdirs", "rich", "sccl"},
    "": {"api", "errors"},  # the package itself, which names what it loads when it is first used
    "__main__": {"cli"},
    "api": {
        "backends",
        "certify",
        "collectives",
        "core",
        "emit",
        "errors",
        "pareto",
        "tasks",
        "topo",
    }
    | {"transform", "verify", "view", "IPython", "pandas", "rich", "sccl"},
    "cli": {"backends", "bounds", "certify", "collectives", "core", "errors", "pareto", "topo"}
    | {
        "emit",
        "runtime",
        "tasks",
        "transform",
        "verify",
        "view",
        "msgspec",
        "sccl",
        "typer",
        "rich",
    },
}
"""Per room: other rooms and outside packages; the standard library is always allowed."""


def modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if "_data" not in p.parts)


def room_of(path: Path) -> str:
    """Return the room a file is in; ``""`` for the package's own ``__init__``."""
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Return every module that a file imports, function-local ones too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def dependency(name: str) -> str:
    """Return the room or outside package of an imported name."""
    parts = name.split(".")
    if parts[0] != "sccl":
        return parts[0]
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else "sccl"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_only_what_it_may(path: Path) -> None:
    import sys

    room = room_of(path)
    used = {dependency(name) for name in imports(path)} - set(sys.stdlib_module_names) - {room}
    assert used <= MAY_IMPORT.get(room, set()), f"{path} imports {used - MAY_IMPORT[room]}"


def test_allowed_imports_lead_downwards() -> None:
    for room, allowed in MAY_IMPORT.items():
        for other in allowed & set(FLOORS):
            assert FLOORS[other] < FLOORS[room], f"{room} may import {other}, which is not below"


def test_every_room_has_a_floor() -> None:
    assert {room_of(path) for path in modules()} == set(FLOORS)


def test_the_reference_does_not_use_the_encoder() -> None:
    for name in ("z3_reference", "smtlib"):
        assert not any("sccl.encode" in i for i in imports(PACKAGE / "backends" / f"{name}.py"))


def test_backends_do_not_import_one_another() -> None:
    backends = {"cadical", "cpsat", "portfolio", "smtlib", "z3_reference"}
    for name in backends:
        for imported in imports(PACKAGE / "backends" / f"{name}.py"):
            parts = imported.split(".")
            if parts[:2] == ["sccl", "backends"]:
                assert len(parts) < 3 or parts[2] not in backends - {name}


def test_the_sweep_knows_no_solver() -> None:
    for path in (PACKAGE / "pareto").glob("*.py"):
        assert not any(name.startswith("sccl.backends") for name in imports(path))


def test_no_cycles_between_modules() -> None:
    names = {
        ".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): p
        for p in modules()
    }
    graph = nx.DiGraph()
    del names["sccl"]  # it loads nothing by itself, and all may read its version
    for name, path in names.items():
        for imported in imports(path):
            target = imported if imported in names else imported.rpartition(".")[0]
            if target in names and target != name:
                graph.add_edge(name, target)
    assert list(nx.simple_cycles(graph)) == []
