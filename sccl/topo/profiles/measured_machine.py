"""Build a machine from measurements: fit alpha and beta of links, and group links of equal cost.

The model is that of TACCL (NSDI 2023), section 4.1: n chunks of s bytes sent one after another take
n * (alpha + beta * s), at once alpha + n * beta * s. Both are a * alpha + b * beta, with a
latencies and b bytes, so that one linear fit takes all measurements of a link.

The fit minimises relative errors: one microsecond is a large error for a kilobyte and a negligible
one for a megabyte. So logarithms are fitted, which treat a factor of two and of one half alike. The
fit uses the minimum or the median of repetitions. Outliers have bounded influence (Huber, Robust
Estimation of a Location Parameter, 1964): beyond 1.345 deviations an error counts by its size, not
by its square. Intervals are those of Efron's bootstrap: the fit is repeated with resampled rows,
from a fixed seed, so that the same measurements give the same intervals.

No two links have equal measured costs. If the intervals of several links have a point in common,
the measurements cannot distinguish the links: they get one cost from the common part of the
intervals, with few digits.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sccl.core.arrays import FloatArray
from sccl.core.formatting import format_count
from sccl.core.ids import Edge
from sccl.core.topology import Link, Topology, check_cost, link_name
from sccl.errors import ParameterError
from sccl.topo.profiles.measurements import LinkTiming, Measurements, RepetitionStatistic


def build_measured_machine(
    measurements: Measurements, costs: Sequence[SharedCost], base: Topology | None = None
) -> Topology:
    """Return a machine with the measured link costs.

    Args:
        costs: Costs of all measured links.
        base: Machine that provides the links, lanes and budgets. None: one link of one lane for
            each measured pair.

    Raises:
        ParameterError: ``base`` has another number of ranks, or links without a measurement.
    """
    by_edge = {edge: cost for cost in costs for edge in cost.edges}
    if base is not None:
        check_measurable(base)
        _check_same_links(base, measurements)
    lanes = base.lanes() if base else dict.fromkeys(by_edge, 1)
    links = tuple(
        Link(*edge, n, by_edge[edge].alpha_us, _lane_cost(by_edge[edge], n))
        for edge, n in lanes.items()
    )
    usual = Counter((link.alpha_us, link.gb_per_s) for link in links).most_common(1)[0][0]
    made = Topology(
        name=measurements.name,
        ranks=measurements.ranks,
        links=links,
        alpha_us=usual[0],
        gb_per_s=usual[1],
        source=_source(measurements, costs, base),
    )
    if base is None:
        return made
    return replace(
        made,
        budgets=base.budgets,
        chassis=base.chassis,
        labels=base.labels,
        pci_bus_ids=base.pci_bus_ids,
    )


def check_measurable(machine: Topology) -> None:
    """Check that the links of a machine can be measured between ranks.

    Raises:
        ParameterError: The machine has switches, or budgets that state a speed.
    """
    if machine.switches:
        raise ParameterError(
            f"topology {machine.name!r} has switches as nodes, and ranks cannot measure links to "
            "switches: leave --topo out, so that every pair of ranks gets a link"
        )
    stated = [budget.name for budget in machine.budgets if budget.gb_per_s is not None]
    if stated:
        raise ParameterError(
            f"topology {machine.name!r}: budget {stated[0]!r} has gb_per_s, which measurements of "
            "single links do not give: leave that out, so that it counts chunks of its links"
        )


def _check_same_links(base: Topology, measurements: Measurements) -> None:
    if base.ranks != measurements.ranks:
        raise ParameterError(
            f"topology {base.name!r} has {base.ranks} ranks, measurements {measurements.name!r} "
            f"have {measurements.ranks}: give a machine with {measurements.ranks} ranks"
        )
    lacking = sorted(base.edges - set(measurements.by_link()))
    if lacking:
        src, dst = lacking[0]
        raise ParameterError(
            f"measurements {measurements.name!r} have no timing of link {src}->{dst} of topology "
            f"{base.name!r} ({len(lacking)} such): measure all of its links"
        )


def _lane_cost(cost: SharedCost, lanes: int) -> float:
    return float(f"{cost.gb_per_s / lanes:.6g}")


def _source(measurements: Measurements, costs: Sequence[SharedCost], base: Topology | None) -> str:
    kinds = format_count(len(costs), "cost")
    parts = [
        measurements.source or f"Measurements {measurements.name!r}.",
        f"alpha and beta fitted to them for each link, alike links together: {kinds}.",
    ]
    if base is not None:
        parts.append(f"Links, lanes and budgets of {base.name!r}: {base.source}".strip())
    return " ".join(parts)


SAME_COST_TOLERANCE = 0.1
"""Relative difference up to which costs count as equal, however narrow the intervals are: intervals
state the uncertainty of a fit, not the variation of measurements from day to day.
"""

_ROUNDING_TOLERANCE = 0.025
"""Maximum relative error of rounding to fewer digits. Lanes of 22 and 9.4 GB/s have a common
divisor that is suitable for synthesis by steps. Lanes of 21.73 and 9.412 GB/s hardly do.
"""

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class SharedCost:
    """The shared cost of some links.

    Attributes:
        edges: The links, ascending.
        gb_per_s: Bandwidth of each link with all its lanes, 10^9 bytes per second.
    """

    edges: tuple[Edge, ...]
    alpha_us: float
    gb_per_s: float


def shared_costs(
    fits: Sequence[LinkFit], alike: float = SAME_COST_TOLERANCE
) -> tuple[SharedCost, ...]:
    """Return the costs of links in groups of similar ones, the fastest first.

    Links of one rate that differ in latency do not share a cost.

    Args:
        alike: Minimum relative half-width of intervals, 0 or more.
    """
    costs = []
    for by_rate in _group_fits(fits, lambda fit: fit.gb_per_s.widen(alike)):
        rate = _common_value([fit.gb_per_s.widen(alike) for fit in by_rate])
        for both in _group_fits(by_rate, lambda fit: fit.alpha_us.widen(alike)):
            alpha = _common_value([fit.alpha_us.widen(alike) for fit in both])
            costs.append(SharedCost(tuple(sorted(fit.edge for fit in both)), alpha, rate))
    return tuple(sorted(costs, key=lambda cost: (-cost.gb_per_s, cost.alpha_us, cost.edges)))


def _group_fits(
    fits: Sequence[LinkFit], of: Callable[[LinkFit], CostInterval]
) -> list[list[LinkFit]]:
    """Group fits whose intervals have a point in common, the largest group first.

    The choice is greedy: the largest group that shares a point, then the largest group of the
    remaining fits, and so on. So a few disturbed links do not split the other ones.
    """
    left = sorted(((of(fit), fit) for fit in fits), key=lambda pair: (pair[0].high, pair[1].edge))
    groups: list[list[LinkFit]] = []
    while left:
        ends = [interval.high for interval, _ in left]
        begins = sorted(interval.low for interval, _ in left)
        # Intervals that share a point share the lowest of their upper ends.
        at = max(ends, key=lambda end: bisect_right(begins, end) - bisect_left(ends, end))
        groups.append([fit for interval, fit in left if interval.low <= at <= interval.high])
        left = [pair for pair in left if not pair[0].low <= at <= pair[0].high]
    return groups


def _common_value(intervals: Sequence[CostInterval]) -> float:
    """Return a rounded value in the intersection of intervals, near their median value."""
    low, high = max(i.low for i in intervals), min(i.high for i in intervals)
    middle = min(max(statistics.median(i.value for i in intervals), low), high)
    for digits in range(1, _DIGITS + 1):
        short = float(f"{middle:.{digits}g}")
        if abs(short - middle) <= _ROUNDING_TOLERANCE * middle:
            return short
    return middle


MAX_MISFIT = 0.5
"""Maximum relative median error of a fit of alpha and beta. MPI protocols that change with the size
cause errors of 10 to 30 %. Times that do not depend on the bytes at all cause 60 %.
"""

_MIN_ROWS = 3
_HUBER = 1.345  # 95 % as good as least squares where errors are normal
_MAD_TO_SIGMA = 1.4826  # the standard deviation in median absolute deviations, of normal errors
_HUBER_ITERATIONS = 30  # more iterations of weights do not change the printed digits
_BOOTSTRAP_DRAWS = 200
_SEED = 4  # any will do
_CONFIDENCE = 0.95
_MAX_SPREAD = 10.0  # of a bandwidth: in wider intervals, bytes hardly matter
_NOISE_FLOOR = 1e-9  # deviation in proportion below which errors are those of arithmetic


@dataclass(frozen=True, slots=True)
class CostInterval:
    """A fitted number with its 95 % bootstrap interval.

    Attributes:
        low: Lower end, at most ``value``.
        high: Upper end, at least ``value``.
    """

    value: float
    low: float
    high: float

    def widen(self, by: float) -> CostInterval:
        """Return the interval with ends at least the factor ``1 + by`` from its value."""
        low, high = self.value / (1 + by), self.value * (1 + by)
        return CostInterval(self.value, min(self.low, low), max(self.high, high))


@dataclass(frozen=True, slots=True)
class LinkFit:
    """The fitted cost of a link.

    Attributes:
        alpha_us: Latency, microseconds.
        us_per_mb: Beta, microseconds per 10^6 bytes.
        misfit: Median relative difference between measurements and model: 0.1 is 10 %.
    """

    src: int
    dst: int
    alpha_us: CostInterval
    us_per_mb: CostInterval
    misfit: float

    @property
    def edge(self) -> Edge:
        """Return ``(src, dst)``."""
        return (self.src, self.dst)

    @property
    def gb_per_s(self) -> CostInterval:
        """Return 1/beta, 10^9 bytes per second."""
        beta = self.us_per_mb
        return CostInterval(1e3 / beta.value, 1e3 / beta.high, 1e3 / beta.low)


def fit_links(
    measurements: Measurements,
    max_misfit: float = MAX_MISFIT,
    take: RepetitionStatistic = RepetitionStatistic.MIN,
) -> tuple[LinkFit, ...]:
    """Fit alpha and beta of every measured link, in ascending order of links.

    Args:
        take: Statistic of the repetitions to fit.
        max_misfit: Maximum relative median error of the fit.

    Raises:
        ParameterError: Measurements of some links fit no alpha and beta. It names all of them.
    """
    fits, wrong = [], []
    for edge, timings in measurements.by_link().items():
        try:
            fits.append(_fit_link(edge, timings, max_misfit, take))
        except ParameterError as error:
            wrong.append(str(error))
    if wrong:
        shown = "; ".join(wrong[:4]) + (f"; and {len(wrong) - 4} more" if len(wrong) > 4 else "")
        raise ParameterError(
            f"measurements {measurements.name!r} fit no alpha and beta: {shown}; measure again on "
            "a machine that does nothing else, or other sizes"
        )
    return tuple(fits)


def _fit_link(
    edge: Edge, timings: Sequence[LinkTiming], max_misfit: float, take: RepetitionStatistic
) -> LinkFit:
    """Return the fit of a link.

    Raises:
        ParameterError: There is no fit. The message is a clause.
    """
    name = link_name(edge)
    a = np.array([t.latency_count for t in timings], dtype=float)
    b = np.array([t.size_bytes / 1e6 for t in timings], dtype=float)
    us = np.array([take.select(t.us) for t in timings], dtype=float)
    ratios = {t.size_bytes / t.latency_count for t in timings}  # bytes that come with each latency
    if len(timings) < _MIN_ROWS or len(ratios) < 2:
        raise ParameterError(
            f"{name} has {len(timings)} timings of {len(ratios)} sizes, expected at least "
            f"{_MIN_ROWS}, of chunks of different size"
        )
    alpha, beta = _huber_fits(a[None], b[None], us[None])
    if beta[0] <= 0:
        raise ParameterError(f"{name} takes no longer for more bytes")
    names = ("alpha", "the bandwidth")
    check_cost(f"{name}: ", alpha[0], 1e3 / beta[0], error=ParameterError, names=names)
    model = a * alpha[0] + b * beta[0]
    misfit = float(np.expm1(np.median(np.abs(np.log(us / model)))))
    if misfit > max_misfit:
        raise ParameterError(
            f"{name} is missed by {misfit:.0%} in the median, expected at most {max_misfit:.0%}"
        )
    spread = _bootstrap_fits(a, b, us)
    alphas, betas = (
        _bootstrap_interval(float(x[0]), samples)
        for x, samples in zip((alpha, beta), spread, strict=True)
    )
    if betas.high > _MAX_SPREAD * betas.low:
        raise ParameterError(
            f"{name} has a bandwidth of {1000.0 / betas.high:.3g} to {1000.0 / betas.low:.3g} "
            "GB/s, an interval that its times do not narrow: measure larger chunks"
        )
    return LinkFit(*edge, alphas, betas, misfit)


def _bootstrap_interval(value: float, draws: FloatArray) -> CostInterval:
    tail = (1 - _CONFIDENCE) / 2
    low, high = (float(x) for x in np.quantile(draws, [tail, 1 - tail]))
    return CostInterval(value, min(low, value), max(high, value))


def _bootstrap_fits(a: FloatArray, b: FloatArray, us: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return alpha and beta of the bootstrap fits that have a positive beta."""
    generator = np.random.Generator(np.random.PCG64(_SEED))
    rows = generator.integers(0, len(us), size=(_BOOTSTRAP_DRAWS, len(us)))
    alpha, beta = _huber_fits(a[rows], b[rows], us[rows])
    kept = beta > 0
    return alpha[kept], beta[kept]


