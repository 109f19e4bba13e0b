"""Solve SMT-LIB 2 scripts with Z3.

Z3 cannot be interrupted reliably: it may ignore interrupts for minutes of preprocessing, and a
KeyboardInterrupt raised inside one of its finalizers is lost. So interruptible callers run it in a
child process. Each script has a separate Z3 context.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import z3

from sccl.solvers.effort import Effort

_TACTICS = ("simplify", "lia2card", "default")
"""``lia2card`` turns sums of ``(ite x 1 0)`` into cardinality constraints, which Z3's own choice
of tactics does not: allgather (6, 3, 7) on DGX-1 takes 1.0 s with it, and more than 12 s without.
"""

_RESOURCES_PER_UNIT = 2_000_000  # Z3's resource units per unit of the budget
_MAX_RESOURCES = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Result:
    """The result of Z3.

    Attributes:
        true_names: names of the true Boolean variables of the model. None: no model was found.
        is_infeasible: whether the script is proved unsatisfiable.
        reason: reason why the result is unknown, or empty.
    """

    true_names: frozenset[str] | None
    is_infeasible: bool
    reason: str


_REMINDER_S = 0.25


@contextmanager
def _interrupt_on_timeout(solver: z3.Solver, timeout_s: float | None) -> Iterator[None]:
    """Interrupt a solver repeatedly from its deadline until it has ended.

    If Z3's own timer expires before the search has begun, the search has no time limit.
    """
    if timeout_s is None:
        yield
        return
    ended = threading.Event()

    def remind() -> None:
        """Wait, and interrupt the solver if it still runs."""
        pause_s = timeout_s + _REMINDER_S  # Z3's timer comes first, to report a timeout
        while not ended.wait(pause_s):
            solver.interrupt()
            pause_s = _REMINDER_S

    thread = threading.Thread(target=remind, name="sccl-reminder", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def solve(script: str, effort: Effort) -> Result:
    """Solve an SMT-LIB 2 script in this process."""
    context = z3.Context()
    tactics = [z3.Tactic(name, context) for name in _TACTICS]
    solver = z3.Then(*tactics, ctx=context).solver()
    solver.add(z3.parse_smt2_string(script, ctx=context))
    solver.set("random_seed", effort.seed)
    if effort.units is not None:
        solver.set("rlimit", max(1, min(int(effort.units * _RESOURCES_PER_UNIT), _MAX_RESOURCES)))
    if effort.timeout_s is not None:
        solver.set("timeout", max(1, int(effort.timeout_s * 1000)))
    with _interrupt_on_timeout(solver, effort.timeout_s):
        verdict = solver.check()
    if verdict == z3.sat:
        model = solver.model()
        names = (declared.name() for declared in model.decls() if z3.is_true(model[declared]))
        return Result(frozenset(names), is_infeasible=False, reason="")
    if verdict == z3.unsat:
        return Result(None, is_infeasible=True, reason="")
    reason = solver.reason_unknown()
    return Result(
        None, is_infeasible=False, reason="timeout" if reason == "interrupted" else reason
    )
