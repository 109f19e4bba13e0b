"""CP-SAT is loaded without pandas, and works with it where it is loaded later."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sccl.solvers.lazy_pandas import import_without_pandas

LATER = """
import sys
import sccl.solvers.cpsat
assert "pandas" not in sys.modules
from ortools.sat.python import cp_model
model = cp_model.CpModel()
some = model.new_int_var_series("x", __import__("pandas").Index([1, 2]), 0, 3)
assert type(some).__module__.startswith("pandas")
model.add(sum(some) == 6)
solver = cp_model.CpSolver()
assert solver.solve(model) == cp_model.OPTIMAL
assert solver.values(some).tolist() == [3, 3]
try:
    model.new_int_var_series("y", [1, 2], 0, 3)
except TypeError as error:
    assert "index" in str(error)
else:
    raise AssertionError("a list is no index")
"""


def test_tables_of_variables_are_those_of_pandas() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_lazy_pandas_loads_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "asks_for_frames.py").write_text("import pandas\nfound = pandas.DataFrame\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    import_without_pandas("asks_for_frames")
    assert "asks_for_frames" not in sys.modules
    assert "pandas" not in sys.modules
