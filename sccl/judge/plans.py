"""Verify any plan: choose the verifier by the plan's form and size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sccl.core.algorithm import Algorithm, KSynchronousPlan
from sccl.core.formatting import format_count
from sccl.core.progress import ProgressCallback
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm
from sccl.errors import JudgeError
from sccl.judge import steps
from sccl.judge.execution import is_compiled_worthwhile
from sccl.judge.violation import Violation

if TYPE_CHECKING:
    from sccl.core.outcome import Plan
    from sccl.core.packed_schedule import PackedSchedule
    from sccl.core.schedule import Schedule

P = TypeVar("P", Algorithm, SymmetricAlgorithm, AnyAlgorithm, "Schedule", "PackedSchedule", "Plan")


def violations(plan: Plan, on_progress: ProgressCallback = lambda *_: None) -> list[Violation]:
    """Return the violations of a plan; for a symmetric or packed plan, at most the first one.

    For a symmetric plan, the sends of one chunk of each orbit suffice if its group of symmetries is
    of a kind that :mod:`sccl.judge.symmetric` supports. For other symmetric plans, all sends are
    expanded and re-executed.

    Args:
        plan: Plan to verify.
        on_progress: Progress callback for packed plans: number of executed transfers, and total.

    Raises:
        ParameterError: The plan's symmetries do not map chunks to chunks.
    """
    match plan:
        case Algorithm():
            return _algorithm_violations(plan)
        case SymmetricAlgorithm():
            return _symmetric_violations(plan)
    from sccl.core.packed_schedule import PackedSchedule  # noqa: PLC0415 - NumPy is slow to load
    from sccl.judge import timed  # noqa: PLC0415

    if isinstance(plan, PackedSchedule):
        from sccl.judge import packed_execution  # noqa: PLC0415 - Numba is slow to load

        return packed_execution.violations(plan, on_progress)
    if is_compiled_worthwhile("times", plan.num_sends):
        from sccl.judge import timed_arrays  # noqa: PLC0415 - Numba is slow to load

        if timed_arrays.is_supported(plan) and timed_arrays.is_valid(plan):
            return []
    return timed.violations(plan)


def _algorithm_violations(algorithm: Algorithm) -> list[Violation]:
    if is_compiled_worthwhile("steps", len(algorithm.sends)):
        from sccl.judge import steps_arrays  # noqa: PLC0415 - Numba is slow to load

        if steps_arrays.is_valid(algorithm):
            return []
    return steps.violations(algorithm)


def _symmetric_violations(algorithm: SymmetricAlgorithm) -> list[Violation]:
    from sccl.judge import symmetric  # noqa: PLC0415 - NumPy is slow to load
    from sccl.topo.symmetry.expansion import expand_algorithm  # noqa: PLC0415

    if (faults := symmetric.violations(algorithm)) is not None:
        return faults
    sends = len(algorithm.sends) * algorithm.collective.num_chunks
    if is_compiled_worthwhile("steps", sends):
        return stream_violations(algorithm)
    expanded = expand_algorithm(replace(algorithm, num_sends=0))  # its count is checked below
    return _algorithm_violations(expanded)[:1] or [
        *steps.count_violations(algorithm, expanded.num_sends)
    ]


def stream_violations(algorithm: SymmetricAlgorithm) -> list[Violation]:
    """Return the first violation of a symmetric algorithm, by executing all of its sends.

    Raises:
        ParameterError: The algorithm's symmetries do not map chunks to chunks.
    """
    from sccl.judge import steps_arrays  # noqa: PLC0415 - Numba is slow to load
    from sccl.topo.symmetry.chunk_orbits import expanded_sends  # noqa: PLC0415

    violation = steps_arrays.first_violation(algorithm, expanded_sends(algorithm))
    return [violation] if violation else []


def require_valid(plan: P, made_by: str, on_progress: ProgressCallback = lambda *_: None) -> P:
    """Return a plan if it passes verification.

    Args:
        plan: Plan to verify.
        made_by: Component that made the plan, for the error message.
        on_progress: Progress callback, as in :func:`violations`.

    Raises:
        JudgeError: The plan fails verification.
    """
    if faults := violations(plan, on_progress):
        kind = "an algorithm" if isinstance(plan, KSynchronousPlan) else "a schedule"
        raise JudgeError(
            f"{made_by} returned {kind} that fails verification "
            f"({format_count(len(faults), 'violation')}, first: {faults[0].message}); this is a "
            "defect, "
            "please report it with the command you ran"
        )
    return plan
