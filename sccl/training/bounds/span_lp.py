"""Bound the period by dependencies and loads together, over the spans of a stream.

Average any plan over its iterations. The result has these numbers:

- the length of each span;
- the work of each op on each resource in each span;
- the fraction of iterations with each option of each op (always one of them in a plan);
- the start of each op relative to its iteration.

With the period T, these numbers satisfy:

- The work in a span is at most its length, on each resource.
- The span of a computation has its duration. A gap lies between two computations.
- The work of an op lies in its possible spans, and adds up to the work of its options.
- An op starts after its predecessors, each with the isolated duration of its options.

So the smallest T of all such numbers is a lower bound. Options have the same fractions in loads and
in dependencies, so the bound counts the high load of a fast option and the long duration of an
option with low load. The problem is a linear program. A solution of its dual is a price of each
resource in each span, and a flow along dependencies. It proves a bound: each op costs its cheapest
option, in the cheapest of its spans. GLOP proposes prices and flows, and the bound is computed from
them in integers. Rounded prices, and flows completed to cycles, still prove a bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

import numpy as np

from sccl.solvers import lp
from sccl.training.bounds.cycle_bounds import Arc, ComputeSpans
from sccl.training.scheduling.step_problem import FULL_SHARE, CyclicProblem

_EFFORT = 60.0
"""Time limit of GLOP in units of deterministic time, each about a second."""

_PARTS = 720_720
"""Denominator of prices and flows."""

Key = tuple[int, int]
"""A resource and a span."""


@dataclass(frozen=True)
class SpanProgram:
    """The problem whose period is bounded.

    Attributes:
        problem: Step with its dependencies.
        spans: Spans of the stream.
        lengths: Lower bound on the isolated duration of each option, by op.
        arcs: Further minimal differences between starts, from stretches.
    """

    problem: CyclicProblem
    spans: ComputeSpans
    lengths: Sequence[Sequence[int]]
    arcs: Sequence[Arc] = ()

    def option_work(self, op: int) -> dict[int, list[int]]:
        """Return the load of each option by resource, in ticks times shares."""
        rows = [option.resource_ticks() for option in self.problem.step.ops[op].options]
        return {
            r: [row.get(r, 0) for row in rows] for r in sorted({r for row in rows for r in row})
        }

    def contended_resources(self) -> list[int]:
        """Return the resources that ops other than the stream's computations use."""
        stream_ops = set(self.spans.row)
        others = (op for k, op in enumerate(self.problem.step.ops) if k not in stream_ops)
        return sorted({r for op in others for o in op.options for m in o.motifs for r in m.uses})

    def path_arcs(self) -> list[Arc]:
        """Return the dependencies between ops on cycles through the stream, as arcs of 0 ticks."""
        arcs = [Arc(before, after, 0, lag) for before, after, lag in self.problem.waits]
        turned = [Arc(a.after, a.before, 0, 0) for a in [*arcs, *self.arcs]]
        from_, to = self._reached_ops([*arcs, *self.arcs]), self._reached_ops(turned)
        both = from_ & to
        return [arc for arc in arcs if arc.before in both and arc.after in both]

    def _reached_ops(self, arcs: Sequence[Arc]) -> set[int]:
        later = defaultdict(list)
        for arc in arcs:
            later[arc.before].append(arc.after)
        reached, left = {self.spans.row[0]}, [self.spans.row[0]]
        while left:
            for op in later[left.pop()]:
                if op not in reached:
                    reached.add(op)
                    left.append(op)
        return reached


@dataclass(frozen=True)
class SpanPrices:
    """The proof of a bound, in multiples of one unit.

    Attributes:
        prices: Prices of resources in spans.
        flows: Flows along the arcs of :meth:`SpanProgram.path_arcs`, then along further arcs.
    """

    prices: Mapping[Key, int]
    flows: Sequence[int]


