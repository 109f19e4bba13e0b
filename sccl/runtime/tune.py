"""Tuning: switch points from measurements."""

from __future__ import annotations

from collections.abc import Iterable

from sccl.runtime.compare import Timing, fastest, in_groups


def tuned_selection(timings: Iterable[Timing], current: str) -> str:
    """Return the selection in which the fastest program serves each size.

    Args:
        timings: of every program by itself (``0e``, ``0d``, ``1e``, ...).
        current: the selection in force; what was not measured keeps its switch points: other
            collectives, and on GPUs algorithms for other roots.
    """
    chosen = dict(entry.split(":", 1) for entry in current.split(";") if entry)
    for collective, sizes in in_groups(timings).items():
        names = {name for row in sizes.values() for name in row}
        found = fastest(sizes, sorted(names))
        switches = [(0 if i == 0 else size, name) for i, (size, name) in enumerate(found)]
        measured = {name[:-1] for name in names}
        for entry in chosen.get(collective, "").split(","):
            first, _, name = entry.partition("=")
            if name and name[:-1] not in measured:
                switches.append((int(first), name))
        switches.sort(key=lambda switch: switch[0])
        chosen[collective] = ",".join(f"{size}={name}" for size, name in switches)
    return ";".join(f"{name}:{text}" for name, text in sorted(chosen.items()))
