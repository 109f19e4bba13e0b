"""Tuning: switch points from measurements."""

from __future__ import annotations

from collections.abc import Iterable

from sccl.codegen.selection import Selection, SwitchPoint
from sccl.runtime.measure import ContenderTiming, fastest_contenders, group_by_collective


def tune_selection(timings: Iterable[ContenderTiming], current: Selection) -> Selection:
    """Return the selection in which the fastest program serves each size.

    Args:
        timings: Times of every program separately (``0e``, ``0d``, ``1e``, ...).
        current: Current selection. Unmeasured parts keep their switch points: other collectives,
            and on GPUs algorithms for other roots.
    """
    chosen = dict(current.switches)
    for collective, sizes in group_by_collective(timings).items():
        names = sorted({name for row in sizes.values() for name in row})
        best = fastest_contenders(sizes, names)
        switches = [
            SwitchPoint.for_program(name, size if i else 0) for i, (size, name) in enumerate(best)
        ]
        measured = {SwitchPoint.for_program(name, 0).index for name in names}
        switches += [s for s in chosen.get(collective, ()) if s.index not in measured]
        chosen[collective] = tuple(sorted(switches, key=lambda switch: switch.from_bytes))
    return Selection(dict(sorted(chosen.items())))
