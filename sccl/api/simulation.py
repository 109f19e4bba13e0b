"""Simulate plans on their machines, link by link."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Literal

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_arguments, check_wrapped_kind, parse_choice
from sccl.api.chart import Chart
from sccl.api.schedule import Schedule
from sccl.comparison.plan_simulation import (
    SimulatedCollective,
    SimulationRun,
    build_source,
    load_sources,
    run_together,
)
from sccl.comparison.simulation_charts import chart_run, simulation_chart
from sccl.comparison.simulation_output import build_run_part
from sccl.core.clock import AlphaModel, StepAlignment
from sccl.core.cost import format_bytes, format_us
from sccl.core.sizes import parse_size
from sccl.errors import ParameterError
from sccl.sim.settings import SimulationSettings
from sccl.view.text.markup import heading, paragraph, table

PlanLike = str | PathLike[str] | Algorithm | Schedule
"""An algorithm, a schedule, or the file of one."""


@dataclass(frozen=True, slots=True, repr=False)
class Simulation:
    """The simulated run of a collective, or of several at the same time, on a machine.

    Attributes:
        value: Run of :mod:`sccl.comparison.plan_simulation`, with the timeline of :mod:`sccl.sim`.

    Examples:
        >>> import sccl
        >>> ring = sccl.baseline("ring", "allgather", "ring:4")
        >>> run = sccl.simulate(ring, size="1MB")
        >>> run
        Simulation(allgather on ring:4: 122.1 us, 8.19 GB/s)
        >>> run.busy_us[0, 1]
        120.0
    """

    value: SimulationRun

    def __post_init__(self) -> None:
        check_wrapped_kind(self, SimulationRun, "sccl.simulate")

    @property
    def finish_us(self) -> float:
        """Return the arrival time of the last transfer, in microseconds."""
        return self.value.timeline.finish_us

    @property
    def gb_per_s(self) -> float:
        """Return size / time in 10^9 bytes per second. The size is the sum over all collectives."""
        size = sum(part.size_bytes for part in self.value.parts)
        return size / self.finish_us / 1000 if self.finish_us else 0.0

    @property
    def bound_us(self) -> float | None:
        """Return the lower bound for schedules of these chunks, in microseconds. None: unknown."""
        bounds = [part.bound for part in self.value.parts]
        times_us = [self.value.to_us(bound.value) for bound in bounds if bound]
        return max(times_us) if len(times_us) == len(bounds) else None

    @property
    def busy_us(self) -> dict[tuple[int, int], float]:
        """Return the busy time of each link in microseconds, by (src, dst)."""
        timeline = self.value.timeline
        pairs = zip(timeline.topology.links, timeline.busy().tolist(), strict=True)
        return {link.edge: timeline.clock.us(ticks) for link, ticks in pairs}

    @property
    def carried_bytes(self) -> dict[tuple[int, int], int]:
        """Return the bytes that each link carried, by (src, dst)."""
        timeline = self.value.timeline
        pairs = zip(timeline.topology.links, timeline.carried_bytes().tolist(), strict=True)
        return {link.edge: size for link, size in pairs}

    @check_arguments
    def utilisation(self, parts: int = 1) -> list[float]:
        """Return the average utilization of all links in each of ``parts`` equal parts of the time.

        Raises:
            ParameterError: ``parts`` is not positive.

        Examples:
            >>> import sccl
            >>> ring = sccl.baseline("ring", "allgather", "ring:4")
            >>> run = sccl.simulate(ring, size="1MB")
            >>> [round(share, 2) for share in run.utilisation(2)]
            [0.49, 0.49]
        """
        shares: list[float] = self.value.timeline.utilization(parts).tolist()
        return shares

    def plot(self) -> Chart:
        """Return a chart of the transfers on each link over time, with the critical path.

        Examples:
            >>> import sccl
            >>> ring = sccl.baseline("ring", "allgather", "ring:4")
            >>> run = sccl.simulate(ring, size="1MB")
            >>> run.plot().title
            'allgather on ring:4, simulated'
        """
        charted_run = chart_run(self.value, is_single=True)
        return Chart(
            simulation_chart([charted_run], [build_run_part(self.value)]),
            f"{self._names}, simulated",
        )

    @property
    def _names(self) -> str:
        return " and ".join(part.source.name for part in self.value.parts)

    def __repr__(self) -> str:
        return f"Simulation({self._names}: {format_us(self.finish_us)}, {self.gb_per_s:.4g} GB/s)"

    def _repr_html_(self) -> str:
        head = ("Plan", "Size", "Time (us)", "GB/s", "Lower bound (us)")
        rows = [self._row(part) for part in self.value.parts]
        busy = f"links are busy {self.utilisation()[0]:.1%} of the time"
        return (
            heading(f"{self._names}: {format_us(self.finish_us)}")
            + paragraph(busy)
            + table(head, rows)
        )

    def _row(self, part: SimulatedCollective) -> tuple[str, ...]:
        lower_bound = f"{self.value.to_us(part.bound.value):.6g}" if part.bound else ""
        times = f"{self.value.to_us(part.finish):.6g}", f"{self.value.gb_per_s(part):.4g}"
        return (part.source.name, format_bytes(part.size_bytes), *times, lower_bound)


@check_arguments
def simulate(
    *plans: PlanLike,
    size: int | str | None = None,
    alpha: Literal["travels", "occupies"] | None = None,
    stepping: Literal["pipelined", "barrier"] | None = None,
    alpha_us: float | None = None,
    gb_per_s: float | None = None,
) -> Simulation:
    """Simulate a plan link by link, or several plans at the same time on one machine.

    Each link serves one transfer after another, in order of arrival. Times are whole ticks.

    Args:
        plans: Algorithms, schedules, or files of them. Each must pass verification.
        size: Size of the buffer, which has C chunks: bytes, or text such as ``"1GB"``. None: 1 MiB,
            and for schedules their own size.
        alpha: ``"travels"``: a chunk arrives alpha later. ``"occupies"``: the link is busy during
            alpha. None: ``"travels"``, and for schedules their own model.
        stepping: Start of sends. ``"pipelined"``: when their data arrive, in the order of steps on
            each link. ``"barrier"``: when the previous step ends. None: ``"pipelined"``, and
            schedules keep their times.
        alpha_us: Latency of every link, in microseconds. None: the machine's.
        gb_per_s: Speed of every lane, in 10^9 bytes per second. None: the machine's.

    Raises:
        InputError: There is no plan, one fails verification, or an argument does not fit it.

    Examples:
        >>> import sccl
        >>> ring = sccl.baseline("ring", "allgather", "ring:4")
        >>> sccl.simulate(ring, size="1MB", stepping="barrier")
        Simulation(allgather on ring:4: 122.1 us, 8.19 GB/s)
    """
    if not plans:
        raise ParameterError("sccl.simulate is given no plan: give an algorithm or a schedule")
    sources = [
        build_source(plan.name, plan.value)
        if isinstance(plan, Algorithm | Schedule)
        else load_sources([str(plan)], None)[0]
        for plan in plans
    ]
    model = parse_choice("alpha", alpha, AlphaModel)
    steps = parse_choice("stepping", stepping, StepAlignment)
    settings = SimulationSettings(model, steps, alpha_us, gb_per_s)
    return Simulation(
        run_together(sources, None if size is None else parse_size(str(size)), settings)
    )
