"""One word, one thing: no two public classes have one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import sccl

PACKAGE = Path(sccl.__file__).parent

SHARED = {
    # What the API offers of a noun has its name: users know one of the two.
    "Algorithm": {"core.algorithm", "api.algorithm"},
    "Bounds": {"core.bounds", "view.shown"},
    "Comparison": {"tasks.compare", "api.comparison"},
    "Frontier": {"core.frontier", "api.frontier"},
    "Point": {"core.frontier", "api.shared"},
    "Schedule": {"core.schedule", "api.schedule"},
    "Topology": {"core.topology", "api.machine"},
    "TrainingPlan": {"core.training_plan", "api.training"},
    "Workload": {"core.workload", "api.workloads"},
    # The contract of synthesisers wants this name of each.
    "Options": {
        "synth.contract",
        "synth.ksync.options",
        "synth.limit.options",
        "synth.fluid.options",
        "synth.taccl.options",
        "synth.tacos.options",
        "synth.teccl.options",
    },
    # Doors of solvers are alike: each has a ``solve`` and what it returns, read as ``sat.Result``.
    "Result": {f"solvers.{door}" for door in ("cpsat", "milp", "sat", "smt")},
}


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(module)
    assert {name: at for name, at in places.items() if len(at) > 1} == SHARED
