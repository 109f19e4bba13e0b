"""Z3 on SCCL's QF_LIA encoding only: the reference for all other solvers.

Z3 runs in a child process, because it cannot be interrupted.
"""

from __future__ import annotations

from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.instance import Instance
from sccl.core.stop import StopKind, StopReason
from sccl.errors import TooLargeError
from sccl.solvers import smt
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.syncoll.encoding_qflia import encode
from sccl.synth.syncoll.solver_process import SolverChild

NAME = "z3 (QF_LIA)"


def answer(instance: Instance, effort: Effort) -> Answer:
    """Return Z3's answer, computed in a child process."""
    with SolverChild("z3", instance, effort) as child:
        return child.answer()


def answer_in_process(instance: Instance, effort: Effort) -> Answer:
    """Return Z3's answer, computed in this process."""
    spending = EffortMeter(effort)
    try:
        encoding = encode(instance)
    except TooLargeError as error:
        return Unknown(
            StopReason(StopKind.TOO_LARGE, f"too large: {error}"), NAME, spending.elapsed_seconds()
        )
    left = spending.remaining()
    if left is None:
        return Unknown(effort.timeout_reason, NAME, spending.elapsed_seconds())
    result = smt.solve(encoding.text, left)
    seconds = spending.elapsed_seconds()
    if result.true_names is not None:
        return Sat(encoding.decode(result.true_names), NAME, seconds)
    if result.is_infeasible:
        return Unsat("Z3 refuted C1 to C6 of SCCL section 3.4 (QF_LIA)", NAME, seconds)
    reason = StopReason.parse(f"{result.reason} after {seconds:.0f} s")
    return Unknown(reason, NAME, seconds)
