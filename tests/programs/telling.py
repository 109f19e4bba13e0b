"""Preloaded by Dask workers: they say through a pipe when a solver begins with a query."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ortools.sat.python import cp_model

from sccl.core.answer import Answer
from sccl.core.instance import Instance
from sccl.synth.syncoll import oracle

PIPE = Path(os.environ["SCCL_TESTS_PIPE"])
QUERY = [""]


def answer(
    how: oracle.QueryConfig, instance: Instance, *, _answer: Any = oracle.answer_instance
) -> Answer | Any:
    QUERY[0] = f"{instance.collective.name} {instance.steps}"
    return _answer(how, instance)


def solve(*arguments: Any, _solve: Any = cp_model.CpSolver.solve) -> Any:
    with PIPE.open("w") as file:
        file.write(f"{os.getpid()} {QUERY[0]}\n")
    return _solve(*arguments)


setattr(oracle, "answer_instance", answer)  # noqa: B010 - so that types stay unchanged
setattr(cp_model.CpSolver, "solve", solve)  # noqa: B010
