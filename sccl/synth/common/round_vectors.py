"""Every way to spread R rounds over S steps, up to symmetry."""

from __future__ import annotations

from collections.abc import Iterator

from sccl.core.instance import Instance


def round_vectors(instance: Instance) -> Iterator[tuple[int, ...]]:
    """Yield (r_0, ..., r_{S-1}) with r_s >= 1 and sum R, one of each pair of equivalent vectors.

    The only symmetry a sequence of steps can have is reversal in time. Turning every send round in
    place and time maps algorithms to algorithms where each chunk has one source and one destination
    and the machine and the demand are the same both ways (alltoall on two-way links). Then a vector
    has a solution exactly if its mirror image has. Even vectors come first: they are the likeliest.
    """
    mirrored = _is_reversible(instance)
    rounds, steps = instance.rounds, instance.steps
    for peak in range(-(-rounds // steps), rounds - steps + 2):
        for vector in _compositions(rounds, steps, peak):
            if max(vector) == peak and not (mirrored and vector > vector[::-1]):
                yield vector


def _compositions(total: int, parts: int, peak: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write ``total`` as ``parts`` numbers from 1 to ``peak``."""
    if parts == 1:
        yield (total,)
        return
    lower_bound = max(1, total - (parts - 1) * peak)
    for first in range(lower_bound, min(peak, total - parts + 1) + 1):
        for rest in _compositions(total - first, parts - 1, peak):
            yield (first, *rest)


def _is_reversible(instance: Instance) -> bool:
    classes = instance.collective.chunk_classes()
    single = all(len(s) == 1 and len(w) == 1 for s, w in classes)
    counts = {key: len(chunks) for key, chunks in classes.items()}
    return (
        single
        and all(counts.get((w, s)) == n for (s, w), n in counts.items())
        and instance.topology.reversed().same_capacities(instance.topology)
    )
