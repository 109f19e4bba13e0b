"""Symmetric algorithms written out: all of their sends, as those of a plain one."""

from __future__ import annotations

from sccl.core.algorithm import Algorithm, send
from sccl.core.symmetric import AnyAlgorithm
from sccl.errors import TooLargeError

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
            f"{algorithm.collective.name} on {algorithm.topology.name!r} has "
            f"{algorithm.num_sends} sends, which can be verified but not listed (at most "
            f"{_MAX_EXPANDABLE})"
        )
    from sccl.topo.symmetry.all_sends import all_sends  # noqa: PLC0415 - NumPy is slow to load

    sends = tuple(
        send(chunk, src, dst, step)
        for chunk, steps, sources, destinations in all_sends(algorithm)
        for step, src, dst in zip(
            steps.tolist(), sources.tolist(), destinations.tolist(), strict=True
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
