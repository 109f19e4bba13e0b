"""The judge's face: any plan, by steps or by times, re-executed on the whole machine."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sccl.core.algorithm import Algorithm, KSynchronous
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm
from sccl.core.words import counted
from sccl.errors import JudgeError
from sccl.judge import steps
from sccl.judge.violation import Violation

if TYPE_CHECKING:
    from sccl.core.outcome import Plan
    from sccl.core.packed import PackedSchedule
    from sccl.core.schedule import Schedule

LONG = 2**17
"""Transfers that are executed as compiled code is loaded."""

LOADED_LONG = 2**15
"""The same where Numba is loaded already."""

_executed: Counter[str] = Counter()
"""Transfers that each of the judges executed in this process without compiled code."""

Told = Callable[[int, int], None]
"""Called with how much was done, and of how much."""

P = TypeVar("P", Algorithm, SymmetricAlgorithm, AnyAlgorithm, "Schedule", "PackedSchedule", "Plan")


def violations(plan: Plan, told: Told = lambda *_: None) -> list[Violation]:
    """Return the violations of a plan; of a symmetric or packed plan at most the first.

    A symmetric plan is decided by the sends of one chunk of each orbit, if its symmetries are
    translations and turns, or only the identity keeps a rank. For other symmetric plans all sends
    are expanded and re-executed on the whole machine, as a stream.

    Args:
        told: progress callback for packed plans: transfers executed so far, and their total.

    Raises:
        ParameterError: its symmetries do not map chunks to chunks.
    """
    match plan:
        case Algorithm():
            return _of_algorithm(plan)
        case SymmetricAlgorithm():
            return _of_symmetric(plan)
    from sccl.core.packed import PackedSchedule  # noqa: PLC0415 - NumPy is slow to load
    from sccl.judge import timed  # noqa: PLC0415

    if isinstance(plan, PackedSchedule):
        from sccl.judge import packed  # noqa: PLC0415 - Numba is slow to load

        return packed.violations(plan, told)
    if _compiled_pays("times", plan.num_sends):
        from sccl.judge import large  # noqa: PLC0415 - Numba is slow to load

        if large.takes(plan) and large.is_valid(plan):
            return []
    return timed.violations(plan)


def _compiled_pays(judge: str, transfers: int) -> bool:
    """Return whether to use compiled code for this many more transfers, and count them if not.

    It is loaded as soon as the transfers executed without it have cost as much as loading it. So
    the total time is at most twice that of the better choice.
    """
    long = LOADED_LONG if "numba" in sys.modules else LONG
    if _executed[judge] + transfers >= long:
        return True
    _executed[judge] += transfers
    return False


def _of_algorithm(algorithm: Algorithm) -> list[Violation]:
    if _compiled_pays("steps", len(algorithm.sends)):
        from sccl.judge import long  # noqa: PLC0415 - Numba is slow to load

        if long.is_valid(algorithm):
            return []
    return steps.violations(algorithm)


def _of_symmetric(algorithm: SymmetricAlgorithm) -> list[Violation]:
    from sccl.judge import free, symmetric  # noqa: PLC0415 - NumPy is slow to load
    from sccl.topo.symmetry.expand import expand  # noqa: PLC0415

    found = symmetric.violations(algorithm)
    if found is None:
        found = free.violations(algorithm)
    if found is not None:
        return found
    if _compiled_pays("steps", len(algorithm.sends) * algorithm.collective.num_chunks):
        return streamed(algorithm)
    whole = expand(replace(algorithm, num_sends=0))  # it may say anything
    found = _of_algorithm(whole)[:1]
    return found or _miscounted(algorithm, len(whole.sends))


def _miscounted(algorithm: SymmetricAlgorithm, count: int) -> list[Violation]:
    """Return a violation if the total number of sends differs from the stated number."""
    if count == algorithm.num_sends:
        return []
    text = f"it states {algorithm.num_sends} sends, and has {count}"
    return [Violation("range", text)]


def streamed(algorithm: SymmetricAlgorithm) -> list[Violation]:
    """Return the first thing that is wrong with a symmetric algorithm, each of its sends executed.

    Raises:
        ParameterError: its symmetries do not map chunks to chunks.
    """
    from sccl.judge.stream import SendsOfChunk, first_violation  # noqa: PLC0415 - loads Numba
    from sccl.topo.symmetry.all_sends import all_sends  # noqa: PLC0415

    count = 0

    def counting() -> Iterator[SendsOfChunk]:
        """Yield the sends, and count them."""
        nonlocal count
        for batch in all_sends(algorithm):
            count += len(batch[1])
            yield batch

    found = first_violation(
        algorithm.topology, algorithm.collective, algorithm.rounds_per_step, counting()
    )
    return [found] if found else _miscounted(algorithm, count)


def require_valid(plan: P, made_by: str, told: Told = lambda *_: None) -> P:
    """Return a plan if it passes verification.

    Args:
        told: progress callback, as in :func:`violations`.

    Raises:
        JudgeError: it fails; ``made_by`` names the component at fault.
    """
    if found := violations(plan, told):
        what = "an algorithm" if isinstance(plan, KSynchronous) else "a schedule"
        raise JudgeError(
            f"{made_by} returned {what} that fails verification "
            f"({counted(len(found), 'violation')}, first: {found[0].message}); this is a defect, "
            "please report it with the command you ran"
        )
    return plan
