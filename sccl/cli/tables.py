"""Tables and numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from sccl.core.cost import alpha_us, lane_gb_per_s, winners
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology


def size(number_of_bytes: float) -> str:
    """Return a number of bytes with a decimal unit and three digits."""
    value = float(number_of_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def print_winners(console: Console, topology: Topology, algorithms: Sequence[AnyAlgorithm]) -> None:
    """Print at which buffer sizes each algorithm is the fastest, by the topology's costs."""
    alpha, bandwidth = alpha_us(topology), lane_gb_per_s(topology)
    console.print(
        f"Fastest by buffer size (alpha {alpha:g} us per step, {bandwidth:g} GB/s per lane; "
        "the buffer is what C chunks make up):"
    )
    for won in winners([(a.steps, a.bandwidth_cost) for a in algorithms], alpha, bandwidth):
        a = algorithms[won.index]
        until = "and more" if won.to_bytes is None else f"to {size(won.to_bytes)}"
        console.print(
            f"  {size(won.from_bytes)} {until}: C={a.collective.chunks} S={a.steps} R={a.rounds}"
        )