def _huber_fits(a: FloatArray, b: FloatArray, us: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return alpha >= 0 and beta of several fits at once, one fit per row of the arrays.

    The error of a time is the logarithm of its ratio to the model, so a factor of two counts as
    much as a factor of one half. Each iteration is a Gauss-Newton step. A beta of 0 or less means
    that there is no fit.
    """
    alpha, beta = _weighted_least_squares(a, b, us, 1 / us**2)
    for _ in range(_HUBER_ITERATIONS):
        model = a * alpha[:, None] + b * beta[:, None]
        model = np.where(model > 0, model, us)
        error = np.log(us / model)
        deviation = _MAD_TO_SIGMA * np.median(np.abs(error), axis=1, keepdims=True)
        bound = _HUBER * np.maximum(deviation, _NOISE_FLOOR)
        weight = bound / np.maximum(np.abs(error), bound)
        alpha, beta = _weighted_least_squares(a, b, model * (1 + error), weight / model**2)
    return alpha, beta


def _weighted_least_squares(
    a: FloatArray, b: FloatArray, us: FloatArray, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the least-squares fit, without alpha if that would be negative."""
    aa, ab, bb = (w * a * a).sum(1), (w * a * b).sum(1), (w * b * b).sum(1)
    at, bt = (w * a * us).sum(1), (w * b * us).sum(1)
    determinant = aa * bb - ab * ab
    regular = determinant > 1e-12 * aa * bb
    safe = np.where(regular, determinant, 1)
    alpha = np.where(regular, (at * bb - bt * ab) / safe, 0)
    nonpositive = alpha <= 0
    only_beta = np.divide(bt, bb, out=np.zeros_like(bt), where=bb > 0)
    beta = np.where(nonpositive, only_beta, (bt * aa - at * ab) / safe)
    return np.where(nonpositive, 0, alpha), beta
