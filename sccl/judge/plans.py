"""The judge's face: any plan, by steps or by times, re-executed on the whole machine."""

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
    """Return the violations of a plan, at most the first one for a symmetric or packed plan.

    A symmetric plan is decided by the sends of one chunk of each orbit, if its symmetries are
    translations and turns, or only the identity keeps a rank. For other symmetric plans all sends
    are expanded and re-executed on the whole machine, as a stream.

    Args:
        on_progress: progress callback for packed plans: transfers executed so far, and their total.

    Raises:
        ParameterError: its symmetries do not map chunks to chunks.
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
    expanded = expand_algorithm(replace(algorithm, num_sends=0))  # it may say anything
    return _algorithm_violations(expanded)[:1] or [
        *steps.count_violations(algorithm, expanded.num_sends)
    ]


def stream_violations(algorithm: SymmetricAlgorithm) -> list[Violation]:
    """Return the first thing that is wrong with a symmetric algorithm, each of its sends executed.

    Raises:
        ParameterError: its symmetries do not map chunks to chunks.
    """
    from sccl.judge import steps_arrays  # noqa: PLC0415 - Numba is slow to load
    from sccl.topo.symmetry.chunk_orbits import expanded_sends  # noqa: PLC0415

    violation = steps_arrays.first_violation(algorithm, expanded_sends(algorithm))
    return [violation] if violation else []


def require_valid(plan: P, made_by: str, on_progress: ProgressCallback = lambda *_: None) -> P:
    """Return a plan if it passes verification.

    Args:
        on_progress: progress callback, as in :func:`violations`.

    Raises:
        JudgeError: It fails. ``made_by`` names the component at fault.
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
