"""Symmetric algorithms written out, and judged."""

from __future__ import annotations

from collections.abc import Iterator

from sccl.core.algorithm import Algorithm, send
from sccl.core.symmetric import AnyAlgorithm
from sccl.errors import JudgeError, TooLargeError
from sccl.verify import Violation, violations

MAX_EXPANDED = 150_000
"""Sends up to which a symmetric algorithm is written out as a plain one."""

_MAX_EXPANDABLE = 5_000_000


def expand(algorithm: AnyAlgorithm) -> Algorithm:
    """Return the algorithm with all of its sends.

    Raises:
        TooLargeError: they are too many to hold.
    """
    if isinstance(algorithm, Algorithm):
        return algorithm
    if algorithm.num_sends > _MAX_EXPANDABLE:
        raise TooLargeError(
            f"{algorithm.collective.name} on {algorithm.topology.name!r} has {algorithm.num_sends} "
            f"sends, which can be judged but not written out (at most {_MAX_EXPANDABLE})"
        )
    from sccl.transform.sends import all_sends  # noqa: PLC0415 - NumPy is slow to load

    sends = tuple(
        send(chunk, src, dst, step)
        for step, chunks, sources, destinations in all_sends(algorithm)
        for chunk, src, dst in zip(
            chunks.tolist(), sources.tolist(), destinations.tolist(), strict=True
        )
    )
    return Algorithm(
        algorithm.topology,
        algorithm.collective,
        algorithm.rounds_per_step,
        sends,
        algorithm.scope,
        algorithm.proved,
    )


def judge(algorithm: AnyAlgorithm) -> list[Violation]:
    """Return what is wrong with an algorithm; of a symmetric one at most the first thing.

    All sends of a symmetric one are made and re-executed on the whole machine, as a stream.

    Raises:
        ParameterError: its symmetries do not map chunks to chunks.
    """
    if isinstance(algorithm, Algorithm):
        return violations(algorithm)
    from sccl.transform.sends import all_sends  # noqa: PLC0415 - NumPy is slow to load
    from sccl.verify.stream import Batch, first_violation  # noqa: PLC0415

    count = 0

    def counted() -> Iterator[Batch]:
        nonlocal count
        for batch in all_sends(algorithm):
            count += len(batch[1])
            yield batch

    found = first_violation(
        algorithm.topology, algorithm.collective, algorithm.rounds_per_step, counted()
    )
    if found is None and count != algorithm.num_sends:
        text = f"it says that it has {algorithm.num_sends} sends, and has {count}"
        found = Violation("range", text)
    return [found] if found else []


def require_judged(algorithm: AnyAlgorithm, made_by: str) -> AnyAlgorithm:
    """Return ``algorithm`` if the judge accepts it.

    Raises:
        JudgeError: it does not; ``made_by`` says whose defect that is.
    """
    if found := judge(algorithm):
        raise JudgeError(
            f"{made_by} gave an algorithm that the judge rejects (first: {found[0].message}); this "
            "is a defect, please report it with the command you ran"
        )
    return algorithm
