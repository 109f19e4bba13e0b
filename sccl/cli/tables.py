"""What several verbs print."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from sccl.core.cost import alpha_us, bytes_text, lane_gb_per_s, winners
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology


def print_winners(console: Console, topology: Topology, algorithms: Sequence[AnyAlgorithm]) -> None:
    """Print at which buffer sizes each algorithm is the fastest, by the topology's costs."""
    alpha, bandwidth = alpha_us(topology), lane_gb_per_s(topology)
    console.print(
        f"Fastest by buffer size (alpha {alpha:g} us per step, {bandwidth:g} GB/s per lane; "
        "the buffer is what C chunks make up):"
    )
    for won in winners([(a.steps, a.bandwidth_cost) for a in algorithms], alpha, bandwidth):
        a = algorithms[won.index]
        until = "and more" if won.to_bytes is None else f"to {bytes_text(won.to_bytes)}"
        costs = f"C={a.collective.chunks} S={a.steps} R={a.rounds}"
        console.print(f"  {bytes_text(won.from_bytes)} {until}: {costs}")
