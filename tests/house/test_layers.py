"""The house plan: a room imports only from rooms on lower floors, and there are no cycles."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from tests.kit.imports import PACKAGE, import_closure, imports, loaded_by_name, modules

SYNCOLL = PACKAGE / "synth" / "syncoll"

FLOORS = {
    "errors": 0,
    "compiled": 0,
    "core": 1,
    "core/files": 2,
    "collectives": 3,
    "topo": 3,
    "topo/symmetry": 3,
    "training/types": 2,
    "training/files": 3,
    "training/models": 3,
    "training/traces/readers": 4,
    "training/traces": 5,
    "topo/importers": 4,
    "topo/profiles": 4,
    "judge": 4,
    "sim": 4,
    "solvers": 4,
    "transform": 5,
    "training/motifs": 5,
    "prove": 6,
    "prove/check": 6,
    "prove/bounds": 6,
    "codegen": 6,
    "formats": 7,
    "synth": 2,
    "synth/sketches": 3,
    "synth/common": 7,
    "runtime": 8,
    "torch_backend": 10,
    "torch_backend/control": 7,
    "synth/network": 6,
    "synth/constructions": 8,
    "synth/packing": 8,
    "synth/scheduling": 8,
    "synth/packing/by_steps": 9,
    "synth/packing/by_time": 9,
    "synth/syncoll": 9,
    "synth/baselines": 9,
    "synth/tacos": 9,
    "synth/teccl": 10,
    "synth/taccl": 9,
    "synth/allreduce": 10,
    "training": 8,
    "torch": 11,
    "view": 11,
    "view/drawing": 12,
    "view/text": 12,
    "view/charts": 13,
    "view/explorer": 14,
    "comparison": 14,
    "api": 15,
    "cli": 16,
    "": 17,
    "__main__": 17,
}
"""Rooms, which may be nested, and their floors: a room imports from lower ones alone. Files that
lie in ``view/`` itself are shared by the folders in it."""

_NOUNS = {"core", "core/files", "errors"}
_TRAINING = _NOUNS | {"training/types", "training/files"}
_SEARCH = _NOUNS | {"synth", "synth/sketches"}

MAY_IMPORT = {
    "errors": set(),
    "compiled": {"numba"},
    "core": {"errors", "msgspec", "numpy"},
    "core/files": {"core", "errors", "google", "msgspec", "numpy", "sccl"},
    "topo": _NOUNS | {"msgspec"},
    "topo/symmetry": _NOUNS | {"numpy", "igraph"},
    "topo/importers": _NOUNS | {"topo", "defusedxml", "msgspec", "yaml"},
    "topo/profiles": _NOUNS | {"msgspec", "numpy"},
    "collectives": _NOUNS,
    "training/types": {"core", "errors"},
    "training/files": _NOUNS | {"training/types", "google", "msgspec"},
    "training/motifs": _NOUNS | {"training/types", "numpy"},
    "training/traces": _TRAINING | {"training/traces/readers", "msgspec"},
    "training/traces/readers": _TRAINING | {"msgspec"},
    "training/models": {"core", "errors", "training/types", "msgspec"},
    "judge": {"compiled", "core", "errors", "topo/symmetry", "numpy"},
    "sim": {"compiled", "core", "errors", "topo", "numba", "numpy"},
    "training": _TRAINING
    | {"collectives", "compiled", "formats", "sim", "solvers", "synth/common", "topo"}
    | {"training/models", "training/motifs", "training/traces", "msgspec", "numpy"},
    "solvers": {"core", "errors", "numpy", "ortools", "pysat", "z3"},
    "transform": {"core", "errors", "collectives", "judge", "sim", "topo/symmetry", "numpy"},
    "prove": set(),
    "prove/check": _NOUNS | {"collectives", "judge", "topo", "msgspec"},
    "prove/bounds": {"core", "errors", "collectives", "solvers", "topo/symmetry", "flint"}
    | {"igraph", "numpy"},
    "codegen": _NOUNS
    | {"collectives", "judge", "sim", "topo", "transform", "jinja2", "msgspec", "numpy", "sccl"},
    "formats": _TRAINING
    | {"codegen", "collectives", "judge", "sim", "topo", "topo/importers", "transform"}
    | {"defusedxml", "msgspec", "numpy"},
    "synth": set(),
    "synth/common": _SEARCH
    | {"collectives", "compiled", "judge", "prove/bounds", "prove/check", "solvers"}
    | {"synth/network", "topo", "topo/importers", "topo/symmetry", "transform", "sccl"}
    | {"msgspec", "numpy", "platformdirs"},
    "synth/syncoll": _SEARCH
    | {"collectives", "judge", "prove/bounds", "prove/check", "solvers", "synth/common"}
    | {"synth/constructions", "topo/symmetry", "transform", "msgspec", "pysmt"},
    "synth/packing": _SEARCH
    | {"collectives", "compiled", "solvers", "synth/network", "topo/symmetry", "numpy"}
    | {"prove/bounds", "flint"},
    "synth/packing/by_steps": _SEARCH
    | {"collectives", "judge", "prove/bounds", "prove/check", "solvers"}
    | {"synth/common", "synth/constructions", "synth/packing", "topo/symmetry", "transform"}
    | {"msgspec", "numpy"},
    "synth/packing/by_time": _SEARCH
    | {"collectives", "compiled", "prove/bounds", "prove/check", "solvers", "synth/common"}
    | {"synth/packing", "synth/network", "topo", "transform", "msgspec", "numpy"},
    "synth/baselines": _SEARCH
    | {"collectives", "compiled", "judge", "synth/common", "synth/constructions", "topo"}
    | {"synth/network", "prove/bounds", "sim", "transform", "msgspec", "numpy"},
    "synth/sketches": _NOUNS | {"msgspec"},
    "synth/network": _SEARCH | {"compiled", "topo/symmetry", "numpy"},
    "synth/constructions": {"collectives", "compiled", "core", "errors", "judge"}
    | {"prove/bounds", "solvers", "synth", "topo/symmetry", "transform", "numpy"},
    "synth/scheduling": _SEARCH
    | {"collectives", "prove/bounds", "solvers", "synth/common", "synth/network"}
    | {"topo/symmetry", "numpy"},
    "synth/tacos": _SEARCH
    | {"collectives", "compiled", "solvers", "synth/common", "synth/network", "synth/scheduling"}
    | {"msgspec", "numpy"},
    "synth/teccl": _SEARCH
    | {"collectives", "prove/bounds", "solvers", "synth/common", "synth/packing"}
    | {"synth/packing/by_time", "synth/scheduling", "synth/network", "msgspec", "numpy"},
    "synth/taccl": _SEARCH
    | {"collectives", "prove/bounds", "solvers", "synth/common", "synth/scheduling"}
    | {"synth/network", "topo/symmetry", "msgspec", "numpy"},
    "synth/allreduce": _SEARCH
    | {"collectives", "prove/bounds", "synth/common", "synth/constructions"}
    | {
        "synth/packing",
        "synth/packing/by_steps",
        "synth/packing/by_time",
        "synth/syncoll",
        "topo/symmetry",
        "transform",
    },
    "runtime": _NOUNS
    | {"codegen", "formats", "topo", "topo/importers", "topo/profiles", "msgspec", "sccl"},
    "torch_backend": _TRAINING
    | {"collectives", "codegen", "torch_backend/control", "runtime", "synth/common"}
    | {"solvers", "synth/baselines", "topo", "training", "training/motifs", "training/traces"}
    | {"transform", "msgspec", "platformdirs", "outside torch"},  # which nothing else imports
    "torch": {"torch_backend"},
    "torch_backend/control": _NOUNS | {"training/types", "msgspec", "outside torch"},
    "view": _NOUNS | {"altair", "vl_convert"},
    "view/charts": _TRAINING
    | {"formats", "runtime", "topo", "topo/profiles", "topo/symmetry", "training", "transform"}
    | {"view", "view/drawing", "altair"},
    "view/drawing": {"core", "synth/sketches", "synth/taccl", "view", "altair"},
    "view/explorer": _TRAINING
    | {"collectives", "formats", "synth/packing/by_time", "training", "transform"}
    | {"view", "view/charts", "view/drawing", "view/text", "msgspec"},
    "view/text": _TRAINING
    | {"view", "collectives", "formats", "judge", "prove/bounds", "synth/allreduce"}
    | {
        "synth/common",
        "synth/constructions",
        "synth/packing/by_time",
        "synth/packing/by_steps",
        "topo",
        "topo/symmetry",
        "training",
    }
    | {"transform", "msgspec", "rich"},
    "comparison": _NOUNS
    | {"codegen", "collectives", "formats", "judge", "prove/bounds", "sim", "solvers"}
    | {"synth/allreduce", "synth/baselines", "synth/common", "synth/constructions"}
    | {"synth", "synth/packing/by_time", "synth/syncoll", "topo", "topo/symmetry", "transform"}
    | {"view/charts", "msgspec"},
    "": {"api", "errors"},  # the package itself, which names its lazily loaded modules
    "__main__": {"cli"},
    "api": _TRAINING
    | {"codegen", "collectives", "comparison", "formats", "judge", "prove/check", "sim"}
    | {
        "synth/packing/by_time",
        "synth/allreduce",
        "synth/baselines",
        "synth/common",
        "synth/sketches",
        "synth/syncoll",
    }
    | {"synth/taccl", "synth/tacos", "synth/teccl", "topo", "topo/symmetry", "training"}
    | {"training/models", "training/traces", "transform", "view", "view/charts", "view/explorer"}
    | {"view/text", "IPython", "msgspec", "networkx", "pandas", "rich"},
    "cli": _TRAINING
    | {"api", "codegen", "collectives", "comparison", "formats", "runtime"}
    | {"sccl", "sim", "synth/allreduce", "synth/baselines", "synth/common"}
    | {"synth/packing/by_time", "synth/syncoll", "synth/taccl", "synth/tacos", "synth/teccl"}
    | {"topo", "topo/importers", "topo/profiles", "torch_backend", "torch_backend/control"}
    | {"training", "training/models", "training/traces", "transform", "view/charts"}
    | {"synth/sketches", "view/text", "msgspec", "rich", "typer"},
}
"""Packages and outside packages that each package may import, besides the standard library."""


@cache
def room_of(path: Path) -> str:
    """Return the package of a file, or ``""`` for ``sccl/__init__.py``."""
    return _room(path.relative_to(PACKAGE).with_suffix("").parts)


def _room(parts: tuple[str, ...]) -> str:
    for length in (3, 2):
        nested = "/".join(parts[:length])
        if len(parts) >= length and nested in FLOORS:
            return nested
    return "" if parts[0] == "__init__" else parts[0]


def dependency(name: str) -> str:
    """Return the room or outside package of an imported name."""
    parts = name.split(".")
    if parts[0] != "sccl":
        return f"outside {parts[0]}" if parts[0] in FLOORS else parts[0]  # torch is both
    return (
        _room(tuple(parts[1:])) if len(parts) > 1 and _room(tuple(parts[1:2])) in FLOORS else "sccl"
    )


LOADED_BY_NAME = {"synth/common": {"packing/by_steps", "packing/by_time", "syncoll", "taccl"}}
LOADED_BY_NAME["synth/common"] |= {"tacos", "teccl"}
"""Systems of ``synth`` that the registry loads when a user names one."""


@pytest.mark.parametrize("room", FLOORS)
def test_room_imports_only_what_it_may(room: str) -> None:
    allowed = MAY_IMPORT.get(room, set()) | sys.stdlib_module_names | {room}
    for path in modules():
        if room_of(path) == room:
            used = {dependency(name) for name in imports(path)}
            assert used <= allowed, f"{path} imports {used - allowed}"


def test_only_schedules_use_arrays_among_core_types() -> None:
    users = {p.name for p in (PACKAGE / "core").rglob("*.py") if "numpy" in imports(p)}
    assert users == {
        *("schedule.py", "schedules.py", "packed_schedules.py", "arrays.py"),
        "packed_schedule.py",
    }


def test_allowed_imports_lead_downwards() -> None:
    for room, allowed in MAY_IMPORT.items():
        for other in allowed & set(FLOORS):
            assert FLOORS[other] < FLOORS[room], f"{room} may import {other}, which is not below"


def test_every_room_has_a_floor() -> None:
    assert {room_of(path) for path in modules()} == set(FLOORS)


def test_modules_loaded_by_name_are_below() -> None:
    for path in modules():
        room = room_of(path)
        if room in {"", "torch_backend"}:  # the package itself names what it loads lazily
            continue
        allowed = MAY_IMPORT.get(room, set()) | {room}
        allowed |= {f"synth/{system}" for system in LOADED_BY_NAME.get(room, ())}
        used = {dependency(name) for name in loaded_by_name(path)}
        assert used <= allowed, f"{path} loads {used - allowed} by name"


def test_qflia_encoding_reaches_no_other_encoding_and_no_solver() -> None:
    closure = import_closure(SYNCOLL / "encoding_qflia.py")
    inside = {name for name in closure if name.startswith("sccl.synth")}
    assert inside <= {"sccl.synth", "sccl.synth.syncoll"}
    assert not closure & {"sccl.solvers", "z3", "ortools", "pysat"}
    assert "pysmt" in closure


def test_certificate_checker_reaches_no_solver() -> None:
    for path in (PACKAGE / "prove" / "check").glob("*.py"):
        closure = import_closure(path)
        assert not closure & {"sccl.solvers", "sccl.synth", "z3", "ortools", "pysat"}, path


def test_closures_follow_names_in_strings() -> None:
    """The registry loads a synthesizer by its name, and that loads all of its modules."""
    closure = import_closure(PACKAGE / "synth" / "common" / "registry.py")
    assert "sccl.synth.tacos.matching_uniform" in closure


def test_backends_do_not_import_one_another() -> None:
    backends = {"solve_cadical", "solve_cpsat", "solve_z3"}
    for name in backends:
        others = tuple(f"sccl.synth.syncoll.{other}" for other in backends - {name})
        assert not any(i.startswith(others) for i in imports(SYNCOLL / f"{name}.py")), name


def test_sweeps_know_no_solver() -> None:
    names = [
        *("solve", "solve_cadical", "solve_cpsat", "solve_z3"),
        "symmetric_search",
    ]
    solvers = tuple(f"sccl.synth.syncoll.{name}" for name in names)
    folders = [PACKAGE / "synth" / folder for folder in ("allreduce", "packing/by_steps")]
    search = (SYNCOLL / f"{name}.py" for name in ("sweep", "pareto", "level"))
    for path in [*search, *(p for folder in folders for p in folder.glob("*.py"))]:
        assert not any(name.startswith(solvers) for name in imports(path)), path


def test_search_is_pure() -> None:
    allowed = (
        "sccl.core.",
        "sccl.collectives.",
        "sccl.synth.common.candidates.",
        "sccl.synth.syncoll.level.",
    )
    library = ("__future__.", "collections.abc.", "dataclasses.", "fractions.", "typing.")
    pure = (*library, *allowed)
    for name in ("level", "pareto"):
        assert all(used.startswith(pure) for used in imports(SYNCOLL / f"{name}.py")), name


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
