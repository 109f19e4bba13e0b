"""Loops of the planner are compiled once each: who plans for the first time waits for that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from collections import Counter
from numba.core import event
from tests.kit.layered import layered
from sccl.training.scheduling.plan_search import search_cyclic_plans
from sccl.training.scheduling.policies import POLICIES, PolicyEffort

made = []

class Listener(event.Listener):
    def on_start(self, one):
        made.append(one.data["dispatcher"].py_func)

    def on_end(self, one):
        pass

event.register("numba:compile", Listener())
problem = layered(2, attention=300, experts=300)
for policy in POLICIES.values():
    policy.run(problem, PolicyEffort(0.001, 0), lambda *_: None)
search_cyclic_plans(problem, 0.001, 0, 0, lambda *_: None)
of = Counter(f"{one.__module__}.{one.__qualname__}" for one in made)
print(*sorted(name for name, count in of.items() if count > 1), len(made), sep="\\n")
"""

MOST = 64
"""Functions, those of Numba's own among them: 118 there were."""


@pytest.mark.nightly
def test_each_loop_is_compiled_for_one_sort_of_arguments(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    quick = {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "0", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **quick},
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
    )
    *several, count = done.stdout.split()
    assert [name for name in several if name.startswith("sccl.")] == []
    assert int(count) <= MOST
