"""Expand symmetric algorithms to plain algorithms that list all sends."""

from __future__ import annotations

from sccl.core.algorithm import Algorithm, make_send
from sccl.core.symmetric import AnyAlgorithm
from sccl.errors import TooLargeError

MAX_EXPANDED_SENDS = 150_000
"""Maximum number of sends of a symmetric algorithm that is written as a plain algorithm."""

_MAX_ORBIT_SENDS = 5_000_000


def expand_algorithm(algorithm: AnyAlgorithm) -> Algorithm:
    """Return the algorithm with all of its sends.

    Raises:
        TooLargeError: There are too many sends to list.
    """
    if isinstance(algorithm, Algorithm):
        return algorithm
    if algorithm.num_sends > _MAX_ORBIT_SENDS:
        raise TooLargeError(
            f"{algorithm.collective.name} on {algorithm.topology.name!r} has "
            f"{algorithm.num_sends} sends, which can be verified but not listed (at most "
            f"{_MAX_ORBIT_SENDS})"
        )
    from sccl.topo.symmetry.chunk_orbits import expanded_sends  # noqa: PLC0415 - NumPy is slow to load

    sends = tuple(
        make_send(chunk, src, dst, step)
        for chunk, steps, sources, destinations in expanded_sends(algorithm)
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
