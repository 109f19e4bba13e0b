"""A row of a table with sccl's own solvers."""

from __future__ import annotations

import gc
import resource
import time
from functools import partial

from benchmarks.paper import PaperRow
from benchmarks.timing import Contender, Run
from sccl.collectives import named_spec
from sccl.core.answer import verdict
from sccl.synth.syncoll import solve as syncoll_solve
from sccl.topo import resolve_topology
from sccl.transform import Question, build_question, solve_question

_WARM_UP = PaperRow("line:2", "allgather", 1, 1, 1, "", 0.0)


def question(row: PaperRow) -> Question:
    """Return the problem of a row, with rank 0 as root."""
    topology = resolve_topology(row.topology)
    spec = named_spec(row.collective, topology.ranks)
    return build_question(topology, spec, row.chunks, row.steps, row.rounds)


def answer(row: PaperRow, solver: str, timeout_s: float) -> Run:
    """Run one solver on a row.

    The time includes encoding, solving and decoding of every instance, the conversion to the
    requested algorithm, and the verification of both. It excludes imports and reading the topology.
    """
    problem = question(row)
    solve = partial(syncoll_solve.solve, solver=solver, effort=syncoll_solve.Effort(timeout_s))
    gc.collect()  # so that garbage of an earlier row does not count for this one
    begin, used = time.perf_counter(), _processor_seconds()
    result = solve_question(problem, solve)
    seconds, used = time.perf_counter() - begin, _processor_seconds() - used
    return Run(verdict(result), seconds, processor_seconds=used)


def _processor_seconds() -> float:
    """Return the processor seconds of this process and of its finished children."""
    scopes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, scopes))


def contender(solver: str, timeout_s: float) -> Contender[PaperRow]:
    """Return a solver as a contender, loaded and warmed up."""
    answer(_WARM_UP, solver, timeout_s)
    return Contender(solver, partial(answer, solver=solver, timeout_s=timeout_s))
