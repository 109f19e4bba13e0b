"""The linear program over cuts through time, and what its last basis proves in fractions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
from flint import fmpq, fmpq_mat
from numpy.typing import NDArray

from sccl.core.collective import Collective
from sccl.core.limit import Prices, TimedCut
from sccl.core.topology import ConstraintKey, Topology, constraint_name
from sccl.prove.bounds.timed_flow import Labels
from sccl.prove.bounds.timed_rows import CutRow, CutRows
from sccl.solvers import lp

Floats = NDArray[np.float64]

_EXACT = 1500  # rows of a basis that is solved in fractions
_NEAR = 720_720  # the denominator of others: one for all, so that their sums have no larger one


@dataclass(frozen=True, slots=True)
class TimedBound:
    """What no algorithm of S steps beats, by cuts through time.

    Attributes:
        value: R/C is at least this.
        cuts: that prove it.
        prices: of shared budgets in steps, which take part in that.
        rho: by step, rounds over C at which no cut that was looked at is short; empty: not known.
        rows: of all cuts that were looked at.
        whole: whether, as far as floats say, no cut at all is: then this is F(S).
    """

    steps: int
    value: Fraction
    cuts: tuple[TimedCut, ...]
    prices: Prices
    rho: tuple[Fraction, ...]
    rows: tuple[CutRow, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class _Row:
    """A row, with its coefficients by variable; ``lb``: of a cut, what has to cross."""

    row: lp.LinearConstraint
    coefficients: Mapping[lp.Variable, int]
    least: int


class TimedProgram:
    """Rounds by step, and loads of links that share budgets, at which no cut so far is short.

    Attributes:
        apart: the places, among the links, of those that share budgets.
        rounds: by step, of the last solution.
        loads: by link that is apart, and step; likewise.
    """

    def __init__(self, topology: Topology, collective: Collective, steps: int) -> None:
        self.topology, self.collective, self.steps = topology, collective, steps
        links = topology.links
        self._rows = CutRows(topology, collective, steps)
        self.apart = self._rows.apart
        shared = {links[i].edge for i in self.apart}
        self._model = lp.Model()
        self._rho = [self._model.add_variable(lb=0.0) for _ in range(steps)]
        self._load = {
            (links[i].edge, s): self._model.add_variable(lb=0.0)
            for i in self.apart
            for s in range(steps)
        }
        self._model.minimize(lp.fast_sum(self._rho))
        self._cuts: dict[Labels, _Row] = {}
        self._made: dict[Labels, CutRow] = {}
        self._limits: dict[tuple[ConstraintKey, int], _Row] = {}
        for constraint in topology.constraints():
            if shared.issuperset(constraint.edges):
                for s in range(steps):
                    row: dict[lp.Variable, int] = {self._load[e, s]: 1 for e in constraint.edges}
                    row[self._rho[s]] = -constraint.chunks_per_round
                    self._limits[constraint.key, s] = self._row(row, None)
        self._growing = lp.Growing(self._model)

    def _row(self, coefficients: Mapping[lp.Variable, int], least: int | None) -> _Row:
        row = (
            self._model.add_linear_constraint(ub=0.0)
            if least is None
            else self._model.add_linear_constraint(lb=float(least))
        )
        for variable, times in coefficients.items():
            row.set_coefficient(variable, float(times))
        return _Row(row, coefficients, least or 0)

    def add(self, labels: Labels) -> bool:
        """Add a cut; return False if it is there already, or nothing has to cross it."""
        if labels in self._cuts:
            return False
        made = self._rows.row(labels)
        if not made.demand:
            return False
        begin, end = self._rows.crossing(labels)
        row = {self._rho[s]: times for s, times in enumerate(made.lanes) if times}
        for i in self.apart:
            for s in range(int(begin[i]), int(end[i])):
                row[self._load[self.topology.links[i].edge, s]] = 1
        self._cuts[labels], self._made[labels] = self._row(row, made.demand), made
        return True

    def solve(self) -> None:
        """Solve the program.

        Raises:
            SolverError: no solver finds its optimum.
        """
        self._result = self._growing.optimum()
        value = self._result.variable_values()
        self.rounds = np.array([max(value[x], 0.0) for x in self._rho])
        loads = [max(value[x], 0.0) for x in self._load.values()]
        self.loads = np.array(loads).reshape(len(self.apart), self.steps)

    def bound(self, *, whole: bool) -> TimedBound:
        """Return what the last solution proves.

        Its duals as fractions are scaled such that a round buys at most 1: what the bound is is
        counted, whatever they are.
        """
        basis = self._solved_exactly()
        duals = self._result.dual_values() if basis is None else basis[1]
        rho = () if basis is None else tuple(basis[0].get(x, Fraction(0)) for x in self._rho)
        budgets = {budget.name for budget in self.topology.budgets}

        def dual(row: _Row) -> Fraction:
            """Return the size of a row's dual value."""
            value = duals[row.row]
            return value if basis is not None else Fraction(round(value * _NEAR), _NEAR)

        cuts = [(labels, dual(row)) for labels, row in self._cuts.items()]
        cuts = [(labels, weight) for labels, weight in cuts if weight > 0]
        prices = {use: -dual(row) for use, row in self._limits.items() if use[0] in budgets}
        prices = {use: price for use, price in prices.items() if price > 0}
        bought = max(self._bought(cuts, prices), default=Fraction(0))
        rows = tuple(self._made.values())
        if not bought:
            return TimedBound(self.steps, Fraction(0), (), (), rho, rows, whole=False)
        demand = sum((w * self._cuts[labels].least for labels, w in cuts), Fraction(0))
        named = sorted((constraint_name(key), s, key) for key, s in prices)
        chunks = self.collective.chunks
        return TimedBound(
            self.steps,
            demand / bought / chunks,
            tuple(TimedCut(labels, weight / bought) for labels, weight in cuts),
            tuple((key, s, prices[key, s] / bought) for _, s, key in named),
            tuple(rounds / chunks for rounds in rho),
            rows,
            whole,
        )

    def _bought(
        self,
        cuts: Sequence[tuple[Labels, Fraction]],
        prices: Mapping[tuple[ConstraintKey, int], Fraction],
    ) -> list[Fraction]:
        """Return by step what a round buys; what prices of budgets do not pay, the link's own does.

        Shape (steps,).
        """
        scale = lcm(*(w.denominator for _, w in cuts), *(p.denominator for p in prices.values()))
        weight = np.zeros((len(self.topology.links), self.steps + 1), object)
        rows = np.arange(len(self.topology.links))
        for labels, share in cuts:
            begin, end = self._rows.crossing(labels)
            crosses = begin < end
            weight[rows[crosses], begin[crosses]] += int(share * scale)
            weight[rows[crosses], end[crosses]] -= int(share * scale)
        weight = weight.cumsum(axis=1)[:, : self.steps]
        place = {link.edge: i for i, link in enumerate(self.topology.links)}
        total = [0] * self.steps
        for budget in self.topology.budgets:
            for s in range(self.steps):
                price = int(prices.get((budget.name, s), Fraction(0)) * scale)
                total[s] += price * budget.chunks_per_round
                if price:
                    weight[[place[edge] for edge in budget.edges], s] -= price
        own = (np.maximum(weight, 0) * self._rows.lanes[:, None].astype(object)).sum(axis=0)
        return [Fraction(int(own[s]) + total[s], scale) for s in range(self.steps)]

    def _solved_exactly(
        self,
    ) -> tuple[dict[lp.Variable, Fraction], dict[lp.LinearConstraint, Fraction]] | None:
        """Return the values and the duals of the last basis as fractions; None: it is none."""
        found = self._result.solutions[0].basis
        if found is None:
            return None
        basic = lp.BasisStatus.BASIC
        variables = [x for x, status in found.variable_status.items() if status == basic]
        every = [*self._cuts.values(), *self._limits.values()]
        tight = [row for row in every if found.constraint_status[row.row] != basic]
        if len(variables) != len(tight) or len(tight) > _EXACT:
            return None
        matrix = fmpq_mat(len(tight), len(tight))
        right, costs = fmpq_mat(len(tight), 1), fmpq_mat(len(tight), 1)
        rho = set(self._rho)
        for j, x in enumerate(variables):
            costs[j, 0] = fmpq(int(x in rho))
            for i, row in enumerate(tight):
                if times := row.coefficients.get(x):
                    matrix[i, j] = fmpq(times)
        for i, row in enumerate(tight):
            right[i, 0] = fmpq(row.least)
        try:
            primal, dual = matrix.solve(right), matrix.transpose().solve(costs)
        except ZeroDivisionError:
            return None
        duals = {row.row: Fraction(0) for row in every}
        duals |= {row.row: _fraction(dual[i, 0]) for i, row in enumerate(tight)}
        return {x: _fraction(primal[j, 0]) for j, x in enumerate(variables)}, duals


def _fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))
