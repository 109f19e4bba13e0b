"""Machines, algorithms and sizes of the figures of TACOS."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from sccl.core.clock import AlphaModel
from sccl.errors import ParameterError, unknown_name

MB, GB = 10**6, 10**9

TACOS = "tacos"
"""Name of the synthesizer. All other algorithms are classical ones."""

NUMBERED = ", by numbers"
"""Suffix of a ring that visits the ranks in numeric order, regardless of the links."""


@dataclass(frozen=True, slots=True)
class Case:
    """Bar or dot of a figure.

    Attributes:
        figure: Name of the figure, such as ``fig15`` or ``table5``.
        topology: Argument of :func:`sccl.topo.resolve_topology`.
        algorithm: :data:`TACOS`, or the name of a classical algorithm.
        size_bytes: Bytes that each rank reduces.
        pieces: Candidate numbers of pieces. These are chunks per part for TACOS, and pieces of a
            classical algorithm.
        alpha: State of a link during alpha.
        bins: Number of equal time intervals for the utilization. 0: The utilization is not
            recorded.
    """

    figure: str
    topology: str
    algorithm: str
    size_bytes: int
    pieces: tuple[int, ...]
    alpha: AlphaModel = AlphaModel.TRAVELS
    bins: int = 0


Algorithm = tuple[str, tuple[int, ...]]
"""Name, and the candidate numbers of pieces."""


def _each(  # noqa: PLR0913, PLR0917 - one parameter per field of a case
    figure: str, topologies: Iterable[str], algorithms: Iterable[Algorithm],
    sizes: Sequence[int], alpha: AlphaModel = AlphaModel.TRAVELS, bins: int = 0,
) -> tuple[Case, ...]:  # fmt: skip
    """Return all machines, sizes and algorithms of a figure."""
    return tuple(
        Case(figure, topology, name, size, pieces, alpha, bins)
        for topology, size, (name, pieces) in product(topologies, sizes, algorithms)
    )


_RING, _DIRECT, _HALVES = ("ring-both", (1,)), ("direct", (1,)), ("halving-doubling", (1,))
_NUMBERED = (f"ring-both{NUMBERED}", (1,))
_TREES = ("double-binary-tree", (1, 8, 64))
_BASIC = (_RING, _NUMBERED, _DIRECT)
_THEMIS = tuple(("themis", (pieces,)) for pieces in (4, 64))

_FIG2A = ("full:64", "ring:64", "mesh:8x8", "mesh:4x4x4")
_FIG15 = (
    "dragonfly:4x5@400,200GB+0.5us",
    "switch2d:8x4@300,25GB+0.25us",
    "rfs:2x4x8@200,100,50GB+0.5,0.5,0.25us",
)
_TABLE5 = tuple(f"rfs:2x4x{nodes}@200,100,50GB+0.5,0.5,0.25us" for nodes in (2, 4, 8, 16))
_FIG18 = ("torus:5x5x5", "mesh:10x10", "mesh:5x5x5")
_SIZES = (MB, 16 * MB, 256 * MB, GB)
_SIDES = ((4, 6, 10, 16, 32, 64, 100), (3, 5, 8, 10, 16, 22))
_LARGEST = ((200,), (35,))


def _scaling(sides: Sequence[Sequence[int]]) -> tuple[Case, ...]:
    """Return the cases of Figure 19: square meshes, then cubic ones, by their sides."""
    return tuple(
        Case("fig19", f"mesh:{'x'.join([str(side)] * dimensions)}@50GB+0.5us", TACOS, GB, (1,),
             AlphaModel.OCCUPIES)
        for dimensions, each in enumerate(sides, 2)
        for side in each
    )  # fmt: skip


FIGURES: dict[str, tuple[Case, ...]] = {
    "fig2a": _each(
        "fig2a", [f"{name}@50GB+0.5us" for name in _FIG2A],
        [*_BASIC, _HALVES, _TREES, (TACOS, (1, 8))], [GB],
    ),
    "fig2b": _each(
        "fig2b", ["ring:128@150GB+0.03us"],
        [_RING, _DIRECT, _HALVES, _TREES, (TACOS, (1, 4))],
        [1000, 16_000, 256_000, 4 * MB, 64 * MB, GB],
    ),
    "fig15": _each("fig15", _FIG15, [*_BASIC, ("blueconnect", (4,)), (TACOS, (16,))], [GB]),
    "table5": _each("table5", _TABLE5, [*_BASIC, _HALVES, (TACOS, (16,))], [GB]),
    "fig16": _each(
        "fig16", ["torus:4x4x4@25GB+0.7us", "mesh:4x4x4@25GB+0.7us"],
        [("blueconnect", (4,)), *_THEMIS, (TACOS, (1, 8))], _SIZES,
    ),
    "fig17": (
        *_each("fig17", ["torus:8x8@16GB+0.15us", "mesh:8x8@16GB+0.15us"],
               [("multitree", (1,)), ("themis", (16,)), (TACOS, (1, 8))],
               [MB, 4 * MB, 16 * MB, 64 * MB]),
        *_each("fig17", ["dgx1"],
               [("c-cube", (8,)), ("c-cube", (64,)), _RING, ("multi-ring", (1,)),
                (TACOS, (6, 24, 96))], _SIZES),
    ),
    "fig18": _each(
        "fig18", [f"{name}@50GB+0.5us" for name in _FIG18], [_RING, (TACOS, (8,))], [GB], bins=60
    ),
    "fig19": _scaling(_SIDES),
}  # fmt: skip

SMOKE: dict[str, tuple[Case, ...]] = {
    "fig2a": _each("fig2a", ["mesh:3x3@50GB+0.5us"], [*_BASIC, _TREES, (TACOS, (1,))], [MB]),
    "fig15": _each("fig15", ["switch2d:2x2@300,25GB"], [*_BASIC, (TACOS, (1, 2))], [MB]),
    "fig16": _each("fig16", ["torus:3x3@25GB"], [("themis", (4,)), (TACOS, (1,))], [1000, MB]),
    "fig18": _each("fig18", ["mesh:3x3@50GB"], [_RING, (TACOS, (1,))], [MB], bins=5),
    "fig19": _scaling(((2, 3, 4), (2,))),
}
"""Small versions of the figures that take seconds, to test the benchmark."""


def select_cases(only: str, *, smoke: bool, largest: bool) -> tuple[Case, ...]:
    """Return the cases of figures by their names, separated by commas, or of all figures.

    Args:
        largest: Whether to append the 40,000 and 42,875 ranks of Figure 19.

    Raises:
        ParameterError: A name is unknown or repeated.
    """
    figures = SMOKE if smoke else FIGURES
    names = [name.strip() for name in only.split(",")] if only else list(figures)
    for name in names:
        if name not in figures:
            hint = f"expected one of {', '.join(figures)}, or several with commas between"
            raise unknown_name("figure", name, figures, hint)
    if len(set(names)) < len(names):
        raise ParameterError(f"figures are {only!r}: name each once")
    cases = tuple(case for name in names for case in figures[name])
    return (*cases, *_scaling(_LARGEST)) if largest else cases
