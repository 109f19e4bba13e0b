"""Settings of a simulation: alpha model, alignment of steps, costs, and the length of a tick."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from sccl.core.clock import MAX_TICK_PS, MAX_TICKS, AlphaModel, StepAlignment
from sccl.core.formatting import format_rounded
from sccl.core.schedule import MAX_TIME
from sccl.core.topology import Topology, check_cost
from sccl.errors import ParameterError


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The settings of a simulation.

    Attributes:
        model: Alpha model. None: the schedule's own model for a schedule, otherwise ``TRAVELS``.
        stepping: Start of the messages of a step. None: pipelined for algorithms; schedules keep
            their times.
        alpha_us: Latency of every link in microseconds. None: the machine's.
        gb_per_s: Speed of every lane in 10^9 bytes per second. None: the machine's.

    Raises:
        ParameterError: A cost is not finite, or too small.
    """

    model: AlphaModel | None = None
    stepping: StepAlignment | None = None
    alpha_us: float | None = None
    gb_per_s: float | None = None

    def __post_init__(self) -> None:
        alpha = 0.0 if self.alpha_us is None else self.alpha_us
        speed = 1.0 if self.gb_per_s is None else self.gb_per_s
        check_cost("", alpha, speed, error=ParameterError, names=("alpha-us", "gb-per-s"))

    @property
    def has_costs(self) -> bool:
        """Return whether a cost replaces that of the machine."""
        return (self.alpha_us, self.gb_per_s) != (None, None)

    def apply_to(self, topology: Topology) -> Topology:
        """Return the machine with these costs."""
        alpha, speed = self.alpha_us, self.gb_per_s
        links = tuple(
            replace(
                link,
                alpha_us=link.alpha_us if alpha is None else alpha,
                gb_per_s=link.gb_per_s if speed is None else speed,
            )
            for link in topology.links
        )
        old_budgets = topology.budgets
        budgets = (
            old_budgets if speed is None else tuple(replace(b, gb_per_s=None) for b in old_budgets)
        )
        return replace(topology, links=links, budgets=budgets) if self.has_costs else topology


def finest_tick(topology: Topology, chunk_bytes: int, messages: int) -> int:
    """Return the shortest tick, as a power of ten picoseconds, with which no time overflows.

    Args:
        topology: machine.
        chunk_bytes: size of the largest chunk in bytes.
        messages: number of messages, sent one after the other in the worst case.

    Raises:
        ParameterError: no permitted tick is long enough.
    """
    pipes = {(k.alpha_us, k.lanes, k.gb_per_s) for k in topology.links}
    speeds = zip(topology.budgets, topology.budget_speeds(), strict=True)
    pipes |= {(0.0, budget.chunks_per_round, speed) for budget, speed in speeds}
    slowest = max(
        2 * Fraction(str(alpha_us)) * 10**6 + chunk_bytes * 1000 / (lanes * Fraction(str(speed)))
        for alpha_us, lanes, speed in pipes
    )
    tick = 1
    while slowest / tick >= MAX_TICKS or (slowest / tick + 2) * 2 * messages >= MAX_TIME:
        tick *= 10
    if tick > MAX_TICK_PS:
        raise ParameterError(
            f"topology {topology.name!r}: a chunk of {chunk_bytes} bytes takes "
            f"{format_rounded(slowest / 10**12)} s on its slowest link, more than is counted: give "
            "a "
            "smaller size, or other costs"
        )
    return tick