def solve_span_bound(program: SpanProgram) -> tuple[int, SpanPrices]:
    """Return a lower bound on the period, with its proof. 0: no solution in time.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    prices = _SpanDual(program).solve_prices()
    return verify_span_bound(program, prices), prices


def verify_span_bound(program: SpanProgram, prices: SpanPrices) -> int:
    """Return the bound that prices and flows prove, in integer arithmetic.

    Flow that is not conserved at an op is completed along dependencies from or to the stream's
    first computation. This lowers the bound slightly, and keeps the proof valid.
    """
    row, spans = program.spans.row, program.spans
    flow_arcs = [*program.path_arcs(), *program.arcs]
    gaps = [Arc(row[k - 1], row[k], 0, int(k == 0)) for k in range(len(row))]
    flow = [max(0, amount) for amount in prices.flows]
    through = [0] * len(row)
    for (_, span), price in prices.prices.items():
        if span % 2 == 0:
            through[span // 2] += price
    added = _balance_flows([*flow_arcs, *gaps], [*flow, *through], len(program.lengths), row[0])
    out = [0] * len(program.lengths)
    gained = around = 0
    for k, (arc, amount) in enumerate(zip([*flow_arcs, *gaps], added, strict=True)):
        around += arc.lag * amount
        gained += FULL_SHARE * arc.ticks * amount
        if not len(flow_arcs) - len(program.arcs) <= k < len(flow_arcs):
            out[arc.before] += amount
    for (_, span), price in prices.prices.items():
        if span % 2:
            gained -= FULL_SHARE * price * program.lengths[row[span // 2]][0]
    for op, lengths in enumerate(program.lengths):
        costs = [FULL_SHARE * out[op] * length for length in lengths]
        where = [span % spans.count for span in spans.spans_of_op(op)]
        for resource, works in program.option_work(op).items():
            cheapest = min(prices.prices.get((resource, span), 0) for span in where)
            costs = [cost + cheapest * work for cost, work in zip(costs, works, strict=True)]
        gained += min(costs)
    return max(0, ceil(Fraction(gained, FULL_SHARE * around))) if around else 0


def _balance_flows(arcs: Sequence[Arc], flow: Sequence[int], count: int, center: int) -> list[int]:
    """Return conserved flows: missing flow is added along paths from and to a center."""
    completed, excess = list(flow), [0] * count
    for arc, amount in zip(arcs, flow, strict=True):
        excess[arc.before] -= amount
        excess[arc.after] += amount
    for turned in (False, True):
        parent: dict[int, int] = {center: -1}  # the first arc of the path to the center
        order = [center]
        by: dict[int, list[int]] = defaultdict(list)
        for k, arc in enumerate(arcs):
            by[arc.before if turned else arc.after].append(k)
        for at in order:
            for k in by[at]:
                neighbor = arcs[k].after if turned else arcs[k].before
                if neighbor not in parent:
                    parent[neighbor] = k
                    order.append(neighbor)
        for at in reversed(order[1:]):
            more = -excess[at] if turned else excess[at]
            if more > 0:
                arc = arcs[parent[at]]
                completed[parent[at]] += more
                excess[arc.before] -= more
                excess[arc.after] += more
    assert not any(excess), "a flow ends outside of a cycle; this is a defect"
    return completed


@dataclass
class _SpanDual:
    """The dual linear program, for GLOP.

    Columns are the flow of each dependency, the price of each resource in each span, the cheapest
    price over each window of spans, and the cost of each op.
    """

    program: SpanProgram
    coefficients: list[tuple[int, int, float]] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        program, row = self.program, self.program.spans.row
        self.scale = float(max((max(length) for length in program.lengths), default=1) or 1)
        self.path_arcs = program.path_arcs()
        self.flow = [self._add_column() for _ in self.path_arcs]
        self.flow += [self._add_column(arc.ticks / self.scale) for arc in program.arcs]
        self.price: dict[Key, int] = {}
        for resource in program.contended_resources():
            for k, op in enumerate(row):
                self.price[resource, 2 * k] = self._add_column()
                length = program.lengths[op][0] / self.scale
                self.price[resource, 2 * k + 1] = self._add_column(-length)
        self._add_flow_rows()
        self._add_op_rows()

    def _add_column(self, gain: float = 0.0) -> int:
        self.cost.append(-gain)
        return len(self.cost) - 1

    def _add_row(self, terms: Mapping[int, float], lower: float, upper: float) -> None:
        number = len(self.lower)
        self.coefficients.extend((number, column, value) for column, value in terms.items())
        self.lower.append(lower)
        self.upper.append(upper)

    def _gap_arcs(self) -> list[tuple[Arc, int]]:
        """Return the arc over the gap, and the column, of each price in a gap."""
        row = self.program.spans.row
        return [
            (Arc(row[span // 2 - 1], row[span // 2], 0, int(span == 0)), column)
            for (_, span), column in self.price.items()
            if span % 2 == 0
        ]

    def _add_flow_rows(self) -> None:
        """Add flow conservation, and the normalization of cycles to 1."""
        kept: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        around: dict[int, float] = {}
        arcs = zip([*self.path_arcs, *self.program.arcs], self.flow, strict=True)
        for arc, column in [*arcs, *self._gap_arcs()]:
            kept[arc.before][column] -= 1.0
            kept[arc.after][column] += 1.0
            if arc.lag:
                around[column] = float(arc.lag)
        for _, terms in sorted(kept.items()):
            if terms := {column: value for column, value in terms.items() if value}:
                self._add_row(terms, 0.0, 0.0)
        self._add_row(around, -np.inf, 1.0)

    def _add_op_rows(self) -> None:
        """Add rows that limit the cost of each op by the cost of each of its options."""
        program = self.program
        out: dict[int, list[int]] = defaultdict(list)
        for arc, column in [*zip(self.path_arcs, self.flow, strict=False), *self._gap_arcs()]:
            out[arc.before].append(column)
        cheapest = self._add_cheapest_prices()
        for op, lengths in enumerate(program.lengths):
            op_column, works = self._add_column(1.0), program.option_work(op)
            for option, length in enumerate(lengths):
                terms = {op_column: 1.0, **dict.fromkeys(out[op], -length / self.scale)}
                for resource, work in works.items():
                    if (resource, op) in cheapest:
                        terms[cheapest[resource, op]] = -work[option] / (FULL_SHARE * self.scale)
                self._add_row(terms, -np.inf, 0.0)

    def _add_cheapest_prices(self) -> dict[Key, int]:
        """Return the column of the cheapest price in the op's spans, by resource and op.

        Windows are built from short to long. A longer one reuses the longest window that shares its
        first or last span.
        """
        program, spans = self.program, self.program.spans
        loaded = set(program.contended_resources())
        wanted: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for op in range(len(program.lengths)):
            op_spans = spans.spans_of_op(op)
            for resource in program.option_work(op):
                if resource in loaded:
                    wanted[resource, op_spans.start, op_spans.stop].append(op)
        made: dict[tuple[int, int, int], int] = {}
        ends: dict[tuple[int, str, int], tuple[int, int, int]] = {}
        columns: dict[Key, int] = {}
        for key in sorted(wanted, key=lambda key: (key[2] - key[1], key)):
            resource, first, last = key
            if last - first == 1:
                made[key] = self.price[resource, first % spans.count]
            else:
                made[key] = self._add_column()
                within = [ends.get((resource, "first", first)), ends.get((resource, "last", last))]
                longest = max((k for k in within if k), key=lambda k: k[2] - k[1], default=None)
                if longest:
                    self._add_row({made[key]: 1.0, made[longest]: -1.0}, -np.inf, 0.0)
                for span in range(first, last):
                    if not (longest and longest[1] <= span < longest[2]):
                        price = self.price[resource, span % spans.count]
                        self._add_row({made[key]: 1.0, price: -1.0}, -np.inf, 0.0)
            ends[resource, "first", first] = ends[resource, "last", last] = key
            columns.update(((resource, op), made[key]) for op in wanted[key])
        return columns

    def solve_prices(self) -> SpanPrices:
        """Return the rounded solution of GLOP. Without an optimum: zeros."""
        row, column, value = zip(*self.coefficients, strict=True)
        result = lp.solve_sparse(
            lp.SparseProgram(
                cost=np.array(self.cost),
                lower=np.array(self.lower),
                upper=np.array(self.upper),
                row=np.array(row, dtype=np.int64),
                column=np.array(column, dtype=np.int64),
                value=np.array(value),
            ),
            _EFFORT,
        )
        if result.status is not lp.SparseStatus.OPTIMAL:
            return SpanPrices({}, [0] * len(self.flow))
        rounded = np.maximum(np.round(result.values * _PARTS), 0).astype(np.int64).tolist()
        prices = {key: rounded[column] for key, column in self.price.items() if rounded[column]}
        return SpanPrices(prices, [rounded[column] for column in self.flow])
