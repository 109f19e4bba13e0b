"""Every way to spread R rounds over S steps, up to symmetry."""

from __future__ import annotations

from collections.abc import Iterator

from sccl.core.instance import Instance


def round_vectors(instance: Instance) -> Iterator[tuple[int, ...]]:
    """Yield (r_0, ..., r_{S-1}) with r_s >= 1 and sum R, one of each pair of equivalent vectors.

    The only symmetry a sequence of steps can have is reversal in time. Turning every send round in
    place and time maps algorithms to algorithms where each chunk has one source and one destination
    and the machine and the demand are the same both ways (alltoall on two-way links); then a vector
    has a solution exactly if its mirror image has. Even vectors come first: they are the likeliest.
    """
    mirrored = _is_reversible(instance)
    vectors = [
        v for v in _compositions(instance.rounds, instance.steps) if not (mirrored and v > v[::-1])
    ]
    return iter(sorted(vectors, key=lambda v: (max(v), v)))


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(1, total - parts + 2):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def _is_reversible(instance: Instance) -> bool:
    classes = instance.collective.classes()
    single = all(len(s) == 1 and len(w) == 1 for s, w in classes)
    counts = {key: len(chunks) for key, chunks in classes.items()}
    return (
        single
        and all(counts.get((w, s)) == n for (s, w), n in counts.items())
        and instance.topology.reversed() == instance.topology
    )
