"""Epoch cases for TE-CCL's figures, on the machines with public links.

The figures are Figures 10 and 11 of TE-CCL (SIGCOMM 2024), and A* compared with the optimum
(section 6.4). Most are curves, and those of A* use machines that are not public. So no case has a
published time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from benchmarks.teccl_epochs import EpochCase

ANY = 10_000
"""Number of buffers that acts as unlimited. Symmetries do not help, as with few buffers."""

UNITS = 10.0

_EFFORT_10 = 5.0
"""Budget for each problem of Figure 10."""

_DGX1 = EpochCase("teccl-dgx1", "allgather", 25_000, 1, "milp", "slowest", alone=True, units=UNITS)
_TWO = (
    replace(_DGX1, topology="teccl-ndv2x2"),
    replace(_DGX1, topology="teccl-dgx2x2", copies=True),
    replace(_DGX1, topology="teccl-amdx2", copies=True),
)
_RANKS = {"teccl-dgx1": 8, "teccl-ndv2x2": 16, "teccl-dgx2x2": 32, "teccl-amdx2": 32}

SIZES = (1_000_000_000, 1_000_000, 64_000)
"""Output sizes of a rank, in bytes."""


def _sized(case: EpochCase, size: int) -> EpochCase:
    return replace(case, chunk_bytes=size // _RANKS[case.topology] // case.chunks)


def _flows(case: EpochCase) -> EpochCase:
    return replace(case, collective="alltoall", model="lp", copies=False, alone=False, units=UNITS)


def _figure_10(machine: EpochCase, sizes: Iterable[int]) -> tuple[EpochCase, ...]:
    """Return two chassis with epochs of their slowest and of their fastest links."""
    return tuple(
        replace(_sized(machine, size), epoch=epoch, figure="fig10", units=_EFFORT_10)
        for size, epoch in product(sizes, ("slowest", "fastest"))
    )


def _figure_11() -> tuple[EpochCase, ...]:
    """Return a DGX-1 and two chassis with unlimited buffers, and with none."""
    cases = (
        *(replace(_DGX1, alpha=False, chunks=chunks) for chunks in (1, 2, 4, 6)),
        *(replace(_DGX1, epoch="fastest", chunks=chunks) for chunks in (1, 2, 3)),
        replace(_DGX1, collective="alltoall", alpha=False),
        *(_sized(machine, size) for machine in _TWO for size in SIZES[:2]),
    )
    return tuple(
        replace(case, buffers=buffers, figure="fig11") for case, buffers in product(cases, (ANY, 0))
    )


def _astar(machine: EpochCase) -> tuple[EpochCase, ...]:
    """Return the full model and the A* rounds, with and without alpha."""
    cases = (
        _sized(replace(machine, alpha=alpha, chunks=chunks, figure="astar"), SIZES[1])
        for alpha, chunks in product((False, True), (1, 2))
    )
    return tuple(
        replace(case, model=model, alone=model == "milp")
        for case in cases
        for model in ("milp", "astar")
    )


_ASTAR = (replace(_DGX1, epoch="fastest"), replace(_TWO[0], epoch="fastest"), *_TWO[1:])


def _part(machine: EpochCase) -> str:
    return machine.topology.removeprefix("teccl-")


FIGURES = {
    "fig10-allgather": tuple(case for machine in _TWO for case in _figure_10(machine, SIZES)),
    **{
        f"fig10-alltoall-{_part(machine)}": tuple(map(_flows, _figure_10(machine, SIZES[1::-1])))
        for machine in _TWO
    },
    "fig11": _figure_11(),
    **{f"astar-{_part(machine)}": _astar(machine) for machine in _ASTAR},
}
