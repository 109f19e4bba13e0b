"""The types of the package, as mypy shows them to a user."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """\
from fractions import Fraction
from pathlib import Path

import sccl


def compare(machine: sccl.Topology) -> float:
    frontier = sccl.pareto("allgather", machine)
    best = frontier.points[-1].algorithm
    assert best is not None
    cost: Fraction = best.bandwidth_cost
    plan = sccl.tacos("allreduce", machine, size="1MB", seed=3)
    near = sccl.teccl("allgather", machine, size=1_000_000)
    sketched = sccl.taccl("allgather", machine, size="1MB")
    reveal_type(frontier)
    reveal_type(plan)
    plan.save(Path("plan.json"))
    return min(plan.finish_us, near.finish_us, sketched.finish_us) + float(cost)


try:
    print(compare(sccl.topology("dgx1")))
except sccl.InputError as error:
    print(error)
"""


def test_types_of_a_users_script(tmp_path: Path) -> None:
    """A strict script passes, and a misspelled option is an error in its line."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text('import sccl\nsccl.tacos("allgather", "dgx1", sead=3)\n')
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        "",
        "script.py",
        "wrong.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    (error,) = (line for line in lines if ": error: " in line)
    assert error.startswith("wrong.py:2: error: ")
    assert '"sead"' in error
    types = [line.partition("Revealed type is ")[2] for line in lines if line.startswith("script")]
    assert types == ['"sccl.api.frontier.Frontier"', '"sccl.api.schedule.Schedule"']
