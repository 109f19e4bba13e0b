"""Simulate plans on their machines, link by link."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from os import PathLike
from typing import Literal, TypeVar

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_made_of, checked
from sccl.api.chart import Chart
from sccl.api.html import heading, paragraph, table
from sccl.api.schedule import Schedule
from sccl.core.clock import AlphaModel
from sccl.core.cost import bytes_text, us_text
from sccl.core.stepping import Stepping
from sccl.errors import ParameterError
from sccl.tasks.simulate import Member, Run, load_sources, run_of, source_of
from sccl.tasks.simulated import part_of
from sccl.tasks.simulated_charts import chart_of, drawn_of
from sccl.tasks.sizes import size_in_bytes
from sccl.tasks.terms import Terms

Named = TypeVar("Named", bound=StrEnum)

PlanLike = str | PathLike[str] | Algorithm | Schedule
"""An algorithm, a schedule, or the file of one."""


@dataclass(frozen=True, slots=True, repr=False)
class Simulation:
    """The simulated run of a collective, or of several at the same time, on a machine.

    Attributes:
        value: Run of :mod:`sccl.tasks.simulate`, with the timeline of :mod:`sccl.sim`.
    """

    value: Run

    def __post_init__(self) -> None:
        check_made_of(self, Run, "sccl.simulate")

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
        known = [self.value.us(bound.ticks) for bound in bounds if bound]
        return max(known) if len(known) == len(bounds) else None

    @property
    def busy_us(self) -> dict[tuple[int, int], float]:
        """Return the busy time of each link in microseconds, by (src, dst)."""
        made = self.value.timeline
        pairs, clock = zip(made.topology.links, made.busy().tolist(), strict=True), made.clock
        return {link.edge: clock.us(ticks) for link, ticks in pairs}

    @property
    def carried_bytes(self) -> dict[tuple[int, int], int]:
        """Return the bytes that each link carried, by (src, dst)."""
        made = self.value.timeline
        pairs = zip(made.topology.links, made.carried().tolist(), strict=True)
        return {link.edge: size for link, size in pairs}

    @checked
    def utilisation(self, parts: int = 1) -> list[float]:
        """Return the average utilization of all links in each of ``parts`` equal parts of the time.

        Raises:
            ParameterError: ``parts`` is not positive.
        """
        shares: list[float] = self.value.timeline.utilisation(parts).tolist()
        return shares

    def plot(self) -> Chart:
        """Return a chart of the transfers on each link over time, with the critical path."""
        drawn = drawn_of(self.value, alone=True)
        return Chart(chart_of([drawn], [part_of(self.value)]), f"{self._names}, simulated")

    @property
    def _names(self) -> str:
        return " and ".join(part.source.name for part in self.value.parts)

    def __repr__(self) -> str:
        return f"Simulation({self._names}: {us_text(self.finish_us)}, {self.gb_per_s:.4g} GB/s)"

    def _repr_html_(self) -> str:
        head = ("Plan", "Size", "Time (us)", "GB/s", "Lower bound (us)")
        rows = [self._row(part) for part in self.value.parts]
        busy = f"links are busy {self.utilisation()[0]:.1%} of the time"
        return (
            heading(f"{self._names}: {us_text(self.finish_us)}")
            + paragraph(busy)
            + table(head, rows)
        )

    def _row(self, part: Member) -> tuple[str, ...]:
        least = f"{self.value.us(part.bound.ticks):.6g}" if part.bound else ""
        times = f"{self.value.us(part.finish):.6g}", f"{self.value.gb_per_s(part):.4g}"
        return (part.source.name, bytes_text(part.size_bytes), *times, least)


@checked
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

    >>> import sccl
    >>> ring = sccl.baseline("ring", "allgather", "ring:4")
    >>> sccl.simulate(ring, size="1MB", stepping="barrier")
    Simulation(allgather on ring:4: 122.1 us, 8.19 GB/s)
    """
    if not plans:
        raise ParameterError("sccl.simulate is given no plan: give an algorithm or a schedule")
    sources = [
        source_of(plan.name, plan.value)
        if isinstance(plan, Algorithm | Schedule)
        else load_sources([str(plan)], None)[0]
        for plan in plans
    ]
    model, steps = one_of("alpha", alpha, AlphaModel), one_of("stepping", stepping, Stepping)
    terms = Terms(model, steps, alpha_us, gb_per_s)
    return Simulation(run_of(sources, None if size is None else size_in_bytes(str(size)), terms))


def one_of(name: str, given: str | None, kind: type[Named]) -> Named | None:
    """Return the member of an enumeration with this value. None: None.

    Raises:
        ParameterError: No member has this value.
    """
    if given is None or given in (texts := [one.value for one in kind]):
        return None if given is None else kind(given)
    raise ParameterError(f"{name} is {given!r}, expected {' or '.join(texts)}")
